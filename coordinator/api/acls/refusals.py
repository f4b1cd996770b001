"""Reasons for which all three ACL APIs refuse a request. The client may not do it, the server has no authorizer, or a
code is 0.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from muster.coordinator.api.close_connection import CloseConnection
from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node
from muster.coordinator.security.acls import UNKNOWN, Acl, AclFilter
from muster.coordinator.security.authorizer import CLUSTER_NAME, ResourceType
from muster.coordinator.security.standard_authorizer import StandardAuthorizer
from muster.protocol.errors import ErrorCode, error_message
from muster.protocol.messages.delete_acls import DeleteAclsFilter
from muster.protocol.messages.describe_acls import DescribeAclsRequest

NO_AUTHORIZER: Final = "No Authorizer is configured."


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
    """The authorizer whose entries the client may see or change, or why it may not. The client needs `operation` on the
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


def closes(context: RequestContext, given: Acl | AclFilter) -> bool:
    """Close the connection when a code is 0, as Kafka does (IllegalArgumentException). No client may send 0."""
    if UNKNOWN not in (given.resource_type, given.pattern_type, given.operation, given.permission_type):
        return False
    context.channel.end(CloseConnection("its request has the code 0 (UNKNOWN) in an access control entry or filter"))
    return True
