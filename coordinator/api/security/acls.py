"""DescribeAcls, CreateAcls and DeleteAcls: clients read and change access control entries (KIP-140, KIP-290).

This module also writes the audit log: a line for each refused request, as in Kafka's `kafka.authorizer.logger`. The log
limits how often similar lines are written (`system.logging.rate_limit`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, cast

import structlog

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.layers import CloseConnection
from muster.coordinator.api.many_rows import TOO_LARGE, TOO_LARGE_TEXT, AnswerSize, until_durable
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.security.acls import (
    ANY,
    MATCH,
    OPERATIONS,
    PATTERN_TYPES,
    PERMISSIONS,
    RESOURCE_TYPES,
    UNKNOWN,
    Acl,
    AclFilter,
    AclSelection,
    to_record,
)
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from muster.coordinator.security.cidr import BadRange, parse
from muster.coordinator.security.standard_authorizer import Denial, StandardAuthorizer, java_address
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.features import CIDR_HOSTS, METADATA, level_of
from muster.protocol.api import api
from muster.protocol.errors import ErrorCode, error_message
from muster.protocol.message import Message
from muster.protocol.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from muster.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from muster.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from muster.protocol.messages.metadata_records.remove_access_control_entry_record import RemoveAccessControlEntryRecord

NO_AUTHORIZER: Final = "No Authorizer is configured."
_DISABLED: Final = "No Authorizer is configured on the broker"
_ROW_BYTES: Final = 10


class Refusal(NamedTuple):
    """An error of the whole request."""

    error_code: int
    error_message: str | None


NOT_ALLOWED: Final = Refusal(
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
)


def authorizer_for(
    node: Node, context: RequestContext, operation: int, disabled: str = NO_AUTHORIZER
) -> StandardAuthorizer | Refusal:
    """The authorizer whose entries the client may see or change, or the refusal. The client needs `operation` on the
    cluster.

    `disabled`: the error text for a server without an authorizer.
    """
    authorizer = node.authorizer
    if not authorizer.allows(context, operation, ResourceType.CLUSTER, CLUSTER_NAME):
        return NOT_ALLOWED
    if not isinstance(authorizer, StandardAuthorizer):
        return Refusal(ErrorCode.SECURITY_DISABLED, disabled)
    return authorizer


def filter_of(row: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """The filter in a row of a request. DescribeAcls and DeleteAcls have the same field names."""
    return AclFilter(
        row.resource_type_filter,
        row.resource_name_filter,
        row.pattern_type_filter,
        row.principal_filter,
        row.host_filter,
        row.operation,
        row.permission_type,
    )


def closes_on_code_0(context: RequestContext, given: Acl | AclFilter) -> bool:
    """Close the connection if a code is 0, as Kafka does (IllegalArgumentException). No client may send 0."""
    if UNKNOWN not in (given.resource_type, given.pattern_type, given.operation, given.permission_type):
        return False
    context.channel.end(CloseConnection("its request has the code 0 (UNKNOWN) in an access control entry or filter"))
    return True


@in_steps
def handle_describe_acls(
    node: Node, context: RequestContext, request: DescribeAclsRequest
) -> Job[DescribeAclsResponse | None]:
    """List the selected entries by resource. A filter with a code that Kafka does not know selects no entry."""
    wanted = filter_of(request)
    if closes_on_code_0(context, wanted):
        return None
    found = authorizer_for(node, context, Operation.DESCRIBE, _DISABLED)
    if isinstance(found, Refusal):
        return DescribeAclsResponse(error_code=found.error_code, error_message=found.error_message)
    resources: dict[tuple[int, str, int], list[AclDescription]] = {}
    answer_size = AnswerSize(node, context)
    for acl in found.rules.candidates(wanted):
        if wanted.selects(acl):
            row = AclDescription(acl.principal, acl.host, acl.operation, acl.permission_type)
            resource = acl.resource_type, acl.resource_name, acl.pattern_type
            size = _ROW_BYTES + len(acl.principal) + len(acl.host)
            if resource not in resources:
                resources[resource] = []
                size += _ROW_BYTES + len(acl.resource_name)
            resources[resource].append(row)
            if not answer_size.add(size):
                return DescribeAclsResponse(error_code=TOO_LARGE, error_message=TOO_LARGE_TEXT)
        yield answer_size.pause()
    answer = DescribeAclsResponse(error_message="")
    rows: list[DescribeAclsResource] = []
    for (kind, name, pattern), acls in resources.items():
        rows.append(DescribeAclsResource(resource_type=kind, resource_name=name, pattern_type=pattern, acls=acls))
        for _ in acls:
            yield None  # one step for each row that is encoded
    answer.resources = rows
    return answer


MAX_CREATED: Final = 10_000
"""The most entries that one request creates (QuorumController.MAX_RECORDS_PER_USER_OP)."""
MAX_ACLS: Final = 20_000
"""The most entries in a cluster, so that an answer with all entries is small. Kafka has no limit."""
MAX_NAME_BYTES: Final = 1_024
"""The longest name of a resource, a principal or a host, in bytes. Muster looks up each prefix of a resource name."""
_TOO_MANY: Final = "Unable to perform excessively large batch operation."
WRITTEN_AT_ONCE: Final = 500
"""The most entries that take effect in one iteration of the event loop."""
MAX_DELETED: Final = 10_000
"""The most entries that one request deletes, counted for each filter (QuorumController.MAX_RECORDS_PER_USER_OP)."""
MAX_FILTERS: Final = 1_000
"""The most filters of one request. For each filter all entries may have to be sorted again."""
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
    has_ranges = level_of(node.topics.state.features, METADATA) >= CIDR_HOSTS
    for row in rows:
        answer = AclCreationResult()
        answers.append(answer)
        acl = _acl(row)
        refusal = _refusal(acl, has_ranges=has_ranges)
        if refusal is not None:
            answer.error_code, answer.error_message = refusal
        else:
            new.setdefault(acl, []).append(answer)
        yield None
    yield from _make(node, found, new)
    yield from until_durable(node, answers)
    return CreateAclsResponse(results=answers)


_NO_RANGES: Final = "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher."


def _has_filter_codes(row: AclCreation) -> bool:
    return (
        row.resource_type == ANY
        or row.resource_pattern_type in (ANY, MATCH)
        or row.operation == ANY
        or row.permission_type == ANY
    )


def _whole_request(rows: Sequence[AclCreation], *, has_filter_codes: bool) -> Refusal | None:
    """Why no entry of the request can be created: too many entries, or a code that only filters may have."""
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


def _refusal(acl: Acl, *, has_ranges: bool) -> Refusal | None:
    """Why a new entry is refused. `has_ranges`: whether the cluster's metadata.version has CIDR ranges."""
    fault = _fault(acl)
    if fault is None and "/" in acl.host:
        if not has_ranges:
            return Refusal(ErrorCode.UNSUPPORTED_VERSION, _NO_RANGES)
        try:
            parse(acl.host)
        except BadRange as error:
            fault = f"Invalid CIDR notation '{acl.host}': {error}"
    return None if fault is None else Refusal(ErrorCode.INVALID_REQUEST, fault)


def _fault(acl: Acl) -> str | None:
    """Why a new entry is invalid, in Kafka's words and order. None means that the entry is valid."""
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
    if not acl.host:
        return "Host pattern cannot be null or empty"
    if any(
        len(text.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES
        for text in (acl.resource_name, acl.principal, acl.host)
    ):
        return f"The name of a resource, a principal and a host may have {MAX_NAME_BYTES} bytes."
    return None


def _make(node: Node, authorizer: StandardAuthorizer, new: dict[Acl, list[AclCreationResult]]) -> Job[None]:
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
                    answer.error_message = f"There are {MAX_ACLS} access control entries already: delete some first."
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
    """Delete the entries that the filters select. The answer repeats an entry under each filter that selects it."""
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
        answers.append(
            DeleteAclsFilterResult(
                error_message=None, matching_acls=[DeleteAclsMatchingAcl(0, None, *acl) for acl in selected]
            )
        )
        yield None
    yield from _delete(node, authorizer, chosen, answers)
    yield from until_durable(node, answers)
    return DeleteAclsResponse(filter_results=answers)


def _filter_fault(wanted: AclFilter) -> str | None:
    if wanted.is_unknown_pattern:
        return "Unknown patternFilter."
    return "Unknown entryFilter." if wanted.is_unknown_entry else None


def _delete(
    node: Node, authorizer: StandardAuthorizer, chosen: dict[Acl, None], answers: list[DeleteAclsFilterResult]
) -> Job[None]:
    """Delete the chosen entries in one batch of the metadata log. Other requests may have deleted some entries."""
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


log = structlog.get_logger("muster.authorizer")


def log_denial(denial: Denial) -> None:
    """Write the audit line of one refused request."""
    context = cast(RequestContext, denial.requester)
    log.info(
        "denied",
        principal=str(context.principal),
        operation=OPERATIONS.get(denial.operation, denial.operation),
        host=java_address(context.host),
        resource=f"{RESOURCE_TYPES.get(denial.resource_type, denial.resource_type)}:{denial.name}",
        request=api(context.api_key).name,
        rule=denial.rule,
    )
