"""Clients of TxnOffsetCommit below version 2 do not know PRODUCER_FENCED (KIP-588). They fail on
COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296).
"""

from __future__ import annotations

from typing import Final

from muster.protocol.errors import ErrorCode
from muster.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse

OLDER_CODES: Final = {
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


def lower_response(_version: int, response: TxnOffsetCommitResponse) -> TxnOffsetCommitResponse:
    """Replace PRODUCER_FENCED by INVALID_PRODUCER_EPOCH, and COORDINATOR_LOAD_IN_PROGRESS by
    COORDINATOR_NOT_AVAILABLE.
    """
    for topic in response.topics:
        for partition in topic.partitions:
            partition.error_code = OLDER_CODES.get(partition.error_code, partition.error_code)
    return response
