"""After an unclean stop, tails that are torn at any byte are cut, damage in the middle is reported, and no whole batch
is lost.
"""

from __future__ import annotations

import random
import struct
from dataclasses import replace
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from muster.coordinator.log import DamagedLog, LogManager, MemoryStorage, batches
from muster.coordinator.log.records.headers import set_crc
from muster.coordinator.log.recovery import loader
from muster.coordinator.system.jobs import at_once
from tests.coordinator.log.support import NOW, SMALL, batch, everything, fill, manage, on_files

LOG = "t-0/00000000000000000000.log"


def killed(storage: MemoryStorage) -> LogManager:
    """Another server on the files of a killed server."""
    storage.locked = False
    return manage(storage)


def written(count: int = 3) -> tuple[MemoryStorage, list[bytes]]:
    storage = MemoryStorage()
    log = manage(storage).open_log("t", 0, config=SMALL)
    return storage, list(fill(log, count))


def test_a_tail_torn_at_any_byte_is_cut() -> None:
    storage, content = written()
    whole = bytes(storage.files[LOG])
    ends = [0]
    for header in manage_headers(whole):
        ends.append(ends[-1] + header)
    for cut in range(len(whole)):
        storage.files[LOG] = bytearray(whole[:cut])
        left = max(index for index, end in enumerate(ends) if end <= cut)
        with structlog.testing.capture_logs() as logged:
            log = killed(storage).open_log("t", 0, config=SMALL)
        assert [value for _, value in everything(log)] == content[:left]
        assert (log.end_offset, log.size_bytes) == (left, ends[left])
        assert len(storage.files[LOG]) == ends[left]
        cuts = [line for line in logged if line["event"] == "a torn tail was cut off"]
        if cut in ends:
            assert cuts == []
        else:
            (line,) = cuts
            assert (line["bytes"], line["position"]) == (cut - ends[left], ends[left])
            assert line["path"].endswith(LOG)
        assert log.append(0, batch(b"on"), wall_ms=NOW).base_offset == left


def manage_headers(data: bytes) -> list[int]:
    return [header.size for header, _ in batches.read(data)]


def test_a_corrupted_byte_is_found_anywhere_in_a_batch() -> None:
    storage, content = written(4)
    whole = bytes(storage.files[LOG])
    sizes = manage_headers(whole)
    second = sizes[0]
    for position in range(second, second + sizes[1]):
        within = position - second
        if 12 <= within < 16:
            continue  # the leader epoch: not covered by the CRC, so that a broker can set it
        if within < 8:
            continue  # the base offset: as above; see the next test
        damaged = bytearray(whole)
        damaged[position] ^= 0x41
        storage.files[LOG] = damaged
        with pytest.raises(DamagedLog) as found:
            killed(storage).open_log("t", 0, config=SMALL)
        assert found.value.position == second
        assert found.value.path.endswith(LOG)
        assert found.value.error_code == 56
        assert storage.files[LOG] == damaged, "a damaged log is left as it is"
    last = len(whole) - sizes[3]
    for position in range(last + 17, len(whole)):
        storage.files[LOG] = bytearray(whole)
        storage.files[LOG][position] ^= 0x41
        log = killed(storage).open_log("t", 0, config=SMALL)
        assert [value for _, value in everything(log)] == content[:3]


@pytest.mark.parametrize("offset", [0, -5, 2**40])
def test_offsets_that_do_not_increase_or_leave_the_segment_are_damage(offset: int) -> None:
    storage, _ = written(4)
    data = storage.files[LOG]
    struct.pack_into(">q", data, manage_headers(bytes(data))[0], offset)
    with pytest.raises(DamagedLog, match="offset"):
        killed(storage).open_log("t", 0, config=SMALL)


def test_a_damaged_partition_is_offline_and_the_others_open() -> None:
    storage, _ = written(4)
    storage.files[LOG][100] ^= 1
    manager = killed(storage)
    with pytest.raises(DamagedLog) as found:
        manager.open_log("t", 0)
    assert manager.offline == {("t", 0): found.value}
    assert manager.get("t", 0) is None
    manager.open_log("t", 1)
    with pytest.raises(DamagedLog):
        manager.open_log("t", 0)


def test_damage_before_other_segments_is_not_a_torn_tail() -> None:
    storage, _ = written(100)
    data = storage.files[LOG]
    data[-10] ^= 1
    with pytest.raises(DamagedLog, match="segments follow"):
        killed(storage).open_log("t", 0, config=SMALL)


@pytest.mark.parametrize("bytes_lost", [1, 10, 100])
def test_a_segment_that_ends_early_before_others_is_what_a_power_cut_leaves(bytes_lost: int) -> None:
    """The disk got the later bytes first. Whole batches stay, because none of the lost bytes was acknowledged as
    synced.
    """
    storage, content = written(100)
    second = sorted(name for name in storage.files if name.endswith(".log"))[1]
    lost = int(second[4:24]) - 1
    del storage.files[LOG][-bytes_lost:]
    found = everything(killed(storage).open_log("t", 0, config=SMALL))
    assert [offset for offset, _ in found if offset > lost] == list(range(lost + 1, 100))
    assert all(value == content[offset] for offset, value in found)
    assert len(found) == 99


def test_a_torn_tail_before_an_empty_new_segment_is_cut() -> None:
    storage = MemoryStorage()
    log = manage(storage).open_log("t", 0, config=SMALL)
    content = list(fill(log, 3))
    log.roll(NOW)
    del storage.files[LOG][-10:]
    again = killed(storage).open_log("t", 0, config=SMALL)
    assert [value for _, value in everything(again)] == content[:2]
    # the empty segment shows that offset 2 was once used
    assert again.append(0, batch(b"x"), wall_ms=NOW).base_offset == 3


def test_zeros_at_the_end_of_a_log_are_reserved_space() -> None:
    storage, content = written()
    for preallocate in (False, True):
        storage.files[LOG].extend(bytes(3_000_000))
        with structlog.testing.capture_logs() as logged:
            log = killed(storage).open_log("t", 0, config=replace(SMALL, preallocate=preallocate))
        assert [value for _, value in everything(log)] == content
        assert len(storage.files[LOG]) == log.size_bytes
        assert [line["event"] for line in logged] == ([] if preallocate else ["a torn tail was cut off"])


def test_preallocated_segments_are_recovered(tmp_path: Path) -> None:
    config = replace(SMALL, preallocate=True)
    manager = on_files(tmp_path)
    log = manager.open_log("t", 0, config=config)
    content = list(fill(log, 60))
    sizes = [path.stat().st_size for path in sorted((tmp_path / "t-0").glob("*.log"))]
    assert sizes == [segment.size for segment in log.segments[:-1]] + [SMALL.segment_bytes]
    manager.close(clean=False)
    manager = on_files(tmp_path)
    log = manager.open_log("t", 0, config=config)
    assert [value for _, value in everything(log)] == content
    content += list(fill(log, 60))
    manager.close()
    log = on_files(tmp_path).open_log("t", 0, config=config)
    assert [value for _, value in everything(log)] == content


@pytest.mark.parametrize("size", [900_000, 1_100_000, 3_000_000])
def test_batches_larger_than_one_read_are_recovered(size: int) -> None:
    storage = MemoryStorage()
    log = manage(storage).open_log("t", 0)
    content = [bytes([index]) * size for index in range(3)]
    for value in content:
        log.append(0, batch(value), wall_ms=NOW)
    assert [value for _, value in everything(killed(storage).open_log("t", 0))] == content
    storage.files[LOG][size + 500] ^= 1
    with pytest.raises(DamagedLog) as found:
        killed(storage).open_log("t", 0)
    assert found.value.position == len(storage.files[LOG]) // 3
    storage.files[LOG][size + 500] ^= 1
    storage.files[LOG][-5] ^= 1
    assert [value for _, value in everything(killed(storage).open_log("t", 0))] == content[:2]


def test_recovery_checks_only_batches_behind_the_recovery_point() -> None:
    storage = MemoryStorage()
    manager = manage(storage)
    log = manager.open_log("t", 0, config=SMALL)
    content = list(fill(log, 60))
    log.flush()
    log.roll(NOW)
    content += list(fill(log, 5))
    manager.checkpoint()
    storage.files[LOG][200] ^= 1  # recovery does not look here
    again = killed(storage).open_log("t", 0, config=SMALL)
    assert again.end_offset == 65
    assert again.durability.recovery_point == 60
    newest = f"t-0/{60:020d}.log"
    storage.files[newest][90] ^= 1
    with pytest.raises(DamagedLog):
        killed(storage).open_log("t", 0, config=SMALL)


def test_recovery_rebuilds_indexes_and_epochs() -> None:
    storage = MemoryStorage()
    log = manage(storage).open_log("t", 0, config=SMALL)
    for epoch in range(5):
        list(fill(log, 20, epoch=epoch))
    before = log.epochs.entries()
    indexes = [(segment.index().encode(), segment.time_index().encode()) for segment in log.segments[:-1]]
    storage.remove("t-0/leader-epoch-checkpoint")
    again = killed(storage).open_log("t", 0, config=SMALL)
    assert again.epochs.entries() == before
    assert again.leader_epoch == 4
    assert [(s.index().encode(), s.time_index().encode()) for s in again.segments[:-1]] == indexes
    assert storage.load("t-0/leader-epoch-checkpoint") == b"0\n5\n0 0\n1 20\n2 40\n3 60\n4 80\n"


def test_leader_epochs_of_cut_records_are_forgotten() -> None:
    storage = MemoryStorage()
    log = manage(storage).open_log("t", 0, config=SMALL)
    for epoch in range(3):
        list(fill(log, 1, epoch=epoch))
    del storage.files[LOG][-5:]
    again = killed(storage).open_log("t", 0, config=SMALL)
    # epoch 2 began where the log now ends: it is still the newest known epoch
    assert again.epochs.entries() == [(0, 0), (1, 1), (2, 2)]
    del storage.files[LOG][-5:]
    assert killed(storage).open_log("t", 0, config=SMALL).epochs.entries() == [(0, 0), (1, 1)]


def test_a_broken_epoch_checkpoint_is_rebuilt() -> None:
    storage, _ = written()
    storage.files["t-0/leader-epoch-checkpoint"] = bytearray(b"nonsense")
    with structlog.testing.capture_logs() as logged:
        log = killed(storage).open_log("t", 0, config=SMALL)
    assert log.epochs.entries() == [(0, 0)]
    assert [line["event"] for line in logged] == ["a checkpoint is ignored: it cannot be read"]


def test_leftovers_of_interrupted_changes_are_cleaned_up() -> None:
    storage, content = written(100)
    names = sorted(entry.name for entry in storage.entries("t-0"))
    second = next(name for name in names if name.endswith(".log") and name != LOG[4:])
    # a deletion that had only renamed, a deletion that had removed only the log file, an interrupted write, and an
    # interrupted cleaning
    storage.rename(LOG, LOG + ".deleted")
    for name in ("x.log.cleaned", "leader-epoch-checkpoint.tmp", f"{99999:020d}.index", f"{99999:020d}.timeindex"):
        storage.save(f"t-0/{name}", b"junk")
    log = killed(storage).open_log("t", 0, config=SMALL)
    assert log.start_offset == int(second[:20])
    assert [value for _, value in everything(log)] == content[log.start_offset :]
    left = {entry.name for entry in storage.entries("t-0")}
    assert not any(name.endswith((".deleted", ".cleaned", ".tmp")) or name.startswith(f"{99999:020d}") for name in left)
    assert f"{0:020d}.index" not in left


def test_an_interrupted_swap_is_finished() -> None:
    """Kafka's cleaner renames its result to .swap when it is whole, removes the files that it replaces, and renames
    again.
    """
    storage, content = written(100)
    manager = killed(storage)
    log = manager.open_log("t", 0, config=SMALL)
    first, second, third = log.segments[:3]
    merged = storage.files[first.name + ".log"] + storage.files[second.name + ".log"]
    end = third.base_offset
    manager.close()
    storage.save(f"{first.name}.log.swap", bytes(merged))
    storage.save(f"{first.name}.index.swap", b"")
    storage.save(f"{first.name}.timeindex.swap", b"")
    log = killed(storage).open_log("t", 0, config=SMALL)
    assert [segment.base_offset for segment in log.segments[:2]] == [0, end]
    assert [value for _, value in everything(log)] == content


def test_offsets_are_not_assigned_twice_when_the_tail_is_lost() -> None:
    storage = MemoryStorage()
    manager = manage(storage)
    log = manager.open_log("t", 0, config=SMALL)
    list(fill(log, 10))
    log.delete_records_before(8)
    manager.checkpoint()
    storage.files[LOG] = storage.files[LOG][:200]
    again = killed(storage).open_log("t", 0, config=SMALL)
    assert (again.start_offset, again.end_offset) == (8, 8)
    assert again.append(0, batch(b"x"), wall_ms=NOW).base_offset == 8


def test_a_clean_stop_needs_no_recovery_and_a_bad_index_is_rebuilt() -> None:
    storage = MemoryStorage()
    manager = manage(storage)
    content = list(fill(manager.open_log("t", 0, config=SMALL), 100))
    manager.close()
    first = LOG.removesuffix(".log")
    last = max(name for name in storage.files if name.endswith(".log")).removesuffix(".log")
    for damage in (b"", b"odd", struct.pack(">ii", 5, 7), struct.pack(">ii", 1, 10**9)):
        for name in (first, last):
            storage.files[name + ".index"] = bytearray(damage)
            storage.files.pop(name + ".timeindex", None)
        manager = manage(storage)
        log = manager.open_log("t", 0, config=SMALL)
        assert [value for _, value in everything(log)] == content
        assert at_once(log.offset_for_timestamp(NOW + 7)) == (NOW + 7, 7, 0)
        manager.close()


def test_a_log_cut_short_after_a_clean_stop_is_damaged() -> None:
    storage = MemoryStorage()
    manager = manage(storage)
    list(fill(manager.open_log("t", 0), 3))
    manager.close()
    del storage.files[LOG][-100:]
    with pytest.raises(DamagedLog):
        manage(storage).open_log("t", 0)


@pytest.mark.parametrize("seed", range(8))
def test_random_damage_loses_nothing_before_it(seed: int) -> None:
    """Some bytes are damaged at random: the log opens with a prefix of what was written, or reports where it is
    damaged.
    """
    draw = random.Random(seed)
    storage, content = written(30)
    whole = {name: bytes(data) for name, data in storage.files.items()}
    for _ in range(25):
        storage.files.clear()
        storage.files.update({name: bytearray(data) for name, data in whole.items()})
        data = storage.files[LOG]
        at = draw.randrange(len(data))
        for position in range(at, min(at + draw.choice([1, 8, 300]), len(data))):
            data[position] = draw.randrange(256)
        if draw.random() < 0.5:
            del data[at + draw.randrange(400) :]
        manager = killed(storage)
        try:
            log = manager.open_log("t", 0, config=SMALL)
        except DamagedLog:
            # the CRC does not cover an offset: perhaps only the next batch shows that it is wrong
            assert manager.offline["t", 0].position <= at + max(manage_headers(whole[LOG]))
            continue
        found = [value for _, value in everything(log)]
        assert found == content[: len(found)]


def test_a_crc_that_hides_broken_records_is_seen_at_reading() -> None:
    """The producer makes the CRC; only readers decode the records."""
    storage = MemoryStorage()
    log = manage(storage).open_log("t", 0)
    bad = batch(b"abc")
    bad[61] = 0x7F
    set_crc(bad, len(bad))
    log.append(0, bad, wall_ms=NOW)
    assert killed(storage).open_log("t", 0).end_offset == 1


def test_a_long_recovery_logs_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    storage, _ = written(100)
    monkeypatch.setattr(loader, "LONG_BYTES", 4500)
    with capture_logs() as logged:
        killed(storage).open_log("t", 0, config=SMALL)
    lines = [line for line in logged if line["event"] == "a log is being checked"]
    total = sum(len(data) for name, data in storage.files.items() if name.endswith(".log"))
    assert [line["bytes"] for line in lines] == [total] * len(lines)
    assert [line["bytes_checked"] for line in lines][:1] == [0]
    assert 1 < len(lines) < 5


def clean(count: int = 3) -> tuple[MemoryStorage, list[int]]:
    """A log after a clean stop, and the positions of its batches."""
    storage = MemoryStorage()
    manager = manage(storage)
    list(fill(manager.open_log("t", 0, config=SMALL), count))
    manager.close()
    positions = [0]
    for size in manage_headers(bytes(storage.files[LOG])):
        positions.append(positions[-1] + size)
    return storage, positions


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("left", [1, 17, 60, 61, 62, 104])
def test_a_batch_that_a_clean_stop_left_whole_is_never_cut(left: int, indexed: bool) -> None:
    storage, positions = clean()
    del storage.files[LOG][positions[2] + left :]
    if not indexed:
        for name in [name for name in storage.files if name.endswith("index")]:
            del storage.files[name]
    before = bytes(storage.files[LOG])
    for kill in (False, True, False):
        manager = manage(storage)
        with pytest.raises(DamagedLog) as found:
            manager.open_log("t", 0, config=SMALL)
        assert found.value.position == positions[2]
        assert list(manager.offline) == [("t", 0)]
        manager.close(clean=not kill)
        assert bytes(storage.files[LOG]) == before


def test_a_batch_with_a_changed_last_byte_after_a_clean_stop_is_not_cut() -> None:
    storage, positions = clean()
    storage.files[LOG][-5] ^= 1
    for kill in (False, True, False):
        manager = manage(storage)
        with pytest.raises(DamagedLog, match="CRC") as found:
            manager.open_log("t", 0, config=SMALL)
        assert found.value.position == positions[2]
        manager.close(clean=not kill)
    assert len(storage.files[LOG]) == positions[3]


def test_the_last_batch_before_an_empty_segment_is_not_cut_after_a_clean_stop() -> None:
    storage = MemoryStorage()
    manager = manage(storage)
    log = manager.open_log("t", 0, config=SMALL)
    list(fill(log, 3))
    log.roll(NOW)
    manager.close()
    manager = manage(storage)
    assert manager.open_log("t", 0, config=SMALL).end_offset == 3
    manager.close()
    del storage.files[LOG][-17:]
    with pytest.raises(DamagedLog):
        manage(storage).open_log("t", 0, config=SMALL)


def test_damage_found_after_a_kill_is_found_again_after_a_clean_stop() -> None:
    storage, _ = written(5)
    storage.files[LOG][150] ^= 1
    for _ in range(3):
        manager = killed(storage)
        with pytest.raises(DamagedLog):
            manager.open_log("t", 0, config=SMALL)
        manager.close()


def test_a_replay_that_finds_no_batch_takes_the_log_offline() -> None:
    storage, positions = clean(60)
    storage.files[LOG][positions[1] + 8 : positions[1] + 12] = struct.pack(">i", -5)
    manager = manage(storage)
    log = manager.open_log("t", 0, config=SMALL)
    with pytest.raises(DamagedLog):
        everything(log)
    assert log.failure is not None
    manager.close()
    assert storage.load(".kafka_cleanshutdown") is None


@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("left", [0, 1, 2, None])
def test_lost_synced_records_are_reported_once(left: int | None, was_clean: bool) -> None:
    storage, positions = clean()
    for name in [name for name in storage.files if name.endswith("index")]:
        del storage.files[name]
    if left is None:
        del storage.files[LOG]
    else:
        del storage.files[LOG][positions[left] :]
    if not was_clean:
        storage.remove(".kafka_cleanshutdown")
    manager = manage(storage)
    with capture_logs() as logged:
        log = manager.open_log("t", 0, config=SMALL)
    (line,) = [line for line in logged if line["event"] == "records that were synced are gone"]
    end = left or 0
    assert (line["topic"], line["partition"], line["log_level"]) == ("t", 0, "error")
    assert (line["end_offset"], line["recovery_point"]) == (end, 3)
    assert f"{3 - end} records" in line["what"]
    assert log.append(0, batch(b"on"), wall_ms=NOW).base_offset == end
    manager.close()
    with capture_logs() as logged:
        manage(storage).open_log("t", 0, config=SMALL)
    assert logged == []


def test_a_topic_created_again_is_not_compared_with_the_old_recovery_point() -> None:
    storage, _ = clean(50)
    manager = manage(storage)
    log = manager.open_log("t", 0, config=SMALL)
    log.delete_records_before(40)
    manager.checkpoint()
    manager.delete("t", 0)
    list(fill(manager.open_log("t", 0, config=SMALL), 2))
    manager = killed(storage)
    with capture_logs() as logged:
        log = manager.open_log("t", 0, config=SMALL)
    assert (log.start_offset, log.end_offset) == (0, 2)
    assert logged == []
