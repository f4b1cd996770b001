"""Random histories of producers of one or two ids, with lost cores: rules that hold for all requests."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from muster.coordinator.transactions.transaction import ENDING, IDLE, ONGOING, STATES, STATUS, TRANSITIONS
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.transaction_records.transaction_log import TransactionLogValue
from tests.coordinator.transactions.harness import TransactionHarness

IDS = st.sampled_from(["x", "y"])
VERSIONS = st.sampled_from([0, 2])
FULL = 32_766
STEPS = {(STATUS[state], STATUS[after]) for (state, _), after in TRANSITIONS.items()} | {
    # PrepareEpochFence lasts only within a step
    (STATUS[ONGOING], STATUS["PrepareAbort"])
}


def facts(harness: TransactionHarness) -> dict[str, tuple[Any, ...]]:
    """Everything that the log can know of each id."""
    return {
        name: tuple(
            (slot, {topic: list(ids) for topic, ids in value.items()} if slot == "partitions" else value)
            for slot in one.__slots__
            if slot != "last_producer_epoch"
            for value in [getattr(one, slot)]
        )
        for name, one in harness.core.state.transactions.items()
    }


class Producers(RuleBasedStateMachine):
    """Producers that begin, add, end, repeat, use old epochs, and never know what the others do."""

    def __init__(self) -> None:
        super().__init__()
        self.harness = TransactionHarness()
        self.known: list[tuple[int, int]] = [(77, 0)]
        self.written = 0
        self.highest: dict[int, int] = {}
        self.ids_of: dict[int, str] = {}
        self.open_ones: dict[str, int] = {}
        """How many transactions of an id have begun and are not complete."""

    def producer(self, name: str, pick: int) -> tuple[int, int]:
        one = self.harness.core.state.transactions.get(name)
        if one is None or pick > 3:
            return self.known[pick % len(self.known)]
        return one.producer_id, one.producer_epoch - (pick == 3)

    def learn(self, answer: tuple[int, int, int]) -> None:
        error, producer_id, epoch = answer
        assert (error == 0) == (producer_id != -1) or error == 0
        if producer_id != -1:
            assert epoch <= FULL, "no producer is given the last epoch"
            self.known = [*self.known[-6:], (producer_id, epoch)]

    @rule(name=IDS, timeout_ms=st.sampled_from([1_000, 60_000, 0]))
    def init(self, name: str, timeout_ms: int) -> None:
        one = self.harness.core.state.transactions.get(name)
        before = None if one is None else (one.state, one.producer_id, one.producer_epoch)
        answer = self.harness.init(name, timeout_ms=timeout_ms)
        self.learn(answer)
        if answer[0] == 0 and before is not None:
            assert before[0] in IDLE
            assert answer[1:] > before[1:], "all producers before it are fenced"
        if answer[0] == ErrorCode.CONCURRENT_TRANSACTIONS:
            assert before is not None
            assert before[0] in (ONGOING, *ENDING)

    @rule(name=IDS, pick=st.integers(0, 9))
    def init_again(self, name: str, pick: int) -> None:
        self.learn(self.harness.init(name, *self.producer(name, pick)))

    @rule(name=IDS, pick=st.integers(0, 9), topic=st.sampled_from("tu"), partition=st.integers(0, 3), version=VERSIONS)
    def add(self, name: str, pick: int, topic: str, partition: int, version: int) -> None:
        producer = self.producer(name, pick)
        one = self.harness.core.state.transactions.get(name)
        before = None if one is None else (one.producer_id, one.producer_epoch)
        error = self.harness.add(producer, {topic: [partition]}, transactional_id=name, version=version)
        if error == 0:
            assert producer == before
            assert self.harness.add(producer, {topic: [partition]}, transactional_id=name, verify=True) == 0

    @rule(name=IDS, pick=st.integers(0, 9), commit=st.booleans(), version=VERSIONS)
    def end(self, name: str, pick: int, commit: bool, version: int) -> None:
        producer = self.producer(name, pick)
        records = len(self.harness.records)
        answer = self.harness.end(producer, commit=commit, transactional_id=name, version=version)
        self.learn(answer)
        if answer[0] == 0 and len(self.harness.records) == records:
            again = self.harness.end(producer, commit=commit, transactional_id=name, version=version)
            assert again == answer, "what is answered as before stays so"

    @precondition(lambda self: self.harness.markers)
    @rule(pick=st.integers(0, 1))
    def markers(self, pick: int) -> None:
        names = sorted(self.harness.markers)
        self.harness.written(names[pick % len(names)])

    @rule(name=IDS)
    def near_the_last_epoch(self, name: str) -> None:
        one = self.harness.core.state.transactions.get(name)
        if one is None or one.state in ENDING or one.producer_epoch >= FULL - 1:
            return
        # as if the id had used all epochs between: in the log and in the core
        record = next(record for record in reversed(self.harness.records) if record.key.transactional_id == name)
        assert isinstance(record.value, TransactionLogValue)
        record.value.producer_epoch = one.producer_epoch = FULL - 1
        one.last_producer_epoch = -1
        self.highest[one.producer_id] = FULL - 1

    @rule(ms=st.sampled_from([1, 5_000, 10_000, 3_600_000, 604_800_000]))
    def time_passes(self, ms: int) -> None:
        self.harness.advance(ms)

    @rule()
    def lost(self) -> None:
        before = facts(self.harness)
        self.harness.restart()
        state = self.harness.core.state
        for name, was in before.items():
            one = state.transactions[name]
            if dict(was)["state"] in ENDING and not dict(was)["partitions"]:
                assert one.state not in ENDING
            assert (name in self.harness.markers) == (one.state in ENDING)
        assert set(state.transactions) == set(before)

    @invariant()
    def replay_gives_the_state(self) -> None:
        copy = TransactionHarness()
        copy.core.replay([(record.key, record.value) for record in self.harness.records], copy.now)
        assert facts(copy) == facts(self.harness)
        assert set(copy.core.state.ongoing) == set(self.harness.core.state.ongoing)

    @invariant()
    def every_record_is_a_step_of_the_table(self) -> None:
        for record in self.harness.records[self.written :]:
            name, value = record.key.transactional_id, record.value
            before = self.open_ones.get(name)
            if value is None:
                assert before is not None
                assert STATES[before] in IDLE
                del self.open_ones[name]
                continue
            assert isinstance(value, TransactionLogValue)
            after = value.transaction_status
            assert before is None or (before, after) in STEPS
            assert before is not None or after == STATUS["Empty"]
            self.open_ones[name] = after
            assert self.ids_of.setdefault(value.producer_id, name) == name, "a producer id has one transactional id"
            assert value.producer_epoch >= self.highest.get(value.producer_id, 0), "epochs never go back"
            self.highest[value.producer_id] = value.producer_epoch
        self.written = len(self.harness.records)

    @invariant()
    def markers_are_for_what_is_ending(self) -> None:
        state = self.harness.core.state
        assert {name for name, one in state.transactions.items() if one.state in ENDING} == set(self.harness.markers)
        for name, marker in self.harness.markers.items():
            one = state.transactions[name]
            assert (marker.producer_id, marker.producer_epoch) == (one.producer_id, one.producer_epoch)
            assert marker.transaction_result == (one.state == "PrepareCommit")
            assert {topic.name: list(topic.partition_indexes) for topic in marker.topics} == {
                topic: list(ids) for topic, ids in one.partitions.items()
            }
        assert set(state.ongoing) == {name for name, one in state.transactions.items() if one.state == ONGOING}


Producers.TestCase.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
TestProducers = Producers.TestCase
