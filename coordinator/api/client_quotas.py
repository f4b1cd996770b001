"""DescribeClientQuotas and AlterClientQuotas: read, set and remove quotas of clients (ClientQuotaControlManager)."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final

from muster.assignors.java_order import spread, walked
from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.many_rows import TOO_LARGE, TOO_LARGE_TEXT, AnswerSize, until_durable
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.quotas import entities
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from muster.coordinator.system.host_names import resolve
from muster.coordinator.system.jobs import Job, OffloadedWork
from muster.coordinator.topics.errors import ApiError
from muster.protocol.errors import ErrorCode, error_message
from muster.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntityData,
    AlterClientQuotasResponseEntryData,
    OpData,
)
from muster.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from muster.protocol.messages.metadata_records.client_quota_record import ClientQuotaRecord
from muster.protocol.messages.metadata_records.client_quota_record import EntityData as RecordedEntity

_ROW_BYTES: Final = 10
_NEW: Final = 16
"""The capacity of a new HashMap. Kafka collects changes of quotas in a HashMap before it applies the changes."""
_EXACT: Final = 0
_DEFAULT: Final = 1
_SPECIFIED: Final = 2
_MATCH_TYPES: Final = {_DEFAULT: "DEFAULT", _SPECIFIED: "SPECIFIED"}
_IP_ALONE: Final = (
    "Invalid entity filter component combination. "
    "IP filter component should not be used with user or clientId filter component."
)
MAX_RECORDS: Final = 10_000
"""The most changes of one request (QuorumController.MAX_RECORDS_PER_USER_OP)."""
MAX_ENTITIES: Final = 20_000
"""The most entities with quotas in a cluster, so that an answer with all entities is small. Kafka has no limit."""
MAX_NAME_BYTES: Final = 1_024
"""The longest name of a user, a client id or an address, in bytes."""
WRITTEN_AT_ONCE: Final = 500
"""The most quotas that take effect in one iteration of the event loop."""
MAX_PARTS: Final = 100
"""The most parts of one entity, and the most changes of its quotas. Only three types and four quotas exist."""
MAX_RESOLVED_HOSTS: Final = 20
"""The most host names of one request that are resolved."""
_Answer = AlterClientQuotasResponseEntryData


@in_steps
def handle_describe_client_quotas(
    node: Node, context: RequestContext, request: DescribeClientQuotasRequest
) -> Job[DescribeClientQuotasResponse]:
    """Answer with the selected quotas (without filter, all quotas) in the order of Kafka's hash tables."""
    if not node.authorizer.allows(context, Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        # the error has no message, as on Kafka
        return DescribeClientQuotasResponse(0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None, None)
    try:
        wanted = yield from _filter_of(request)
    except ApiError as refusal:
        return DescribeClientQuotasResponse(error_code=refusal.error_code, error_message=refusal.message, entries=None)
    rows: list[EntryData] = []
    buckets: list[int] = []
    known = list(node.topics.state.quotas.items())
    answer_size = AnswerSize(node, context)
    for entity, quotas in known:
        if wanted.selects(entity):
            size = _ROW_BYTES + sum([_ROW_BYTES + len(kind) + len(name or "") for kind, name in entity])
            size += sum([_ROW_BYTES + len(key) for key in quotas])
            if not answer_size.add(size):
                return DescribeClientQuotasResponse(error_code=TOO_LARGE, error_message=TOO_LARGE_TEXT, entries=None)
            names = dict(entity)
            rows.append(
                EntryData(
                    [EntityData(kind, names[kind]) for kind in entities.in_javas_order(names, len(names))],
                    [
                        ValueData(key, quotas[key])
                        for key in entities.in_javas_order(entities.in_javas_order(quotas, _NEW), len(quotas))
                    ],
                )
            )
            buckets.append(entities.bucket_of(entity, len(known)))
        yield answer_size.pause()
    in_order = sorted(range(len(rows)), key=buckets.__getitem__)
    return DescribeClientQuotasResponse(error_message="", entries=[rows[index] for index in in_order])


def _filter_of(request: DescribeClientQuotasRequest) -> Job[entities.EntityFilter]:
    exact: dict[str, str | None] = {}
    types: dict[str, None] = {}
    for row in request.components:
        kind, how = row.entity_type, row.match_type
        if not kind:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in exact or kind in types:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in entities.TYPES:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        if how not in (_EXACT, _DEFAULT, _SPECIFIED):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown match type {how}")
        if how == _EXACT and row.match is None:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, "Request specified MATCH_TYPE_EXACT, but set match string to null."
            )
        if how != _EXACT and row.match is not None:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Request specified MATCH_TYPE_{_MATCH_TYPES[how]}, but also specified a match string.",
            )
        if how == _SPECIFIED:
            types[kind] = None
        else:
            exact[kind] = row.match
        yield None
    named = {*exact, *types}
    if entities.IP in named and named & {entities.USER, entities.CLIENT_ID}:
        raise ApiError(ErrorCode.INVALID_REQUEST, _IP_ALONE)
    return entities.EntityFilter(exact, list(types), is_strict=request.strict)


@in_steps(forwarded=True)
def handle_alter_client_quotas(
    node: Node, context: RequestContext, request: AlterClientQuotasRequest
) -> Job[AlterClientQuotasResponse]:
    """Make the valid changes. If an entity is named twice, the first changes count, but the answer has an error."""
    if not node.authorizer.allows(context, Operation.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return AlterClientQuotasResponse(entries=(yield from _refuse_all(request, code, error_message(code))))
    answers: dict[entities.Entity, _Answer] = {}
    records: list[ClientQuotaRecord] = []
    there = node.topics.state.quotas
    new = 0
    hosts = _Hosts()
    too_long: list[_Answer] = []
    for row in request.entries:
        if len(row.entity) > MAX_PARTS or len(row.ops) > MAX_PARTS:
            answer = _answer(row)
            answer.error_code = ErrorCode.INVALID_REQUEST
            answer.error_message = f"An entity may have {MAX_PARTS} types, and as many changes."
            too_long.append(answer)
            yield None
            continue
        names = {part.entity_type: part.entity_name for part in row.entity}
        entity = entities.entity_of(names)
        ops = {op.key: op for op in row.ops}
        is_twice = entity in answers or len(ops) < len(row.ops)
        answer = answers.setdefault(entity, _answer(row))
        try:
            if is_twice:
                raise _refused(f"Ignoring duplicate entity {entities.shown(names)}")
            yield from _check(names, hosts)
            changes = yield from _changes(names, entity, ops, there.get(entity, {}))
            if changes and entity not in there:
                new += 1
                if len(there) + new > MAX_ENTITIES:
                    raise _refused(f"There are {MAX_ENTITIES} entities with quotas already: remove some of them first.")
            records += changes
        except ApiError as refusal:
            answer.error_code, answer.error_message = refusal.error_code, refusal.message
        yield None
    if len(records) > MAX_RECORDS:
        code = ErrorCode.POLICY_VIOLATION
        return AlterClientQuotasResponse(entries=(yield from _refuse_all(request, code, error_message(code))))
    in_order = walked([spread(entities.hash_of(entity)) for entity in answers])
    named = [*answers.values()]
    rows = [*(named[index] for index in in_order), *too_long]
    if records and not request.validate_only:
        yield from _write(node, records, rows)
    return AlterClientQuotasResponse(entries=rows)


def _answer(row: AlterClientQuotasRequestEntryData) -> _Answer:
    names = {part.entity_type: part.entity_name for part in row.entity[:MAX_PARTS]}
    kinds = entities.in_javas_order(names, len(row.entity))
    return _Answer(0, None, [AlterClientQuotasResponseEntityData(kind, names[kind]) for kind in kinds])


def _refuse_all(request: AlterClientQuotasRequest, code: int, message: str) -> Job[list[_Answer]]:
    rows: list[_Answer] = []
    for row in request.entries:
        # the parts of an entity keep the order of the request (AlterClientQuotasRequest.getErrorResponse)
        parts = row.entity[:MAX_PARTS]
        entity = [AlterClientQuotasResponseEntityData(part.entity_type, part.entity_name) for part in parts]
        rows.append(_Answer(code, message, entity))
        yield None
    return rows


def _refused(fault: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, fault)


def _check(names: dict[str, str | None], hosts: _Hosts) -> Job[None]:
    fault = entities.fault_of_entity(names)
    if fault is not None:
        raise _refused(fault)
    if any(name is not None and len(name.encode()) > MAX_NAME_BYTES for name in names.values()):
        raise _refused(f"A name may have {MAX_NAME_BYTES} bytes.")
    address = names.get(entities.IP)
    if address is not None and not (yield from hosts.has(address)):
        raise _refused(entities.unresolvable(address))


def _changes(
    names: dict[str, str | None], entity: entities.Entity, ops: dict[str, OpData], now: dict[str, float]
) -> Job[list[ClientQuotaRecord]]:
    """The records of one entity's changes. Removals are not checked, as on Kafka."""
    records: list[ClientQuotaRecord] = []
    for key in entities.in_javas_order(ops, len(ops)):
        op = ops[key]
        if op.remove:
            if key in now:
                records.append(_record(entity, key, 0.0, is_removed=True))
        else:
            fault = entities.fault_of_quota(names, key, op.value)
            if fault is not None:
                raise _refused(fault)
            if not entities.is_same(now.get(key), op.value):
                records.append(_record(entity, key, op.value, is_removed=False))
        yield None
    return records


def _record(entity: entities.Entity, key: str, value: float, *, is_removed: bool) -> ClientQuotaRecord:
    return ClientQuotaRecord([RecordedEntity(*part) for part in entity], key, value, is_removed)


def _write(node: Node, records: Sequence[ClientQuotaRecord], rows: Sequence[_Answer]) -> Job[None]:
    for start in range(0, len(records), WRITTEN_AT_ONCE):
        try:
            yield from node.topics.writing(records[start : start + WRITTEN_AT_ONCE])
        except ApiError as refusal:
            for row in rows:
                row.error_code, row.error_message = refusal.error_code, refusal.message
            return
        yield None
    yield from until_durable(node, rows)


class _Hosts:
    """Checks that hosts exist. Host names are resolved in a thread, because this may take seconds."""

    def __init__(self) -> None:
        self._known: dict[str, bool] = {}

    def has(self, host: str) -> Job[bool]:
        try:
            ip_address(host.removeprefix("[").removesuffix("]"))
        except ValueError:
            pass
        else:
            return True
        if host not in self._known:
            if len(self._known) >= MAX_RESOLVED_HOSTS:
                return False
            self._known[host] = yield OffloadedWork(lambda: resolve(host) is not None)
        return self._known[host]
