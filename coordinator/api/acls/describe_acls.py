"""DescribeAcls: the access control entries that a filter selects. All ACL APIs share the refusals of this module."""

from __future__ import annotations

from typing import Final, NamedTuple

from muster.coordinator.api.answer_size import TOO_LARGE, TOO_LARGE_TEXT, AnswerSize
from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.layers import CloseConnection
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.security.acls import UNKNOWN, Acl, AclFilter
from muster.coordinator.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from muster.coordinator.security.standard_authorizer import StandardAuthorizer
from muster.coordinator.system.jobs import Job
from muster.protocol.errors import ErrorCode, error_message
from muster.protocol.messages.delete_acls import DeleteAclsFilter
from muster.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

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
    """The authorizer whose entries the client may see or change, or why it may not. It needs `operation` on the
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
    """The filter of a request. Both requests have the same field names."""
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
    """Close the connection when a code is 0, as Kafka does (IllegalArgumentException). No client may send 0."""
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
