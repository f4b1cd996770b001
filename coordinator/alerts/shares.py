"""The deliveries of one share group, from its events and from samples of its state: the facts for its claims. Pure.

Events say which deliveries failed, and why. Samples say how far the group is, and which records are not done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from muster.coordinator.runtime.share_partitions.endings import DEAD_LETTER as QUEUED
from muster.coordinator.runtime.share_partitions.endings import LOCK_OVER
from muster.coordinator.share.in_flight import ACKNOWLEDGED, ARCHIVED, STATES, TERMINAL
from muster.coordinator.share_state.rows import Rows
from muster.pipeline.episodes import thresholds as limits
from muster.pipeline.episodes.share_facts import Delivery, Hold, Place, SharePartition, Shares, ShareStep
from muster.pipeline.infer.share_deliveries import ACCEPTED, DEAD_LETTER, DISCARDED, WAITING
from muster.pipeline.infer.share_episodes import JOIN_MS

FAILURES_KEPT: Final = 200
"""How many failed deliveries of a group are remembered."""
STEPS_KEPT: Final = 240
"""How many samples of a group are remembered."""
HOLDS_KEPT: Final = 2_000
"""How many partitions of members are remembered, with those that members have now."""
WAITING_KEPT: Final = 20
"""Of how many records of a partition it is known that they are not done."""
_ARCHIVED: Final = STATES[ARCHIVED].lower()


class ShareSample(NamedTuple):
    """One share partition at one time. `end` None: the log of the topic is not in this process."""

    place: Place
    start_offset: int
    done: int
    """How many records from the start offset on are done."""
    end: int | None
    rows: Rows


class _Failure(NamedTuple):
    """Records whose delivery failed."""

    place: Place
    first: int
    last: int
    deliveries: int
    cause: str
    is_archived: bool
    ms: int


class _Waiting(NamedTuple):
    """Records that are not done. `is_known`: they were not done in the sample before either."""

    delivery: Delivery
    is_known: bool


@dataclass(slots=True)
class _Partition:
    """What is known of one share partition."""

    first_ms: int
    progress: int
    """The start offset and the done records, in the sample before."""
    accepted: int = 0
    archived: int = 0
    lag: int | None = None
    changed_ms: int | None = None
    done_ms: int | None = None
    idle: tuple[int, int] | None = None


class ShareSamples:
    """See the module. `failed` takes an event; `see` and `end` take a sample, and `owned` who has which partition."""

    def __init__(self) -> None:
        self._partitions: dict[Place, _Partition] = {}
        self._failures: deque[_Failure] = deque(maxlen=FAILURES_KEPT)
        self._accepted: deque[Delivery] = deque(maxlen=FAILURES_KEPT)
        """Records that were accepted after a lock on them was over."""
        self._waiting: dict[Place, dict[int, _Waiting]] = {}
        """Records that are not done, by their first offset."""
        self._steps: deque[ShareStep] = deque(maxlen=STEPS_KEPT)
        self._sums = [0, 0]
        self._archived: dict[Place, int] = {}
        """How many records were archived since the sample before, as events say."""
        self._holds: dict[tuple[Place, str], Hold] = {}
        self._former: deque[Hold] = deque(maxlen=HOLDS_KEPT)
        self._last_ms: int | None = None

    @property
    def is_known(self) -> bool:
        """Whether anything about deliveries is worth remembering."""
        return bool(
            self._failures or self._accepted or self._waiting or any(one.lag for one in self._partitions.values())
        )

    def failed(self, facts: Mapping[str, Any], wall_ms: int) -> None:
        """Take an event about deliveries that failed (`events.DELIVERIES_FAILED`)."""
        place = facts["topic"], facts["partition"]
        is_archived = facts["state"] == _ARCHIVED
        one = _Failure(
            place,
            facts["first_offset"],
            facts["last_offset"],
            facts["deliveries"],
            facts["cause"],
            is_archived,
            wall_ms,
        )
        self._failures.append(one)
        if is_archived:
            self._archived[place] = self._archived.get(place, 0) + facts["records"]

    # ---- samples

    def see(self, sample: ShareSample, now_ms: int) -> None:
        """Take one partition."""
        progress = sample.start_offset + sample.done
        known = self._partitions.get(sample.place)
        if known is None or progress < known.progress:  # a group's offset may be set back
            known = self._partitions[sample.place] = _Partition(now_ms, progress)
        archived = min(self._archived.pop(sample.place, 0), progress - known.progress)
        accepted = progress - known.progress - archived
        known.progress = progress
        known.accepted += accepted
        known.archived += archived
        known.lag = None if sample.end is None else max(sample.end - progress, 0)
        self._sums[0] += accepted
        self._sums[1] += archived
        if accepted or archived:
            since_ms = known.first_ms if known.done_ms is None else known.done_ms
            if known.idle is None or now_ms - since_ms > known.idle[1] - known.idle[0]:
                known.idle = since_ms, now_ms
            known.done_ms = known.changed_ms = now_ms
        self._see_waiting(sample, now_ms)
        self._see_locks(sample, now_ms)

    def _see_waiting(self, sample: ShareSample, now_ms: int) -> None:
        topic, partition = sample.place
        before, found = self._waiting.pop(sample.place, {}), dict[int, _Waiting]()
        for row in sample.rows:
            if row.deliveries < limits.POISON_TIMES or row.state in TERMINAL or len(found) >= WAITING_KEPT:
                continue
            known = before.get(row.first)
            since_ms = known.delivery.from_ms if known else self._first_failure_ms(sample.place, row.first, now_ms)
            records = row.last - row.first + 1
            delivery = Delivery(
                topic, partition, WAITING, row.deliveries, records, row.first, since_ms, now_ms, row.deliveries
            )
            found[row.first] = _Waiting(delivery, known is not None)
        if found:
            self._waiting[sample.place] = found

    def _see_locks(self, sample: ShareSample, now_ms: int) -> None:
        """Find records that were accepted after their lock was over."""
        left: list[_Failure] = []
        given_up = [one for one in self._failures if one.place == sample.place and one.is_archived]
        for one in self._failures:
            if one.place != sample.place or one.is_archived or one.cause != LOCK_OVER:
                left.append(one)
                continue
            row = sample.rows.at(one.first)
            is_open = one.last >= sample.start_offset and (row is None or row.state != ACKNOWLEDGED)
            if is_open or any(other.first <= one.first <= other.last for other in given_up):
                left.append(one)
                continue
            records = one.last - one.first + 1
            accepted = Delivery(*sample.place, ACCEPTED, one.deliveries + 1, records, one.first, one.ms, now_ms, 1)
            self._accepted.append(accepted._replace(locks_over=1))
        self._failures = deque(left, maxlen=FAILURES_KEPT)

    def _first_failure_ms(self, place: Place, offset: int, now_ms: int) -> int:
        times = [one.ms for one in self._failures if one.place == place and one.first <= offset <= one.last]
        return min(times, default=now_ms)

    def owned(self, holds: Iterable[tuple[Place, str, str]], now_ms: int) -> None:
        """Note who has which partition now: the partition, the member's id, and its name."""
        before, self._holds = self._holds, {}
        for place, member_id, name in holds:
            if len(self._holds) >= HOLDS_KEPT:
                break
            key = place, member_id
            self._holds[key] = before.pop(key) if key in before else Hold(*place, member_id, name, now_ms, None)
        self._former += [one._replace(until_ms=now_ms) for one in before.values()]

    def end(self, now_ms: int) -> None:
        """End the sample."""
        if self._last_ms is not None:
            self._steps.append(ShareStep(self._last_ms, now_ms, *self._sums))
        self._last_ms, self._sums = now_ms, [0, 0]

    def forget(self, before_ms: int) -> None:
        """Forget what happened before a time."""
        while self._failures and self._failures[0].ms < before_ms:
            self._failures.popleft()
        while self._accepted and self._accepted[0].until_ms < before_ms:
            self._accepted.popleft()
        while self._former and (self._former[0].until_ms or 0) < before_ms:
            self._former.popleft()

    # ---- facts

    def facts(self) -> Shares:
        """The facts for the group's verdict."""
        waiting = [one.delivery for some in self._waiting.values() for one in some.values() if one.is_known]
        partitions = [
            SharePartition(*place, one.accepted, one.archived, one.lag, one.first_ms, one.changed_ms, one.done_ms,
                           *(one.idle or (None, None)))
            for place, one in self._partitions.items()
        ]  # fmt: skip
        deliveries = [*self._given_up(), *self._accepted, *waiting]
        return Shares(deliveries, partitions, [*self._steps], [*self._former, *self._holds.values()])

    def _given_up(self) -> Iterator[Delivery]:
        """Records that were archived, joined as in the table `deliveries`."""
        joined: dict[tuple[Place, str, int], Delivery] = {}
        for one in self._failures:
            if not one.is_archived:
                continue
            outcome = DEAD_LETTER if one.cause == QUEUED else DISCARDED
            key = one.place, outcome, one.deliveries
            records = one.last - one.first + 1
            known = joined.get(key)
            if known is not None and one.ms - known.until_ms <= JOIN_MS:
                joined[key] = known._replace(
                    records=known.records + records, until_ms=one.ms, moments=known.moments + 1,
                    first_offset=min(known.first_offset, one.first),
                )  # fmt: skip
                continue
            if known is not None:
                yield known
            from_ms = self._first_failure_ms(one.place, one.first, one.ms)
            joined[key] = Delivery(*one.place, outcome, one.deliveries, records, one.first, from_ms, one.ms, 1)
        yield from joined.values()
