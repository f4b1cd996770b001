"""TxnOffsetCommit below 2: clients do not know PRODUCER_FENCED (KIP-588)."""

from __future__ import annotations

from muster.protocol.errors import ErrorCode
from muster.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse


def lower_response(_version: int, response: TxnOffsetCommitResponse) -> TxnOffsetCommitResponse:
    """PRODUCER_FENCED -> INVALID_PRODUCER_EPOCH."""
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code == ErrorCode.PRODUCER_FENCED:
                partition.error_code = ErrorCode.INVALID_PRODUCER_EPOCH
    return response
