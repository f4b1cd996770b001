"""DescribeAcls: the access control entries that a filter selects."""

from __future__ import annotations

from typing import Final

from muster.coordinator.api.acls.refusals import Refusal, authorizer_for, closes, filter_of
from muster.coordinator.api.answer_size import TOO_LARGE, TOO_LARGE_TEXT, AnswerSize
from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node, in_steps
from muster.coordinator.security.authorizer import Operation
from muster.coordinator.system.jobs import Job
from muster.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

_DISABLED: Final = "No Authorizer is configured on the broker"
_ROW_BYTES: Final = 10
"""Size of an entry in an answer, and of a resource, without their texts."""


@in_steps
def handle_describe_acls(
    node: Node, context: RequestContext, request: DescribeAclsRequest
) -> Job[DescribeAclsResponse | None]:
    """List the selected entries by resource. A filter with a code that Kafka does not know selects no entry."""
    wanted = filter_of(request)
    if closes(context, wanted):
        return None
    found = authorizer_for(node, context, Operation.DESCRIBE, _DISABLED)
    if isinstance(found, Refusal):
        return DescribeAclsResponse(error_code=found.error_code, error_message=found.error_message)
    resources: dict[tuple[int, str, int], list[AclDescription]] = {}
    room = AnswerSize(node, context)
    for acl in found.rules.candidates(wanted):
        if wanted.selects(acl):
            row = AclDescription(acl.principal, acl.host, acl.operation, acl.permission_type)
            resource = acl.resource_type, acl.resource_name, acl.pattern_type
            size = _ROW_BYTES + len(acl.principal) + len(acl.host)
            if resource not in resources:
                resources[resource] = []
                size += _ROW_BYTES + len(acl.resource_name)
            resources[resource].append(row)
            if not room.take(size):
                return DescribeAclsResponse(error_code=TOO_LARGE, error_message=TOO_LARGE_TEXT)
        yield room.pause()
    answer = DescribeAclsResponse(error_message="")
    rows: list[DescribeAclsResource] = []
    for (kind, name, pattern), acls in resources.items():
        rows.append(DescribeAclsResource(resource_type=kind, resource_name=name, pattern_type=pattern, acls=acls))
        for _ in acls:
            yield None  # one step for each row that is encoded
    answer.resources = rows
    return answer
