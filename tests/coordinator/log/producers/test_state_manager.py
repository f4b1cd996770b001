from __future__ import annotations

from collections.abc import Sequence

import pytest

from muster.coordinator.log import LogManager, LogSettings, MemoryStorage, UnifiedLog
from muster.coordinator.log.producers import files, state_manager
from muster.coordinator.log.producers.snapshot import decode, encode, row_of
from muster.coordinator.log.producers.state import Producer, SeenBatch
from muster.coordinator.log.records.markers import EndMarker
from muster.coordinator.log.segments.transaction_index import (
    ENTRY_SIZE,
    AbortedTransaction,
    TransactionIndex,
)
from muster.coordinator.log.segments.transaction_index import (
    decode as decode_index,
)
from muster.coordinator.system.jobs import at_once
from tests.coordinator.topics.support import Draws, batch

NOW = 1_700_000_000_000
FOLDER = "t-0"


def started(storage: MemoryStorage) -> tuple[LogManager, UnifiedLog]:
    """A log whose manager has just been started."""
    manager = LogManager(storage, LogSettings())
    manager.open(cluster_id=None, node_id=1, draw_uuid=Draws())
    return manager, manager.open_log("t", 0, wall_ms=NOW)


def opened(storage: MemoryStorage) -> tuple[LogManager, UnifiedLog]:
    """The same log after its producers are known."""
    manager, log = started(storage)
    at_once(log.producers.loading())
    return manager, log


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


def send(log: UnifiedLog, producer_id: int, sequence: int, *, transactional: bool = True, epoch: int = 0) -> int:
    data = batch(
        b"x", producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=transactional
    )
    return log.append(0, data, wall_ms=NOW).base_offset


def end(log: UnifiedLog, producer_id: int, *, committed: bool = False, epoch: int = 0) -> int:
    marker = EndMarker(producer_id, epoch, committed, 3, 0)
    return log.append_marker(0, marker, wall_ms=NOW).base_offset


def names(storage: MemoryStorage, suffix: str) -> list[str]:
    return [entry.name[15:20] for entry in storage.entries(FOLDER) if entry.name.endswith(suffix)]


def index_of(storage: MemoryStorage, base_offset: int = 0) -> list[tuple[int, ...]]:
    data = storage.load(f"{FOLDER}/{base_offset:020d}.txnindex")
    return [] if data is None else [tuple(aborted) for aborted in decode_index(data)]


def state(log: UnifiedLog) -> list[tuple[object, ...]]:
    """Everything on which later appends depend."""
    return sorted(
        (p.producer_id, p.epoch, p.last_sequence, p.coordinator_epoch, p.last_timestamp_ms, p.transaction_start)
        for p in log.producers.producers.all()
    )


def aborted(log: UnifiedLog, offset: int = 0) -> list[tuple[int, ...]]:
    found = at_once(log.producers.aborted_in(offset, 1 << 20))
    at_hand = log.producers.aborted_in_memory(offset, 1 << 20)
    assert at_hand is None or at_hand == found
    return [tuple(one) for one in found]


def segments(log: UnifiedLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_a_log_without_producers_has_no_producer_files(storage: MemoryStorage) -> None:
    manager, log = started(storage)
    for _ in range(3):
        log.append(0, batch(b"x"), wall_ms=NOW)
        log.roll(NOW)
    manager.close()
    assert not log.producers.is_loaded
    assert not names(storage, ".snapshot")
    assert not names(storage, ".txnindex")


def test_aborted_transactions_are_in_the_index_of_the_segment_of_their_marker(storage: MemoryStorage) -> None:
    _, log = opened(storage)
    send(log, 1, 0)
    send(log, 2, 0)
    log.roll(NOW)
    end(log, 1)
    end(log, 2, committed=True)
    send(log, 1, 1)
    end(log, 1)
    assert index_of(storage) == []
    assert index_of(storage, 2) == [(1, 0, 2, 1), (1, 4, 5, 6)]
    # up to where the reader's segment ends, as on Kafka
    assert aborted(log) == [(1, 0, 2, 1)]
    assert aborted(log, 2) == [(1, 0, 2, 1), (1, 4, 5, 6)]
    assert aborted(log, 3) == [(1, 4, 5, 6)]
    assert aborted(log, 6) == []


def test_a_start_after_a_clean_stop_reads_only_the_snapshot(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager, log = opened(storage)
    send(log, 1, 0)
    send(log, 2, 0, transactional=False)
    end(log, 1)
    send(log, 1, 1)
    before = state(log)
    manager.close()
    assert names(storage, ".snapshot") == ["00004"]
    _, log = started(storage)
    monkeypatch.setattr(state_manager, "segment_batches", lambda *_: pytest.fail("the log is read"))
    assert state(log) == before
    assert log.producers.last_stable_offset(log.end_offset) == 3
    assert aborted(log) == [(1, 0, 2, 3)]


def test_a_snapshot_is_written_at_each_new_segment_and_the_rest_is_replayed(
    storage: MemoryStorage,
) -> None:
    manager, log = opened(storage)
    send(log, 1, 0)
    log.roll(NOW)
    end(log, 1)
    send(log, 1, 1)
    before, entries = state(log), index_of(storage, 1)
    assert names(storage, ".snapshot") == ["00001"]
    manager.close(clean=False)
    _, log = opened(storage)
    assert state(log) == before
    assert index_of(storage, 1) == entries == [(1, 0, 1, 2)]


def test_a_transaction_index_without_its_last_entry_is_rebuilt(storage: MemoryStorage) -> None:
    manager, log = opened(storage)
    for sequence in range(3):
        send(log, 1, sequence)
        end(log, 1)
    manager.close(clean=False)
    file = storage.file(f"{FOLDER}/{0:020d}.txnindex")
    file.truncate(2 * ENTRY_SIZE + 5)
    _, log = opened(storage)
    assert aborted(log) == [(1, 0, 1, 2), (1, 2, 3, 4), (1, 4, 5, 6)]
    assert [tuple(found) for found in decode_index(storage.load(f"{FOLDER}/{0:020d}.txnindex") or b"")] == aborted(log)


@pytest.mark.parametrize("damage", [b"", b"\0\1", b"\0\1\0\0\0\0\0\0\0\1" + bytes(46), b"\0\7" + bytes(40)])
def test_a_damaged_snapshot_is_rebuilt(storage: MemoryStorage, damage: bytes) -> None:
    manager, log = opened(storage)
    send(log, 1, 0)
    log.roll(NOW)
    send(log, 1, 1)
    before = state(log)
    manager.close()
    assert names(storage, ".snapshot") == ["00001", "00002"]
    storage.save(f"{FOLDER}/{2:020d}.snapshot", damage)
    manager, log = opened(storage)
    assert state(log) == before
    manager.close()
    assert names(storage, ".snapshot") == ["00001", "00002"]
    storage.save(f"{FOLDER}/{1:020d}.snapshot", damage)
    storage.save(f"{FOLDER}/{2:020d}.snapshot", damage)
    _, log = opened(storage)
    assert state(log) == before


def test_a_damaged_transaction_index_is_rebuilt(storage: MemoryStorage) -> None:
    manager, log = opened(storage)
    for sequence in range(3):
        send(log, 1, sequence)
        end(log, 1)
        log.roll(NOW)
    before = aborted(log)
    manager.close()
    for damage in (bytes(ENTRY_SIZE), b"\0\1" + bytes(32)):
        storage.save(f"{FOLDER}/{2:020d}.txnindex", damage)
        manager, log = opened(storage)
        assert aborted(log) == before
        manager.close()
        assert index_of(storage, 2) == [(1, 2, 3, 4)]


def test_a_truncated_log_forgets_later_producer_state(storage: MemoryStorage) -> None:
    _, log = opened(storage)
    send(log, 1, 0)
    end(log, 1)
    log.roll(NOW)
    send(log, 1, 1)
    before = state(log)
    end(log, 1)
    log.roll(NOW)
    assert names(storage, ".snapshot") == ["00002", "00004"]
    log.truncate(3)
    assert names(storage, ".snapshot") == ["00002"]
    assert state(log) == before
    assert aborted(log) == [(1, 0, 1, 2)]
    assert names(storage, ".txnindex") == ["00000"]
    assert log.producers.last_stable_offset(log.end_offset) == 2


def test_truncating_a_log_without_loaded_producers_removes_later_snapshots(storage: MemoryStorage) -> None:
    manager, log = opened(storage)
    send(log, 1, 0)
    send(log, 1, 1)
    manager.close()
    _, log = started(storage)
    log.truncate(1)
    assert names(storage, ".snapshot") == []


def test_producer_files_are_removed_with_their_segments(storage: MemoryStorage) -> None:
    _, log = opened(storage)
    for sequence in range(3):
        send(log, 1, sequence)
        end(log, 1)
        log.roll(NOW)
    assert names(storage, ".snapshot") == ["00002", "00004", "00006"]
    log.delete_records_before(5)
    assert segments(log) == [4, 6]
    assert names(storage, ".snapshot") == ["00004", "00006"]
    assert names(storage, ".txnindex") == ["00004"]
    assert aborted(log, 5) == [(1, 4, 5, 6)]
    # an open transaction below the start stops readers there, and not before
    send(log, 2, 0)
    send(log, 3, 0, transactional=False)
    log.delete_records_before(8)
    assert log.producers.last_stable_offset(8) == 8
    assert state(log)[0][:3] == (1, 0, 2)


def test_superfluous_snapshots_are_removed_at_the_next_use(storage: MemoryStorage) -> None:
    manager, log = opened(storage)
    send(log, 1, 0)
    manager.close()
    for sequence in (1, 2):
        manager, log = opened(storage)
        send(log, 1, sequence)
        manager.close()
    assert names(storage, ".snapshot") == ["00002", "00003"]


def test_snapshots_behind_the_recovery_point_are_not_used(storage: MemoryStorage) -> None:
    manager, log = opened(storage)
    send(log, 1, 0)
    log.roll(NOW)
    manager.close(clean=False)
    started(storage)
    assert names(storage, ".snapshot") == []


def test_a_large_snapshot_is_written_in_a_thread_with_the_state_at_the_segments_start(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "FEW_PRODUCERS", 1)
    _, log = opened(storage)
    jobs: list[tuple[object, object]] = []
    log.producers._files._in_background = lambda job, done: jobs.append((job, done))
    for producer_id in range(3):
        send(log, producer_id, 0)
    before = [row_of(producer) for producer in log.producers.producers.all()]
    log.roll(NOW)
    end(log, 1)
    send(log, 2, 1)
    log.roll(NOW)
    ((job, done),) = jobs
    assert callable(job)
    assert callable(done)
    job()
    done()
    assert storage.load(f"{FOLDER}/{3:020d}.snapshot") == encode(before)
    log.roll(NOW)
    send(log, 2, 2)
    log.roll(NOW)
    # the log is cut before the thread gets to it
    log.truncate(4)
    for job, done in jobs[1:]:
        assert callable(job)
        assert callable(done)
        job()
        done()
    assert names(storage, ".snapshot") == ["00003"]


def test_producer_state_is_loaded_in_small_steps(storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_manager, "STEP_BATCHES", 2)
    manager, log = started(storage)
    for sequence in range(20):
        send(log, 1, sequence)
        if sequence % 6 == 5:
            log.roll(NOW)
    one, two = log.producers.loading(), log.producers.loading()
    steps = 0
    for _ in one:
        steps += 1
        next(two, None)
        if steps == 2:
            # the log continues, and loses its first segment
            send(log, 2, 0)
            log.delete_records_before(7)
    assert steps > 4
    assert [row[:3] for row in state(log)] == [(1, 0, 19), (2, 0, 0)]
    manager.close()


def test_records_that_are_not_durable_are_not_stable(storage: MemoryStorage) -> None:
    _, log = opened(storage)
    send(log, 1, 0)
    end(log, 1, committed=True)
    assert log.producers.last_stable_offset(1) == 0
    assert log.producers.last_stable_offset(2) == 2


def test_snapshot_rows_equal_kafkas() -> None:
    # tests/golden/transactions has whole files; these tests show the rest
    producer = Producer(7, 3)
    producer.batches = [SeenBatch(0, 1, 10, 11, 5), SeenBatch(2**31 - 1, 2, 12, 15, 9)]
    producer.last_timestamp_ms = 9
    producer.transaction_start = 10
    data = encode([row_of(producer)])
    ((again,),) = decode("x", data)
    assert again.batches == [producer.batches[-1]]
    assert row_of(again) == row_of(producer)


def transactions(numbers: Sequence[int]) -> list[AbortedTransaction]:
    return [AbortedTransaction(1, 10 * n, 10 * n + 5, 10 * n + 6) for n in numbers]


@pytest.mark.parametrize("count", [1, 255, 256, 257, 600, 1800])
def test_a_long_transaction_index_is_searched_in_its_file(count: int) -> None:
    storage = MemoryStorage()
    storage.make_directory("d")
    index = TransactionIndex(storage.file("d/x"))
    for aborted in transactions(range(count)):
        index.append(aborted)
    again = TransactionIndex(storage.file("d/x"), count * ENTRY_SIZE)
    for _ in again.check(0):
        pass
    for known in (index, again):
        for number in {0, 1, count // 2, count - 1, count}:
            parts = list(known.since(10 * number + 5))
            assert [aborted for part in parts for aborted in part] == transactions(range(number, count))
            assert all(parts)
            is_kept = number > count - 256 or count <= 256
            for last in {number, count - 1} if number < count else ():
                at_hand = list[AbortedTransaction]()
                is_here = known.add_from_memory(at_hand, 10 * number + 5, 10 * last + 6)
                assert is_here or (is_here is None and not is_kept)
                assert at_hand == (transactions(range(number, last + 1)) if is_here else [])
            behind = known.add_from_memory([], 10 * number + 5, 10 * count + 6)
            assert behind is False or (behind is None and not is_kept)
    for number in (count - 1, count // 2, 0):
        again.truncate(10 * number + 5)
        assert again.count == number
        assert again.last_offset == (10 * number - 5 if number else -1)


def test_ends_of_transactions_are_forgotten_without_readers(storage: MemoryStorage) -> None:
    manager, log = opened(storage)
    for number in range(2 * state_manager.MAX_ENDED):
        send(log, 7, number)
        end(log, 7, committed=True)
    assert log.producers.producers.ended_count <= state_manager.MAX_ENDED
    manager.close(clean=False)
    _, again = opened(storage)
    assert again.producers.producers.ended_count <= state_manager.MAX_ENDED


def test_ends_of_transactions_that_are_not_durable_are_kept(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_manager, "MAX_ENDED", 2)
    _, log = opened(storage)
    for number in range(6):
        send(log, 7, number)
        log.durability.waits_for_sync = number >= 2
        end(log, 7, committed=True)
    assert (log.durable_offset, log.producers.producers.ended_count) == (5, 4)
    assert log.producers.last_stable_offset(log.durable_offset) == 4
