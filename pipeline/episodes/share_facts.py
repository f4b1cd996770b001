"""What the tables show about the deliveries of a share group: the input of `share_trouble`. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from muster.pipeline.episodes.thresholds import LOOPS

Place = tuple[str, int]
"""A topic and the number of a partition."""


class Delivery(NamedTuple):
    """Records with one outcome: a row of the table `deliveries`."""

    topic: str
    partition: int
    outcome: str
    deliveries: int
    records: int
    first_offset: int
    from_ms: int
    until_ms: int
    moments: int
    """At how many moments deliveries ended without an acceptance."""
    held_ms: int | None = None
    """At least this long a member held some of them before it gave them back."""
    ends: Sequence[int] = ()
    """The first of these moments."""
    locks_over: int | None = None
    """How often a lock on some of them was over, as events say. None: not known."""

    @property
    def place(self) -> Place:
        """The topic and the number of the partition."""
        return self.topic, self.partition

    @property
    def name(self) -> str:
        """The name of the partition, as in `orders-3`."""
        return f"{self.topic}-{self.partition}"


class SharePartition(NamedTuple):
    """A partition of the group: a row of the table `share_partitions`."""

    topic: str
    partition: int
    accepted: int
    archived: int
    lag: int | None
    first_ms: int
    changed_ms: int | None
    """When a delivery ended for the last time."""
    done_ms: int | None
    """When a record was accepted or archived for the last time."""
    idle_from_ms: int | None = None
    idle_until_ms: int | None = None
    """The longest time before in which no record was accepted or archived."""

    @property
    def name(self) -> str:
        """The name of the partition, as in `orders-3`."""
        return f"{self.topic}-{self.partition}"

    @property
    def fails(self) -> bool:
        """Were most records archived, and several?"""
        return self.archived >= max(LOOPS, self.accepted)

    def idle(self, end_ms: int) -> list[tuple[int, int]]:
        """The last time in which no record was done (to the end of the log), and the longest one before."""
        found = [(self.first_ms if self.done_ms is None else self.done_ms, end_ms)]
        if self.idle_from_ms is not None and self.idle_until_ms is not None:
            found.append((self.idle_from_ms, self.idle_until_ms))
        return found


class ShareStep(NamedTuple):
    """What happened in a short time: a row of the table `share_progress`."""

    start_ms: int
    until_ms: int
    accepted: int
    archived: int

    @property
    def fails(self) -> bool:
        """Were most records archived, and several?"""
        return self.archived >= max(LOOPS, self.accepted)


class Hold(NamedTuple):
    """A time in which a member had a partition: a row of the table `ownership`."""

    topic: str
    partition: int
    member_id: str
    client: str | None
    from_ms: int
    until_ms: int | None
    """None means that it still has the partition."""

    @property
    def name(self) -> str:
        """The name of the partition, as in `orders-3`."""
        return f"{self.topic}-{self.partition}"


class Shares(NamedTuple):
    """The facts about one share group. Other groups have none."""

    deliveries: Sequence[Delivery] = ()
    partitions: Sequence[SharePartition] = ()
    steps: Sequence[ShareStep] = ()
    holds: Sequence[Hold] = ()

    def done(self, from_ms: int, until_ms: int) -> ShareStep:
        """What happened in the steps that this time touches, together."""
        some = [one for one in self.steps if one.start_ms <= until_ms and one.until_ms > from_ms]
        return ShareStep(
            min((one.start_ms for one in some), default=from_ms),
            max((one.until_ms for one in some), default=until_ms),
            sum(one.accepted for one in some),
            sum(one.archived for one in some),
        )


NO_SHARES = Shares()
