"""Finds members of one group that read different topics: two applications perhaps share one group id. Pure.

Each rebalance of one of them then stops the other one too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from muster.pipeline.episodes import thresholds as limits

Subscriptions = Sequence[tuple[str, frozenset[str]]]
"""The client id and the topics of each member of a generation."""


class Application(NamedTuple):
    """Members of a group that share topics with each other, but not with the other members."""

    topics: tuple[str, ...]
    clients: tuple[str, ...]


class Together(NamedTuple):
    """The time in which several applications were in one group."""

    from_ms: int
    until_ms: int
    applications: tuple[Application, ...]
    is_sure: bool = True
    """Whether they were together for longer than a deploy overlaps."""


def applications(members: Subscriptions) -> list[Application]:
    """The applications of a generation, the one with the most members first."""
    parts: list[tuple[frozenset[str], list[str]]] = []
    for client, topics in members:
        if not topics:
            continue
        same = [part for part in parts if part[0] & topics]
        parts = [part for part in parts if not part[0] & topics]
        names = [name for part in same for name in part[1]]
        parts.append((topics.union(*(part[0] for part in same)), [*names, client]))
    parts.sort(key=lambda part: (-len(part[1]), sorted(part[0])))
    return [Application(tuple(sorted(topics)), tuple(dict.fromkeys(clients))) for topics, clients in parts]


def together(generations: Iterable[tuple[int, int, Subscriptions]], log_end_ms: int | None = None) -> Together | None:
    """The time in which two or more applications were in the group, or None.

    `generations`: start, end and members of each generation. A deploy that changes the topics of an application has
    such generations too. So the time must be longer than a deploy overlaps. At the end of the log, nobody knows yet how
    long it will be.
    """
    mixed = [(start_ms, end_ms, some) for start_ms, end_ms, members in generations
             if len(some := applications(members)) > 1]  # fmt: skip
    together_ms = sum(end_ms - start_ms for start_ms, end_ms, _ in mixed)
    is_sure = together_ms > limits.OVERLAP_MS
    if not is_sure and (together_ms < limits.MIXED_MS or max(end_ms for _, end_ms, _ in mixed) != log_end_ms):
        return None
    *_, (_, until_ms, last) = sorted(mixed, key=lambda one: one[0])
    return Together(min(one[0] for one in mixed), until_ms, tuple(last), is_sure)
