"""The groups as they are now, with lag and rates: what the console and `muster top` show. Pure.

`LiveGroups.take` reads the rows of `kafka_metrics` again and again. The rates are those of the last minute.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from muster.coordinator.http.kafka_metrics import GroupRow, TopicRow
from muster.coordinator.system.jobs import Job

ROWS_AT_ONCE: Final = 100
"""How many partitions or groups one step looks at."""
SAMPLES: Final = 30
"""How many samples of each group are kept, for its sparkline. Samples in a row that are equal count as two."""
RATE_MS: Final = 60_000
"""The rates are those of this time."""
GROWS_SAMPLES: Final = 3
"""A lag grows by at least this many samples."""
STUCK_MS: Final = 15_000
"""A group that commits nothing for this long, while records wait, is stuck."""
RESTING: Final = frozenset(("Stable", "Empty", "Dead", ""))
"""The states in which a group waits for no member."""


class Sample(NamedTuple):
    """A group, or a topic of a group, at one moment. The offsets are sums over its partitions with a known end."""

    at_ms: int
    committed: int
    end: int
    lag: int


class Rates(NamedTuple):
    """How fast a group reads. None: two samples are needed, or offsets were set back."""

    committed_s: float | None
    """Offsets that were committed in a second."""
    written_s: float | None
    """Records that were written in a second, to the partitions with committed offsets."""

    def catch_up_s(self, lag: int) -> float | None:
        """The seconds until the lag is 0, if both rates stay. None: it does not catch up, or nobody knows."""
        if not lag:
            return 0.0
        if self.committed_s is None or self.written_s is None or self.committed_s <= self.written_s:
            return None
        return lag / (self.committed_s - self.written_s)


UNKNOWN: Final = Rates(None, None)


class LastRebalance(NamedTuple):
    """The last rebalance of a group: its time and its cause in words."""

    at_ms: int
    text: str


class LiveGroup:
    """A group. `samples`: the newest is the last. `topics`: the samples of each topic with committed offsets."""

    __slots__ = (
        "alert",
        "group",
        "kind",
        "last_rebalance",
        "members",
        "partitions",
        "samples",
        "seen",
        "state",
        "topics",
        "unknown",
    )

    def __init__(self, group: str) -> None:
        self.group = group
        self.kind = self.state = ""
        self.members = 0
        self.partitions = 0
        """The number of partitions with committed offsets."""
        self.unknown = 0
        """The number of these partitions whose lag is not known."""
        self.samples: deque[Sample] = deque(maxlen=SAMPLES)
        self.topics: dict[str, Sample] = {}
        self.last_rebalance: LastRebalance | None = None
        """None means that no rebalance was reported yet."""
        self.alert: str | None = None
        """The oldest open alert about the group, in words."""
        self.seen = 0

    def copy(self) -> LiveGroup:
        """The group as it is now, which does not change."""
        other = LiveGroup(self.group)
        other.kind, other.state, other.members, other.partitions = self.kind, self.state, self.members, self.partitions
        other.unknown = self.unknown
        other.samples.extend(self.samples)
        return other

    def add(self, sample: Sample) -> None:
        """Add the newest sample. A third equal one in a row takes the place of the second: most groups are at rest."""
        every = self.samples
        if len(every) > 1 and every[-1][1:] == every[-2][1:] == sample[1:]:
            every[-1] = sample
        else:
            every.append(sample)

    @property
    def lag(self) -> int:
        """The number of records that are not read yet."""
        return self.samples[-1].lag if self.samples else 0

    @property
    def rates(self) -> Rates:
        """The rates of the last minute."""
        return rates_of(self.samples)

    @property
    def grows(self) -> bool:
        """Whether the lag grows: in the second half of the last minute it was always greater than in the first."""
        every = self.samples
        last = [one.lag for one in every if every[-1].at_ms - one.at_ms <= RATE_MS]
        half = len(last) // 2
        return half >= GROWS_SAMPLES and min(last[half:]) > max(last[:half])

    @property
    def is_stuck(self) -> bool:
        """Whether records wait, and nothing was committed for `STUCK_MS`."""
        every = self.samples
        is_seen = len(every) > 1 and every[-1].at_ms - every[0].at_ms >= STUCK_MS
        return bool(self.lag) and is_seen and self.rates.committed_s == 0

    @property
    def lags(self) -> list[int]:
        """The lag of each sample."""
        return [one.lag for one in self.samples]

    @property
    def trouble(self) -> int:
        """4: an alert is open. 3: records wait and nobody reads. 2: a rebalance. 1: the lag grows. 0: none of these."""
        if self.alert is not None:
            return 4
        if self.state not in RESTING:
            return 2
        if not self.lag:
            return 0
        if self.is_stuck and self.members:
            return 3
        return int(self.grows)


def rates_of(samples: Iterable[Sample]) -> Rates:
    """The rates between the newest sample and the oldest one of the minute before it."""
    every = list(samples)
    if len(every) < 2:
        return UNKNOWN
    last = every[-1]
    # equal samples in a row are kept as two, so the minute may have only one
    first = next((one for one in every[:-1] if last.at_ms - one.at_ms <= RATE_MS), every[-2])
    seconds = (last.at_ms - first.at_ms) / 1000
    if seconds <= 0:
        return UNKNOWN
    committed, written = last.committed - first.committed, last.end - first.end
    return Rates(committed / seconds if committed >= 0 else None, written / seconds if written >= 0 else None)


class LiveGroups:
    """All groups of a server or a cluster. `ends`: start and end of each partition by topic, where they are known."""

    def __init__(self) -> None:
        self.groups: dict[str, LiveGroup] = {}
        self.topics: dict[str, TopicRow] = {}
        self.ends: dict[str, dict[int, tuple[int, int]]] = {}
        self.at_ms = 0
        """The time of the newest samples; 0: there are none."""
        self.round = 0
        self._alerted: set[str] = set()

    def take(self, topics: Iterable[TopicRow], groups: Iterable[GroupRow], wall_ms: int) -> Job[None]:
        """Read all rows. `wall_ms`: the present time."""
        self.round += 1
        yield from self._take_topics(topics)
        for number, row in enumerate(groups):
            yield from self._take_group(row, wall_ms)
            if not number % ROWS_AT_ONCE:
                yield None
        for name in [name for name, one in self.groups.items() if one.seen != self.round]:
            del self.groups[name]
        self.at_ms = wall_ms

    def _take_topics(self, topics: Iterable[TopicRow]) -> Job[None]:
        rows: dict[str, TopicRow] = {}
        ends: dict[str, dict[int, tuple[int, int]]] = {}
        for row in topics:
            partitions = []
            of_topic = ends[row.topic] = {}
            for one in row.partitions:
                partitions.append(one)
                if one.end is not None and one.start is not None:
                    of_topic[one.partition] = one.start, one.end
                if not len(partitions) % ROWS_AT_ONCE:
                    yield None
            rows[row.topic] = row._replace(partitions=partitions)
            yield None
        self.topics, self.ends = rows, ends

    def _take_group(self, row: GroupRow, wall_ms: int) -> Job[None]:
        one = self.groups.get(row.group)
        if one is None:
            one = self.groups[row.group] = LiveGroup(row.group)
        one.kind, one.state, one.members, one.seen = row.kind, row.state, row.members, self.round
        topics: dict[str, Sample] = {}
        seen = unknown = 0
        for topic, committed in row.offsets:
            ends = self.ends.get(topic, {})
            offsets = end_offsets = lags = 0
            for partition, offset, lag in committed:
                seen += 1
                if not seen % ROWS_AT_ONCE:
                    yield None
                end = ends[partition][1] if partition in ends else None
                if lag is None and end is not None:
                    lag = max(end - offset, 0)
                if lag is None:
                    unknown += 1
                    continue
                offsets += offset
                end_offsets += offset + lag if end is None else end
                lags += lag
            topics[topic] = Sample(wall_ms, offsets, end_offsets, lags)
        one.topics, one.partitions, one.unknown = topics, seen, unknown
        sums = [sum(part) for part in zip(*topics.values(), strict=True)] or [0, 0, 0, 0]
        one.add(Sample(wall_ms, *sums[1:]))

    def note_rebalance(self, group: str, at_ms: int, text: str) -> None:
        """Note the newest rebalance of a group."""
        one = self.groups.get(group)
        if one is not None and (one.last_rebalance is None or one.last_rebalance.at_ms <= at_ms):
            one.last_rebalance = LastRebalance(at_ms, text)

    def note_alerts(self, alerts: Iterable[tuple[str, str]]) -> None:
        """Note the open alerts: groups and words, the oldest first."""
        for group in self._alerted:
            if group in self.groups:
                self.groups[group].alert = None
        self._alerted = set()
        for group, text in alerts:
            one = self.groups.get(group)
            if one is not None and one.alert is None:
                one.alert = text
                self._alerted.add(group)

    def page(
        self, wanted: Callable[[LiveGroup], bool], order: str, skip: int, most: int
    ) -> Job[tuple[list[LiveGroup], int]]:
        """The wanted groups in an order of `ORDERS`, from place `skip` on, and how many are wanted."""
        key = ORDERS[order]
        found: list[LiveGroup] = []
        count = 0
        for number, one in enumerate([*self.groups.values()]):
            if wanted(one):
                count += 1
                found.append(one)
                if len(found) >= 2 * (skip + most) + ROWS_AT_ONCE:
                    found = heapq.nsmallest(skip + most, found, key=key)
            if not number % ROWS_AT_ONCE:
                yield None
        return heapq.nsmallest(skip + most, found, key=key)[skip:], count

    def counts(self, sees: Callable[[str], bool] | None = None) -> Job[Mapping[str, Counter[str]]]:
        """The number of groups by type, and by state. `sees`: only these groups; None means all."""
        types, states = Counter[str](), Counter[str]()
        for number, one in enumerate([*self.groups.values()]):
            if sees is None or sees(one.group):
                types[one.kind] += 1
                states[one.state] += 1
            if not number % ROWS_AT_ONCE:
                yield None
        return {"type": types, "state": states}

    def rows(self) -> Iterator[LiveGroup]:
        """All groups, the worst first."""
        return iter(sorted(self.groups.values(), key=ORDERS["worst"]))


def _newest(one: LiveGroup) -> int:
    return 0 if one.last_rebalance is None else one.last_rebalance.at_ms


ORDERS: Final[Mapping[str, Callable[[LiveGroup], Any]]] = {
    "worst": lambda one: (-one.trouble, -one.lag, one.group),
    "lag": lambda one: (-one.lag, one.group),
    "name": lambda one: one.group,
    "rebalance": lambda one: (-_newest(one), one.group),
    "members": lambda one: (-one.members, one.group),
}
"""The orders of a list of groups, and their keys."""
