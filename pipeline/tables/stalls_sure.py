"""Does a partition stand still around a silence, though producers may have been late, and members too? Pure.

After the broker's absence, producers send old records, and members need some time until they are back. So only records
that producers surely sent in time count (`sources.sent`), and not the time in which members come back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from muster.pipeline.episodes.silence import Silence, silent_ms
from muster.pipeline.episodes.thresholds import BACK_MS, FAR_SHARE, SETTLE_MS
from muster.pipeline.tables.stall_candidates import BESIDE_MS, SPAN_MS

_GAPS: Final = 3
"""An owner that is silent for this many of its usual times between two commits, though records wait, stands still."""

Row = Mapping[str, Any]


def surely_waited(one: Row, silences: Sequence[Silence]) -> bool:
    """Did an owner that kept up surely leave records unread for SETTLE_MS, not counting silences?

    For a partition that stood still before a silence too, BESIDE_MS are enough.
    """
    if one["surely_ms"] is None or not _kept_up(one):
        return False
    away = [each._replace(until_ms=each.until_ms + BACK_MS) for each in silences]
    from_ms, to_ms = max(one["from_ms"], one["surely_ms"]), one["to_ms"]
    length_ms = to_ms - from_ms - silent_ms(away, from_ms, to_ms)
    return bool(length_ms >= (BESIDE_MS if stood_before(one, silences) else SETTLE_MS))


def stood_before(one: Row, silences: Sequence[Silence], mean_ms: float = 0) -> bool:
    """Did the partition surely stand still when a silence began, and after it, too?

    `mean_ms`: the usual time between two commits.
    """
    if one["surely_ms"] is None or not _kept_up(one):
        return False
    from_ms, least_ms = max(one["from_ms"], one["surely_ms"]), max(SPAN_MS, _GAPS * mean_ms)
    return any(each.from_ms - from_ms >= least_ms and each.until_ms < one["to_ms"] for each in silences)


def _kept_up(one: Row) -> bool:
    """Had the owner read nearly all records when it committed? If it was behind, it may read a large batch now."""
    if one["known_end"] is None or one["end_then"] is None:
        return False
    before, after = one["end_then"] - one["committed_offset"], one["known_end"] - one["committed_offset"]
    return bool(FAR_SHARE * before <= after)
