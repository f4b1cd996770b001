"""FindCoordinator 0-3: one key at the top instead of `coordinator_keys`, one answer instead of rows (KIP-699)."""

from __future__ import annotations

from muster.protocol.errors import error_message
from muster.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse


def raise_request(_version: int, request: FindCoordinatorRequest) -> FindCoordinatorRequest:
    """The single key becomes the only entry of `coordinator_keys`."""
    request.coordinator_keys = [request.key]
    request.key = ""
    return request


def lower_response(_version: int, response: FindCoordinatorResponse) -> FindCoordinatorResponse:
    """Move the only row to the top. It gets the default message of its code if it has none ("NONE" for a success)."""
    row = response.coordinators[0] if response.coordinators else Coordinator()
    return FindCoordinatorResponse(
        throttle_time_ms=response.throttle_time_ms,
        error_code=row.error_code,
        error_message=row.error_message or error_message(row.error_code),
        node_id=row.node_id,
        host=row.host,
        port=row.port,
    )
