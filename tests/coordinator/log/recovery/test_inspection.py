"""What `muster log check` finds and `muster log repair` keeps."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from muster.coordinator.log import DamagedLog, DirectoryLocked
from muster.coordinator.log.checkpoints import UNKNOWN, read_last_stops
from muster.coordinator.log.recovery.inspection import DAMAGE, NOTE, Inspection
from muster.coordinator.log.recovery.repair import repair
from muster.coordinator.log.storage.files import FileStorage
from tests.coordinator.log.support import GOLDEN, SMALL, everything, fill, on_files

LOG = "t-0/00000000000000000000.log"


def written(directory: Path, count: int, *, clean: bool = True) -> list[bytes]:
    manager = on_files(directory)
    content = list(fill(manager.open_log("t", 0, config=SMALL), count))
    manager.close(clean=clean)
    return content


def inspect(directory: Path) -> Inspection:
    storage = FileStorage(directory)
    inspection = Inspection(storage, "t-0", last_stop=read_last_stops(storage).get(("t", 0), UNKNOWN))
    inspection.run()
    return inspection


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)


def test_the_check_finds_nothing_in_a_sound_log(tmp_path: Path) -> None:
    written(tmp_path, 120)
    found = inspect(tmp_path)
    assert found.findings == []
    assert sum(facts.batches for facts in found.segments) == 120
    assert found.segments[-1].next_offset == 120
    assert len(found.segments) > 3


@pytest.mark.parametrize("partition", sorted(path.name for path in (GOLDEN / "offsets-log").glob("*-*")))
def test_the_check_finds_nothing_in_kafkas_segments(partition: str) -> None:
    inspection = Inspection(FileStorage(GOLDEN / "offsets-log"), partition)
    inspection.run()
    assert inspection.findings == []


@pytest.mark.parametrize("partition", ["mixed-0", "stamped-0"])
def test_the_check_finds_nothing_in_kafkas_indexes(partition: str) -> None:
    inspection = Inspection(FileStorage(GOLDEN / "kafka-log"), partition)
    inspection.run()
    assert [finding for finding in inspection.findings if finding.severity == DAMAGE] == []


def test_the_check_reports_a_torn_tail_only_as_a_note(tmp_path: Path) -> None:
    written(tmp_path, 3, clean=False)
    path = tmp_path / LOG
    path.write_bytes(path.read_bytes()[:-10])
    found = inspect(tmp_path)
    assert [(finding.severity, finding.file) for finding in found.findings] == [(NOTE, str(path))]
    assert not found.is_damaged


def test_damage_in_the_middle_keeps_a_partition_offline_until_it_is_repaired(tmp_path: Path) -> None:
    content = written(tmp_path, 60, clean=False)
    path = tmp_path / LOG
    flip(path, 400)
    manager = on_files(tmp_path)
    with pytest.raises(DamagedLog):
        manager.open_log("t", 0, config=SMALL)
    with pytest.raises(DirectoryLocked):
        repair(str(tmp_path), "t-0")
    with pytest.raises(DamagedLog):
        manager.reopen("t", 0)
    manager.close()
    damaged = path.read_bytes()
    found = inspect(tmp_path)
    position = found.findings[0].position
    assert found.is_damaged
    assert position is not None
    assert position <= 400
    done = repair(str(tmp_path), "t-0")
    (loss,) = done.losses
    assert (loss.position, loss.first_offset, loss.end_offset) == (position, loss.first_offset, loss.first_offset + 1)
    assert [Path(kept).read_bytes() for kept in done.kept_beside] == [damaged]
    assert inspect(tmp_path).findings == []
    manager = on_files(tmp_path)
    log = manager.open_log("t", 0, config=SMALL)
    expected = [(offset, value) for offset, value in enumerate(content) if offset != loss.first_offset]
    assert everything(log) == expected
    manager.close()


def test_the_check_reports_a_segment_that_ends_early(tmp_path: Path) -> None:
    content = written(tmp_path, 120)
    path = tmp_path / LOG
    path.write_bytes(path.read_bytes()[:-50])
    second = int(sorted(tmp_path.glob("t-0/*.log"))[1].stem)
    assert [finding.severity for finding in inspect(tmp_path).findings] == [DAMAGE]
    (loss,) = repair(str(tmp_path), "t-0").losses
    assert (loss.first_offset, loss.end_offset) == (second - 1, second)
    manager = on_files(tmp_path)
    found = everything(manager.open_log("t", 0, config=SMALL))
    assert found == [(offset, value) for offset, value in enumerate(content) if offset != second - 1]
    manager.close()


def test_a_repair_removes_a_wrong_index(tmp_path: Path) -> None:
    written(tmp_path, 120)
    index = tmp_path / "t-0/00000000000000000000.index"
    flip(index, 15)
    assert [(finding.severity, finding.file) for finding in inspect(tmp_path).findings] == [(DAMAGE, str(index))]
    done = repair(str(tmp_path), "t-0")
    assert done.losses == []
    assert str(index) in done.indexes
    assert inspect(tmp_path).findings == []


def test_the_check_reports_a_half_written_index_only_as_a_note(tmp_path: Path) -> None:
    values = written(tmp_path, 120)
    index = tmp_path / "t-0/00000000000000000000.timeindex"
    index.write_bytes(index.read_bytes()[:-1])
    inspection = inspect(tmp_path)
    assert [(finding.severity, Path(finding.file).name) for finding in inspection.findings] == [(NOTE, index.name)]
    assert not inspection.is_damaged
    log = on_files(tmp_path).open_log("t", 0, config=SMALL)
    assert [value for _, value in everything(log)] == values
    assert len(log.segments[0].time_index()) > 1  # made again


def test_a_repair_does_not_change_a_sound_log(tmp_path: Path) -> None:
    written(tmp_path, 5)
    before = {path: path.read_bytes() for path in tmp_path.glob("t-0/*")}
    assert repair(str(tmp_path), "t-0") == ([], [], [], [], [], False, False)
    assert {path: path.read_bytes() for path in tmp_path.glob("t-0/*")} == before


def test_a_second_repair_keeps_the_files_of_the_first(tmp_path: Path) -> None:
    written(tmp_path, 40)
    for _ in range(2):
        flip(tmp_path / LOG, 400)
        repair(str(tmp_path), "t-0")
    assert len(list(tmp_path.glob("t-0/*.damaged*"))) == 2


@pytest.mark.parametrize("how", ["cut", "cut in the header", "flipped", "zeros"])
def test_a_changed_end_after_a_clean_stop_is_damage_until_it_is_repaired(how: str, tmp_path: Path) -> None:
    content = written(tmp_path, 3)
    path = tmp_path / LOG
    data = path.read_bytes()
    last = len(data) // 3 * 2
    broken = {
        "cut": data[:-17],
        "cut in the header": data[: last + 20],
        "flipped": data[:-5] + bytes([data[-5] ^ 1]) + data[-4:],
        "zeros": data[:last] + bytes(len(data) - last),
    }[how]
    path.write_bytes(broken)
    for kill in (False, True):
        found = inspect(tmp_path)
        assert [(finding.severity, finding.position) for finding in found.findings] == [(DAMAGE, last)]
        manager = on_files(tmp_path)
        with pytest.raises(DamagedLog):
            manager.open_log("t", 0)
        manager.close(clean=not kill)
    done = repair(str(tmp_path), "t-0")
    assert [(loss.position, loss.first_offset, loss.end_offset) for loss in done.losses] == [(last, 2, 3)]
    assert [Path(kept).read_bytes() for kept in done.kept_beside] == [broken]
    assert inspect(tmp_path).findings == []
    manager = on_files(tmp_path)
    with capture_logs() as logged:
        log = manager.open_log("t", 0)
    assert logged == []
    assert [value for _, value in everything(log)] == content[:2]
    assert list(fill(log, 1)) == [everything(log)[-1][1]]
    manager.close()
    assert inspect(tmp_path).findings == []


@pytest.mark.parametrize("left", [0, 1, 2, None])
@pytest.mark.parametrize("was_clean", [True, False])
def test_the_check_reports_a_log_that_ends_before_its_recovery_point(
    left: int | None, was_clean: bool, tmp_path: Path
) -> None:
    content = written(tmp_path, 3)
    path = tmp_path / LOG
    data = path.read_bytes()
    for index in tmp_path.glob("t-0/*index"):
        index.unlink()
    if left is None:
        path.unlink()
    else:
        path.write_bytes(data[: len(data) // 3 * left])
    if not was_clean:
        (tmp_path / ".kafka_cleanshutdown").unlink()
    end = left or 0
    (finding,) = inspect(tmp_path).findings
    assert finding.severity == DAMAGE
    assert f"{3 - end} records are gone" in finding.problem
    assert repair(str(tmp_path), "t-0").gone == [range(end, 3)]
    assert inspect(tmp_path).findings == []
    manager = on_files(tmp_path)
    with capture_logs() as logged:
        log = manager.open_log("t", 0)
    assert logged == []
    assert [value for _, value in everything(log)] == content[:end]
    manager.close()


def test_an_unreadable_checkpoint_is_ignored_by_the_check(tmp_path: Path) -> None:
    written(tmp_path, 3)
    (tmp_path / "recovery-point-offset-checkpoint").write_text("nonsense")
    assert read_last_stops(FileStorage(tmp_path)) == {}
    assert inspect(tmp_path).findings == []
