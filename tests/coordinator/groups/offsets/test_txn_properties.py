"""Random histories of commits inside and outside of transactions, compared with a model of Kafka's rules, and
replayed.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.coordinator.groups.core import GroupCore
from muster.coordinator.groups.offsets.txn_commit import TxnCommitCommand
from muster.coordinator.state_machine.interface import Client, EndTransaction, TransactionalBatch
from muster.coordinator.system.jobs import at_once
from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from muster.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from muster.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.coordinator.groups.harness import TOPICS, GroupHarness, pending_of

GROUPS, PARTITIONS, PRODUCERS = "gh", (0, 1), (7, 8, 9)
STEP = st.tuples(
    st.sampled_from(("plain", "txn", "txn", "txn", "commit", "abort", "delete", "forget", "fenced")),
    st.sampled_from(GROUPS),
    st.sampled_from(PARTITIONS),
    st.sampled_from(PRODUCERS),
)
Place = tuple[str, int]


class Model:
    """Kafka's OffsetMetadataManager in a few lines: which offsets count, and which wait for the end of a transaction.

    Of two commits, the commit with the later record counts, whenever its transaction ended.
    """

    def __init__(self) -> None:
        self.records = 0
        self.committed: dict[Place, tuple[int, int]] = {}
        self.pending: dict[int, dict[Place, tuple[int, int]]] = {}

    def put(self, place: Place, offset: int, producer: int | None) -> None:
        self.records += 1
        where = self.committed if producer is None else self.pending.setdefault(producer, {})
        where[place] = self.records, offset

    def end(self, producer: int, is_committed: bool) -> None:
        for place, value in self.pending.pop(producer, {}).items():
            if is_committed and value[0] > self.committed.get(place, (0, 0))[0]:
                self.committed[place] = value

    def delete(self, place: Place) -> None:
        for where in (self.committed, *self.pending.values()):
            where.pop(place, None)

    def offsets(self) -> dict[Place, int]:
        return {place: offset for place, (_, offset) in self.committed.items()}

    def unstable(self) -> set[Place]:
        return {place for waiting in self.pending.values() for place in waiting}


class History:
    """A core and its model, and the log that a load would read."""

    def __init__(self) -> None:
        self.harness = GroupHarness()
        self.model = Model()
        self.log: list[tuple[Any, ...]] = []

    def step(self, what: str, group: str, partition: int, producer: int) -> None:
        before = len(self.harness.records)
        offset = len(self.log) + 1
        place = group, partition
        if what == "plain":
            assert self.harness.commit(group=group, partition=partition, offset=offset) == 0
            self.model.put(place, offset, None)
        elif what in ("txn", "fenced"):
            self.commit(group, partition, offset, producer, 47 if what == "fenced" else 0)
            if what == "txn":
                self.model.put(place, offset, producer)
        elif what in ("commit", "abort"):
            at_once(self.harness.core.end_transaction(EndTransaction(producer, 0, what == "commit"), self.harness.now))
            self.model.end(producer, what == "commit")
            self.log.append(("end", producer, what == "commit"))
        elif what == "forget":
            rows = [OffsetDeleteRequestPartition(partition)]
            self.harness.send(OffsetDeleteRequest(group, [OffsetDeleteRequestTopic("t", rows)]))
            self.model.delete(place)
        else:
            self.harness.send(DeleteGroupsRequest([group]))
            for index in PARTITIONS:
                self.model.delete((group, index))
        made = [(one.key, one.value) for one in self.harness.records[before:]]
        if made:
            self.log.append(("txn", producer, made) if what == "txn" else ("plain", made))

    def commit(self, group: str, partition: int, offset: int, producer: int, append_error: int) -> None:
        topics = [TxnOffsetCommitRequestTopic("t", partitions=[TxnOffsetCommitRequestPartition(partition, offset)])]
        request = TxnOffsetCommitRequest("tx", group, producer, 0, topics=topics)
        answers: list[Any] = []
        command = TxnCommitCommand(request, answers.append, Client("c", "/h"), append_error)
        output = self.harness.collect(self.harness.core.handle(command, self.harness.now))
        ((_, response),) = output.replies
        assert response.topics[0].partitions[0].error_code == append_error

    def replayed(self) -> GroupCore:
        core, now = GroupCore(self.harness.settings, TOPICS), self.harness.now
        for what, *rest in self.log:
            if what == "plain":
                core.replay(rest[0], now)
            elif what == "txn":
                core.replay_transactional(TransactionalBatch(rest[0], 0, now.wall_ms, rest[1]), now)
            else:
                at_once(core.end_transaction(EndTransaction(rest[0], 0, rest[1]), now))
        return core


def seen(core: GroupCore) -> tuple[dict[Place, int], set[Place]]:
    """The offsets that count, and the places that are not stable."""
    offsets = core.state.offsets
    places = [(group, partition) for group in GROUPS for partition in PARTITIONS]
    values = {place: offsets.get(place[0], "t", place[1]) for place in places}
    return (
        {place: value.offset for place, value in values.items() if value is not None},
        {place for place in places if offsets.is_unstable(place[0], "t", place[1])},
    )


@settings(max_examples=60)
@given(st.lists(STEP, max_size=40))
def test_offsets_in_random_transactions_equal_a_model_of_kafka_also_after_a_load(
    steps: list[tuple[str, str, int, int]],
) -> None:
    history = History()
    for step in steps:
        history.step(*step)
        assert seen(history.harness.core) == (history.model.offsets(), history.model.unstable())
    core = history.replayed()
    assert seen(core) == seen(history.harness.core)
    assert core.state.groups.keys() == history.harness.core.state.groups.keys()
    for producer in PRODUCERS:
        assert pending_of(core, producer) == pending_of(history.harness.core, producer)
        for one in (core, history.harness.core):
            at_once(one.end_transaction(EndTransaction(producer, 0, True), history.harness.now))
        history.model.end(producer, True)
    assert seen(core) == seen(history.harness.core) == (history.model.offsets(), set())
    assert core.state.offsets.pending.transactions_of == {}
