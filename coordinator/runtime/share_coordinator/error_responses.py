"""The answers of a share coordinator that cannot decide. (For groups: `group_coordinator.error_responses`.)"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from muster.coordinator.share_state.persister import (
    DeleteState,
    InitializeState,
    LoadedState,
    ReadState,
    ReadSummary,
    StateResponse,
    Summary,
    WriteState,
)
from muster.coordinator.share_state.state import LogPosition
from muster.protocol.errors import error_message
from muster.protocol.message import Message

_MAKERS: Final[dict[type, Callable[[int, str], StateResponse]]] = {
    InitializeState: StateResponse,
    ReadState: LoadedState,
    WriteState: StateResponse,
    DeleteState: StateResponse,
    ReadSummary: Summary,
    StateResponse: StateResponse,
    LoadedState: LoadedState,
    Summary: Summary,
    # This reply would delete records before a place in the log. Nothing may be deleted: the log is not durable.
    LogPosition: StateResponse,
}


def refuse(request: Message, error_code: int, why: Exception | None = None) -> StateResponse:
    """The answer to `request` with only `error_code`, and `why` as its text. Raises KeyError for unknown requests."""
    return _MAKERS[type(request)](error_code, str(why or error_message(error_code)))


def with_error(response: Message, error_code: int) -> Message:
    """The answer instead of `response` when its records were not written: an earlier error in `response` stays."""
    if isinstance(response, StateResponse) and response.error_code:
        return response
    return refuse(response, error_code)
