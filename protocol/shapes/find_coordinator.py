"""FindCoordinator 0-3 have one key at the top instead of `coordinator_keys`, and one answer, not rows (KIP-699)."""

from __future__ import annotations

from muster.protocol.errors import error_message
from muster.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse


def raise_request(_version: int, request: FindCoordinatorRequest) -> FindCoordinatorRequest:
    """Move the key at the top to the only entry of `coordinator_keys`."""
    request.coordinator_keys = [request.key]
    request.key = ""
    return request


def lower_response(_version: int, response: FindCoordinatorResponse) -> FindCoordinatorResponse:
    """Move the only row to the top. A missing message becomes the default message of the code ("NONE" for 0)."""
    row = response.coordinators[0] if response.coordinators else Coordinator()
    return FindCoordinatorResponse(
        throttle_time_ms=response.throttle_time_ms,
        error_code=row.error_code,
        error_message=row.error_message or error_message(row.error_code),
        node_id=row.node_id,
        host=row.host,
        port=row.port,
    )
