"""DescribeGroups 0-5: an unknown group is a Dead one without an error (KIP-1043 changed that in version 6)."""

from __future__ import annotations

from muster.protocol.errors import ErrorCode
from muster.protocol.messages.describe_groups import DescribeGroupsResponse


def lower_response(_version: int, response: DescribeGroupsResponse) -> DescribeGroupsResponse:
    """Below 6: GROUP_ID_NOT_FOUND becomes state Dead without an error; no row has a message."""
    for group in response.groups:
        group.error_message = None
        if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            group.error_code = ErrorCode.NONE
            group.group_state = "Dead"
    return response
