"""What one damaged byte beside the records could cost: segments that a start, retention or a compaction would drop."""

from __future__ import annotations

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from muster.coordinator.log import DamagedLog, Log, LogConfig, LogManager, MemoryStorage, checkpoints
from muster.coordinator.log.swap import encode_replaces
from tests.coordinator.log.support import NOW, batch, everything, fill, manage

HOUR = 3_600_000
CONFIG = LogConfig(index_interval_bytes=100, retention_ms=HOUR)


def written(*, clean: bool = True, config: LogConfig = CONFIG) -> tuple[MemoryStorage, list[bytes]]:
    """Three segments of five records."""
    storage = MemoryStorage()
    manager = manage(storage)
    log = manager.open_log("t", 0, config=config)
    content: list[bytes] = []
    for _ in range(3):
        log.roll(NOW)
        content += fill(log, 5)
    log.flush()
    manager.checkpoint()
    manager.close(clean=clean)
    return storage, content


def opened(storage: MemoryStorage, config: LogConfig = CONFIG) -> tuple[LogManager, Log, list[str]]:
    with capture_logs() as told:
        manager = manage(storage)
        log = manager.open_log("t", 0, config=config)
    return manager, log, [line["event"] for line in told if line["log_level"] != "info"]


def values(log: Log) -> list[bytes | None]:
    return [value for _, value in everything(log)]


def note_start(storage: MemoryStorage, offset: int) -> None:
    storage.save(checkpoints.START_OFFSETS, checkpoints.encode_offsets({("t", 0): offset}))


@pytest.mark.parametrize("clean", [True, False])
def test_segments_before_a_start_that_only_the_checkpoint_knows_are_kept(clean: bool) -> None:
    storage, content = written(clean=clean)
    note_start(storage, 7)
    manager, log, told = opened(storage)
    assert told == ["log_start_in_doubt"]
    assert (log.start_offset, values(log)) == (7, content[7:])
    assert manager.enforce_retention(NOW) == 0
    assert f"t-0/{0:020d}.log" in storage.files
    log.delete_records_before(8)  # now it is known
    assert f"t-0/{0:020d}.log" not in storage.files
    manager.close()


@pytest.mark.parametrize("clean", [True, False])
def test_a_start_behind_the_end_costs_no_bytes(clean: bool) -> None:
    storage, content = written(clean=clean)
    note_start(storage, 95)
    manager, log, told = opened(storage)
    assert told == ["segments_set_aside"]
    assert (log.start_offset, log.end_offset) == (95, 95)
    aside = sorted(name for name in storage.files if name.endswith(".aside"))
    assert aside == [f"t-0/{base:020d}.log.aside" for base in (0, 5, 10)]
    list(fill(log, 1))
    manager.close()
    # as the line says
    storage.remove(f"t-0/{95:020d}.log")
    storage.remove(checkpoints.START_OFFSETS)
    for name in aside:
        storage.rename(name, name.removesuffix(".aside"))
    assert values(opened(storage)[1]) == content


@pytest.mark.parametrize("byte", range(12))
def test_a_damaged_time_index_makes_nothing_old(byte: int) -> None:
    storage, content = written()
    storage.files[f"t-0/{0:020d}.timeindex"][byte] ^= 0x81
    manager, log, _ = opened(storage)
    with capture_logs() as told:
        assert manager.enforce_retention(NOW + HOUR // 2) == 0
    assert values(log) == content
    assert {line["event"] for line in told} <= {"a time index was damaged, and is made anew"}
    assert manager.enforce_retention(NOW + 2 * HOUR) == 3


def test_a_damaged_segment_is_not_given_up_by_its_age() -> None:
    storage, _ = written()
    data = storage.files[f"t-0/{0:020d}.log"]
    last = 0
    while last + (size := 12 + int.from_bytes(data[last + 8 : last + 12])) < len(data):
        last += size
    data[last + 8] = 0xFF  # the size of the batch that has the greatest timestamp
    manager, log, _ = opened(storage)
    with capture_logs() as told:
        assert manager.enforce_retention(NOW + 2 * HOUR) == 0
    assert [line["event"] for line in told][:1] == [
        "a segment is kept: it is damaged, so nobody knows how old its records are"
    ]
    assert log.failure is None


@pytest.mark.parametrize("clean", [True, False])
def test_a_segment_whose_index_alone_is_left_is_told(clean: bool) -> None:
    storage, content = written(clean=clean)
    storage.remove(f"t-0/{0:020d}.log")
    _, log, told = opened(storage)
    assert told[0] == "segment_missing"
    assert values(log) == content[5:]


def test_what_recovery_cuts_off_is_kept_beside() -> None:
    storage, content = written(clean=False)
    storage.remove(checkpoints.RECOVERY_POINTS)
    path = f"t-0/{10:020d}.log"
    whole = bytes(storage.files[path])
    storage.files[path][-1] ^= 1
    _, log, told = opened(storage)
    assert told == ["torn_tail_cut"]
    assert values(log) == content[:-1]
    cut = len(storage.files[path])
    assert bytes(storage.files[f"{path}.{cut}.aside"])[:-1] == whole[cut:-1]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("byte", range(8))
def test_a_damaged_offset_of_a_batch_cuts_nothing_off(byte: int, clean: bool) -> None:
    storage, _ = written(clean=clean)
    path = f"t-0/{10:020d}.log"
    storage.files[path][byte] ^= 0x41
    before = bytes(storage.files[path])
    manager = manage(storage)
    try:
        manager.open_log("t", 0, config=CONFIG)
    except DamagedLog as damage:
        told: DamagedLog | None = damage
    else:
        told = None
    assert told is None or told.path.endswith(path)
    assert told is not None or clean  # a clean stop looks at the end only
    assert bytes(storage.files[path]) == before


COMPACTED = replace(CONFIG, cleanup_policy=("compact",))


def half_swapped(note: bytes) -> tuple[MemoryStorage, bytes]:
    """A compaction of the first two segments that a kill broke off after it counted."""
    storage, _ = written(clean=False, config=COMPACTED)
    swap = bytes(storage.files[f"t-0/{0:020d}.log"]) + bytes(storage.files[f"t-0/{5:020d}.log"])
    storage.save(f"t-0/{0:020d}.log.swap", swap)
    storage.save(f"t-0/{0:020d}.replaces", note)
    return storage, swap


@pytest.mark.parametrize("note", [b"0\n99\n", b"0\n1000000000\n", b"0\n7\n", b"nonsense", b""])
def test_a_damaged_note_of_a_compaction_drops_no_segment_behind_it(note: bytes) -> None:
    storage, swap = half_swapped(note)
    _, log, _ = opened(storage, COMPACTED)
    assert len(values(log)) == 15
    assert bytes(storage.files[f"t-0/{0:020d}.log"]) == swap


def test_a_damaged_compacted_segment_does_not_replace_sound_ones() -> None:
    storage, _ = half_swapped(encode_replaces(10))
    storage.files[f"t-0/{0:020d}.log.swap"][100] ^= 1
    _, log, told = opened(storage, COMPACTED)
    assert told == ["compacted_segment_damaged"]
    assert len(values(log)) == 15
    assert f"t-0/{0:020d}.log.swap.aside" in storage.files


def test_a_batch_that_fits_nowhere_is_said_to_be_damage() -> None:
    storage = MemoryStorage()
    log = manage(storage).open_log("t", 0)
    log.append(0, batch(b"one"), wall_ms=NOW)
    data = bytes(storage.files[f"t-0/{0:020d}.log"])
    storage.files[f"t-0/{0:020d}.log"] += data
    storage.locked = False
    manager = manage(storage)
    with pytest.raises(DamagedLog, match="the batch is whole"):
        manager.open_log("t", 0)
