"""CreateAcls and DeleteAcls: create access control entries, and delete those that filters select."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster.coordinator.api.acls.describe_acls import Refusal, authorizer_for, closes_on_code_0, filter_of
from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.durable import until_durable
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.security.acls import (
    ANY,
    MATCH,
    OPERATIONS,
    PATTERN_TYPES,
    PERMISSIONS,
    RESOURCE_TYPES,
    Acl,
    AclFilter,
    AclSelection,
    to_record,
)
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from muster.coordinator.security.standard_authorizer import StandardAuthorizer
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.errors import ApiError
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from muster.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from muster.protocol.messages.metadata_records.remove_access_control_entry_record import RemoveAccessControlEntryRecord

MAX_CREATED: Final = 10_000
"""One request may create so many entries (QuorumController.MAX_RECORDS_PER_USER_OP)."""
MAX_ACLS: Final = 20_000
"""A cluster may have so many entries. Kafka has no limit. The limit keeps an answer small that lists all entries."""
MAX_NAME_BYTES: Final = 1_024
"""The longest name of a resource, a principal and a host, in bytes. Kafka has no limit. Muster looks up each prefix of
a resource name.
"""
_TOO_MANY: Final = "Unable to perform excessively large batch operation."
WRITTEN_AT_ONCE: Final = 500
"""So many entries take effect in one iteration of the event loop."""
MAX_DELETED: Final = 10_000
"""One request may delete so many entries (QuorumController.MAX_RECORDS_PER_USER_OP), counted once for each filter."""
MAX_FILTERS: Final = 1_000
"""One request may have so many filters. For each filter all entries may have to be sorted again."""
_TOO_MANY_DELETED: Final = f"Cannot remove more than {MAX_DELETED} acls in a single delete operation."


@in_steps(forwarded=True)
def handle_create_acls(
    node: Node, context: RequestContext, request: CreateAclsRequest
) -> Job[CreateAclsResponse | None]:
    """Create the valid entries that do not exist yet. The answer has one row for each entry of the request."""
    rows = request.creations
    has_filter_codes = False
    for row in rows:
        if closes_on_code_0(context, _acl(row)):
            return None
        has_filter_codes = has_filter_codes or _has_filter_codes(row)
        yield None
    found = authorizer_for(node, context, Operation.ALTER)
    if not isinstance(found, Refusal):
        found = _whole_request(rows, has_filter_codes=has_filter_codes) or found
    answers: list[AclCreationResult] = []
    if isinstance(found, Refusal):
        for _ in rows:
            answers.append(AclCreationResult(*found))
            yield None
        return CreateAclsResponse(results=answers)
    new: dict[Acl, list[AclCreationResult]] = {}
    for row in rows:
        answer = AclCreationResult()
        answers.append(answer)
        acl = _acl(row)
        fault = _fault(acl)
        if fault is not None:
            answer.error_code, answer.error_message = ErrorCode.INVALID_REQUEST, fault
        else:
            new.setdefault(acl, []).append(answer)
        yield None
    yield from _make(node, found, new)
    yield from until_durable(node, answers)
    return CreateAclsResponse(results=answers)


def _has_filter_codes(row: AclCreation) -> bool:
    return (
        row.resource_type == ANY
        or row.resource_pattern_type in (ANY, MATCH)
        or row.operation == ANY
        or row.permission_type == ANY
    )


def _whole_request(rows: Sequence[AclCreation], *, has_filter_codes: bool) -> Refusal | None:
    """Why no entry of the request can be created: they are too many, or have codes of a filter."""
    if has_filter_codes:
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    return Refusal(ErrorCode.POLICY_VIOLATION, _TOO_MANY) if len(rows) > MAX_CREATED else None


def _acl(row: AclCreation) -> Acl:
    return Acl(
        row.resource_type,
        row.resource_name,
        row.resource_pattern_type,
        row.principal,
        row.host,
        row.operation,
        row.permission_type,
    )


def _fault(acl: Acl) -> str | None:
    """Why a new entry is invalid, in Kafka's words and order. None means that it is valid."""
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not acl.resource_name:
        return "Invalid empty resource name"
    for code, known, what in (
        (acl.resource_type, RESOURCE_TYPES, "resourceType"),
        (acl.pattern_type, PATTERN_TYPES, "patternType"),
        (acl.operation, OPERATIONS, "operation"),
        (acl.permission_type, PERMISSIONS, "permissionType"),
    ):
        if code not in known:
            return f"Invalid {what} UNKNOWN"
    if ":" not in acl.principal:
        return (
            f"Could not parse principal from `{acl.principal}` "
            "(no colon is present separating the principal type from the principal name)"
        )
    if any(
        len(text.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES
        for text in (acl.resource_name, acl.principal, acl.host)
    ):
        return f"The name of a resource, a principal and a host may have {MAX_NAME_BYTES} bytes."
    return None


def _make(node: Node, authorizer: StandardAuthorizer, new: dict[Acl, list[AclCreationResult]]) -> Job[None]:
    """Write the records of the entries that do not exist yet."""
    wanted = iter(new)
    while True:
        records: list[Message] = []
        present = authorizer.rules.ids
        for acl in wanted:
            if acl in present:
                continue
            if len(present) + len(records) >= MAX_ACLS:
                for answer in new[acl]:
                    answer.error_code = ErrorCode.POLICY_VIOLATION
                    answer.error_message = f"There are {MAX_ACLS} access control entries already: delete some before."
                continue
            records.append(to_record(acl, node.draw_uuid()))
            if len(records) == WRITTEN_AT_ONCE:
                break
        if not records:
            return
        try:
            yield from node.topics.writing(records)
        except ApiError as refusal:
            for answers in new.values():
                for answer in answers:
                    answer.error_code, answer.error_message = refusal.error_code, refusal.message
            return
        yield None


@in_steps(forwarded=True)
def handle_delete_acls(
    node: Node, context: RequestContext, request: DeleteAclsRequest
) -> Job[DeleteAclsResponse | None]:
    """Delete what the filters select. The answer repeats an entry under each filter that selects it."""
    filters: list[AclFilter] = []
    for row in request.filters:
        wanted = filter_of(row)
        if closes_on_code_0(context, wanted):
            return None
        filters.append(wanted)
        yield None
    authorizer = authorizer_for(node, context, Operation.ALTER)
    if not isinstance(authorizer, Refusal) and len(request.filters) > MAX_FILTERS:
        authorizer = Refusal(ErrorCode.POLICY_VIOLATION, f"A request may have {MAX_FILTERS} filters at most.")
    answers: list[DeleteAclsFilterResult] = []
    if isinstance(authorizer, Refusal):
        for _ in filters:
            answers.append(DeleteAclsFilterResult(*authorizer))
            yield None
        return DeleteAclsResponse(filter_results=answers)
    chosen: dict[Acl, None] = {}
    selected_count = 0
    selection = AclSelection(authorizer.rules.ids)
    for wanted in filters:
        fault = _filter_fault(wanted)
        if fault is not None:
            answers.append(DeleteAclsFilterResult(error_code=ErrorCode.INVALID_REQUEST, error_message=fault))
            continue
        # when the limit is exceeded, the exact number does not matter
        selected = [] if selected_count > MAX_DELETED else (yield from selection.select(wanted))
        selected_count += len(selected)
        if selected_count > MAX_DELETED:
            answers.append(
                DeleteAclsFilterResult(error_code=ErrorCode.POLICY_VIOLATION, error_message=_TOO_MANY_DELETED)
            )
            continue
        chosen.update(dict.fromkeys(selected))
        answers.append(DeleteAclsFilterResult(error_message=None, matching_acls=[_matching(acl) for acl in selected]))
        yield None
    yield from _delete(node, authorizer, chosen, answers)
    yield from until_durable(node, answers)
    return DeleteAclsResponse(filter_results=answers)


def _filter_fault(wanted: AclFilter) -> str | None:
    if wanted.is_unknown_pattern:
        return "Unknown patternFilter."
    return "Unknown entryFilter." if wanted.is_unknown_entry else None


def _matching(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(0, None, *acl)


def _delete(
    node: Node, authorizer: StandardAuthorizer, chosen: dict[Acl, None], answers: list[DeleteAclsFilterResult]
) -> Job[None]:
    """Delete all of them in one batch of the metadata log, without those that another request has deleted meanwhile."""
    ids = authorizer.rules.ids
    records: list[Message] = [RemoveAccessControlEntryRecord(acl_id) for acl in chosen for acl_id in ids.get(acl, ())]
    if not records:
        return
    try:
        yield from node.topics.writing(records)
    except ApiError as refusal:
        for answer in answers:
            if not answer.error_code:
                answer.error_code, answer.error_message = refusal.error_code, refusal.message
                answer.matching_acls = ()
