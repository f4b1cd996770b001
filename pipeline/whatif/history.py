"""The history of one group: its members over time, its rebalances, and their generations.

`from_events`, `from_log` and `from_epochs` make it; times are wall-clock ms. `schedule` decides which facts came from
outside of the group.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from muster.pipeline.defaults import EPOCH_SESSION_MS, INITIAL_DELAY_MS
from muster.pipeline.episodes.thresholds import FORM_MS, SECOND_ROUND_MS, STOP_MS

FAR: Final = 2**60
"""A time (ms) that is never reached."""
EVENTS: Final = "events"
LOG: Final = "log"
"""`History.source`: `__group_events`, or the offsets log alone."""

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
"""`History.protocol`: of the group, in Kafka's words."""

LEFT: Final = "left"
EXPIRED: Final = "expired"
JOIN_TIMEOUT: Final = "join_timeout"
SYNC_TIMEOUT: Final = "sync_timeout"
REPLACED: Final = "replaced"
"""How a stay ends."""

COMPLETED: Final = "completed"
FAILED: Final = "failed"
EMPTIED: Final = "emptied"
"""How a round ends."""

BEFORE: Final = 0
AFTER: Final = 2
"""Ranks of facts in one ms: before what members do by themselves (rank 1), or after it."""

Owned = Mapping[str, Sequence[int]]
"""Partitions by topic."""

CLIENT: Final = ("client_id", "host", "session_timeout_ms", "rebalance_timeout_ms")
"""The facts of a member that events, records and a `Stay` have under the same names, in its order."""


class Offer(NamedTuple):
    """One strategy that a member offers, with its subscription."""

    name: str
    topics: tuple[str, ...]


Offers = tuple[Offer, ...]
"""The most wanted strategy first."""


@dataclass(slots=True)
class Stay:
    """One member id, from its JoinGroup until it is no member any more."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    joined_ms: int | None = None
    """None: it was a member before the history began."""
    joined_rank: int = BEFORE
    asked_ms: int | None = None
    """When it requested its id, if that delayed a rebalance (KIP-394)."""
    remembers: bool = False
    """Its first JoinGroup had partitions: the process had been a member before, under another id."""
    offers: list[tuple[int, Offers]] = field(default_factory=list)
    """What it offers from when on."""
    end: str | None = None
    end_ms: int | None = None
    end_rank: int = BEFORE
    heard_ms: int | None = None
    """The last sign of life of a member that expired, or of a static member before it was replaced."""
    reason: str | None = None
    """Its own words when it left."""

    def offered(self, ms: int) -> Offers:
        """What it offers at a time."""
        found = self.offers[0][1] if self.offers else ()
        for since_ms, offers in self.offers:
            if since_ms <= ms:
                found = offers
        return found


@dataclass(slots=True)
class Round:
    """One rebalance, failed ones too: who joined and synced when."""

    began_ms: int
    cause: str
    trigger: str | None
    """The id of the member that caused the rebalance."""
    joins: dict[str, int] = field(default_factory=dict)
    syncs: dict[str, int] = field(default_factory=dict)
    ended_ms: int = FAR
    joined_ms: int | None = None
    """When its join phase ended."""
    outcome: str | None = None


class Generation(NamedTuple):
    """One generation that got its assignment."""

    number: int
    start_ms: int
    protocol: str
    leader: str | None
    shares: Mapping[str, Owned]
    """What each member got, by its id, in the order of the group."""
    stopped_ms: int
    """Since when its members were without work, failed rebalances included."""


class Rejoin(NamedTuple):
    """A member joined again and so began a rebalance."""

    ms: int
    member_id: str | None
    """None: the leader."""
    rank: int


class Refusal(NamedTuple):
    """A client got the error that it is no member any more: it was alive."""

    ms: int
    client_id: str
    host: str


class Incident(NamedTuple):
    """An incident in a KIP-848 group that costs: a method of `costs.EpochCosts`, and its arguments."""

    ms: int
    what: str
    who: str = ""
    place: tuple[str, int] | None = None
    paused_ms: int | None = None


@dataclass(slots=True)
class History:
    """One group's."""

    group: str
    source: str
    protocol: str = CLASSIC
    first_generation: int = 0
    """The number of the generation with which it begins."""
    given: Generation | None = None
    """The current generation when the history begins; None: the group is empty then."""
    start_ms: int = 0
    last_ms: int = 0
    """When the last known event happened."""
    end_ms: int = 0
    """The end of the log: nothing happened in between."""
    stays: list[Stay] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    generations: list[Generation] = field(default_factory=list)
    """After `given`, in their order."""
    open_ms: int | None = None
    """Since when a rebalance lasts that has not ended when the log does."""
    emptied: list[int] = field(default_factory=list)
    """When a rebalance ended without members."""
    rejoins: list[Rejoin] = field(default_factory=list)
    counts: list[tuple[int, dict[str, int]]] = field(default_factory=list)
    """Partition counts of topics, from when on."""
    deleted: list[int] = field(default_factory=list)
    """When the group was deleted."""
    incidents: list[Incident] = field(default_factory=list)
    """Incidents of a KIP-848 group."""
    session_ms: int = EPOCH_SESSION_MS
    """The session timeout, if it is or was a KIP-848 group: the server decides it."""
    assignor: str | None = None
    """The strategy that most members of a KIP-848 group request; None: they leave it to the server."""
    overtaken: set[int] = field(default_factory=set)
    """Epochs that another epoch followed before all members had reached them; in a replay they may."""
    beats: dict[str, list[int]] = field(default_factory=dict)
    """By member id: when heartbeats came that changed what it has. Of a KIP-848 group."""
    refusals: list[Refusal] = field(default_factory=list)
    initial_delay_ms: int = INITIAL_DELAY_MS
    max_size: int = 2**31 - 1
    note: str | None = None
    """A remark about a history that can be replayed."""
    unusable: str | None = None
    """Why the history cannot be replayed, in a sentence."""


def with_assigned(counts: Mapping[str, int], shares: Mapping[str, Owned]) -> dict[str, int]:
    """Partition counts of topics that include all assigned partitions, which may be the only evidence."""
    found = dict(counts)
    for owned in shares.values():
        for topic, partitions in owned.items():
            if partitions:
                found[topic] = max(found.get(topic, 0), max(partitions) + 1)
    return found


def has_less(before: Owned, after: Owned) -> bool:
    """Did the member lose some partition?"""
    return any(set(partitions) - set(after.get(topic, ())) for topic, partitions in before.items())


_LATE_MS = 1_000
"""A rebalance begins so long after the join, or departure, that caused it."""

Period = tuple[int, int]
"""From when to when (ms)."""


def planned(history: History) -> frozenset[int]:
    """The rebalances of formations and of stops on purpose, as places in `History.generations`.

    They are no trouble, and nothing is to spare there. Each join of a newly formed group begins its own rebalance,
    unless an empty group waits for more members. So does each departure from a group that is being stopped, and each
    change in a KIP-848 group.
    """
    spans = [*_formations(history), *_stops(history)]
    found: set[int] = set()
    for number, one in enumerate(history.generations):
        before = history.generations[number - 1] if number else None
        # the second round of a cooperative strategy
        continues = (
            before is not None
            and number - 1 in found
            and before.shares.keys() == one.shares.keys()
            and one.stopped_ms - before.start_ms <= SECOND_ROUND_MS
        )
        if continues or any(from_ms <= one.stopped_ms <= until_ms + _LATE_MS for from_ms, until_ms in spans):
            found.add(number)
    return frozenset(found)


def _formations(history: History) -> Iterator[Period]:
    """From when a member joins an empty group, as long as others join soon after each other and nobody leaves."""
    came = sorted(one.joined_ms for one in history.stays if one.joined_ms is not None)
    went = sorted(one.end_ms for one in history.stays if one.end_ms is not None)
    for ms in (*((history.start_ms,) if history.given is None else ()), *history.emptied):
        first = at = bisect_left(came, ms)
        while at + 1 < len(came) and came[at + 1] - came[at] <= FORM_MS and not _between(went, came[at], came[at + 1]):
            at += 1
        if first < len(came):
            yield came[first], came[at]


def _stops(history: History) -> Iterator[Period]:
    """Until the group was empty: since members left one soon after the other, and nobody joined."""
    came = sorted(one.joined_ms for one in history.stays if one.joined_ms is not None)
    went = sorted((one.end_ms, one.end) for one in history.stays if one.end_ms is not None and one.end != REPLACED)
    for ms in history.emptied:
        from_ms = ms
        for end_ms, how in reversed(went[: bisect_right(went, (ms + _LATE_MS, ""))]):
            if how != LEFT or ms - end_ms > STOP_MS or _between(came, end_ms, from_ms):
                break
            from_ms = min(from_ms, end_ms)
        yield from_ms, ms


def _between(times: list[int], since_ms: int, until_ms: int) -> bool:
    return bisect_right(times, since_ms) < bisect_left(times, until_ms)
