"""What the errors of a share partition's persister mean for its clients and for the partition."""

from __future__ import annotations

from typing import Final

from muster.coordinator.share.acknowledge import Refusal
from muster.coordinator.share_state.persister import StateResponse
from muster.protocol.errors import ErrorCode

_NOT_AVAILABLE: Final = frozenset(
    (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
)
_FENCED: Final = frozenset((ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH))
_AS_THEY_ARE: Final = frozenset((ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
_HIDDEN: Final = frozenset((ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.UNSUPPORTED_VERSION))
_HIDDEN_TEXT: Final = "Unable to complete operation due to server error."
CLOSING: Final = frozenset((ErrorCode.NOT_LEADER_OR_FOLLOWER, *_AS_THEY_ARE))
"""With these errors of the persister, the share partition is closed, and loaded again when it is needed."""


def refusal_of(response: StateResponse) -> Refusal:
    """The refusal that clients get for an error of the persister (Kafka: SharePartition.fetchPersisterError)."""
    code, text = response.error_code, response.error_message or ""
    if code in _NOT_AVAILABLE:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    elif code in _FENCED:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    elif code in _HIDDEN:
        code, text = ErrorCode.UNKNOWN_SERVER_ERROR, _HIDDEN_TEXT
    elif code not in _AS_THEY_ARE:
        code = ErrorCode.UNKNOWN_SERVER_ERROR
    return Refusal(code, text)
