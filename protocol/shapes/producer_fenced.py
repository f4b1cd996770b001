"""InitProducerId below 4, AddOffsetsToTxn and EndTxn below 2: clients do not know PRODUCER_FENCED (KIP-588)."""

from __future__ import annotations

from typing import Any

from muster.protocol.errors import ErrorCode


def lower_response(_version: int, response: Any) -> Any:
    """PRODUCER_FENCED -> INVALID_PRODUCER_EPOCH."""
    if response.error_code == ErrorCode.PRODUCER_FENCED:
        response.error_code = ErrorCode.INVALID_PRODUCER_EPOCH
    return response
