"""Some histories of a cluster over a database that fails; and the checker finds the faults that it must find."""

from __future__ import annotations

from functools import partialmethod
from typing import Any

import pytest

from muster.coordinator.log import LogManager
from muster.coordinator.log.producers import snapshot
from muster.coordinator.log.segments.segment import Segment
from muster.coordinator.topics.metadata_snapshot import MetadataSnapshot
from muster.postgres import database_writer, housekeeping, local_replica, pending_writes, shared_metadata_log
from muster.postgres.database_log import DatabaseLog
from muster.postgres.lease import Outcome, ReadBarrier
from muster.postgres.segment_cache import SegmentCache
from muster.postgres.store import NO_SNAPSHOT, Changes, Snapshot
from muster.postgres.unsent_data import Upload
from muster.simulation.cluster.faulty_store import FaultyStore
from muster.simulation.cluster.tables import Tables
from tests.simulation.cluster import world
from tests.simulation.cluster.run import play_clusters
from tests.simulation.cluster.world import LEASE_MS, TOPICS, ClusterWorld, play

SEEDS = 8


def test_histories_of_a_cluster_keep_each_rule() -> None:
    """`make simulate ARGS=--cluster` plays more of them."""
    played = play_clusters(SEEDS, SEEDS)
    assert not played.failures, played.failures[0]
    assert played.counts["terms"] > 2 * SEEDS
    assert played.counts["moves"] > 10 * SEEDS
    assert played.counts["acknowledged"] > 500 * SEEDS
    assert played.counts["logs that were read to their end"] > 10 * SEEDS
    assert played.counts["segments that were absent"] > 20 * SEEDS
    assert played.counts["aborted transactions"] > 5 * SEEDS
    assert played.counts["snapshots"] > 2 * SEEDS
    assert played.counts["promotions"] > SEEDS // 2
    assert played.counts["writes that were read and are gone"] > SEEDS // 2
    assert played.counts["rows of the metadata log that are gone"] > 20 * SEEDS


@pytest.fixture
def read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each leader read all of a log, so that the histories of older seeds stay the same."""
    monkeypatch.setattr(local_replica, "is_read_in_parts", lambda _: False)


@pytest.mark.usefixtures("read_whole")
@pytest.mark.parametrize("seed", [5012, 5072])
def test_a_node_that_lost_its_registration_does_not_lead_the_logs_of_its_successor(seed: int) -> None:
    """The successor of the node has the same id. In these histories the node followed the metadata log to its end for
    half a minute before it stopped.
    """
    assert not play(seed, snapshots=False, hints=False, standby=False).faults


@pytest.mark.usefixtures("read_whole")
@pytest.mark.parametrize("seed", [10663])
def test_a_node_does_not_lead_a_fetched_log_that_others_have_led_since(seed: int) -> None:
    """The node has not yet read of the other leaders, and finds their epoch in the batches that it has fetched."""
    assert not play(seed, snapshots=False, hints=False, standby=False).faults


def test_a_node_that_misses_decisions_of_others_ends_its_session() -> None:
    world = ClusterWorld(1)
    try:
        world.make_calm()
        assert world.run(lambda: all(node.server is not None and node.server.is_up for node in world.nodes), 10_000)
        node, server = world.nodes[0], world.nodes[0].server
        node.reads.is_cut = True
        since_ms = world.ms
        assert world.run(lambda: not server.is_up, 3 * LEASE_MS)
        assert LEASE_MS - 100 <= world.ms - since_ms < LEASE_MS + 500
        node.reads.is_cut = False
        assert world.run(lambda: node.server is not server and node.server.is_up, 2 * LEASE_MS)
        assert not world.faults
    finally:
        world.end()


@pytest.mark.parametrize("seed", range(12))
def test_nodes_unregistered_together_return_within_a_lease_and_a_second(seed: int) -> None:
    world = ClusterWorld(seed)
    try:
        world.make_calm()
        assert world.run(lambda: _all_is_led(world), 10_000)
        before = world.terms
        for node in world.nodes:
            world.later(world.rng.randrange(1 + seed), lambda _, of=node.server: of.unregister(of.node_id))
        assert world.run(lambda: not any(node.server.is_up for node in world.nodes), 1_000)
        assert world.run(lambda: _all_is_led(world), LEASE_MS + 1_000), f"seed {seed}"
        assert world.terms == before + len(world.nodes)
        # and it stays so
        world.run(lambda: False, 2 * LEASE_MS)
        assert world.run(lambda: _all_is_led(world), 1_000)  # now and then a partition moves
        assert world.terms == before + len(world.nodes)
        assert not world.faults
    finally:
        world.end()


@pytest.mark.parametrize("seed", range(4))
def test_no_node_is_unregistered_when_the_database_returns(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first node that was back once took the others for dead, fetched all their logs, and gave the logs back
    again.
    """
    world, dead = ClusterWorld(seed), set[int]()
    write_metadata = Tables.write_metadata

    def noting(self: Tables, row: Any, needing: Any, found: Any) -> bool:
        dead.update(found)
        return write_metadata(self, row, needing, found)

    monkeypatch.setattr(Tables, "write_metadata", noting)
    try:
        world.make_calm()
        assert world.run(lambda: _all_is_led(world), 10_000)
        terms = world.terms
        world.tables.is_down = True
        assert world.run(lambda: not any(node.server.is_up for node in world.nodes), 2 * LEASE_MS)
        world.tables.is_down = False
        assert world.run(lambda: _all_is_led(world), LEASE_MS)
        world.run(lambda: False, 2 * LEASE_MS)
        assert not dead
        assert world.terms == terms + len(world.nodes)
        assert not world.faults
    finally:
        world.end()


def test_a_node_missing_after_the_return_of_the_database_is_unregistered_after_a_lease() -> None:
    world = ClusterWorld(1)
    try:
        world.make_calm()
        assert world.run(lambda: _all_is_led(world), 10_000)
        world.tables.is_down = True
        assert world.run(lambda: not any(node.server.is_up for node in world.nodes), 2 * LEASE_MS)
        world.nodes.pop().kill()
        world.tables.is_down = False
        assert world.run(lambda: _all_is_led(world), 2 * LEASE_MS)
        assert not world.faults
    finally:
        world.end()


@pytest.mark.parametrize(("hints", "least", "most"), [(0, 150, 220), (1_000, 15, 60)])
def test_an_idle_node_with_hints_asks_the_database_seldom(
    hints: int, least: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle node once asked the database 40 times a second, twice for each check."""
    world, asked = ClusterWorld(1, nodes=1), 0
    tables_mail = Tables.mail

    def mail(self: Tables, node_id: int) -> Any:
        nonlocal asked
        asked += 1
        return tables_mail(self, node_id)

    monkeypatch.setattr(Tables, "mail", mail)
    try:
        world.make_calm()
        for node in world.nodes:
            node.reads.hints = hints
        assert world.run(lambda: _all_is_led(world), 10_000)
        asked = 0
        world.run(lambda: False, 10_000)
        assert least <= asked <= most
        assert not world.faults
    finally:
        world.end()


def _all_is_led(world: ClusterWorld) -> bool:
    """Whether all nodes serve, and each partition can be written where all nodes believe it is led."""
    servers = [node.server for node in world.nodes]
    if not all(server is not None and server.is_up for server in servers):
        return False
    by_id = {server.node_id: server for server in servers}
    for name, (_, count) in TOPICS.items():
        for index in range(count):
            leaders = {server.topics.open.leaders_of(name)[index:][:1] for server in servers}
            if len(leaders) != 1 or not (leader := leaders.pop()) or leader[0].broker_id not in by_id:
                return False
            if by_id[leader[0].broker_id].topics.open.partition(name, index) is None:
                return False
    return True


def test_a_seed_always_gives_the_same_history_of_a_cluster() -> None:
    first, second = play(5, 20_000), play(5, 20_000)
    assert (first.ms, first.ledger.acked, first.moves) == (second.ms, second.ledger.acked, second.moves)


def _believes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_writer, "outcome", lambda *_: Outcome.SEEN)


def _takes_what_it_sees_for_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for the database's answer to an empty write."""
    commit = FaultyStore.commit

    async def at_once(
        self: Any, node_id: int, epoch: int, write_no: int, known: int, changes: Any, *rest: Any, **how: Any
    ) -> Any:
        if changes == Changes():
            return self._tables.commit(node_id, epoch, write_no, known, changes, *rest, **how)
        return await commit(self, node_id, epoch, write_no, known, changes, *rest, **how)

    monkeypatch.setattr(FaultyStore, "commit", at_once)


def _takes_what_it_reads_for_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    async def passed(*_: Any) -> bool:
        return True

    monkeypatch.setattr(ReadBarrier, "passed", passed)


def _answers_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    collect = pending_writes.PendingWrites.collect

    def early(self: Any) -> Any:
        write = collect(self)
        write.confirm()
        return write

    monkeypatch.setattr(pending_writes.PendingWrites, "collect", early)


def _keeps_replaced_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    uploaded = DatabaseLog.uploaded

    def kept(self: DatabaseLog, upload: Upload, changes: Any) -> None:
        uploaded(self, upload, changes)
        changes.dead.clear()

    monkeypatch.setattr(DatabaseLog, "uploaded", kept)


def _takes_without_telling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_metadata_log, "losing_nodes", lambda *_: [])


def _claims_to_know_all(monkeypatch: pytest.MonkeyPatch) -> None:
    commit = FaultyStore.commit

    async def claims(self: Any, node_id: int, epoch: int, write_no: int, _: int, *rest: Any, **how: Any) -> Any:
        return await commit(self, node_id, epoch, write_no, 1 << 60, *rest, **how)

    monkeypatch.setattr(FaultyStore, "commit", claims)


def _keeps_what_others_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_writes.DatabaseWrite, "leave_out", lambda *_: None)


def _snapshots_without_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    of = MetadataSnapshot._partition

    def partition(self: Any, topic_id: bytes, index: int, one: Any) -> Any:
        record = of(self, topic_id, index, one)
        record.leader_epoch = 0
        return record

    monkeypatch.setattr(MetadataSnapshot, "_partition", partition)


def _shortens_what_is_in_no_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten = Tables.shorten_metadata

    def more(self: Tables, kept_ms: int) -> bool:
        self.snapshot = self.snapshot._replace(end_offset=self.snapshot.end_offset + 10)
        try:
            return shorten(self, kept_ms)
        finally:
            self.snapshot = self.snapshot._replace(end_offset=self.snapshot.end_offset - 10)

    monkeypatch.setattr(Tables, "shorten_metadata", more)


def _counts_a_snapshot_that_is_not_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    put = FaultyStore.put_snapshot_part

    async def some(self: Any, node_id: int, epoch: int, number: int, part: int, data: bytes) -> bool:
        return part == 2 or await put(self, node_id, epoch, number, part, data)

    def commit(self: Tables, node_id: int, epoch: int, snapshot: Snapshot) -> bool:
        self.snapshot, self.snapshot_ms = snapshot, self._world.ms
        return True

    monkeypatch.setattr(FaultyStore, "put_snapshot_part", some)
    monkeypatch.setattr(Tables, "commit_snapshot", commit)


def _writes_where_rows_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The database forgets that a row existed, and the node forgets that the log was shortened."""
    write = Tables.write_metadata

    def anywhere(self: Tables, *rest: Any) -> bool:
        snapshot, self.snapshot = self.snapshot, NO_SNAPSHOT
        try:
            return write(self, *rest)
        finally:
            self.snapshot = snapshot

    monkeypatch.setattr(Tables, "write_metadata", anywhere)
    monkeypatch.setattr(housekeeping, "LEASES_KEPT", 0)


def _takes_what_is_absent_for_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Segment.read

    def nothing(self: Segment, *rest: Any) -> bytes | None:
        return None if self.is_absent else read(self, *rest)

    monkeypatch.setattr(Segment, "read", nothing)


def _begins_behind_what_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogManager, "note_copy", partialmethod(_note_without_absent, LogManager.note_copy))


def _note_without_absent(self: Any, note: Any, topic: str, index: int, end: int, start: int, _: Any = ()) -> None:
    note(self, topic, index, end, start)


def _forgets_aborted_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    add_facts = DatabaseLog._add_facts

    def without(self: DatabaseLog, changes: Any, segment: Segment, _: bytes) -> bool:
        return add_facts(self, changes, segment, b"")

    monkeypatch.setattr(DatabaseLog, "_add_facts", without)


def _remembers_the_last_batch_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "rows_of", snapshot.row_of)


def _keeps_what_it_has_half_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment that was fetched only in part counts as present."""

    async def fetch(self: SegmentCache, coming: Any) -> None:
        segment = coming.segment
        writing = local_replica.SegmentWriting(self._storage, segment.name, segment.base_offset)
        for row in (await self._store.batches(coming.number, 0))[:1]:
            for _ in writing.write(row.data):
                pass
        writing.close()
        if coming.log.lacks(segment):
            segment.make_present()

    monkeypatch.setattr(SegmentCache, "_fetch", fetch)


def _lets_go_what_the_database_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    rolled = DatabaseLog.rolled

    def early(self: DatabaseLog, old: Segment) -> None:
        rolled(self, old)
        if self._cache is not None:
            self._cache.keep(self, old)

    monkeypatch.setattr(DatabaseLog, "rolled", early)
    # so little that a segment is removed soon after it was rolled
    monkeypatch.setattr(world, "IN_PARTS", ("muster.cluster.segment.bytes=1500", "muster.cluster.cache.bytes=2500"))


@pytest.mark.parametrize(
    "mutant",
    [
        _takes_what_is_absent_for_empty,
        _begins_behind_what_is_absent,
        _forgets_aborted_transactions,
        _remembers_the_last_batch_only,
        _keeps_what_it_has_half_of,
        _lets_go_what_the_database_has_not,
        _snapshots_without_epochs,
        _shortens_what_is_in_no_snapshot,
        _counts_a_snapshot_that_is_not_whole,
        _writes_where_rows_are_gone,
        _believes_all,
        _answers_too_early,
        _keeps_replaced_segments,
        _takes_without_telling,
        _claims_to_know_all,
        _keeps_what_others_lead,
    ],
)
def test_the_checker_detects_a_wrong_node(mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    assert any(play(seed, 60_000, standby=False).faults for seed in range(20))


@pytest.mark.parametrize("mutant", [_takes_what_it_sees_for_durable, _takes_what_it_reads_for_durable])
def test_the_checker_detects_a_node_that_takes_visible_writes_for_durable(
    mutant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    assert any(play(seed).faults for seed in range(20))
