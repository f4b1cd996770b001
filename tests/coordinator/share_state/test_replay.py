"""Random requests: a replay of the log gives the live state, and rows are those of a naive map of offsets."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from muster.coordinator.share.in_flight import Row
from muster.coordinator.share_state.persister import UNKNOWN, StateKey
from tests.coordinator.share_state.harness import TOPIC_ID, StateHarness
from tests.coordinator.share_state.test_combine import ROWS

KEYS = st.sampled_from([StateKey("g", TOPIC_ID, 0), StateKey("g", TOPIC_ID, 1), StateKey("h", TOPIC_ID, 0)])
EPOCHS = st.integers(0, 3)


class Model(RuleBasedStateMachine):
    """One core under random requests. `naive`: the start offset, and deliveries and state by offset."""

    def __init__(self) -> None:
        super().__init__()
        self.harness = StateHarness(share_coordinator_snapshot_update_records_per_snapshot=3)
        self.naive: dict[StateKey, tuple[int, dict[int, tuple[int, int]]]] = {}

    @rule(key=KEYS, epoch=EPOCHS, start=st.integers(-1, 5))
    def initialize_state(self, key: StateKey, epoch: int, start: int) -> None:
        if not self.harness.initialize(epoch, start, key).error_code:
            self.naive[key] = start, {}

    @rule(key=KEYS, epoch=EPOCHS)
    def read(self, key: StateKey, epoch: int) -> None:
        loaded = self.harness.read(epoch, key)
        if not loaded.error_code:
            start, offsets = self.naive[key]
            assert loaded.start_offset == start
            assert {
                offset: (row.deliveries, row.state) for row in loaded.rows for offset in range(row.first, row.last + 1)
            } == offsets

    @rule(key=KEYS, epoch=EPOCHS, state_epoch=EPOCHS, start=st.integers(-1, 20), rows=ROWS)
    def write(self, key: StateKey, epoch: int, state_epoch: int, start: int, rows: list[Row]) -> None:
        answer = self.harness.write(*rows, start=start, leader_epoch=epoch, state_epoch=state_epoch, key=key)
        if not answer.error_code:
            before, offsets = self.naive[key]
            start = max(start, before)
            for first, last, state, deliveries in rows:
                for offset in range(first, last + 1):
                    offsets[offset] = max(offsets.get(offset, (0, 0)), (deliveries, state))
            kept = {offset: one for offset, one in offsets.items() if start == UNKNOWN or offset >= start}
            self.naive[key] = start, kept

    @rule(key=KEYS)
    def delete(self, key: StateKey) -> None:
        self.harness.delete(key)
        self.naive.pop(key, None)

    @rule(ms=st.sampled_from((1, 100_000, 300_000)))
    def time_passes(self, ms: int) -> None:
        self.harness.advance(ms)

    @invariant()
    def a_replay_gives_the_same(self) -> None:
        live, position = self.harness.state(), self.harness.core.states.next_offset
        assert live.keys() == self.naive.keys()
        core = self.harness.core
        self.harness.load()
        assert self.harness.state() == live
        assert self.harness.core.states.next_offset == position == len(self.harness.records)
        self.harness.core = core


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=12, stateful_step_count=25)
