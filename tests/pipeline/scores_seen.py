"""What of a truth the log shows: a script may ask a client for something that this client does not do.

On a busy machine a member gets a line late, or loses its partition before that. Then the truth would call a partition
stalled that goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

Row = Mapping[str, Any]

EDGE: Final = 0.15
"""This share of a stall, at its start and at its end, does not count: the member may get its line late."""
MOVES: Final = 3
"""A partition with so many different offsets between did not stall."""
TOGETHER_MS: Final = 60_000
"""Two applications must be members of one generation for at least this long."""
UNSEEN: Final = "unseen"
"""What an incident is called that the log does not show: nobody knows whether the group is fine."""


def seen(truth: Iterable[Row], commits: Sequence[Row], generations: Sequence[Row]) -> list[dict[str, Any]]:
    """The truth, without stalls whose partitions went on. Two applications that never met are called UNSEEN."""
    found = []
    for line in map(dict, truth):
        if line["kind"] == "stall":
            line["partitions"] = [one for one in line["partitions"] if not _went_on(line, one, commits)]
            if not line["partitions"]:
                continue
        elif line["kind"] == "incident" and line["what"] == "poison" and _went_on(line, line["partition"], commits):
            continue
        elif line["kind"] == "incident" and line["what"] == "two_topics" and not _met(line, generations):
            line["what"] = UNSEEN
        found.append(line)
    return found


def _went_on(line: Row, partition: int, commits: Iterable[Row]) -> bool:
    edge_ms = EDGE * (line["until"] - line["from"])
    offsets = {
        one["committed_offset"] for one in commits
        if (one["group"], one["topic"], one["partition"]) == (line["group"], line["topic"], partition)
        and line["from"] + edge_ms <= one["time_ms"] <= line["until"] - edge_ms
    }  # fmt: skip
    return len(offsets) >= MOVES


def _met(line: Row, generations: Iterable[Row]) -> bool:
    together_ms = 0
    for one in generations:
        topics = {topic for member in one["members"] or () for topic in member["topics"] or ()}
        if one["group"] == line["group"] and len(topics & set(line["topics"])) > 1:
            together_ms += (line["until"] if one["end_ms"] is None else one["end_ms"]) - one["start_ms"]
    return together_ms >= TOGETHER_MS
