"""InitProducerId below 4, and AddOffsetsToTxn and EndTxn below 2, do not have PRODUCER_FENCED (KIP-588)."""

from __future__ import annotations

from typing import Any

from muster.protocol.errors import ErrorCode


def lower_response(_version: int, response: Any) -> Any:
    """Replace PRODUCER_FENCED by INVALID_PRODUCER_EPOCH."""
    if response.error_code == ErrorCode.PRODUCER_FENCED:
        response.error_code = ErrorCode.INVALID_PRODUCER_EPOCH
    return response
