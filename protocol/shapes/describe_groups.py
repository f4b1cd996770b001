"""DescribeGroups 0-5 report an unknown group as Dead, without an error (KIP-1043 changed that in version 6)."""

from __future__ import annotations

from muster.protocol.errors import ErrorCode
from muster.protocol.messages.describe_groups import DescribeGroupsResponse


def lower_response(_version: int, response: DescribeGroupsResponse) -> DescribeGroupsResponse:
    """Make GROUP_ID_NOT_FOUND the state Dead without an error, and remove all messages."""
    for group in response.groups:
        group.error_message = None
        if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            group.error_code = ErrorCode.NONE
            group.group_state = "Dead"
    return response
