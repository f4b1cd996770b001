"""Was a missing member removed because the coordinator, or the network, was away? Pure.

A coordinator that stood still ends all sessions at once when it goes on. A coordinator that was started again gives
each member a new session. It ends this session if the member does not come back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple


class Span(NamedTuple):
    """A time in which no group of the cluster gave a sign of life."""

    from_ms: int
    until_ms: int
    is_frozen: bool
    """Whether the coordinator stood still, and went on: several groups lost members at the end, at once."""


_THAWED_MS: Final = 1_000
"""A coordinator that goes on ends old sessions within this time."""
_LATE_MS: Final = 4_000
"""A new session begins at most this much earlier or later than the first sign of life of a group."""


def removal(silences: Iterable[Span], since_ms: int, heard_ms: int, gone_ms: int, session_ms: int) -> int | None:
    """When a silence ended the session of a member; None: it did not.

    `since_ms`: when the member was there for the first time. `heard_ms`: its last sign of life. `gone_ms`: when the
    group knew that it is missing.
    """
    for from_ms, until_ms, is_frozen in silences:
        if since_ms > from_ms or until_ms - from_ms < session_ms:
            continue
        if is_frozen and abs(gone_ms - until_ms) <= _THAWED_MS:
            return min(until_ms, gone_ms)
        if heard_ms <= from_ms and abs(gone_ms - until_ms - session_ms) <= _LATE_MS:
            return min(until_ms + session_ms, gone_ms)
    return None


def is_too_soon(silences: Iterable[Span], heard_ms: int, gone_ms: int, session_ms: int) -> bool:
    """Was a member missing so soon after a silence that no session of it can have ended?

    After a silence, a coordinator that did not stand still gives each member a new session.
    """
    return any(
        heard_ms <= from_ms and until_ms <= gone_ms < until_ms + session_ms - _LATE_MS and not is_frozen
        for from_ms, until_ms, is_frozen in silences
    )
