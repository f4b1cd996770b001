"""Segments that Kafka 4.3 wrote: our code reads them, searches in them, and writes the same bytes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from muster.coordinator.log import LogConfig, LogManager, batches
from muster.coordinator.system.jobs import at_once
from tests.coordinator.log.support import GOLDEN, NOW, batch, everything, on_files

OFFSETS = GOLDEN / "offsets-log"
MIXED = LogConfig(index_interval_bytes=512, segment_ms=60_000, retention_ms=-1)


@pytest.fixture
def kafkas(tmp_path: Path) -> LogManager:
    """A data directory as a Kafka broker left it."""
    shutil.copytree(GOLDEN / "kafka-log", tmp_path / "data")
    return on_files(tmp_path / "data")


def test_the_data_directory_of_a_kafka_broker_opens(kafkas: LogManager) -> None:
    assert kafkas.folders.on_disk() == [("mixed", 0), ("stamped", 0)]
    log = kafkas.open_log("mixed", 0, config=MIXED)
    assert (log.start_offset, log.end_offset, log.epochs.entries()) == (0, 318, [(0, 0)])
    assert [segment.base_offset for segment in log.segments] == [0, 140, 280, 305]


def test_every_codec_and_marker_of_kafka_is_read(kafkas: LogManager) -> None:
    log = kafkas.open_log("mixed", 0, config=MIXED)
    codecs, markers = [], []
    keys = []
    for chunk in log.replay():
        for header, records in batches.read(chunk):
            if header.is_control:
                markers.append((header.base_offset, batches.control_kind(records[0])))
                continue
            codecs.append(header.compression)
            keys += [record.key for record in records]
    assert keys == [b"k%d" % index for index in range(315)]
    assert sorted(set(codecs)) == [0, 1, 2, 3, 4]
    assert markers == [(305, 1), (311, 0), (317, 1)]


def test_records_of_kafkas_segments_are_found_by_time(kafkas: LogManager) -> None:
    log = kafkas.open_log("mixed", 0, config=MIXED)
    for index in (0, 1, 59, 140, 299):
        assert at_once(log.offset_for_timestamp(NOW + index * 500)) == (NOW + index * 500, index, 0)
    stamped = kafkas.open_log("stamped", 0)
    first = at_once(stamped.offset_for_timestamp(0))
    assert first is not None
    assert first.offset == 0
    assert first.timestamp_ms > NOW
    assert at_once(stamped.offset_for_timestamp(first.timestamp_ms + 1)) is None


def test_our_indexes_equal_kafkas_byte_for_byte(kafkas: LogManager) -> None:
    log = kafkas.open_log("mixed", 0, config=MIXED)
    for segment in log.segments:
        name = Path(segment.file.path).name.removesuffix(".log")
        theirs = [(GOLDEN / "kafka-log/mixed-0" / (name + suffix)).read_bytes() for suffix in (".index", ".timeindex")]
        assert [segment.index().encode(), segment.time_index().encode()] == theirs
        segment.rebuild_indexes()
        assert [segment.index().encode(), segment.time_index().encode()] == theirs


def test_appending_the_same_batches_makes_the_same_files(kafkas: LogManager, tmp_path: Path) -> None:
    """Segments are also rolled where Kafka rolled them, except the newest ones, which Kafka rolled by the broker's
    clock.
    """
    source = kafkas.open_log("mixed", 0, config=MIXED)
    manager = on_files(tmp_path / "ours")
    log = manager.open_log("mixed", 0, config=MIXED, topic_id=kafkas.folders.topic_id_on_disk("mixed", 0))
    for chunk in source.replay():
        for position, header in batches.iterate(chunk):
            log.append_as_is(chunk[position : position + header.size], wall_ms=NOW)
    manager.close()
    for path in sorted((tmp_path / "ours" / "mixed-0").glob("*")):
        theirs = GOLDEN / "kafka-log" / "mixed-0" / path.name
        assert path.read_bytes().strip() == theirs.read_bytes().strip(), path.name
    assert len(list((tmp_path / "ours" / "mixed-0").glob("*.log"))) == 4


def test_a_log_of_kafka_continues_where_kafka_stopped(kafkas: LogManager) -> None:
    log = kafkas.open_log("mixed", 0, config=MIXED)
    before = everything(log)
    assert log.append(1, batch(b"ours"), wall_ms=NOW).base_offset == 318
    kafkas.close()
    again = on_files(Path(kafkas.storage.root)).open_log("mixed", 0, config=MIXED)
    assert everything(again) == [*before, (318, b"ours")]
    assert again.epochs.end_offset(0, again.end_offset) == (0, 318)


def test_after_a_kill_kafkas_segments_recover(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "kafka-log", tmp_path / "data")
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (tmp_path / "data" / name).unlink()
    log = on_files(tmp_path / "data").open_log("mixed", 0, config=MIXED)
    assert (log.end_offset, len(everything(log))) == (318, 318)


def test_kafkas_offsets_partitions_have_the_expected_records(tmp_path: Path) -> None:
    """Only the log files were kept: no index, no checkpoint. Kafka's own tool has shown which records they hold."""
    shutil.copytree(OFFSETS, tmp_path / "data", ignore=shutil.ignore_patterns("*.jsonl"))
    manager = on_files(tmp_path / "data")
    found: dict[int, int] = {}
    for topic, index in manager.folders.on_disk():
        assert topic == "__consumer_offsets"
        found[index] = len(everything(manager.open_log(topic, index)))
    expected: dict[int, int] = {}
    for line in (OFFSETS / "expected.jsonl").read_text().splitlines():
        row = json.loads(line)
        expected[row["partition"]] = expected.get(row["partition"], 0) + 1
    assert found == expected
