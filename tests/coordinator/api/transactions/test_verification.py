"""The verification that a transaction coordinator does before the first records of a transaction are appended to a
partition.
"""

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


class VerificationHarness:
    """Two partitions, and the object that verifies for them. `in_steps`: the job verifies, as for many partitions."""

    def __init__(self, in_steps: bool = False, **settings: bool) -> None:
        self.in_steps = in_steps
        self.clock = ManualClock()
        self.transactions = FakeTransactions()
        self.job_queue = JobQueue(self.clock)
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
        self.job_queue.run(job, done, self)

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
        """The error of each partition in the last answer; None: records may be appended."""
        return [getattr(one, "error_code", None) for one in self.found[-1].values()]

    def write(self, index: int, guard: Any) -> None:
        log = self.logs[index]
        log.producers.check_transactional(*P, guard)
        log.append(0, batch(b"v", **P._asdict(), base_sequence=0, transactional=True), wall_ms=5)


@pytest.fixture(params=[False, True], ids=["at once", "in steps"])
def harness(request: pytest.FixtureRequest) -> VerificationHarness:
    harness = VerificationHarness(request.param)
    for log in harness.logs:
        for _ in log.producers.loading():
            pass
    return harness


@pytest.mark.parametrize(("knows", "verify_only", "version"), [(OLDEST, True, 0), (OLD, True, 0), (NEW, False, 2)])
def test_all_partitions_are_verified_in_one_request(
    harness: VerificationHarness, knows: Knows, verify_only: bool, version: int
) -> None:
    harness.verify(knows)
    assert harness.transactions.asked == [("tx", (7, 3), verify_only, version, {"t": [0, 1]})]
    guards = list(harness.found[0].values())
    assert all(isinstance(guard, VerificationGuard) for guard in guards)
    harness.write(0, guards[0])


def test_only_partitions_without_the_open_transaction_are_verified(harness: VerificationHarness) -> None:
    harness.verify(NEW, 0)
    harness.write(0, harness.found[0][0])
    harness.verify(NEW)
    assert harness.transactions.asked[1][4] == {"t": [1]}
    assert harness.found[1][0] is None
    harness.write(1, harness.found[1][1])
    harness.verify(NEW)
    assert len(harness.transactions.asked) == 2
    assert harness.found[2] == {0: None, 1: None}


def test_a_marker_voids_the_verification_guard(harness: VerificationHarness) -> None:
    harness.verify(OLD)
    harness.logs[0].append_marker(0, EndMarker(*P, True, 0, 0), wall_ms=6)
    with pytest.raises(Exception) as refused:  # noqa: PT011  # its error code is checked
        harness.write(0, harness.found[0][0])
    assert refused.value.error_code == ErrorCode.INVALID_TXN_STATE
    harness.write(1, harness.found[0][1])


def test_an_old_epoch_is_refused_without_asking(harness: VerificationHarness) -> None:
    harness.verify(NEW)
    harness.write(0, harness.found[0][0])
    harness.verify(NEW, producer=Producer(7, 2))
    assert harness.codes() == [ErrorCode.INVALID_PRODUCER_EPOCH, None]
    assert harness.transactions.asked[-1][4] == {"t": [1]}


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ErrorCode.PRODUCER_FENCED, [47, 47, 47]),
        (ErrorCode.TRANSACTION_ABORTABLE, [48, 120, 120]),
        (ErrorCode.INVALID_TXN_STATE, [48, 48, 48]),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, [49, 49, 49]),
        (ErrorCode.CONCURRENT_TRANSACTIONS, [51, 51, 51]),
        (ErrorCode.NOT_COORDINATOR, [16, 16, 16]),
    ],
)
def test_each_kind_of_client_gets_its_own_verification_error(
    harness: VerificationHarness, error: int, expected: list[int]
) -> None:
    harness.transactions.errors["t", 1] = error
    codes = []
    for knows in (OLDEST, OLD, NEW):
        harness.verify(knows)
        first, second = harness.codes()
        assert first is None
        codes.append(second)
    assert codes == expected


@pytest.mark.parametrize(
    ("code", "knows", "expected", "text"),
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
def test_a_verification_error_becomes_the_produce_error_of_the_client(
    code: int, knows: Knows, expected: int, text: str | None
) -> None:
    error = as_produce_error(ApiError(code), knows)
    assert error.error_code == expected
    assert isinstance(error, ApiError)
    assert error.message is None if text is None else (error.message or "").endswith(text)


def test_a_verification_without_a_coordinator_is_refused(harness: VerificationHarness) -> None:
    harness.transactions.routing.ready = False
    harness.verify(NEW)
    assert harness.codes() == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2


def test_verification_of_old_clients_can_be_switched_off() -> None:
    harness = VerificationHarness(transaction_partition_verification_enable=False)
    harness.verify(OLD)
    assert harness.transactions.asked == []
    assert set(harness.found[0].values()) == {NOT_NEEDED}
    harness.write(0, NOT_NEEDED)
    harness.verify(NEW)
    assert harness.transactions.asked[0][4] == {"t": [1]}


def test_a_transaction_that_is_ending_is_asked_again_for_some_time(harness: VerificationHarness) -> None:
    harness.transactions.errors["t", 1] = CONCURRENT
    harness.verify(NEW, again=True)
    assert harness.found == []
    harness.clock.advance(40)
    assert len(harness.transactions.asked) == 3
    del harness.transactions.errors["t", 1]
    harness.clock.advance(20)
    assert harness.codes() == [None, None]


def test_an_ending_transaction_is_not_asked_again_for_ever(harness: VerificationHarness) -> None:
    harness.transactions.errors["t", 1] = CONCURRENT
    harness.verify(NEW, again=True)
    harness.clock.advance(99)
    assert harness.found == []
    harness.clock.advance(1)
    assert harness.codes() == [None, CONCURRENT]
    assert len(harness.transactions.asked) == 6


@pytest.mark.parametrize(("knows", "again"), [(OLD, True), (NEW, False)])
def test_an_ending_transaction_is_not_asked_again_for_clients_that_retry(
    harness: VerificationHarness, knows: Knows, again: bool
) -> None:
    harness.transactions.errors["t", 1] = CONCURRENT
    harness.verify(knows, again=again)
    assert harness.codes() == [None, CONCURRENT]


def test_a_verification_waits_for_the_coordinators_answer(harness: VerificationHarness) -> None:
    harness.transactions.holds = True
    harness.verify(NEW)
    assert harness.found == []
    harness.transactions.held.pop()()
    assert harness.codes() == [None, None]


def test_many_partitions_are_verified_in_steps(harness: VerificationHarness) -> None:
    wanted = [Wanted("t", index, harness.logs[index % 2], 0, NOT_LOADED) for index in range(120)]
    asks = Verification(harness.node, harness.context, "tx", P, NEW, wanted, lambda: None, waits=False)
    job = asks.asking()
    assert [next(job) for _ in range(2)] == [None] * 2
    assert isinstance(next(job), PendingResult)


@pytest.mark.parametrize("enabled", [True, False])
def test_an_unreadable_producer_state_refuses_the_verification(enabled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = VerificationHarness(transaction_partition_verification_enable=enabled)
    for log in harness.logs:
        log.append(0, batch(b"v", producer_id=1, producer_epoch=0, base_sequence=0), wall_ms=5)
        assert not log.producers.is_loaded
    harness.verify(OLD, 0)
    assert (harness.logs[0].producers.is_loaded, harness.codes()) == (True, [None])

    def broken() -> Iterator[None]:
        raise OSError("unreadable")
        yield

    monkeypatch.setattr(type(harness.logs[1].producers), "loading", lambda _: broken())
    harness.verify(OLD, 1)
    assert harness.codes() == [ErrorCode.KAFKA_STORAGE_ERROR]
