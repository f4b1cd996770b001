"""The history of one group: its members over time, its rebalances, and their generations.

`from_events`, `from_log` and `from_epochs` make it. Times are wall-clock ms. `schedule` decides which facts came from
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
"""The values of `History.source`: `__group_events`, or the offsets log alone."""

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
"""The values of `History.protocol`, the protocol of the group in Kafka's words."""

LEFT: Final = "left"
EXPIRED: Final = "expired"
JOIN_TIMEOUT: Final = "join_timeout"
SYNC_TIMEOUT: Final = "sync_timeout"
REPLACED: Final = "replaced"
"""The ways in which a stay ends."""

COMPLETED: Final = "completed"
FAILED: Final = "failed"
EMPTIED: Final = "emptied"
"""The ways in which a round ends."""

BEFORE: Final = 0
AFTER: Final = 2
"""The ranks of facts in one ms: before what members do by themselves (rank 1), or after it."""

Owned = Mapping[str, Sequence[int]]
"""Partitions by the names of their topics."""

CLIENT: Final = ("client_id", "host", "session_timeout_ms", "rebalance_timeout_ms")
"""The facts of a member that events, records and a `Stay` have under the same names."""


class Offer(NamedTuple):
    """A strategy that a member offers, with its subscription."""

    name: str
    topics: tuple[str, ...]


Offers = tuple[Offer, ...]
"""The strategies that a member offers, the most wanted one first."""


@dataclass(slots=True)
class Stay:
    """The time of one member id, from its first JoinGroup until its end in the group."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    joined_ms: int | None = None
    """When the member joined; None: it was a member before the history began."""
    joined_rank: int = BEFORE
    asked_ms: int | None = None
    """When the member requested its id, if that request delayed a rebalance (KIP-394)."""
    remembers: bool = False
    """Whether the first JoinGroup had partitions. Then the process had been a member before, under another id."""
    offers: list[tuple[int, Offers]] = field(default_factory=list)
    """What the member offers, and from when on."""
    end: str | None = None
    end_ms: int | None = None
    end_rank: int = BEFORE
    heard_ms: int | None = None
    """The last sign of life of a member that expired, or of a static member before it was replaced."""
    reason: str | None = None
    """The member's own reason for leaving."""

    def offered(self, ms: int) -> Offers:
        """What the member offers at the time `ms`."""
        found = self.offers[0][1] if self.offers else ()
        for since_ms, offers in self.offers:
            if since_ms <= ms:
                found = offers
        return found


@dataclass(slots=True)
class Round:
    """A rebalance, which may have failed: which members joined and synced, and when."""

    began_ms: int
    cause: str
    trigger: str | None
    """The id of the member that caused the rebalance."""
    joins: dict[str, int] = field(default_factory=dict)
    syncs: dict[str, int] = field(default_factory=dict)
    ended_ms: int = FAR
    joined_ms: int | None = None
    """When the join phase ended."""
    outcome: str | None = None


class Generation(NamedTuple):
    """A generation that got its assignment."""

    number: int
    start_ms: int
    protocol: str
    leader: str | None
    shares: Mapping[str, Owned]
    """The partitions that each member got, by member id, in the order of the group."""
    stopped_ms: int
    """Since when the members were without work. Failed rebalances before count too."""


class Rejoin(NamedTuple):
    """A member joined again by itself, and so began a rebalance."""

    ms: int
    member_id: str | None
    """The id of the member; None: the leader."""
    rank: int


class Refusal(NamedTuple):
    """A client got the error that it is no member any more. So its process was alive."""

    ms: int
    client_id: str
    host: str


class Incident(NamedTuple):
    """An incident in a KIP-848 group that costs: the name of a method of `costs.EpochCosts`, and its arguments."""

    ms: int
    what: str
    who: str = ""
    place: tuple[str, int] | None = None
    paused_ms: int | None = None


@dataclass(slots=True)
class History:
    """The history of one group."""

    group: str
    source: str
    protocol: str = CLASSIC
    first_generation: int = 0
    """The number of the generation with which the history begins."""
    given: Generation | None = None
    """The current generation when the history begins; None: the group is empty at that time."""
    start_ms: int = 0
    last_ms: int = 0
    """The time of the last known event."""
    end_ms: int = 0
    """The end of the log. Nothing happened between the last event and this time."""
    stays: list[Stay] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    generations: list[Generation] = field(default_factory=list)
    """The generations after `given`, in their order."""
    open_ms: int | None = None
    """When the last rebalance began, if it had not ended at the end of the log."""
    emptied: list[int] = field(default_factory=list)
    """The times at which a rebalance ended without members."""
    rejoins: list[Rejoin] = field(default_factory=list)
    counts: list[tuple[int, dict[str, int]]] = field(default_factory=list)
    """The numbers of partitions of topics, and from when on."""
    away: list[tuple[int, int]] = field(default_factory=list)
    """The times (from, until) without a sign of life of any group of the cluster."""
    deleted: list[int] = field(default_factory=list)
    """The times at which the group was deleted."""
    incidents: list[Incident] = field(default_factory=list)
    """Incidents of a KIP-848 group."""
    session_ms: int = EPOCH_SESSION_MS
    """The session timeout, if the group is or was a KIP-848 group: the server decides it."""
    assignor: str | None = None
    """The strategy that most members of a KIP-848 group request; None: they request none, and the server decides."""
    overtaken: set[int] = field(default_factory=set)
    """Epochs that another epoch followed before all members had reached them. In a replay, all may reach them."""
    beats: dict[str, list[int]] = field(default_factory=dict)
    """For each member id of a KIP-848 group: the times of those heartbeats that changed its partitions."""
    refusals: list[Refusal] = field(default_factory=list)
    initial_delay_ms: int = INITIAL_DELAY_MS
    max_size: int = 2**31 - 1
    note: str | None = None
    """A remark about a history that can be replayed."""
    unusable: str | None = None
    """Why the history cannot be replayed, in a sentence."""


def with_assigned(counts: Mapping[str, int], shares: Mapping[str, Owned]) -> dict[str, int]:
    """The numbers of partitions of topics, including all assigned partitions, which may be the only evidence."""
    found = dict(counts)
    for owned in shares.values():
        for topic, partitions in owned.items():
            if partitions:
                found[topic] = max(found.get(topic, 0), max(partitions) + 1)
    return found


def has_less(before: Owned, after: Owned) -> bool:
    """Whether the member lost a partition."""
    return any(set(partitions) - set(after.get(topic, ())) for topic, partitions in before.items())


_LATE_MS = 1_000
"""A rebalance begins at most this long after the join, or the departure, that caused it."""

Period = tuple[int, int]
"""A period: its start and its end (ms)."""


def planned(history: History) -> frozenset[int]:
    """The rebalances of formations and of stops on purpose, as indexes in `History.generations`.

    These rebalances are no trouble, and no setting is to spare them. Each join of a newly formed group begins its own
    rebalance, unless an empty group waits for more members. So does each departure from a group that is being stopped,
    and each change in a KIP-848 group.
    """
    spans = [*_formations(history), *_stops(history)]
    found: set[int] = set()
    for number, one in enumerate(history.generations):
        before = history.generations[number - 1] if number else None
        # this generation may be the second round of a planned cooperative rebalance
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
    """The times of formations. A member joins an empty group, and others join soon after, while nobody leaves."""
    came = sorted(one.joined_ms for one in history.stays if one.joined_ms is not None)
    went = sorted(one.end_ms for one in history.stays if one.end_ms is not None)
    for ms in (*((history.start_ms,) if history.given is None else ()), *history.emptied):
        first = at = bisect_left(came, ms)
        while at + 1 < len(came) and came[at + 1] - came[at] <= FORM_MS and not _between(went, came[at], came[at + 1]):
            at += 1
        if first < len(came):
            yield came[first], came[at]


def _stops(history: History) -> Iterator[Period]:
    """The times of stops. Members leave one soon after the other, and nobody joins, until the group is empty."""
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
