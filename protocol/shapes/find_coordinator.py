"""FindCoordinator 0-3: one key at the top instead of `coordinator_keys`, one answer at the top instead of rows (KIP-699)."""

from __future__ import annotations

from muster.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

NONE_TEXT = "NONE"
"""What Kafka says in `error_message` of versions 1-3 when there is no error."""


def raise_request(_version: int, request: FindCoordinatorRequest) -> FindCoordinatorRequest:
    """The single key becomes the only entry of `coordinator_keys`."""
    request.coordinator_keys = [request.key]
    request.key = ""
    return request


def lower_response(_version: int, response: FindCoordinatorResponse) -> FindCoordinatorResponse:
    """The only row goes to the top; a success says "NONE" in versions 1-3."""
    row = response.coordinators[0] if response.coordinators else Coordinator()
    message = row.error_message
    if row.error_code == 0 and not message:
        message = NONE_TEXT
    return FindCoordinatorResponse(
        throttle_time_ms=response.throttle_time_ms,
        error_code=row.error_code,
        error_message=message,
        node_id=row.node_id,
        host=row.host,
        port=row.port,
    )
