from __future__ import annotations

import struct
from pathlib import Path

import pytest

from muster.coordinator.log import batches
from muster.pipeline.sources.cluster import ClusterError
from muster.pipeline.sources.segment_files import NoSource
from muster.pipeline.sources.topics import HISTORY_MS, HISTORY_ROWS, ends_of_cluster, ends_of_path, reach_of_cluster
from tests.pipeline.live import Live

MTIME_MS = 1_600_000_000_000
Row = tuple[str, int, int, int]


def batch(base_offset: int, records: int, at_ms: int) -> bytes:
    pairs: list[tuple[bytes | None, bytes | None]] = [(b"k", b"v")] * records
    return bytes(batches.build(pairs, base_offset=base_offset, timestamp_ms=at_ms))


def write(root: Path, name: str, base_offset: int, *data: bytes) -> Path:
    """A segment without indexes."""
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{base_offset:020}.log"
    path.write_bytes(b"".join(data))
    return path


def index_of(segment: Path, *entries: tuple[int, int]) -> None:
    """An offset index: relative offset and position."""
    segment.with_suffix(".index").write_bytes(b"".join(struct.pack(">ii", *one) for one in entries))


def times_of(segment: Path, *entries: tuple[int, int], reserved: int = 0) -> None:
    """A time index: time and relative offset; `reserved`: zeros at the end."""
    data = b"".join(struct.pack(">qi", *one) for one in entries)
    segment.with_suffix(".timeindex").write_bytes(data + bytes(reserved))


def rows(path: Path) -> list[Row]:
    found = ends_of_path(str(path))
    return [] if found is None else [tuple(row.values()) for row in found.to_pylist()]


def test_a_partition_ends_after_the_last_batch_of_its_newest_segment(tmp_path: Path) -> None:
    write(tmp_path, "orders-0", 0, batch(0, 10, 1_000))
    write(tmp_path, "orders-0", 10, batch(10, 3, 2_000), batch(13, 4, 3_000))
    write(tmp_path, "my-topic-12", 5, batch(5, 1, 9_000))
    assert rows(tmp_path) == [("my-topic", 12, 6, 9_000), ("orders", 0, 17, 3_000)]


def test_internal_topics_and_other_folders_are_skipped(tmp_path: Path) -> None:
    for name in ("__consumer_offsets-3", "__group_events-3", "lost+found", "orders-0.0123-delete"):
        write(tmp_path, name, 0, batch(0, 1, 1_000))
    (tmp_path / "orders-1").touch()
    (tmp_path / "orders-2").mkdir()
    assert ends_of_path(str(tmp_path)) is None


def test_a_segment_that_is_empty_or_torn_begins_where_the_log_ends(tmp_path: Path) -> None:
    write(tmp_path, "rolled-0", 0, batch(0, 10, 1_000))
    write(tmp_path, "rolled-0", 10)
    write(tmp_path, "torn-0", 0, batch(0, 10, 1_000), batch(10, 5, 2_000)[:-3])
    write(tmp_path, "preallocated-0", 0, batch(0, 10, 1_000), bytes(5_000))
    assert rows(tmp_path) == [("preallocated", 0, 10, 1_000), ("rolled", 0, 10, 1_000), ("torn", 0, 10, 1_000)]


def test_a_log_without_records_ends_where_it_begins(tmp_path: Path) -> None:
    path = write(tmp_path, "t-0", 500)
    [(topic, partition, end, at_ms)] = rows(tmp_path)
    assert (topic, partition, end) == ("t", 0, 500)
    assert at_ms == path.stat().st_mtime_ns // 1_000_000


def test_the_offset_index_only_says_where_to_begin(tmp_path: Path) -> None:
    data = [batch(10 * index, 10, 1_000 + index) for index in range(20)]
    path = write(tmp_path, "t-0", 0, *data)
    index_of(path, (99, sum(map(len, data[:9]))), (0, 0), (0, 0))
    assert rows(tmp_path) == [("t", 0, 200, 1_019)]
    # while the file is read from there, earlier bytes are not read: this would be found
    path.write_bytes(b"\xff" * len(data[0]) + b"".join(data[1:]))
    assert rows(tmp_path) == [("t", 0, 200, 1_019)]
    # an entry that points nowhere
    path.write_bytes(b"".join(data))
    index_of(path, (99, len(data[0]) + 7))
    assert rows(tmp_path) == [("t", 0, 200, 1_019)]


def test_time_indexes_give_earlier_ends(tmp_path: Path) -> None:
    first = write(tmp_path, "t-0", 0, batch(0, 100, 5_000))
    times_of(first, (2_000, 29), (5_000, 99))
    second = write(tmp_path, "t-0", 100, batch(100, 50, 8_000))
    times_of(second, (6_000, 9), (8_000, 49), reserved=1_200)
    torn = write(tmp_path, "u-0", 0, batch(0, 100, 5_000))
    times_of(torn, (3_000, 40), (2_000, 60), (4_000, 80))
    assert rows(tmp_path) == [
        ("t", 0, 30, 2_000),
        ("t", 0, 100, 5_000),
        ("t", 0, 110, 6_000),
        ("t", 0, 150, 8_000),
        ("u", 0, 41, 3_000),
        ("u", 0, 100, 5_000),
    ]


def test_ends_known_later_are_omitted(tmp_path: Path) -> None:
    first = write(tmp_path, "t-0", 0, batch(0, 100, 5_000))
    times_of(first, (2_000, 29), (5_000, 99))
    write(tmp_path, "u-0", 0, batch(0, 9, 5_001))
    found = ends_of_path(str(tmp_path), 5_000)
    assert found is not None
    assert [tuple(row.values()) for row in found.to_pylist()] == [("t", 0, 30, 2_000)]
    assert ends_of_path(str(tmp_path), 2_000) is None


def test_a_long_history_is_thinned(tmp_path: Path) -> None:
    path = write(tmp_path, "t-0", 0, batch(0, 10_001, 50_000))
    times_of(path, *((index + 1, 2 * index) for index in range(5_000)))
    found = rows(tmp_path)
    assert len(found) == HISTORY_ROWS
    assert (found[0], found[-2], found[-1]) == (("t", 0, 1, 1), ("t", 0, 9_999, 5_000), ("t", 0, 10_001, 50_000))
    assert found == sorted(found)


def test_a_missing_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoSource, match="cannot be listed"):
        ends_of_path(str(tmp_path / "nothing"))


def test_the_ends_of_logs_are_read_from_a_live_cluster(live: Live) -> None:
    topic = live.new_topic(records=20)
    places = {(topic, 0), ("no-such-topic", 0), (topic, 7)}
    reach = reach_of_cluster(live.client)
    # later records do not count
    live.produce(topic, 5)
    now = ends_of_cluster(live.client, reach, places)
    assert now is not None
    found = now.to_pylist()
    assert {(row["topic"], row["partition"]) for row in found} == {(topic, 0)}
    # a minute ago and earlier there was nothing
    assert [row["end_offset"] for row in found] == [0] * len(HISTORY_MS) + [20]
    assert max(row["time_ms"] for row in found) == found[-1]["time_ms"] == reach.at_ms
    later = ends_of_cluster(live.client, reach._replace(at_ms=reach.at_ms + 2 * max(HISTORY_MS)), places)
    assert later is not None
    assert {row["end_offset"] for row in later.to_pylist()} == {20}
    assert "no-such-topic" not in live.topics()
    # the end at some time, and earlier
    until_ms = reach.at_ms - 60_000
    then = ends_of_cluster(live.client, reach, places, until_ms=until_ms)
    assert then is not None
    assert {row["end_offset"] for row in then.to_pylist()} == {0}
    assert max(row["time_ms"] for row in then.to_pylist()) == until_ms
    assert len(then) == len(HISTORY_MS) + 1
    future = ends_of_cluster(live.client, reach, places, until_ms=reach.at_ms + 3_600_000)
    assert future is not None
    assert max(row["end_offset"] for row in future.to_pylist()) == 20
    assert ends_of_cluster(live.client, reach, {("no-such-topic", 0)}) is None


def test_all_topics_except_internal_ones_are_listed(live: Live) -> None:
    topic = live.new_topic(records=3)
    found = ends_of_cluster(live.client, reach_of_cluster(live.client))
    assert found is not None
    topics = set(found.column("topic").to_pylist())
    assert {topic, "orders"} <= topics
    assert not {name for name in topics if name.startswith("__")}


def test_an_unreachable_cluster_is_reported_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.pipeline.sources.topics.ANSWER_TIMEOUT_S", 0.5)
    with pytest.raises(ClusterError, match=r"127\.0\.0\.1:1: "):
        reach_of_cluster({"bootstrap.servers": "127.0.0.1:1"})
