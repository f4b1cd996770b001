"""JoinGroup: 0 has no rebalance timeout, 0-6 cannot say a null protocol name, 0-8 have no skip_assignment."""

from __future__ import annotations

from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse


def raise_request(_version: int, request: JoinGroupRequest) -> JoinGroupRequest:
    """Version 0: the session timeout serves as rebalance timeout."""
    request.rebalance_timeout_ms = request.session_timeout_ms
    return request


def lower_response(version: int, response: JoinGroupResponse) -> JoinGroupResponse:
    """Below 9: skip_assignment is left out (KIP-814). Below 7: no protocol is "", not null (KIP-559)."""
    response.skip_assignment = False
    if version < 7 and response.protocol_name is None:
        response.protocol_name = ""
    return response
