"""What compaction keeps of a log, by Kafka's rules, and that readers never notice more than that."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import structlog

from muster.coordinator.log import LogConfig, LogManager, MemoryStorage, UnifiedLog, batches
from muster.coordinator.log.cleaning.cleaner import Cleaner
from muster.coordinator.log.cleaning.job import examine
from muster.coordinator.log.records.headers import DELETE_HORIZON, BatchHeader, set_crc
from muster.coordinator.log.records.markers import build_marker
from muster.coordinator.log.segments.transaction_index import decode as decode_index
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.system.jobs import at_once
from tests.coordinator.log.support import NOW, PendingResult, manage
from tests.support.markers import build_control

COMPACTED = LogConfig(
    segment_bytes=2000, index_interval_bytes=200, cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.01
)
DAY_MS = 86_400_000
Rows = list[tuple[int, bytes | None, bytes | None]]


class Bench:
    """A log and the cleaner of its data directory, whose threads run when the test says so."""

    def __init__(self, config: LogConfig = COMPACTED, **settings: Any) -> None:
        self.storage = MemoryStorage()
        self.later = PendingResult()
        self.clock = ManualClock(NOW)
        self.manager: LogManager = manage(self.storage, **settings)
        self.log: UnifiedLog = self.manager.open_log("t", 0, config=config)
        self.cleaner = Cleaner(self.manager, self.clock, self.later.sync, cpu_share=1.0)

    def put(self, *pairs: tuple[bytes | None, bytes | None], **more: Any) -> int:
        more.setdefault("timestamp_ms", self.clock.now().wall_ms)
        return self.log.append(0, batches.build(list(pairs), **more), wall_ms=self.clock.now().wall_ms).base_offset

    def mark(self, kind: int, producer_id: int = 7) -> int:
        marker = build_control(kind, timestamp_ms=self.clock.now().wall_ms, producer_id=producer_id, producer_epoch=0)
        return self.log.append(0, marker, wall_ms=self.clock.now().wall_ms).base_offset

    def compact(self) -> None:
        """With all that was written so far in segments that may be compacted."""
        self.log.roll(self.clock.now().wall_ms)
        self.cleaner.check_logs()
        self.later.settle()
        assert self.cleaner.is_idle

    def rows(self) -> Rows:
        return list(rows_of(self.log))

    def headers(self) -> list[BatchHeader]:
        return list(self.log.headers())


def rows_of(log: UnifiedLog) -> Iterator[tuple[int, bytes | None, bytes | None]]:
    for chunk in log.replay():
        for header, records in batches.read(chunk):
            if not header.is_control:
                yield from ((record.offset, record.key, record.value) for record in records)


def test_compaction_keeps_the_latest_record_of_each_key_at_its_offset() -> None:
    bench = Bench()
    for index in range(100):
        bench.put((b"k%d" % (index % 7), b"v%d" % index))
    bench.compact()
    assert bench.rows() == [(offset, b"k%d" % (offset % 7), b"v%d" % offset) for offset in range(93, 100)]
    assert bench.log.end_offset == 100
    assert bench.log.start_offset == 0
    # what the next one finds small enough becomes one segment; its files have their names
    bench.put((b"other", b"1"))
    bench.compact()
    assert [segment.base_offset for segment in bench.log.segments] == [0, 101]
    names = sorted(name for name in bench.storage.files if name.startswith("t-0/0"))
    assert [name for name in names if "swap" in name or "clean" in name or "replaces" in name] == []


@pytest.mark.parametrize("codec", range(5))
def test_compaction_removes_outdated_records_from_batches(codec: int) -> None:
    bench = Bench()
    first = [(b"k%d" % index, b"first") for index in range(20)]
    bench.put(*first, compression=codec)
    bench.put(*[(b"k%d" % index, b"second") for index in range(0, 20, 2)], compression=codec)
    bench.put((b"k3", b"x" * 9000), compression=codec) if codec else None
    before = bench.headers()
    bench.compact()
    gone = {*range(0, 20, 2), *([3] if codec else [])}
    kept = [(offset, *first[offset]) for offset in range(20) if offset not in gone]
    assert bench.rows()[: len(kept)] == kept
    after = bench.headers()
    assert after[0].record_count == len(kept)
    same = ("base_offset", "last_offset_delta", "leader_epoch", "compression", "base_sequence", "is_transactional")
    assert [getattr(after[0], name) for name in same] == [getattr(before[0], name) for name in same]
    assert after[1:] == before[1:]


def test_compaction_does_not_touch_the_active_segment() -> None:
    bench = Bench()
    bench.put((b"k", b"1"))
    bench.put((b"k", b"2"))
    bench.log.roll(NOW)
    bench.put((b"k", b"3"))
    bench.put((b"k", b"4"))
    bench.cleaner.check_logs()
    bench.later.settle()
    assert bench.rows() == [(1, b"k", b"2"), (2, b"k", b"3"), (3, b"k", b"4")]


def test_compaction_removes_records_without_a_key() -> None:
    bench = Bench()
    bench.put((None, b"1"))
    bench.put((None, b"2"), (b"k", b"3"))
    bench.compact()
    assert bench.rows() == [(2, b"k", b"3")]


class TestTombstones:
    def test_a_tombstone_stays_for_delete_retention_ms_after_its_first_compaction(self) -> None:
        bench = Bench(replace(COMPACTED, delete_retention_ms=1000))
        bench.put((b"k", b"1"))
        bench.put((b"k", None), timestamp_ms=5)
        bench.put((b"other", b"2"))
        bench.clock.advance(50_000)
        bench.compact()
        assert bench.rows() == [(1, b"k", None), (2, b"other", b"2")]
        header = bench.headers()[0]
        assert header.attributes & DELETE_HORIZON
        assert header.base_timestamp == NOW + 50_000 + 1000
        assert header.max_timestamp == 5
        (_, records), *_ = batches.read(bench.log.read(0, 1000))
        assert [record.timestamp for record in records] == [5]
        bench.clock.advance(999)
        bench.put((b"more", b"3"))
        bench.compact()
        assert bench.rows()[0] == (1, b"k", None)
        assert bench.headers()[0].base_timestamp == NOW + 50_000 + 1000
        bench.clock.advance(1)
        bench.put((b"more", b"4"))
        bench.compact()
        assert bench.rows() == [(2, b"other", b"2"), (4, b"more", b"4")]

    @pytest.mark.parametrize("codec", [0, 4])
    def test_a_tombstone_among_other_records_expires_too(self, codec: int) -> None:
        bench = Bench(replace(COMPACTED, delete_retention_ms=1000))
        bench.put((b"a", b"1"), (b"b", None), (b"c", b"3"), compression=codec)
        bench.compact()
        assert bench.rows() == [(0, b"a", b"1"), (1, b"b", None), (2, b"c", b"3")]
        assert bench.headers()[0].attributes & (DELETE_HORIZON | 7) == DELETE_HORIZON | codec
        bench.clock.advance(1000)
        bench.put((b"more", b"4"))
        bench.compact()
        assert bench.rows() == [(0, b"a", b"1"), (2, b"c", b"3"), (3, b"more", b"4")]

    def test_a_later_value_replaces_a_tombstone(self) -> None:
        bench = Bench()
        bench.put((b"k", None))
        bench.compact()
        bench.put((b"k", b"1"))
        bench.compact()
        assert bench.rows() == [(1, b"k", b"1")]


class TestProducers:
    def test_the_last_batch_of_each_producer_stays_even_if_empty(self) -> None:
        bench = Bench()
        for sequence in range(3):
            bench.put((b"k", b"%d" % sequence), producer_id=7, producer_epoch=2, base_sequence=sequence)
        bench.put((b"k", b"last"))
        bench.compact()
        assert bench.rows() == [(3, b"k", b"last")]
        left = bench.headers()[0]
        assert (left.base_offset, left.record_count, left.producer_id, left.producer_epoch) == (2, 0, 7, 2)
        assert left.last_sequence == 2
        bench.put((b"j", b"x"), producer_id=7, producer_epoch=2, base_sequence=3)
        bench.compact()
        assert [header.base_offset for header in bench.headers()] == [3, 4]

    def test_the_last_batch_of_an_expired_producer_is_removed(self) -> None:
        bench = Bench()
        bench.put((b"k", b"0"), producer_id=7, producer_epoch=2, base_sequence=0)
        bench.put((b"k", b"1"))
        bench.clock.advance(DAY_MS + 1)
        bench.compact()
        assert [header.base_offset for header in bench.headers()] == [1]

    def test_compaction_removes_aborted_records_which_hide_no_others(self) -> None:
        bench = Bench()
        bench.put((b"k", b"kept"))
        bench.put((b"k", b"aborted"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        bench.mark(batches.CONTROL_ABORT)
        bench.put((b"j", b"committed"), producer_id=7, producer_epoch=0, base_sequence=1, transactional=True)
        bench.mark(batches.CONTROL_COMMIT)
        bench.compact()
        assert bench.rows() == [(0, b"k", b"kept"), (3, b"j", b"committed")]
        assert [header.base_offset for header in bench.headers() if header.is_control] == [2, 4]

    @pytest.mark.parametrize("is_known", [False, True])
    def test_the_transaction_index_fits_the_compacted_segment(self, is_known: bool) -> None:
        bench = Bench(replace(COMPACTED, delete_retention_ms=0))
        if is_known:
            at_once(bench.log.producers.loading())
        for sequence in range(2):
            bench.put((b"a", b"-"), producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True)
            bench.mark(batches.CONTROL_ABORT)
        bench.compact()
        # the last batch of the producer is empty and still there, and so is what says that it was aborted
        assert [(header.base_offset, header.record_count) for header in bench.headers()] == [(1, 1), (2, 0), (3, 1)]
        path = f"t-0/{0:020d}.txnindex"
        # of the first one it was the last look: its marker goes in the next round
        both = [(7, 0, 1, 2), (7, 2, 3, 4)]
        assert decode_index(bench.storage.load(path) or b"") == both
        at_once(bench.log.producers.loading())
        assert at_once(bench.log.producers.aborted_in(0, 10_000)) == (both if is_known else both[1:])
        bench.put((b"b", b"1"), producer_id=7, producer_epoch=0, base_sequence=2, transactional=True)
        bench.mark(batches.CONTROL_COMMIT)
        for _ in range(3):
            bench.clock.advance(1)
            bench.put((b"c", b"1"))
            bench.compact()
        assert [header.base_offset for header in bench.headers()] == [4, 5, 8]
        assert bench.storage.load(path) is None
        assert at_once(bench.log.producers.aborted_in(0, 10_000)) == []
        bench.manager.close()
        bench.storage.locked = False
        again = manage(bench.storage).open_log("t", 0, config=COMPACTED)
        at_once(again.producers.loading())
        producer = again.producers.get(7)
        assert producer is not None
        assert (producer.last_sequence, producer.transaction_start) == (2, None)

    @pytest.mark.parametrize("is_known", [False, True])
    def test_a_marker_that_raised_the_epoch_stays_while_there_is_no_data_of_it(self, is_known: bool) -> None:
        bench = Bench(replace(COMPACTED, delete_retention_ms=0))
        if is_known:
            at_once(bench.log.producers.loading())
        bench.put((b"a", b"1"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        marker = build_marker(7, 1, bench.clock.now().wall_ms, is_committed=True, coordinator_epoch=0)
        bench.log.append(0, marker, wall_ms=bench.clock.now().wall_ms)
        for value in (b"2", b"3", b"4"):
            bench.clock.advance(1)
            bench.put((b"a", value))
            bench.compact()
        assert [(header.base_offset, header.producer_epoch) for header in bench.headers()] == [(1, 1), (4, -1)]

    @pytest.mark.parametrize("is_known", [False, True])
    def test_the_last_batch_of_a_producer_is_found_in_the_whole_log(self, is_known: bool) -> None:
        bench = Bench()
        if is_known:
            at_once(bench.log.producers.loading())
        bench.put((b"a", b"1"), producer_id=7, producer_epoch=0, base_sequence=0)
        bench.put((b"a", b"2"))
        bench.log.roll(NOW)
        bench.put((b"b", b"1"), producer_id=7, producer_epoch=0, base_sequence=1)
        bench.cleaner.check_logs()
        bench.later.settle()
        # who does not know the end of the log keeps more
        assert [header.base_offset for header in bench.headers()] == ([1, 2] if is_known else [0, 1, 2])

    def test_compaction_stops_before_an_open_transaction(self) -> None:
        bench = Bench()
        bench.put((b"k", b"0"))
        bench.put((b"k", b"1"))
        bench.log.roll(NOW)
        bench.put((b"k", b"2"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        bench.put((b"k", b"3"))
        bench.compact()
        assert bench.rows() == [(1, b"k", b"1"), (2, b"k", b"2"), (3, b"k", b"3")]
        with structlog.testing.capture_logs() as told:
            bench.compact()  # nothing but the same transaction
            bench.cleaner.check_logs()
            assert bench.cleaner.is_idle  # nor is it looked at again and again
        assert told == []
        bench.mark(batches.CONTROL_ABORT)
        bench.compact()
        assert bench.rows() == [(3, b"k", b"3")]

    def test_a_marker_is_removed_when_its_transaction_is_gone_and_time_has_passed(self) -> None:
        bench = Bench(replace(COMPACTED, delete_retention_ms=1000))
        bench.put((b"k", b"0"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        bench.mark(batches.CONTROL_COMMIT)
        bench.put((b"k", b"1"), producer_id=7, producer_epoch=0, base_sequence=1, transactional=True)
        bench.mark(batches.CONTROL_COMMIT)
        bench.compact()
        assert [header.base_offset for header in bench.headers()] == [1, 2, 3]
        bench.put((b"j", b"1"))
        bench.compact()
        horizon = bench.headers()[0]
        assert (horizon.base_offset, horizon.is_control) == (1, True)
        assert horizon.attributes & DELETE_HORIZON
        (_, records), *_ = batches.read(bench.log.read(0, 1000))
        assert [batches.control_kind(record) for record in records] == [batches.CONTROL_COMMIT]
        bench.clock.advance(1000)
        bench.put((b"j", b"2"))
        bench.compact()
        assert [header.base_offset for header in bench.headers()] == [2, 3, 5]


class TestWhen:
    def test_a_log_is_not_compacted_before_the_dirty_ratio_is_reached(self) -> None:
        bench = Bench(replace(COMPACTED, min_cleanable_dirty_ratio=0.5))
        for index in range(40):
            bench.put((b"k%d" % index, b"x" * 50))
        bench.compact()
        bench.put((b"k1", b"new"))
        bench.compact()
        assert len(bench.rows()) == 41
        for index in range(41):
            bench.put((b"k%d" % index, b"y" * 50))
        bench.compact()
        assert len(bench.rows()) == 41

    def test_records_younger_than_the_minimum_lag_are_not_compacted(self) -> None:
        bench = Bench(replace(COMPACTED, min_compaction_lag_ms=1000))
        bench.put((b"k", b"1"))
        bench.put((b"k", b"2"))
        bench.compact()
        assert len(bench.rows()) == 2
        bench.clock.advance(1001)
        bench.compact()
        assert bench.rows() == [(1, b"k", b"2")]

    def test_records_older_than_the_maximum_lag_are_compacted_without_the_ratio(self) -> None:
        bench = Bench(replace(COMPACTED, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=1000))
        bench.put((b"k", b"1"))
        bench.put((b"k", b"2"))
        bench.compact()
        assert len(bench.rows()) == 2
        bench.clock.advance(1000)
        # the active segment is not compacted, so it is not kept for longer either
        bench.put((b"k", b"3"), timestamp_ms=NOW + 1001)
        bench.put((b"k", b"4"), timestamp_ms=NOW + 2002)
        bench.put((b"k", b"5"), timestamp_ms=NOW + 3004)
        assert len(bench.log.segments) == 4
        bench.compact()
        assert bench.rows() == [(4, b"k", b"5")]

    def test_the_cleaner_runs_by_the_clock_unless_switched_off(self) -> None:
        for enabled in (True, False):
            bench = Bench(log_cleaner_enable=enabled, log_cleaner_backoff_ms=100)
            bench.cleaner.start()
            bench.put((b"k", b"1"))
            bench.put((b"k", b"2"))
            bench.log.roll(NOW)
            bench.clock.advance(99)
            bench.later.settle()
            assert len(bench.rows()) == 2
            bench.clock.advance(1)
            bench.later.settle()
            assert len(bench.rows()) == (1 if enabled else 2)

    def test_keys_that_exceed_the_offset_map_are_compacted_in_several_runs(self) -> None:
        bench = Bench(log_cleaner_dedupe_buffer_size=200 * 10)
        for index in range(90):
            bench.put((b"k%d" % (index % 30), b"%d" % index))
        bench.compact()
        for _ in range(20):
            bench.compact()
        assert bench.rows() == [(offset, b"k%d" % (offset % 30), b"%d" % offset) for offset in range(60, 90)]

    def test_a_log_without_compaction_is_not_changed(self) -> None:
        bench = Bench(replace(COMPACTED, cleanup_policy=("delete",)))
        bench.put((b"k", b"1"))
        bench.put((b"k", b"2"))
        bench.compact()
        assert len(bench.rows()) == 2


def test_the_cleaner_checkpoint_is_written_as_on_kafka() -> None:
    bench = Bench()
    bench.put((b"k", b"1"))
    bench.compact()
    assert bench.storage.load("cleaner-offset-checkpoint") == b"0\n1\nt 0 1\n"
    assert examine(bench.log, 1, NOW).dirty_bytes == 0


def test_damage_stops_the_compaction_and_nothing_is_dropped() -> None:
    bench = Bench()
    bench.put((b"k", b"1"))
    bench.put((b"k", b"2"))
    bench.log.roll(NOW)
    name = "t-0/00000000000000000000.log"
    bench.storage.files[name][65] ^= 1
    before = dict(bench.storage.files)
    bench.cleaner.check_logs()
    bench.later.settle()
    assert bench.cleaner.is_idle
    assert bench.storage.files == before
    # as on Kafka it is not tried again and again
    bench.cleaner.check_logs()
    assert bench.cleaner.is_idle
    assert bench.later.jobs == []


def test_malformed_records_stop_the_compaction() -> None:
    bench = Bench()
    bad = batches.build([(b"k", b"1"), (b"k", b"2")], timestamp_ms=NOW)
    bad[61] = 0x7F
    set_crc(bad, 0, len(bad))
    bench.log.append(0, bad, wall_ms=NOW)
    bench.compact()
    assert bench.log.size_bytes == len(bad)


class TestMeanwhile:
    def begun(self) -> Bench:
        bench = Bench()
        for index in range(60):
            bench.put((b"k%d" % (index % 7), b"v%d" % index))
        bench.log.roll(NOW)
        bench.cleaner.check_logs()
        return bench

    def test_the_log_is_read_and_written_between_two_compaction_steps(self) -> None:
        bench = self.begun()
        latest = {b"k%d" % (index % 7): (index, b"v%d" % index) for index in range(60)}
        while bench.later.jobs or bench.later.outcomes:
            bench.later.work()
            offset = bench.put((b"k1", b"new"))
            latest[b"k1"] = (offset, b"new")
            assert {key: (at, value) for at, key, value in bench.rows()} == latest
            bench.later.deliver()
            assert {key: (at, value) for at, key, value in bench.rows()} == latest
        assert len(bench.rows()) < 20

    def test_a_replay_continues_in_the_compacted_segments(self) -> None:
        bench = self.begun()
        chunks = bench.log.replay(chunk_bytes=100)
        found = [next(chunks) for _ in range(5)]
        bench.later.settle()
        found += chunks
        seen = [record.offset for chunk in found for _, records in batches.read(chunk) for record in records]
        assert seen == [*range(len(seen) - 7), *range(53, 60)]

    def test_segments_deleted_meanwhile_end_the_compaction(self) -> None:
        bench = self.begun()
        bench.later.work()
        bench.log.delete_records_before(bench.log.segments[1].base_offset)
        before = bench.rows()
        bench.later.settle()
        assert bench.rows() == before
        assert not [name for name in bench.storage.files if "swap" in name]
        bench.compact()
        assert len(bench.rows()) == 7

    def test_a_stopped_compaction_leaves_the_log_unchanged(self) -> None:
        bench = self.begun()
        before = bench.rows()
        bench.cleaner.stop()
        bench.later.settle()
        assert bench.rows() == before
        assert not [name for name in bench.storage.files if "clean" in name]

    def test_a_compaction_ends_when_its_log_goes_offline(self) -> None:
        bench = self.begun()
        bench.later.work()
        bench.log.go_offline("t-0", OSError("broken"))
        bench.later.settle()
        again = bench.manager.reopen("t", 0)
        assert [offset for offset, _, _ in rows_of(again)] == list(range(60))


@pytest.mark.parametrize("seed", range(12))
def test_random_histories_keep_the_latest_of_each_key(seed: int) -> None:
    """Whatever was written, compacted and restarted: each key shows its newest committed value, or is gone when that
    was a tombstone.
    """
    draw = random.Random(seed)
    bench = Bench(replace(COMPACTED, delete_retention_ms=500, segment_bytes=draw.choice([400, 3000])))
    latest: dict[bytes, tuple[int, bytes | None]] = {}
    sequence = 0
    for _ in range(draw.randrange(50, 200)):
        chance = draw.random()
        keys = [b"key-%d" % draw.randrange(12) for _ in range(draw.choice([1, 1, 1, 2, 5]))]
        pairs = [(key, None if draw.random() < 0.2 else b"%d" % draw.randrange(10**6)) for key in keys]
        if chance < 0.7:
            offset = bench.put(*pairs, compression=draw.choice([0, 0, 0, 1, 2, 3, 4]))
            latest.update({key: (offset + index, value) for index, (key, value) in enumerate(pairs)})
        elif chance < 0.85:
            offset = bench.put(*pairs, producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True)
            sequence += len(pairs)
            if draw.random() < 0.5:
                bench.mark(batches.CONTROL_ABORT)
            else:
                bench.mark(batches.CONTROL_COMMIT)
                latest.update({key: (offset + index, value) for index, (key, value) in enumerate(pairs)})
        elif chance < 0.95:
            bench.compact()
        else:
            bench.clock.advance(draw.randrange(400))
        if draw.random() < 0.05:
            bench.manager.close(clean=draw.random() < 0.5)
            bench.manager = manage(bench.storage)
            bench.log = bench.manager.open_log("t", 0, config=bench.log.config)
            bench.cleaner = Cleaner(bench.manager, bench.clock, bench.later.sync, cpu_share=1.0)
        committed: dict[bytes, tuple[int, bytes | None]] = {}
        aborted = aborted_offsets(bench)
        for offset, key, value in bench.rows():
            assert key is not None
            if offset not in aborted:
                committed[key] = (offset, value)
        gone = {key for key in latest if key not in committed}
        assert all(latest[key][1] is None for key in gone)
        assert committed == {key: held for key, held in latest.items() if key not in gone}


def aborted_offsets(bench: Bench) -> set[int]:
    """Of the records of the one producer: those before a marker that aborts."""
    found: set[int] = set()
    pending: list[int] = []
    for chunk in bench.log.replay():
        for header, records in batches.read(chunk):
            if header.is_control:
                if records and batches.control_kind(records[0]) == batches.CONTROL_ABORT:
                    found.update(pending)
                pending = []
            elif header.is_transactional:
                pending += [record.offset for record in records]
    return found
