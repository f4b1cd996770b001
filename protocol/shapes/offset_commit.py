"""OffsetCommit 2-8: error codes of KIP-848 become codes that older clients know."""

from __future__ import annotations

from typing import Final

from muster.protocol.errors import ErrorCode
from muster.protocol.messages.offset_commit import OffsetCommitResponse

OLDER_CODES: Final = {
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.STALE_MEMBER_EPOCH: ErrorCode.UNSUPPORTED_VERSION,
}


def lower_response(_version: int, response: OffsetCommitResponse) -> OffsetCommitResponse:
    """Below 9: GROUP_ID_NOT_FOUND -> ILLEGAL_GENERATION, STALE_MEMBER_EPOCH -> UNSUPPORTED_VERSION."""
    for topic in response.topics:
        for partition in topic.partitions:
            partition.error_code = OLDER_CODES.get(partition.error_code, partition.error_code)
    return response
