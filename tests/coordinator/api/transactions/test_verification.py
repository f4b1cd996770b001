"""What the coordinator of a transaction is asked before the first records of it go into a partition."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from muster.coordinator.api.transactions.verification import (
    NOT_LOADED,
    Knows,
    Verdict,
    Verification,
    Wanted,
    as_produce_error,
    verdict_of,
)
from muster.coordinator.log import MemoryStorage
from muster.coordinator.log.producers.append_checks import NOT_NEEDED, VerificationGuard
from muster.coordinator.log.records.markers import EndMarker
from muster.coordinator.state_machine.interface import Client, Producer
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.system.jobs import Job, JobQueue, PendingResult
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.settings import TopicSettings
from muster.protocol.errors import ErrorCode
from tests.coordinator.api.transactions.coordinator import FakeTransactions
from tests.coordinator.log.support import SMALL, batch, manage

OLDEST, OLD, NEW = Knows(False, False), Knows(False, True), Knows(True, True)
P = Producer(7, 3)
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS


class Bench:
    """Two partitions, and what verifies for them. `in_steps`: the job verifies, as for many partitions."""

    def __init__(self, in_steps: bool = False, **settings: bool) -> None:
        self.in_steps = in_steps
        self.clock = ManualClock()
        self.transactions = FakeTransactions()
        self.slices = JobQueue(self.clock)
        self.closed = False
        topics = SimpleNamespace(settings=TopicSettings(**settings))
        self.node: Any = SimpleNamespace(
            clock=self.clock, transactions=self.transactions, topics=topics, run=self.run_for
        )
        self.context: Any = SimpleNamespace(channel=self, client=Client("c", "/h"))
        manager = manage(MemoryStorage())
        self.logs = [manager.open_log("t", index, config=SMALL, topic_id=b"t" * 16) for index in range(2)]
        self.found: list[dict[int, Verdict]] = []

    def fault(self, error: Exception) -> None:
        raise error

    def run_for(self, _: Any, done: Any, job: Job[None]) -> None:
        self.slices.run(job, done, self)

    def verify(self, knows: Knows, *partitions: int, producer: Producer = P, again: bool = False) -> None:
        indexes, now_ms = partitions or (0, 1), self.clock.now().wall_ms
        wanted = [Wanted("t", index, self.logs[index], 0, NOT_LOADED) for index in indexes]

        def done(*_: object) -> None:
            self.found.append({one.partition: one.verdict for one in wanted})

        asks = Verification(self.node, self.context, "tx", producer, knows, wanted, done, waits=again)
        if self.in_steps:
            self.run_for(None, done, asks.asking())
            return
        for one in wanted:
            one.verdict = verdict_of(one.log, producer, one.sequence, knows, now_ms)
        asks.ask()

    def codes(self) -> list[int | None]:
        """The error of each partition of the last answer; None: it may be appended to."""
        return [getattr(one, "error_code", None) for one in self.found[-1].values()]

    def write(self, index: int, guard: Any) -> None:
        log = self.logs[index]
        log.producers.check_transactional(*P, guard)
        log.append(0, batch(b"v", **P._asdict(), base_sequence=0, transactional=True), wall_ms=5)


@pytest.fixture(params=[False, True], ids=["at once", "in steps"])
def bench(request: pytest.FixtureRequest) -> Bench:
    bench = Bench(request.param)
    for log in bench.logs:
        for _ in log.producers.loading():
            pass
    return bench


@pytest.mark.parametrize(("knows", "verify_only", "version"), [(OLDEST, True, 0), (OLD, True, 0), (NEW, False, 2)])
def test_all_partitions_are_asked_for_at_once(bench: Bench, knows: Knows, verify_only: bool, version: int) -> None:
    bench.verify(knows)
    assert bench.transactions.asked == [("tx", (7, 3), verify_only, version, {"t": [0, 1]})]
    guards = list(bench.found[0].values())
    assert all(isinstance(guard, VerificationGuard) for guard in guards)
    bench.write(0, guards[0])


def test_only_those_are_asked_for_where_the_transaction_is_not_open(bench: Bench) -> None:
    bench.verify(NEW, 0)
    bench.write(0, bench.found[0][0])
    bench.verify(NEW)
    assert bench.transactions.asked[1][4] == {"t": [1]}
    assert bench.found[1][0] is None
    bench.write(1, bench.found[1][1])
    bench.verify(NEW)
    assert len(bench.transactions.asked) == 2
    assert bench.found[2] == {0: None, 1: None}


def test_a_marker_voids_the_guard(bench: Bench) -> None:
    bench.verify(OLD)
    bench.logs[0].append_marker(0, EndMarker(*P, True, 0, 0), wall_ms=6)
    with pytest.raises(Exception) as refused:  # noqa: PT011 - its code is looked at
        bench.write(0, bench.found[0][0])
    assert refused.value.error_code == ErrorCode.INVALID_TXN_STATE  # type: ignore[attr-defined]
    bench.write(1, bench.found[0][1])


def test_an_old_epoch_is_refused_without_asking(bench: Bench) -> None:
    bench.verify(NEW)
    bench.write(0, bench.found[0][0])
    bench.verify(NEW, producer=Producer(7, 2))
    assert bench.codes() == [ErrorCode.INVALID_PRODUCER_EPOCH, None]
    assert bench.transactions.asked[-1][4] == {"t": [1]}


@pytest.mark.parametrize(
    ("told", "heard"),
    [
        (ErrorCode.PRODUCER_FENCED, [47, 47, 47]),
        (ErrorCode.TRANSACTION_ABORTABLE, [48, 120, 120]),
        (ErrorCode.INVALID_TXN_STATE, [48, 48, 48]),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, [49, 49, 49]),
        (ErrorCode.CONCURRENT_TRANSACTIONS, [51, 51, 51]),
        (ErrorCode.NOT_COORDINATOR, [16, 16, 16]),
    ],
)
def test_what_clients_of_each_kind_hear(bench: Bench, told: int, heard: list[int]) -> None:
    bench.transactions.errors["t", 1] = told
    codes = []
    for knows in (OLDEST, OLD, NEW):
        bench.verify(knows)
        first, second = bench.codes()
        assert first is None
        codes.append(second)
    assert codes == heard


@pytest.mark.parametrize(
    ("code", "knows", "told", "text"),
    [
        (48, OLDEST, 48, "Partition was not added to the transaction"),
        (120, OLD, 120, None),
        (47, NEW, 47, None),
        (49, NEW, 49, None),
        (51, OLD, 19, "CONCURRENT_TRANSACTIONS"),
        (51, NEW, 51, None),
        (14, NEW, 19, "COORDINATOR_LOAD_IN_PROGRESS"),
        (15, NEW, 19, "COORDINATOR_NOT_AVAILABLE"),
        (16, OLDEST, 19, "NOT_COORDINATOR"),
    ],
)
def test_what_produce_makes_of_it(code: int, knows: Knows, told: int, text: str | None) -> None:
    error = as_produce_error(ApiError(code), knows)
    assert error.error_code == told
    assert isinstance(error, ApiError)
    assert error.message is None if text is None else (error.message or "").endswith(text)


def test_without_a_coordinator_it_is_not_available(bench: Bench) -> None:
    bench.transactions.routing.ready = False
    bench.verify(NEW)
    assert bench.codes() == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2


def test_the_operator_may_trust_old_clients() -> None:
    bench = Bench(transaction_partition_verification_enable=False)
    bench.verify(OLD)
    assert bench.transactions.asked == []
    assert set(bench.found[0].values()) == {NOT_NEEDED}
    bench.write(0, NOT_NEEDED)
    bench.verify(NEW)
    assert bench.transactions.asked[0][4] == {"t": [1]}


def test_what_is_just_ending_is_asked_again_for_a_while(bench: Bench) -> None:
    bench.transactions.errors["t", 1] = CONCURRENT
    bench.verify(NEW, again=True)
    assert bench.found == []
    bench.clock.advance(40)
    assert len(bench.transactions.asked) == 3
    del bench.transactions.errors["t", 1]
    bench.clock.advance(20)
    assert bench.codes() == [None, None]


def test_but_not_for_ever(bench: Bench) -> None:
    bench.transactions.errors["t", 1] = CONCURRENT
    bench.verify(NEW, again=True)
    bench.clock.advance(99)
    assert bench.found == []
    bench.clock.advance(1)
    assert bench.codes() == [None, CONCURRENT]
    assert len(bench.transactions.asked) == 6


@pytest.mark.parametrize(("knows", "again"), [(OLD, True), (NEW, False)])
def test_nor_for_clients_that_try_again_themselves(bench: Bench, knows: Knows, again: bool) -> None:
    bench.transactions.errors["t", 1] = CONCURRENT
    bench.verify(knows, again=again)
    assert bench.codes() == [None, CONCURRENT]


def test_the_answer_is_awaited(bench: Bench) -> None:
    bench.transactions.holds = True
    bench.verify(NEW)
    assert bench.found == []
    bench.transactions.held.pop()()
    assert bench.codes() == [None, None]


def test_many_partitions_are_verified_in_steps(bench: Bench) -> None:
    wanted = [Wanted("t", index, bench.logs[index % 2], 0, NOT_LOADED) for index in range(120)]
    asks = Verification(bench.node, bench.context, "tx", P, NEW, wanted, lambda: None, waits=False)
    job = asks.asking()
    assert [next(job) for _ in range(2)] == [None] * 2
    assert isinstance(next(job), PendingResult)


@pytest.mark.parametrize("enabled", [True, False])
def test_what_producers_wrote_is_read_before_and_may_be_unreadable(
    enabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(transaction_partition_verification_enable=enabled)
    for log in bench.logs:
        log.append(0, batch(b"v", producer_id=1, producer_epoch=0, base_sequence=0), wall_ms=5)
        assert not log.producers.is_loaded
    bench.verify(OLD, 0)
    assert (bench.logs[0].producers.is_loaded, bench.codes()) == (True, [None])

    def broken() -> Iterator[None]:
        raise OSError("unreadable")
        yield

    monkeypatch.setattr(type(bench.logs[1].producers), "loading", lambda _: broken())
    bench.verify(OLD, 1)
    assert bench.codes() == [ErrorCode.KAFKA_STORAGE_ERROR]
