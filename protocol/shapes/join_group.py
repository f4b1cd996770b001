"""JoinGroup 0 has no rebalance timeout, 0-6 cannot encode a null protocol name, and 0-8 have no skip_assignment."""

from __future__ import annotations

from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse


def raise_request(_version: int, request: JoinGroupRequest) -> JoinGroupRequest:
    """In version 0, the session timeout is also the rebalance timeout."""
    request.rebalance_timeout_ms = request.session_timeout_ms
    return request


def lower_response(version: int, response: JoinGroupResponse) -> JoinGroupResponse:
    """Remove skip_assignment (below 9, KIP-814). Replace a null protocol name by "" (below 7, KIP-559)."""
    response.skip_assignment = False
    if version < 7 and response.protocol_name is None:
        response.protocol_name = ""
    return response
