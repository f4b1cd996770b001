"""The partitions of each process of a group over time, as lanes of a picture. Pure.

A process is known by its instance id, or else by client id and host. So a consumer that comes back under a new member
id goes on in its lane. Processes with the same client id and host at the same time get a lane each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from muster.pipeline.report.formatting import who


class Share(NamedTuple):
    """What one member had in one generation."""

    generation: int
    start_ms: int
    end_ms: int
    member_id: str
    instance_id: str | None
    client_id: str | None
    host: str | None
    partitions: int
    assigned: str
    """The partitions in words, shortened."""


@dataclass(slots=True)
class Lane:
    """One process."""

    name: str
    stretches: list[Share] = field(default_factory=list)
    """Times in which it had the same partitions, one after the other."""


def share_of(row: Mapping[str, Any], until_ms: int) -> Share:
    """A member of a generation as `select` has it; a generation that still holds ends at `until_ms`."""
    end_ms = until_ms if row["end_ms"] is None else row["end_ms"]
    return Share(
        row["generation"],
        row["start_ms"],
        max(end_ms, row["start_ms"]),
        row["member_id"],
        row["instance_id"],
        row["client_id"],
        row["host"],
        row["partitions"] or 0,
        assigned_words(row["assigned"], row["partitions"] or 0),
    )


def assigned_words(assigned: Iterable[Mapping[str, Any]] | None, total: int) -> str:
    """`orders 0-3, 7; payments 1`, and how many more there are."""
    told, count = [], 0
    for topic in assigned or ():
        numbers = sorted(topic["partitions"])
        count += len(numbers)
        told.append(f"{topic['topic']} {_ranges(numbers)}")
    text = "; ".join(told)
    return f"{text}; {total - count} more" if total > count else text


def _ranges(numbers: Sequence[int]) -> str:
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in parts)


def lanes_of(shares: Iterable[Share]) -> list[Lane]:
    """The lanes, in the order in which their processes appear."""
    found: dict[str, list[Lane]] = {}
    for share in sorted(shares, key=_order):
        name = who(share.client_id, share.host, share.instance_id, share.member_id)
        same = found.setdefault(name, [])
        lane = _lane_for(share, same)
        if lane is None:
            lane = Lane(name)
            same.append(lane)
        _add(lane, share)
    return [lane for same in found.values() for lane in same]


def _order(share: Share) -> tuple[int, int, list[tuple[int, str]], str]:
    """As they appear; those of one generation by name, web-2 before web-10."""
    parts = _DIGITS.findall(share.client_id or "")
    return share.start_ms, share.generation, [(len(one) if one.isdigit() else 0, one) for one in parts], share.member_id


_DIGITS: Final = re.compile("[0-9]+|[^0-9]+")


def _lane_for(share: Share, same: Sequence[Lane]) -> Lane | None:
    for lane in same:
        if lane.stretches[-1].member_id == share.member_id:
            return lane
    return next((lane for lane in same if lane.stretches[-1].end_ms <= share.start_ms), None)


def _add(lane: Lane, share: Share) -> None:
    last = lane.stretches[-1] if lane.stretches else None
    if last is not None and last.end_ms >= share.start_ms:
        if (last.member_id, last.assigned, last.partitions) == (share.member_id, share.assigned, share.partitions):
            lane.stretches[-1] = last._replace(end_ms=share.end_ms)
            return
        lane.stretches[-1] = last._replace(end_ms=share.start_ms)
    lane.stretches.append(share)
