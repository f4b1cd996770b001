"""LeaveGroup 0-2 have one member at the top instead of `members`, and its error instead of a row (KIP-345)."""

from __future__ import annotations

from muster.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity


def raise_request(_version: int, request: LeaveGroupRequest) -> LeaveGroupRequest:
    """Move the member at the top to the only row of `members`."""
    request.members = [MemberIdentity(member_id=request.member_id)]
    request.member_id = ""
    return request


def lower_response(_version: int, response: LeaveGroupResponse) -> LeaveGroupResponse:
    """Move the only row's error to the top, unless the whole request failed."""
    error_code = response.error_code
    if error_code == 0 and response.members:
        error_code = response.members[0].error_code
    return LeaveGroupResponse(throttle_time_ms=response.throttle_time_ms, error_code=error_code)
