"""OffsetCommit 2-8 have no error codes of KIP-848, only codes that older clients know."""

from __future__ import annotations

from typing import Final

from muster.protocol.errors import ErrorCode
from muster.protocol.messages.offset_commit import OffsetCommitResponse

OLDER_CODES: Final = {
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.STALE_MEMBER_EPOCH: ErrorCode.UNSUPPORTED_VERSION,
}


def lower_response(_version: int, response: OffsetCommitResponse) -> OffsetCommitResponse:
    """Replace GROUP_ID_NOT_FOUND by ILLEGAL_GENERATION, and STALE_MEMBER_EPOCH by UNSUPPORTED_VERSION."""
    for topic in response.topics:
        for partition in topic.partitions:
            partition.error_code = OLDER_CODES.get(partition.error_code, partition.error_code)
    return response
