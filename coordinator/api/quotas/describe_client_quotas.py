"""DescribeClientQuotas: the quotas of the entities that a filter selects (ClientQuotasImage)."""

from __future__ import annotations

from typing import Final

from muster.coordinator.api.answer_size import TOO_LARGE, TOO_LARGE_TEXT, AnswerSize
from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.quotas.entities import CLIENT_ID, IP, TYPES, USER, EntityFilter, bucket_of, in_javas_order
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.errors import ApiError
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

_ROW_BYTES: Final = 10
"""Size of an entity in an answer, and of each of its parts and quotas, without texts."""
_NEW: Final = 16
"""The size of a new HashMap. Kafka collects changes of quotas in one before it applies them."""
_EXACT: Final = 0
_DEFAULT: Final = 1
_SPECIFIED: Final = 2
_SAID: Final = {_DEFAULT: "DEFAULT", _SPECIFIED: "SPECIFIED"}
_IP_ALONE: Final = (
    "Invalid entity filter component combination. "
    "IP filter component should not be used with user or clientId filter component."
)


@in_steps
def handle_describe_client_quotas(
    node: Node, context: RequestContext, request: DescribeClientQuotasRequest
) -> Job[DescribeClientQuotasResponse]:
    """Answer with the selected quotas; without a filter, with all quotas. They have the order of Kafka's hash
    tables.
    """
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
    room = AnswerSize(node, context)
    for entity, quotas in known:
        if wanted.selects(entity):
            size = _ROW_BYTES + sum([_ROW_BYTES + len(kind) + len(name or "") for kind, name in entity])
            size += sum([_ROW_BYTES + len(key) for key in quotas])
            if not room.take(size):
                return DescribeClientQuotasResponse(error_code=TOO_LARGE, error_message=TOO_LARGE_TEXT, entries=None)
            names = dict(entity)
            rows.append(
                EntryData(
                    [EntityData(kind, names[kind]) for kind in in_javas_order(names, len(names))],
                    [ValueData(key, quotas[key]) for key in in_javas_order(in_javas_order(quotas, _NEW), len(quotas))],
                )
            )
            buckets.append(bucket_of(entity, len(known)))
        yield room.pause()
    in_order = sorted(range(len(rows)), key=buckets.__getitem__)
    return DescribeClientQuotasResponse(error_message="", entries=[rows[index] for index in in_order])


def _filter_of(request: DescribeClientQuotasRequest) -> Job[EntityFilter]:
    """The filter of a request. Raises `ApiError`, in Kafka's words and order."""
    exact: dict[str, str | None] = {}
    types: dict[str, None] = {}
    for row in request.components:
        kind, how = row.entity_type, row.match_type
        if not kind:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in exact or kind in types:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in TYPES:
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
                f"Request specified MATCH_TYPE_{_SAID[how]}, but also specified a match string.",
            )
        if how == _SPECIFIED:
            types[kind] = None
        else:
            exact[kind] = row.match
        yield None
    named = {*exact, *types}
    if IP in named and named & {USER, CLIENT_ID}:
        raise ApiError(ErrorCode.INVALID_REQUEST, _IP_ALONE)
    return EntityFilter(exact, list(types), is_strict=request.strict)
