from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from muster.pipeline.decode import decode_all
from muster.pipeline.sources.data_folders import find_segments
from muster.pipeline.sources.segment_files import NoSource, SegmentFile
from muster.pipeline.sources.segments import (
    READ_UNCOMMITTED,
    DamagedSegment,
    Reading,
    read_segments,
    read_share,
    share_out,
)
from tests.pipeline.raw import commit, in_order
from tests.pipeline.sources.logs import batch, marker, write_segment
from tests.protocol.golden import GOLDEN
from tests.support.old_formats import GZIP, Row, messages

OFFSETS_LOG = GOLDEN / "offsets-log"


def raw(root: Path, reading: Reading | None = None) -> list[dict[str, Any]]:
    return [row for batch in read_segments(str(root), reading) for row in batch.to_pylist()]


def values(root: Path, reading: Reading | None = None) -> list[bytes | None]:
    return [row["value"] for row in raw(root, reading)]


def expected() -> list[dict[str, Any]]:
    with (OFFSETS_LOG / "expected.jsonl").open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


def as_kafka_says(row: dict[str, Any], raw_row: dict[str, Any]) -> dict[str, Any]:
    """A decoded row in the form of Kafka's dump tool."""
    if row["kind"] == "commit":
        key = {name: row[name] for name in ("group", "topic", "partition")}
        version = row["value_version"]
        value: dict[str, Any] | None = None
        if not row["is_tombstone"]:
            value = {"offset": row["committed_offset"], "metadata": row["metadata"]}
            value["commitTimestamp"] = row["commit_timestamp_ms"]
            if version >= 3:
                value["leaderEpoch"] = -1 if row["leader_epoch"] is None else row["leader_epoch"]
            if version == 1:
                value["expireTimestamp"] = row["expire_timestamp_ms"]
            if row["topic_id"] is not None:
                value["topicId"] = row["topic_id"]
    else:
        key = json.loads(row["key_json"])
        value = None if row["value_json"] is None else json.loads(row["value_json"])
    return {
        "partition": row["log_partition"],
        "offset": row["log_offset"],
        "timestamp": row["log_timestamp_ms"],
        "keySize": len(raw_row["key"]),
        "valueSize": -1 if raw_row["value"] is None else len(raw_row["value"]),
        "producer": [row["producer_id"], row["producer_epoch"], row["is_transactional"]],
        "key": {"type": row["key_type"], "data": key},
        "value": None if value is None else {"version": row["value_version"], "data": value},
    }


def facts(row: dict[str, Any]) -> dict[str, Any]:
    reported = {
        name: row[name] for name in ("partition", "offset", "timestamp", "keySize", "valueSize", "key", "value")
    }
    facts_of_batch = row["batch"]
    return reported | {"producer": [facts_of_batch[name] for name in ("producerId", "producerEpoch", "transactional")]}


def test_the_golden_log_decodes_as_kafkas_tool_does() -> None:
    everything = Reading(isolation=READ_UNCOMMITTED)
    batches = list(read_segments(str(OFFSETS_LOG), everything))
    raws = sorted(
        (row for batch in batches for row in batch.to_pylist()), key=lambda row: (row["partition"], row["offset"])
    )
    rows = in_order(list(decode_all(batches)))
    found = [as_kafka_says(row, raw_row) for row, raw_row in zip(rows, raws, strict=True)]
    assert found == [facts(row) for row in expected() if "marker" not in row]


def test_only_committed_records_of_the_golden_log_are_read() -> None:
    markers = [row for row in expected() if "marker" in row]
    wanted = []
    for row in expected():
        if row["batch"]["transactional"] and "marker" not in row:
            ends = [
                one["marker"]
                for one in markers
                if (one["partition"], one["batch"]["producerId"]) == (row["partition"], row["batch"]["producerId"])
                and one["offset"] > row["offset"]
            ]
            if "COMMIT" not in str(ends[:1]):
                continue
        if "marker" not in row:
            wanted.append((row["partition"], row["offset"]))
    assert 0 < len(wanted) < len(expected()) - len(markers)
    assert sorted((row["partition"], row["offset"]) for row in raw(OFFSETS_LOG)) == wanted


def test_transactions_that_end_in_a_later_segment_are_read(tmp_path: Path) -> None:
    how = {"transactional": True, "producer_epoch": 0}
    one = batch([(b"k", b"one")], 0, producer_id=1, **how)
    two = batch([(b"k", b"two")], 1, producer_id=2, **how)
    three = batch([(b"k", b"three")], 2, producer_id=3, **how)
    write_segment(tmp_path, [one, two, three, batch([(b"k", b"plain")], 3)])
    write_segment(tmp_path, [marker(0, 4, 1), batch([(b"k", b"more")], 5, producer_id=1, **how)], base_offset=4)
    write_segment(tmp_path, [marker(1, 6, 2), marker(1, 7, 1)], base_offset=6)
    assert values(tmp_path) == [b"two", b"plain", b"more"]
    assert values(tmp_path, Reading(isolation=READ_UNCOMMITTED)) == [b"one", b"two", b"three", b"plain", b"more"]


def test_logs_of_brokers_before_0_11_are_read(tmp_path: Path) -> None:
    pairs = [commit(number % 2, group=f"g{number % 3}", offset=number) for number in range(9)]
    rows = [Row(number, 7 if 2 < number < 6 else -1, *pair) for number, pair in enumerate(pairs)]
    write_segment(tmp_path, messages(0, rows[:3], GZIP) + messages(1, rows[3:6]) + batch(pairs[6:], 6, timestamp_ms=-1))
    found = raw(tmp_path)
    assert [(row["offset"], row["timestamp_ms"], row["key"], row["value"]) for row in found] == rows
    assert {(row["producer_id"], row["is_transactional"], row["damage"]) for row in found} == {(-1, False, None)}
    decoded = in_order(list(decode_all(read_segments(str(tmp_path)))))
    assert [row["committed_offset"] for row in decoded] == list(range(9))


def test_damage_is_reported_beside_the_rows_or_is_an_error(tmp_path: Path) -> None:
    first, second = batch([commit()], 0), batch([commit()], 1)
    path = write_segment(tmp_path, first + second[:-5])
    rows = raw(tmp_path)
    assert [row["offset"] for row in rows] == [0, 1]
    assert rows[1]["damage"] == f"{path}: the file ends in the middle of the batch at {len(first)} (torn tail)"
    decoded = in_order(list(decode_all(read_segments(str(tmp_path)))))
    assert [row["kind"] for row in decoded] == ["commit", "malformed"]
    assert decoded[1]["reason"] == rows[1]["damage"]
    with pytest.raises(DamagedSegment, match="torn tail"):
        raw(tmp_path, Reading(fail_on_damage=True))


def test_a_file_removed_during_reading_is_reported(tmp_path: Path) -> None:
    write_segment(tmp_path, batch([(b"k", b"v")], 0))
    gone = write_segment(tmp_path, batch([(b"k", b"w")], 1), base_offset=1)
    (share,) = share_out(str(tmp_path), 1)
    gone.unlink()
    rows = [row for batch in read_share(share, Reading()) for row in batch.to_pylist()]
    assert [(row["offset"], row["value"]) for row in rows] == [(0, b"v"), (1, None)]
    assert "went away" in rows[1]["damage"]


def test_shares_have_similar_sizes_and_are_complete(tmp_path: Path) -> None:
    sizes = [300, 10, 10, 200, 50, 150, 90]
    for partition, size in enumerate(sizes):
        write_segment(tmp_path, batch([(b"k", b"v" * size * 100)], 0), partition)
    shares = share_out(str(tmp_path), 3)
    held = [segment for share in shares for segment in share.segments]
    assert sorted(held) == find_segments(str(tmp_path), "__consumer_offsets")
    loads = [sum(segment.size for segment in share.segments) for share in shares]
    assert max(loads) < 1.3 * sum(loads) / 3
    assert len(share_out(str(tmp_path), 100)) == len(sizes)


def test_each_kind_of_path_is_read(tmp_path: Path) -> None:
    write_segment(tmp_path, batch([(b"k", b"v")], 0), 3)
    write_segment(tmp_path, batch([(b"k", b"w")], 5), 3, base_offset=5)
    write_segment(tmp_path / "other", batch([(b"k", b"x")], 0))
    (tmp_path / "__consumer_offsets-3" / "00000000000000000000.index").write_bytes(b"")
    (tmp_path / "__consumer_offsets-4").mkdir()
    (tmp_path / "orders-0").mkdir()
    assert values(tmp_path) == [b"v", b"w"]
    assert values(tmp_path / "__consumer_offsets-3") == [b"v", b"w"]
    assert [row["value"] for batch in read_segments(tmp_path.as_uri()) for row in batch.to_pylist()] == [b"v", b"w"]


def nothing_there(tmp_path: Path) -> Iterator[tuple[str, str]]:
    yield str(tmp_path / "nowhere"), "cannot be listed"
    yield str(tmp_path), "holds no segments of __consumer_offsets: give a broker's data directory"
    yield "no-such-scheme://x/y", "cannot be opened"


def test_a_path_without_a_log_is_refused_with_advice(tmp_path: Path) -> None:
    for path, message in nothing_there(tmp_path):
        with pytest.raises(NoSource, match=message):
            raw(Path(path)) if "://" not in path else list(read_segments(path))
    write_segment(tmp_path, b"")
    with pytest.raises(NoSource, match="holds nothing: all 1 segments of __consumer_offsets are empty"):
        raw(tmp_path)
    shutil.rmtree(tmp_path / "__consumer_offsets-0")


def test_a_folder_of_several_clusters_is_refused_with_their_names(tmp_path: Path) -> None:
    for name in ("east", "west"):
        write_segment(tmp_path / name, batch([(b"k", b"v")], 0))
    with pytest.raises(NoSource, match=r"itself holds no segments of __consumer_offsets, but east and west in it do, "):
        raw(tmp_path)


def test_a_segment_file_has_its_topic_partition_and_size(tmp_path: Path) -> None:
    path = write_segment(tmp_path, batch([(b"k", b"v")], 7), 12, base_offset=7)
    assert find_segments(str(tmp_path), "__consumer_offsets") == [
        SegmentFile(12, 7, str(path), path.stat().st_size),
    ]


def test_rows_have_the_columns_of_the_schema(tmp_path: Path) -> None:
    write_segment(tmp_path, batch([(None, None)], 0))
    (found,) = list(read_segments(str(tmp_path)))
    assert isinstance(found, pa.RecordBatch)
    assert found.to_pylist()[0]["key"] is None


def test_a_log_that_grows_is_read_as_it_was_when_its_files_were_listed(tmp_path: Path) -> None:
    first, second, third = (batch([(b"k", b"%d" % one)], one) for one in range(3))
    path = write_segment(tmp_path, first + second[:20])
    [share] = share_out(str(tmp_path), 1)
    path.write_bytes(first + second + third)
    rows = [row for found in read_share(share, Reading()) for row in found.to_pylist()]
    assert [(row["value"], row["damage"]) for row in rows] == [(b"0", None)]
