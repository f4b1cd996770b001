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
BACK_MS: Final = 10_000
"""After the broker's absence, members need some time until they are back."""
LATE_MS: Final = 20_000
"""A script writes down the end of a stall at most this long after it has let the partition go."""
SHOWN_MS: Final = 40_000
"""A stall that the log shows for a shorter time counts for nothing. While the broker is away, a log shows nothing."""
SLEEP: Final = "sleep"
"""How a stall is called that ends by itself: the member did not poll for some time."""
UNSEEN: Final = "unseen"
"""What an incident is called that the log does not show: nobody knows whether the group is fine."""


def seen(truth: Sequence[Row], commits: Sequence[Row], generations: Sequence[Row]) -> list[dict[str, Any]]:
    """The truth, without stalls whose partitions went on, or that the log hardly shows.

    Two applications that never met are called UNSEEN. So are records that a member skipped which keeps up: the log
    shows the same if it reads them.
    """
    found = []
    silences = list[tuple[int, int]]()
    for since, until in sorted((line["from"], line["until"]) for line in truth if line["kind"] == "silence"):
        silences.append((max([since, *(one[1] for one in silences)]), until))  # one silence may lie in another one
    for line in map(dict, truth):
        is_stuck = line["kind"] == "stall" or (line["kind"] == "incident" and line["what"] == "poison")
        if is_stuck and _shown_ms(line, _until(line, truth), silences) < SHOWN_MS:
            continue
        if line["kind"] == "incident" and line["what"] == "skip" and line["members"] and not line.get("shown"):
            line["what"] = UNSEEN
        elif line["kind"] == "stall":
            line["partitions"] = [one for one in line["partitions"] if not _went_on(line, one, commits)]
            if not line["partitions"]:
                continue
        elif line["kind"] == "incident" and line["what"] == "poison" and _went_on(line, line["partition"], commits):
            continue
        elif line["kind"] == "incident" and line["what"] == "two_topics" and not _met(line, generations):
            line["what"] = UNSEEN
        found.append(line)
    return found


def _until(line: Row, truth: Iterable[Row]) -> int:
    """When a stall ended: if nobody let the partition go, it lasted to the end of the log."""
    if line.get("how") == SLEEP:
        return int(line["until"])
    some = {str(one) for one in line.get("partitions", [line.get("partition")])}
    gone = any(
        one["kind"] == "act" and one["what"] == "go" and one["group"] == line["group"]
        and one["line"].split()[1] in some and one["at"] >= line["until"] - LATE_MS
        for one in truth
    )  # fmt: skip
    return int(line["until"]) if gone else max(one.get("until") or one.get("at") or 0 for one in truth)


def _shown_ms(line: Row, until_ms: int, silences: Iterable[tuple[int, int]]) -> int:
    """How long a stall lasted while the broker was there, and the group was whole again."""
    away_ms = sum(max(min(until + BACK_MS, until_ms) - max(since, line["from"]), 0) for since, until in silences
                  if until > since)  # fmt: skip
    return until_ms - int(line["from"]) - away_ms


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
