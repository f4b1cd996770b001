"""What compaction keeps of a log, by Kafka's rules; readers notice nothing else of it."""

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


class CompactionHarness:
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
        """Compact everything that was written so far."""
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
    harness = CompactionHarness()
    for index in range(100):
        harness.put((b"k%d" % (index % 7), b"v%d" % index))
    harness.compact()
    assert harness.rows() == [(offset, b"k%d" % (offset % 7), b"v%d" % offset) for offset in range(93, 100)]
    assert harness.log.end_offset == 100
    assert harness.log.start_offset == 0
    # segments that the next round finds small enough become one segment; its files have their names
    harness.put((b"other", b"1"))
    harness.compact()
    assert [segment.base_offset for segment in harness.log.segments] == [0, 101]
    names = sorted(name for name in harness.storage.files if name.startswith("t-0/0"))
    assert [name for name in names if "swap" in name or "clean" in name or "replaces" in name] == []


@pytest.mark.parametrize("codec", range(5))
def test_compaction_removes_outdated_records_from_batches(codec: int) -> None:
    harness = CompactionHarness()
    first = [(b"k%d" % index, b"first") for index in range(20)]
    harness.put(*first, compression=codec)
    harness.put(*[(b"k%d" % index, b"second") for index in range(0, 20, 2)], compression=codec)
    harness.put((b"k3", b"x" * 9000), compression=codec) if codec else None
    before = harness.headers()
    harness.compact()
    gone = {*range(0, 20, 2), *([3] if codec else [])}
    kept = [(offset, *first[offset]) for offset in range(20) if offset not in gone]
    assert harness.rows()[: len(kept)] == kept
    after = harness.headers()
    assert after[0].record_count == len(kept)
    same = ("base_offset", "last_offset_delta", "leader_epoch", "compression", "base_sequence", "is_transactional")
    assert [getattr(after[0], name) for name in same] == [getattr(before[0], name) for name in same]
    assert after[1:] == before[1:]


def test_compaction_does_not_touch_the_active_segment() -> None:
    harness = CompactionHarness()
    harness.put((b"k", b"1"))
    harness.put((b"k", b"2"))
    harness.log.roll(NOW)
    harness.put((b"k", b"3"))
    harness.put((b"k", b"4"))
    harness.cleaner.check_logs()
    harness.later.settle()
    assert harness.rows() == [(1, b"k", b"2"), (2, b"k", b"3"), (3, b"k", b"4")]


def test_compaction_removes_records_without_a_key() -> None:
    harness = CompactionHarness()
    harness.put((None, b"1"))
    harness.put((None, b"2"), (b"k", b"3"))
    harness.compact()
    assert harness.rows() == [(2, b"k", b"3")]


class TestTombstones:
    def test_a_tombstone_stays_for_delete_retention_ms_after_its_first_compaction(self) -> None:
        harness = CompactionHarness(replace(COMPACTED, delete_retention_ms=1000))
        harness.put((b"k", b"1"))
        harness.put((b"k", None), timestamp_ms=5)
        harness.put((b"other", b"2"))
        harness.clock.advance(50_000)
        harness.compact()
        assert harness.rows() == [(1, b"k", None), (2, b"other", b"2")]
        header = harness.headers()[0]
        assert header.attributes & DELETE_HORIZON
        assert header.base_timestamp == NOW + 50_000 + 1000
        assert header.max_timestamp == 5
        (_, records), *_ = batches.read(harness.log.read(0, 1000))
        assert [record.timestamp for record in records] == [5]
        harness.clock.advance(999)
        harness.put((b"more", b"3"))
        harness.compact()
        assert harness.rows()[0] == (1, b"k", None)
        assert harness.headers()[0].base_timestamp == NOW + 50_000 + 1000
        harness.clock.advance(1)
        harness.put((b"more", b"4"))
        harness.compact()
        assert harness.rows() == [(2, b"other", b"2"), (4, b"more", b"4")]

    @pytest.mark.parametrize("codec", [0, 4])
    def test_a_tombstone_among_other_records_expires_too(self, codec: int) -> None:
        harness = CompactionHarness(replace(COMPACTED, delete_retention_ms=1000))
        harness.put((b"a", b"1"), (b"b", None), (b"c", b"3"), compression=codec)
        harness.compact()
        assert harness.rows() == [(0, b"a", b"1"), (1, b"b", None), (2, b"c", b"3")]
        assert harness.headers()[0].attributes & (DELETE_HORIZON | 7) == DELETE_HORIZON | codec
        harness.clock.advance(1000)
        harness.put((b"more", b"4"))
        harness.compact()
        assert harness.rows() == [(0, b"a", b"1"), (2, b"c", b"3"), (3, b"more", b"4")]

    def test_a_later_value_replaces_a_tombstone(self) -> None:
        harness = CompactionHarness()
        harness.put((b"k", None))
        harness.compact()
        harness.put((b"k", b"1"))
        harness.compact()
        assert harness.rows() == [(1, b"k", b"1")]


class TestProducers:
    def test_the_last_batch_of_each_producer_stays_even_if_empty(self) -> None:
        harness = CompactionHarness()
        for sequence in range(3):
            harness.put((b"k", b"%d" % sequence), producer_id=7, producer_epoch=2, base_sequence=sequence)
        harness.put((b"k", b"last"))
        harness.compact()
        assert harness.rows() == [(3, b"k", b"last")]
        left = harness.headers()[0]
        assert (left.base_offset, left.record_count, left.producer_id, left.producer_epoch) == (2, 0, 7, 2)
        assert left.last_sequence == 2
        harness.put((b"j", b"x"), producer_id=7, producer_epoch=2, base_sequence=3)
        harness.compact()
        assert [header.base_offset for header in harness.headers()] == [3, 4]

    def test_the_last_batch_of_an_expired_producer_is_removed(self) -> None:
        harness = CompactionHarness()
        harness.put((b"k", b"0"), producer_id=7, producer_epoch=2, base_sequence=0)
        harness.put((b"k", b"1"))
        harness.clock.advance(DAY_MS + 1)
        harness.compact()
        assert [header.base_offset for header in harness.headers()] == [1]

    def test_compaction_removes_aborted_records_which_hide_no_others(self) -> None:
        harness = CompactionHarness()
        harness.put((b"k", b"kept"))
        harness.put((b"k", b"aborted"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        harness.mark(batches.CONTROL_ABORT)
        harness.put((b"j", b"committed"), producer_id=7, producer_epoch=0, base_sequence=1, transactional=True)
        harness.mark(batches.CONTROL_COMMIT)
        harness.compact()
        assert harness.rows() == [(0, b"k", b"kept"), (3, b"j", b"committed")]
        assert [header.base_offset for header in harness.headers() if header.is_control] == [2, 4]

    @pytest.mark.parametrize("is_known", [False, True])
    def test_the_transaction_index_fits_the_compacted_segment(self, is_known: bool) -> None:
        harness = CompactionHarness(replace(COMPACTED, delete_retention_ms=0))
        if is_known:
            at_once(harness.log.producers.loading())
        for sequence in range(2):
            harness.put((b"a", b"-"), producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True)
            harness.mark(batches.CONTROL_ABORT)
        harness.compact()
        # the last batch of the producer is empty and still exists, and so does the entry that says it was aborted
        assert [(header.base_offset, header.record_count) for header in harness.headers()] == [(1, 1), (2, 0), (3, 1)]
        path = f"t-0/{0:020d}.txnindex"
        # for the first batch this was the last check: the next round removes its marker
        both = [(7, 0, 1, 2), (7, 2, 3, 4)]
        assert decode_index(harness.storage.load(path) or b"") == both
        at_once(harness.log.producers.loading())
        assert at_once(harness.log.producers.aborted_in(0, 10_000)) == (both if is_known else both[1:])
        harness.put((b"b", b"1"), producer_id=7, producer_epoch=0, base_sequence=2, transactional=True)
        harness.mark(batches.CONTROL_COMMIT)
        for _ in range(3):
            harness.clock.advance(1)
            harness.put((b"c", b"1"))
            harness.compact()
        assert [header.base_offset for header in harness.headers()] == [4, 5, 8]
        assert harness.storage.load(path) is None
        assert at_once(harness.log.producers.aborted_in(0, 10_000)) == []
        harness.manager.close()
        harness.storage.locked = False
        again = manage(harness.storage).open_log("t", 0, config=COMPACTED)
        at_once(again.producers.loading())
        producer = again.producers.get(7)
        assert producer is not None
        assert (producer.last_sequence, producer.transaction_start) == (2, None)

    @pytest.mark.parametrize("is_known", [False, True])
    def test_a_marker_that_raised_the_epoch_stays_while_there_is_no_data_of_it(self, is_known: bool) -> None:
        harness = CompactionHarness(replace(COMPACTED, delete_retention_ms=0))
        if is_known:
            at_once(harness.log.producers.loading())
        harness.put((b"a", b"1"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        marker = build_marker(7, 1, harness.clock.now().wall_ms, is_committed=True, coordinator_epoch=0)
        harness.log.append(0, marker, wall_ms=harness.clock.now().wall_ms)
        for value in (b"2", b"3", b"4"):
            harness.clock.advance(1)
            harness.put((b"a", value))
            harness.compact()
        assert [(header.base_offset, header.producer_epoch) for header in harness.headers()] == [(1, 1), (4, -1)]

    @pytest.mark.parametrize("is_known", [False, True])
    def test_the_last_batch_of_a_producer_is_found_in_the_whole_log(self, is_known: bool) -> None:
        harness = CompactionHarness()
        if is_known:
            at_once(harness.log.producers.loading())
        harness.put((b"a", b"1"), producer_id=7, producer_epoch=0, base_sequence=0)
        harness.put((b"a", b"2"))
        harness.log.roll(NOW)
        harness.put((b"b", b"1"), producer_id=7, producer_epoch=0, base_sequence=1)
        harness.cleaner.check_logs()
        harness.later.settle()
        # a cleaner that does not know the end of the log keeps more
        assert [header.base_offset for header in harness.headers()] == ([1, 2] if is_known else [0, 1, 2])

    def test_compaction_stops_before_an_open_transaction(self) -> None:
        harness = CompactionHarness()
        harness.put((b"k", b"0"))
        harness.put((b"k", b"1"))
        harness.log.roll(NOW)
        harness.put((b"k", b"2"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        harness.put((b"k", b"3"))
        harness.compact()
        assert harness.rows() == [(1, b"k", b"1"), (2, b"k", b"2"), (3, b"k", b"3")]
        with structlog.testing.capture_logs() as logged:
            harness.compact()  # only the same transaction is left
            harness.cleaner.check_logs()
            assert harness.cleaner.is_idle  # nor is it checked again and again
        assert logged == []
        harness.mark(batches.CONTROL_ABORT)
        harness.compact()
        assert harness.rows() == [(3, b"k", b"3")]

    def test_a_marker_is_removed_when_its_transaction_is_gone_and_time_has_passed(self) -> None:
        harness = CompactionHarness(replace(COMPACTED, delete_retention_ms=1000))
        harness.put((b"k", b"0"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        harness.mark(batches.CONTROL_COMMIT)
        harness.put((b"k", b"1"), producer_id=7, producer_epoch=0, base_sequence=1, transactional=True)
        harness.mark(batches.CONTROL_COMMIT)
        harness.compact()
        assert [header.base_offset for header in harness.headers()] == [1, 2, 3]
        harness.put((b"j", b"1"))
        harness.compact()
        horizon = harness.headers()[0]
        assert (horizon.base_offset, horizon.is_control) == (1, True)
        assert horizon.attributes & DELETE_HORIZON
        (_, records), *_ = batches.read(harness.log.read(0, 1000))
        assert [batches.control_kind(record) for record in records] == [batches.CONTROL_COMMIT]
        harness.clock.advance(1000)
        harness.put((b"j", b"2"))
        harness.compact()
        assert [header.base_offset for header in harness.headers()] == [2, 3, 5]


class TestWhen:
    def test_a_log_is_not_compacted_before_the_dirty_ratio_is_reached(self) -> None:
        harness = CompactionHarness(replace(COMPACTED, min_cleanable_dirty_ratio=0.5))
        for index in range(40):
            harness.put((b"k%d" % index, b"x" * 50))
        harness.compact()
        harness.put((b"k1", b"new"))
        harness.compact()
        assert len(harness.rows()) == 41
        for index in range(41):
            harness.put((b"k%d" % index, b"y" * 50))
        harness.compact()
        assert len(harness.rows()) == 41

    def test_records_younger_than_the_minimum_lag_are_not_compacted(self) -> None:
        harness = CompactionHarness(replace(COMPACTED, min_compaction_lag_ms=1000))
        harness.put((b"k", b"1"))
        harness.put((b"k", b"2"))
        harness.compact()
        assert len(harness.rows()) == 2
        harness.clock.advance(1001)
        harness.compact()
        assert harness.rows() == [(1, b"k", b"2")]

    def test_records_older_than_the_maximum_lag_are_compacted_without_the_ratio(self) -> None:
        harness = CompactionHarness(replace(COMPACTED, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=1000))
        harness.put((b"k", b"1"))
        harness.put((b"k", b"2"))
        harness.compact()
        assert len(harness.rows()) == 2
        harness.clock.advance(1000)
        # the active segment is not compacted, so it is not kept for longer either
        harness.put((b"k", b"3"), timestamp_ms=NOW + 1001)
        harness.put((b"k", b"4"), timestamp_ms=NOW + 2002)
        harness.put((b"k", b"5"), timestamp_ms=NOW + 3004)
        assert len(harness.log.segments) == 4
        harness.compact()
        assert harness.rows() == [(4, b"k", b"5")]

    def test_the_cleaner_runs_by_the_clock_unless_switched_off(self) -> None:
        for enabled in (True, False):
            harness = CompactionHarness(log_cleaner_enable=enabled, log_cleaner_backoff_ms=100)
            harness.cleaner.start()
            harness.put((b"k", b"1"))
            harness.put((b"k", b"2"))
            harness.log.roll(NOW)
            harness.clock.advance(99)
            harness.later.settle()
            assert len(harness.rows()) == 2
            harness.clock.advance(1)
            harness.later.settle()
            assert len(harness.rows()) == (1 if enabled else 2)

    def test_keys_that_exceed_the_offset_map_are_compacted_in_several_runs(self) -> None:
        harness = CompactionHarness(log_cleaner_dedupe_buffer_size=200 * 10)
        for index in range(90):
            harness.put((b"k%d" % (index % 30), b"%d" % index))
        harness.compact()
        for _ in range(20):
            harness.compact()
        assert harness.rows() == [(offset, b"k%d" % (offset % 30), b"%d" % offset) for offset in range(60, 90)]

    def test_a_log_without_compaction_is_not_changed(self) -> None:
        harness = CompactionHarness(replace(COMPACTED, cleanup_policy=("delete",)))
        harness.put((b"k", b"1"))
        harness.put((b"k", b"2"))
        harness.compact()
        assert len(harness.rows()) == 2


def test_the_cleaner_checkpoint_is_written_as_on_kafka() -> None:
    harness = CompactionHarness()
    harness.put((b"k", b"1"))
    harness.compact()
    assert harness.storage.load("cleaner-offset-checkpoint") == b"0\n1\nt 0 1\n"
    assert examine(harness.log, 1, NOW).dirty_bytes == 0


def test_damage_stops_the_compaction_and_nothing_is_dropped() -> None:
    harness = CompactionHarness()
    harness.put((b"k", b"1"))
    harness.put((b"k", b"2"))
    harness.log.roll(NOW)
    name = "t-0/00000000000000000000.log"
    harness.storage.files[name][65] ^= 1
    before = dict(harness.storage.files)
    harness.cleaner.check_logs()
    harness.later.settle()
    assert harness.cleaner.is_idle
    assert harness.storage.files == before
    # as on Kafka, there is no endless repetition
    harness.cleaner.check_logs()
    assert harness.cleaner.is_idle
    assert harness.later.jobs == []


def test_malformed_records_stop_the_compaction() -> None:
    harness = CompactionHarness()
    bad = batches.build([(b"k", b"1"), (b"k", b"2")], timestamp_ms=NOW)
    bad[61] = 0x7F
    set_crc(bad, len(bad))
    harness.log.append(0, bad, wall_ms=NOW)
    harness.compact()
    assert harness.log.size_bytes == len(bad)


class TestMeanwhile:
    def begun(self) -> CompactionHarness:
        harness = CompactionHarness()
        for index in range(60):
            harness.put((b"k%d" % (index % 7), b"v%d" % index))
        harness.log.roll(NOW)
        harness.cleaner.check_logs()
        return harness

    def test_the_log_is_read_and_written_between_two_compaction_steps(self) -> None:
        harness = self.begun()
        latest = {b"k%d" % (index % 7): (index, b"v%d" % index) for index in range(60)}
        while harness.later.jobs or harness.later.outcomes:
            harness.later.work()
            offset = harness.put((b"k1", b"new"))
            latest[b"k1"] = (offset, b"new")
            assert {key: (at, value) for at, key, value in harness.rows()} == latest
            harness.later.deliver()
            assert {key: (at, value) for at, key, value in harness.rows()} == latest
        assert len(harness.rows()) < 20

    def test_a_replay_continues_in_the_compacted_segments(self) -> None:
        harness = self.begun()
        chunks = harness.log.replay(chunk_bytes=100)
        found = [next(chunks) for _ in range(5)]
        harness.later.settle()
        found += chunks
        seen = [record.offset for chunk in found for _, records in batches.read(chunk) for record in records]
        assert seen == [*range(len(seen) - 7), *range(53, 60)]

    def test_segments_deleted_meanwhile_end_the_compaction(self) -> None:
        harness = self.begun()
        harness.later.work()
        harness.log.delete_records_before(harness.log.segments[1].base_offset)
        before = harness.rows()
        harness.later.settle()
        assert harness.rows() == before
        assert not [name for name in harness.storage.files if "swap" in name]
        harness.compact()
        assert len(harness.rows()) == 7

    def test_a_stopped_compaction_leaves_the_log_unchanged(self) -> None:
        harness = self.begun()
        before = harness.rows()
        harness.cleaner.stop()
        harness.later.settle()
        assert harness.rows() == before
        assert not [name for name in harness.storage.files if "clean" in name]

    def test_a_compaction_ends_when_its_log_goes_offline(self) -> None:
        harness = self.begun()
        harness.later.work()
        harness.log.go_offline("t-0", OSError("broken"))
        harness.later.settle()
        again = harness.manager.reopen("t", 0)
        assert [offset for offset, _, _ in rows_of(again)] == list(range(60))


@pytest.mark.parametrize("seed", range(12))
def test_random_histories_keep_the_latest_of_each_key(seed: int) -> None:
    """Records are written, compacted and reloaded at random: each key shows its newest committed value, or is absent
    after a tombstone.
    """
    draw = random.Random(seed)
    harness = CompactionHarness(replace(COMPACTED, delete_retention_ms=500, segment_bytes=draw.choice([400, 3000])))
    latest: dict[bytes, tuple[int, bytes | None]] = {}
    sequence = 0
    for _ in range(draw.randrange(50, 200)):
        chance = draw.random()
        keys = [b"key-%d" % draw.randrange(12) for _ in range(draw.choice([1, 1, 1, 2, 5]))]
        pairs = [(key, None if draw.random() < 0.2 else b"%d" % draw.randrange(10**6)) for key in keys]
        if chance < 0.7:
            offset = harness.put(*pairs, compression=draw.choice([0, 0, 0, 1, 2, 3, 4]))
            latest.update({key: (offset + index, value) for index, (key, value) in enumerate(pairs)})
        elif chance < 0.85:
            offset = harness.put(*pairs, producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True)
            sequence += len(pairs)
            if draw.random() < 0.5:
                harness.mark(batches.CONTROL_ABORT)
            else:
                harness.mark(batches.CONTROL_COMMIT)
                latest.update({key: (offset + index, value) for index, (key, value) in enumerate(pairs)})
        elif chance < 0.95:
            harness.compact()
        else:
            harness.clock.advance(draw.randrange(400))
        if draw.random() < 0.05:
            harness.manager.close(clean=draw.random() < 0.5)
            harness.manager = manage(harness.storage)
            harness.log = harness.manager.open_log("t", 0, config=harness.log.config)
            harness.cleaner = Cleaner(harness.manager, harness.clock, harness.later.sync, cpu_share=1.0)
        committed: dict[bytes, tuple[int, bytes | None]] = {}
        aborted = aborted_offsets(harness)
        for offset, key, value in harness.rows():
            assert key is not None
            if offset not in aborted:
                committed[key] = (offset, value)
        gone = {key for key in latest if key not in committed}
        assert all(latest[key][1] is None for key in gone)
        assert committed == {key: held for key, held in latest.items() if key not in gone}


def aborted_offsets(harness: CompactionHarness) -> set[int]:
    """The offsets of the only producer's aborted records: those before a marker that aborts."""
    found: set[int] = set()
    pending: list[int] = []
    for chunk in harness.log.replay():
        for header, records in batches.read(chunk):
            if header.is_control:
                if records and batches.control_kind(records[0]) == batches.CONTROL_ABORT:
                    found.update(pending)
                pending = []
            elif header.is_transactional:
                pending += [record.offset for record in records]
    return found
