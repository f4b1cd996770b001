"""Transaction indexes and snapshots that Kafka 4.3 wrote are read, and are written again with the same bytes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from muster.coordinator.log import LogConfig, LogManager
from muster.coordinator.log.producers import state_manager
from muster.coordinator.log.producers.snapshot import decode, row_of
from muster.coordinator.log.records.headers import iterate
from muster.coordinator.log.records.markers import build_marker, read_marker
from muster.coordinator.system.jobs import at_once
from tests.coordinator.log.producers.histories import expected, producer_states, stored
from tests.coordinator.log.support import GOLDEN, NOW, on_files

KAFKAS = GOLDEN / "transactions"
FOLDER = "tx-0"
INDEXES = {path.name: path.read_bytes() for path in (KAFKAS / FOLDER).glob("*.txnindex")}
SNAPSHOTS = {path.name: path.read_bytes() for path in (KAFKAS / FOLDER).glob("*.snapshot")}


def brokers(tmp_path: Path, *, without: str = "") -> LogManager:
    """A data directory as a Kafka broker left it at a clean stop, without its files of this ending."""
    shutil.copytree(KAFKAS, tmp_path / "data")
    (tmp_path / "data" / ".kafka_cleanshutdown").write_bytes(b"")
    (tmp_path / "data" / "recovery-point-offset-checkpoint").write_text("0\n1\ntx 0 17\n")
    for path in list((tmp_path / "data" / FOLDER).glob(f"*{without}")) if without else []:
        path.unlink()
    return on_files(tmp_path / "data")


def rows(data: bytes) -> list[bytes]:
    return sorted(row_of(producer) for part in decode("x", data) for producer in part)


def test_kafkas_producer_files_equal_the_state_of_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = brokers(tmp_path).open_log("tx", 0, config=LogConfig(retention_ms=-1))
    with monkeypatch.context() as patched:
        patched.setattr(state_manager, "segment_batches", lambda *_: pytest.fail("the log is read"))
        known = producer_states(log)
    assert known == expected(stored(log))
    assert log.producers.last_stable_offset(log.end_offset) == 16
    assert {path.name: path.read_bytes() for path in (tmp_path / "data" / FOLDER).glob("*.txnindex")} == INDEXES


def test_rebuilt_producer_files_equal_kafkas(tmp_path: Path) -> None:
    manager = brokers(tmp_path, without="snapshot")
    log = manager.open_log("tx", 0, config=LogConfig(retention_ms=-1))
    for path in (tmp_path / "data" / FOLDER).glob("*.txnindex"):
        path.unlink()
    at_once(log.producers.loading())
    assert {path.name: path.read_bytes() for path in (tmp_path / "data" / FOLDER).glob("*.txnindex")} == INDEXES
    manager.close()
    (made,) = (tmp_path / "data" / FOLDER).glob("*.snapshot")
    assert rows(made.read_bytes()) == rows(SNAPSHOTS[made.name])


def test_a_replayed_history_makes_the_same_producer_files(tmp_path: Path) -> None:
    theirs = brokers(tmp_path).open_log("tx", 0, config=LogConfig(retention_ms=-1))
    ours = on_files(tmp_path / "ours")
    log = ours.open_log("tx", 0, config=LogConfig(retention_ms=-1))
    at_once(log.producers.loading())
    bases = [segment.base_offset for segment in theirs.segments]
    for header, data in stored(theirs):
        if header.base_offset in bases[1:]:
            log.roll(NOW)
        log.append_as_is(data, wall_ms=NOW)
    ours.close()
    folder = tmp_path / "ours" / FOLDER
    assert {path.name: path.read_bytes() for path in folder.glob("*.txnindex")} == INDEXES
    found = {path.name: rows(path.read_bytes()) for path in folder.glob("*.snapshot")}
    assert found == {name: rows(data) for name, data in SNAPSHOTS.items()}


def test_markers_equal_kafkas_byte_for_byte() -> None:
    count = 0
    for path in (KAFKAS / FOLDER).glob("*.log"):
        data = path.read_bytes()
        for at, header in iterate(data):
            if not header.is_control:
                continue
            found = read_marker(data[at : at + header.size], header)
            assert found is not None
            built = build_marker(
                header.producer_id,
                header.producer_epoch,
                header.max_timestamp,
                is_committed=found.is_committed,
                coordinator_epoch=found.coordinator_epoch,
            )
            # the log sets offset and leader epoch, which the CRC does not cover
            assert built[8:12] + built[16:] == data[at + 8 : at + 12] + data[at + 16 : at + header.size]
            count += 1
    assert count == 5
