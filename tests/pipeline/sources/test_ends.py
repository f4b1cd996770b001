from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path

import pytest

from muster.coordinator.log import batches
from muster.pipeline.sources.cluster import ClusterError
from muster.pipeline.sources.ends import STEPS, Reach, history_times, rows_of_ends
from muster.pipeline.sources.live_topics import ends_of_cluster, reach_of_cluster
from muster.pipeline.sources.segment_files import NoSource
from muster.pipeline.sources.topics import WHOLE_BYTES, ends_of_path, reach_of_path
from tests.pipeline.live import Live

_GREATEST_TIME = 35
"""The place of this field in a batch."""


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


def rows(path: Path, between: tuple[int, int] | None = None, until_ms: int | None = None) -> list[tuple[object, ...]]:
    """The rows without the column `surely_ms`."""
    found = ends_of_path(reach_of_path(str(path)), between, until_ms)
    return [] if found is None else [tuple(row.values())[:-1] for row in found.to_pylist()]


def ends(path: Path) -> dict[tuple[str, int], int]:
    return dict(reach_of_path(str(path)).reach.ends)


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
    assert ends(tmp_path) == {}
    assert rows(tmp_path) == []


def test_a_segment_that_is_empty_or_torn_begins_where_the_log_ends(tmp_path: Path) -> None:
    write(tmp_path, "rolled-0", 0, batch(0, 10, 1_000))
    write(tmp_path, "rolled-0", 10)
    write(tmp_path, "torn-0", 0, batch(0, 10, 1_000), batch(10, 5, 2_000)[:-3])
    write(tmp_path, "preallocated-0", 0, batch(0, 10, 1_000), bytes(5_000))
    assert rows(tmp_path) == [("preallocated", 0, 10, 1_000), ("rolled", 0, 10, 1_000), ("torn", 0, 10, 1_000)]


def test_a_log_without_records_ends_where_it_begins(tmp_path: Path) -> None:
    write(tmp_path, "t-0", 500)
    write(tmp_path, "u-0", 0, batch(0, 3, 1 << 50))
    assert ends(tmp_path) == {("t", 0): 500, ("u", 0): 3}
    # no record with a possible time says since when: the last commit is the last thing that is known
    assert {("t", 0, 500, 7_000), ("u", 0, 3, 7_000)} <= set(rows(tmp_path, (1_000, 7_000)))


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


def test_earlier_ends_are_looked_up_at_regular_times(tmp_path: Path) -> None:
    write(tmp_path, "t-0", 0, batch(0, 10, 1_500), batch(10, 5, 3_200))
    write(tmp_path, "t-0", 15, batch(15, 1, 3_000), batch(16, 4, 60_000))
    assert rows(tmp_path, (2_000, 4_000)) == [
        *(("t", 0, 10, time_ms) for time_ms in (2_000, 3_000)),
        # until the end of the topic: no record came for a while
        *(("t", 0, 16, time_ms) for time_ms in range(4_000, 60_001, 1_000)),
        ("t", 0, 20, 60_000),
    ]


def test_a_batch_came_after_its_newest_record(tmp_path: Path) -> None:
    """A producer that did not reach the broker keeps its records, and sends them in one batch."""
    late = bytearray(batch(7, 4, 1_000))
    struct.pack_into(">q", late, _GREATEST_TIME, 5_000)
    write(tmp_path, "t-0", 0, batch(0, 7, 900), bytes(late))
    assert rows(tmp_path, (0, 6_000)) == [
        ("t", 0, 0, 0), *(("t", 0, 7, time_ms) for time_ms in range(1_000, 5_001, 1_000)), ("t", 0, 11, 5_000)
    ]  # fmt: skip


def test_small_batches_say_since_when_their_records_were_surely_there(tmp_path: Path) -> None:
    write(tmp_path, "t-0", 0, *(batch(5 * number, 5, 1_000 * number + 500) for number in range(5)))
    found = ends_of_path(reach_of_path(str(tmp_path)), (0, 4_000))
    assert found is not None
    assert [tuple(row.values())[2:] for row in found.to_pylist()] == [
        (0, 0, None), (5, 1_000, 1_500), (10, 2_000, 2_500), (15, 3_000, 3_500), (20, 4_000, 4_500), (25, 4_500, None)
    ]  # fmt: skip


def test_of_large_segments_the_time_index_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.pipeline.sources.topics.WHOLE_BYTES", 0)
    assert WHOLE_BYTES > 0
    first = write(tmp_path, "t-0", 0, batch(0, 100, 5_000))
    times_of(first, (2_000, 29), (5_000, 99))
    second = write(tmp_path, "t-0", 100, batch(100, 50, 8_000))
    times_of(second, (6_000, 9), (8_000, 49), reserved=1_200)
    torn = write(tmp_path, "u-0", 0, batch(0, 100, 5_000))
    times_of(torn, (3_000, 40), (2_000, 60), (4_000, 80))
    assert rows(tmp_path, (0, 9_000)) == [
        ("t", 0, 30, 2_000),
        ("t", 0, 100, 5_000),
        ("t", 0, 110, 6_000),
        ("t", 0, 150, 8_000),
        ("u", 0, 41, 3_000),
        ("u", 0, 100, 5_000),
    ]


def test_ends_known_later_are_omitted(tmp_path: Path) -> None:
    write(tmp_path, "t-0", 0, batch(0, 30, 2_000), batch(30, 70, 5_000))
    write(tmp_path, "u-0", 0, batch(0, 9, 5_001))
    assert rows(tmp_path, (2_000, 6_000), 5_000) == [
        ("t", 0, 0, 2_000),
        *(("t", 0, 30, time_ms) for time_ms in (3_000, 4_000, 4_999)),
        *(("u", 0, 0, time_ms) for time_ms in (2_000, 3_000, 4_000, 4_999)),
    ]
    assert rows(tmp_path, (2_000, 6_000), 2_000) == [("t", 0, 0, 1_999), ("u", 0, 0, 1_999)]


def test_nobody_knows_when_a_log_reached_its_first_offset(tmp_path: Path) -> None:
    write(tmp_path, "t-0", 40, batch(40, 2, 5_000), batch(42, 1, 7_000))
    assert rows(tmp_path, (4_000, 7_000)) == [
        ("t", 0, 42, 6_000), ("t", 0, 42, 7_000), ("t", 0, 43, 7_000)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("span_ms", "places", "size_ms"),
    [(90_000, 1, 1_000), (600_000, 100, 10_000), (600_000, 2_000, 120_000), (86_400_000, 1, 900_000)],
)
def test_a_history_has_few_times_at_round_distances(span_ms: int, places: int, size_ms: int) -> None:
    reach = Reach(1 << 50, {("t", number): 1 for number in range(places)}, {})
    times = history_times(reach, (1_234_567, 1_234_567 + span_ms))
    assert {later - time_ms for time_ms, later in pairwise(times)} == {size_ms}
    assert times[0] <= 1_234_567 < times[0] + size_ms
    assert len(times) <= STEPS
    assert all(time_ms % size_ms == 0 for time_ms in times)


def test_a_year_has_a_history_too() -> None:
    year_ms = 365 * 86_400_000
    reach = Reach(1 << 50, {("t", 0): 1}, {})
    assert STEPS / 3 < len(history_times(reach, (0, year_ms))) <= STEPS
    assert rows_of_ends(reach._replace(ends={}), [], None) is None


def test_a_missing_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoSource, match="cannot be listed"):
        reach_of_path(str(tmp_path / "nothing"))


def test_the_ends_of_logs_are_read_from_a_live_cluster(live: Live) -> None:
    topic = live.new_topic(records=20)
    reach = reach_of_cluster(live.client).of({(topic, 0), ("no-such-topic", 0), (topic, 7)})
    assert reach.ends == {(topic, 0): 20}
    between = reach.at_ms - 60_000, reach.at_ms
    now = ends_of_cluster(live.client, reach, between)
    assert now is not None
    found = now.to_pylist()
    # a minute ago there was nothing, and the newest record came before the question
    assert (found[0]["end_offset"], found[-1]["end_offset"]) == (0, 20)
    assert reach.at_ms - 60_000 < found[-1]["time_ms"] <= reach.at_ms
    # later records do not count
    live.produce(topic, 5)
    again = ends_of_cluster(live.client, reach, between)
    assert again is not None
    assert again.to_pylist()[-1] == {**found[-1], "time_ms": reach.at_ms}
    assert "no-such-topic" not in live.topics()
    # the end at some time, and earlier
    until_ms = reach.at_ms - 30_000
    then = ends_of_cluster(live.client, reach, between, until_ms=until_ms)
    assert then is not None
    assert {row["end_offset"] for row in then.to_pylist()} == {0}
    assert max(row["time_ms"] for row in then.to_pylist()) == until_ms - 1
    future = ends_of_cluster(live.client, reach, between, until_ms=reach.at_ms + 3_600_000)
    assert future is not None
    assert max(row["end_offset"] for row in future.to_pylist()) == 20
    assert ends_of_cluster(live.client, reach.of(()), between) is None


def test_what_was_looked_up_is_not_asked_for_again(live: Live) -> None:
    topic = live.new_topic(records=20)
    reach = reach_of_cluster(live.client).of({(topic, 0)})
    between = reach.at_ms - 60_000, reach.at_ms
    before = reach.at_ms // 1_000 * 1_000 - 30_000
    known = {before: {(topic, 0): 3}, 5: {(topic, 0): 1}}
    found = ends_of_cluster(live.client, reach, between, known=known)
    assert found is not None
    assert {"topic": topic, "partition": 0, "end_offset": 3, "time_ms": before, "surely_ms": None} in found.to_pylist()
    # times that are no longer wanted are forgotten
    assert 5 not in known
    assert {offset for then_ms, one in known.items() if then_ms < before for offset in one.values()} == {0}


def test_all_topics_except_internal_ones_are_listed(live: Live) -> None:
    topic = live.new_topic(records=3)
    topics = {name for name, _ in reach_of_cluster(live.client).ends}
    assert {topic, "orders"} <= topics
    assert not {name for name in topics if name.startswith("__")}


def test_an_unreachable_cluster_is_reported_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.pipeline.sources.live_topics.ANSWER_TIMEOUT_S", 0.5)
    with pytest.raises(ClusterError, match=r"127\.0\.0\.1:1: "):
        reach_of_cluster({"bootstrap.servers": "127.0.0.1:1"})
