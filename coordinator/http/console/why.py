"""Why a group rebalanced at a time: the rebalance that is meant, its cause and its phases in sentences. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from muster.coordinator.history.words import plural, seconds, short, who
from muster.coordinator.http.console.shown_events import is_rebalance, shown
from muster.coordinator.http.console.sources import StoredEvent

MINUTE_MS: Final = 60_000
"""A question names a minute."""
NEAR_MS: Final = 1_800_000
"""A rebalance farther away is not meant."""
LONG_MS: Final = 1_000
"""A shorter phase needs no sentence."""
MAX_NAMED: Final = 5
"""How many of the slowest members have a sentence."""


def why(events: Sequence[StoredEvent], at_ms: int) -> dict[str, Any]:
    """The answer: `id` of the event that ended the rebalance (null: there was none near), and `sentences`."""
    rows = shown(events)
    ends = [number for number, one in enumerate(events) if is_rebalance(one.value)]
    if not ends:
        return {"id": None, "sentences": ["The history has no rebalance of this group near that time."]}
    meant = min(ends, key=lambda number: _distance(events[number].value, at_ms))
    value = events[meant].value
    if _distance(value, at_ms) > NEAR_MS:
        text = "The history has no rebalance of this group within half an hour of that time."
        return {"id": None, "sentences": [text]}
    began_ms = value["time"] - _took(value)
    during = [one.value for one in events[: meant + 1] if began_ms - LONG_MS <= one.value["time"]]
    first = rows[meant]["text"]
    sentences = [f"{first[0].upper()}{first[1:]}.", *_phases(value), *_before(during)]
    return {"id": events[meant].id, "from": began_ms, "until": value["time"], "sentences": sentences}


def _took(value: dict[str, Any]) -> int:
    took: int = value.get("took_ms") or 0
    return took


def _distance(value: dict[str, Any], at_ms: int) -> int:
    """How far the rebalance is from the minute that begins at a time."""
    ended_ms: int = value["time"]
    began_ms = ended_ms - _took(value)
    return max(began_ms - (at_ms + MINUTE_MS), at_ms - ended_ms, 0)


def _phases(value: dict[str, Any]) -> list[str]:
    lines = []
    join_ms, sync_ms = value.get("join_phase_ms") or 0, value.get("sync_phase_ms") or 0
    if join_ms >= LONG_MS:
        last = max(value.get("members") or [{}], key=lambda one: one.get("joined") or 0)
        name = f"; the last to join was {who(last)}" if last.get("joined") else ""
        lines.append(f"Members needed {seconds(join_ms)} to join again{name}.")
    if sync_ms >= LONG_MS:
        lines.append(f"The leader needed {seconds(sync_ms)} for the assignment.")
    slowest = [one for one in value.get("slowest") or [] if (one.get("took_ms") or 0) >= LONG_MS][:MAX_NAMED]
    for one in slowest:
        needed = f"{who(one)} needed {seconds(one['took_ms'])} to reach its target"
        owners = ", ".join(map(short, one["waited_for"])) or "others"
        waited = f", and waited {seconds(one['waited_ms'])} of this time for {owners}" if one["waited_ms"] else ""
        lines.append(f"{needed}{waited}.")
    paused_ms = value.get("paused_partition_ms") or 0
    if paused_ms >= LONG_MS:
        lines.append(f"Moved {value.get('unit', 'partition')}s had no owner for {seconds(paused_ms)}, added up.")
    return [f"{line[0].upper()}{line[1:]}" for line in lines]


def _before(during: Sequence[dict[str, Any]]) -> list[str]:
    joined = sum(one["kind"] == "member_joined" for one in during)
    lost = [one for one in during if one["kind"] in ("member_expired", "member_removed")]
    left = sum(one["kind"] == "member_left" for one in during)
    failed = sum(one["kind"] == "rebalance_failed" for one in during)
    parts = [f"{plural(joined, 'member')} joined"] if joined else []
    parts += [f"{plural(left, 'member')} left"] if left else []
    parts += [f"{plural(len(lost), 'member')} {'was' if len(lost) == 1 else 'were'} removed"] if lost else []
    lines = [f"Meanwhile {', '.join(parts)}."] if parts else []
    if failed:
        lines.append(f"{plural(failed, 'rebalance')} before it did not complete.")
    return lines
