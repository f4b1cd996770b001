"""The possible cost of one damaged byte outside the records: segments that a start, retention or a compaction would
drop.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from muster.coordinator.log import DamagedLog, LogConfig, LogManager, MemoryStorage, UnifiedLog, checkpoints
from muster.coordinator.log.file_names import encode_replaces
from muster.coordinator.log.maintenance import enforcing_retention
from muster.coordinator.log.recovery.inspection import DAMAGE, Inspection
from muster.coordinator.system.jobs import at_once
from tests.coordinator.log.support import NOW, batch, everything, fill, manage

HOUR = 3_600_000
CONFIG = LogConfig(index_interval_bytes=100, retention_ms=HOUR)


def written(*, clean: bool = True, config: LogConfig = CONFIG) -> tuple[MemoryStorage, list[bytes]]:
    """A log of three segments with five records each."""
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


def opened(storage: MemoryStorage, config: LogConfig = CONFIG) -> tuple[LogManager, UnifiedLog, list[str]]:
    with capture_logs() as logged:
        manager = manage(storage)
        log = manager.open_log("t", 0, config=config)
    return manager, log, [line["event"] for line in logged if line["log_level"] != "info"]


def values(log: UnifiedLog) -> list[bytes | None]:
    return [value for _, value in everything(log)]


def note_start(storage: MemoryStorage, offset: int) -> None:
    storage.save(checkpoints.START_OFFSETS, checkpoints.encode_offsets({("t", 0): offset}))


@pytest.mark.parametrize("clean", [True, False])
def test_segments_before_the_checkpointed_log_start_are_kept(clean: bool) -> None:
    storage, content = written(clean=clean)
    note_start(storage, 7)
    manager, log, warnings = opened(storage)
    assert warnings == ["the start of a log is in doubt"]
    assert (log.start_offset, values(log)) == (7, content[7:])
    assert at_once(enforcing_retention(manager.logs(), NOW)) == 0
    assert f"t-0/{0:020d}.log" in storage.files
    log.delete_records_before(8)  # now the damage is known
    assert f"t-0/{0:020d}.log" not in storage.files
    manager.close()


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_start_behind_the_end_removes_no_bytes(clean: bool) -> None:
    storage, content = written(clean=clean)
    note_start(storage, 95)
    manager, log, warnings = opened(storage)
    assert warnings == ["segments were set aside"]
    assert (log.start_offset, log.end_offset) == (95, 95)
    aside = sorted(name for name in storage.files if name.endswith(".aside"))
    assert aside == [f"t-0/{base:020d}.log.aside" for base in (0, 5, 10)]
    list(fill(log, 1))
    manager.close()
    # as the log line says
    storage.remove(f"t-0/{95:020d}.log")
    storage.remove(checkpoints.START_OFFSETS)
    for name in aside:
        storage.rename(name, name.removesuffix(".aside"))
    assert values(opened(storage)[1]) == content


@pytest.mark.parametrize("byte", range(12))
def test_a_damaged_time_index_deletes_no_segment(byte: int) -> None:
    storage, content = written()
    storage.files[f"t-0/{0:020d}.timeindex"][byte] ^= 0x81
    manager, log, _ = opened(storage)
    with capture_logs() as logged:
        assert at_once(enforcing_retention(manager.logs(), NOW + HOUR // 2)) == 0
    assert values(log) == content
    assert {line["event"] for line in logged} <= {"a time index was damaged, and is made anew"}
    assert at_once(enforcing_retention(manager.logs(), NOW + 2 * HOUR)) == 3


def test_a_damaged_segment_is_not_deleted_by_its_age() -> None:
    storage, _ = written()
    data = storage.files[f"t-0/{0:020d}.log"]
    last = 0
    while last + (size := 12 + int.from_bytes(data[last + 8 : last + 12])) < len(data):
        last += size
    data[last + 8] = 0xFF  # the size of the batch with the greatest timestamp
    manager, log, _ = opened(storage)
    with capture_logs() as logged:
        assert at_once(enforcing_retention(manager.logs(), NOW + 2 * HOUR)) == 0
    assert [line["event"] for line in logged][:1] == [
        "a segment is kept: it is damaged, so nobody knows how old its records are"
    ]
    assert log.failure is None


@pytest.mark.parametrize("clean", [True, False])
def test_a_missing_segment_with_an_index_is_reported(clean: bool) -> None:
    storage, content = written(clean=clean)
    storage.remove(f"t-0/{0:020d}.log")
    inspection = Inspection(storage, "t-0")
    inspection.run()
    assert [(one.severity, one.problem) for one in inspection.findings] == [
        (DAMAGE, "the segment is missing, but not its index")
    ]
    _, log, warnings = opened(storage)
    assert warnings[0] == "a segment is missing"
    assert values(log) == content[5:]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "one byte": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "garbage": lambda data: b"\xc6" * len(data),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("whole_file", [True, False])
def test_a_tail_that_no_append_leaves_is_set_aside_and_reported(damage: str, whole_file: bool) -> None:
    storage, content = written(clean=False)
    storage.remove(checkpoints.RECOVERY_POINTS)
    path = f"t-0/{10:020d}.log"
    whole = bytes(storage.files[path])
    at = 0 if whole_file else len(whole) - 20
    bad = DAMAGES[damage](whole[at:])
    storage.files[path][at:] = bad
    inspection = Inspection(storage, "t-0")
    inspection.run()
    manager, log, warnings = opened(storage)
    cut = len(storage.files[path])
    if whole_file and damage == "one byte":  # the last batch of several
        assert cut > 0
    assert warnings == ["a damaged tail was set aside"]
    assert [finding.position for finding in inspection.findings if finding.severity == DAMAGE] == [cut]
    assert bytes(storage.files[f"{path}.{cut}.aside"]) == (whole[:at] + bad)[cut:]
    assert values(log) == content[: len(values(log))]
    # a file that is set aside twice has two names
    storage.files[path] += bytearray(b"\xc6" * 700)
    manager.close(clean=False)
    storage.remove(checkpoints.RECOVERY_POINTS)
    assert opened(storage)[2] == ["a damaged tail was set aside"]
    assert bytes(storage.files[f"{path}.{cut}.2.aside"]) == b"\xc6" * 700


@pytest.mark.parametrize("torn", ["cut short", "an empty sector"])
def test_a_torn_append_is_cut_and_kept_in_a_file_beside(torn: str) -> None:
    storage, content = written(clean=False)
    storage.remove(checkpoints.RECOVERY_POINTS)
    path = f"t-0/{10:020d}.log"
    if torn == "cut short":
        del storage.files[path][-1:]
    else:
        storage.files[path] += bytearray(b"\xc6" * 600 + bytes(1024) + b"\xc6")
    before = bytes(storage.files[path])
    inspection = Inspection(storage, "t-0")
    inspection.run()
    assert not inspection.is_damaged
    _, log, warnings = opened(storage)
    assert warnings == ["a torn tail was cut off"]
    assert values(log) == content[: len(content) - (torn == "cut short")]
    cut = len(storage.files[path])
    assert bytes(storage.files[f"{path}.{cut}.aside"]) == before[cut:]


def test_damage_that_cannot_be_set_aside_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    storage, _ = written(clean=False)
    storage.remove(checkpoints.RECOVERY_POINTS)
    path = f"t-0/{10:020d}.log"
    storage.files[path][-1] ^= 1
    before = bytes(storage.files[path])
    monkeypatch.setattr("muster.coordinator.log.recovery.loader.LogLoader._keep_tail", full)
    with pytest.raises(DamagedLog, match="cannot be set aside: No space left"):
        manage(storage).open_log("t", 0, config=CONFIG)
    assert bytes(storage.files[path]) == before


def test_an_empty_compacted_segment_replaces_no_records() -> None:
    storage, content = written(clean=False)
    storage.files[f"t-0/{0:020d}.log.swap"] = bytearray()
    storage.files[f"t-0/{0:020d}.replaces"] = bytearray(b"0\n10\n")
    _, log, warnings = opened(storage)
    assert warnings == ["a compacted segment is damaged"]
    assert values(log) == content


def test_a_segment_with_a_longer_name_is_not_treated_as_a_swap_file() -> None:
    storage, _ = written(clean=False)
    storage.rename(f"t-0/{0:020d}.log", f"t-0/{0:020d}.log.replaces")
    before = bytes(storage.files[f"t-0/{0:020d}.log.replaces"])
    opened(storage)
    assert bytes(storage.files[f"t-0/{0:020d}.log.replaces"]) == before


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
        reported: DamagedLog | None = damage
    else:
        reported = None
    assert reported is None or reported.path.endswith(path)
    assert reported is not None or clean  # after a clean stop only the end is checked
    assert bytes(storage.files[path]) == before


COMPACTED = replace(CONFIG, cleanup_policy=("compact",))


def half_swapped(note: bytes) -> tuple[MemoryStorage, bytes]:
    """Leave a compaction of the first two segments that a kill interrupted after it counted."""
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
    _, log, warnings = opened(storage, COMPACTED)
    assert warnings == ["a compacted segment is damaged"]
    assert len(values(log)) == 15
    assert f"t-0/{0:020d}.log.swap.aside" in storage.files


def test_a_batch_at_a_wrong_offset_is_reported_as_damage() -> None:
    storage = MemoryStorage()
    log = manage(storage).open_log("t", 0)
    log.append(0, batch(b"one"), wall_ms=NOW)
    data = bytes(storage.files[f"t-0/{0:020d}.log"])
    storage.files[f"t-0/{0:020d}.log"] += data
    storage.locked = False
    manager = manage(storage)
    with pytest.raises(DamagedLog, match="the batch is whole"):
        manager.open_log("t", 0)


@pytest.mark.parametrize("name", [checkpoints.LEADER_EPOCHS, f"{0:020d}.index"])
def test_a_folder_in_place_of_a_file_is_reported(name: str) -> None:
    storage, _ = written()
    storage.remove(f"t-0/{name}")
    storage.make_directory(f"t-0/{name}")
    inspection = Inspection(storage, "t-0")
    with contextlib.suppress(IsADirectoryError):
        inspection.run()
    assert inspection.findings[0].severity == DAMAGE
    assert "a folder is in the place of the file" in inspection.findings[0].problem
