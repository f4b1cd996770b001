from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from muster.pipeline.schema import OFFSETS_TOPIC
from muster.pipeline.sources.cluster import (
    ClusterError,
    Range,
    bounded,
    bounds,
    check_reachable,
    ranges_between,
    read_ranges,
    share_ranges,
)
from muster.pipeline.sources.options import BadOption, options_of
from muster.pipeline.sources.segment_files import NoSource
from muster.pipeline.sources.segments import READ_UNCOMMITTED, Reading, read_segments
from muster.pipeline.sources.spark_source import ClusterStream
from tests.pipeline.live import LATE_WORKER, Live
from tests.support.servers import QUICK, MusterServer


def rows_of(live: Live, reading: Reading, shares: int) -> list[dict[str, Any]]:
    start, end = bounds(live.client, reading)
    batches = [one for share in share_ranges(start, end, shares) for one in read_ranges(live.client, reading, share)]
    return in_order(row for batch in batches for row in batch.to_pylist())


def in_order(rows: Any) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


def places(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(row["partition"], row["offset"]) for row in rows]


def test_ranges_are_split_by_size_and_complete() -> None:
    start, end = {0: 10, 1: 0, 2: 5}, {0: 1_010, 1: 100, 2: 5, 3: 40}
    shares = share_ranges(start, end, 3)
    sizes = [sum(one.end - one.start for one in share) for share in shares]
    assert (sum(sizes), len(shares)) == (1_140, 3)
    assert max(sizes) - min(sizes) <= 40
    held = sorted(one for share in shares for one in share)
    assert held == ranges_between(start, end, 380)
    assert [one for one in held if one.partition == 0] == [Range(0, 10, 390), Range(0, 390, 770), Range(0, 770, 1010)]
    assert share_ranges({0: 7}, {0: 7}, 4) == []


def test_a_stream_batch_takes_a_share_of_each_partition() -> None:
    start, end = {0: 0, 1: 0, 2: 100}, {0: 900, 1: 90, 2: 110}
    assert bounded(start, end, 100) == {0: 90, 1: 99 - 90, 2: 101}
    assert bounded(start, end, 5_000) == end
    at = start
    for _ in range(2_000):
        if at == end:
            break
        further = bounded(at, end, 1)
        assert sum(further.values()) == sum(at.values()) + 1
        at = further
    assert at == end


def test_a_cluster_and_its_data_directory_give_the_same_rows(live: Live) -> None:
    everything = Reading(isolation=READ_UNCOMMITTED)
    facts = ("producer_id", "producer_epoch", "is_transactional")
    for reading in (Reading(), everything):
        rows = [row for batch in read_segments(live.data_dir, reading) for row in batch.to_pylist()]
        wanted = in_order(row | dict.fromkeys(facts) for row in rows)
        for shares in (1, 3):
            assert rows_of(live, reading, shares) == wanted
    assert len(rows_of(live, Reading(), 1)) == len(rows_of(live, everything, 1)) - live.aborted


def test_group_events_are_read_like_any_topic(live: Live) -> None:
    rows = rows_of(live, Reading("__group_events"), 2)
    assert {row["topic"] for row in rows} == {"__group_events"}
    assert any(b'"group_created"' in row["value"] or b'"shard_loaded"' in row["value"] for row in rows)


def test_records_deleted_before_reading_are_reported(live: Live) -> None:
    topic = live.new_topic(records=20)
    live.delete_records(topic, before=12)
    reading = Reading(topic)
    assert bounds(live.client, reading) == ({0: 12}, {0: 20})
    for end, wanted, last in ((20, list(range(12, 20)), 11), (5, [], 4)):
        rows = [row for batch in read_ranges(live.client, reading, [Range(0, 3, end)]) for row in batch.to_pylist()]
        assert rows[0]["damage"] == f"offsets 3 to {last} of {topic}-0 were deleted before they were read"
        assert [row["offset"] for row in rows[1:]] == wanted
    with pytest.raises(ClusterError, match=r"offsets 3 to 11 of .* were deleted"):
        list(read_ranges(live.client, Reading(topic, fail_on_damage=True), [Range(0, 3, 20)]))


def test_an_error_of_the_client_library_becomes_one_sentence(live: Live) -> None:
    with pytest.raises(BadOption, match=r'No such configuration property: "ssl.oops" .*librdkafka\'s names'):
        bounds({**live.client, "ssl.oops": "x"}, Reading())
    with pytest.raises(NoSource, match=r"has no topic nothing .*a cluster has no offsets topic before its first group"):
        bounds(live.client, Reading("nothing"))
    assert "nothing" not in live.topics()


def test_an_unreachable_cluster_is_reported_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.pipeline.sources.cluster.ANSWER_TIMEOUT_S", 0.5)
    with pytest.raises(ClusterError, match=r"127\.0\.0\.1:1: .*refused"):
        bounds({"bootstrap.servers": "127.0.0.1:1"}, Reading())


def decoded(live: Live, spark: SparkSession) -> Any:
    return spark.read.format("muster").option("bootstrap.servers", live.bootstrap).option("rows", "decoded").load()


def test_a_live_cluster_is_read_as_a_table(live: Live, spark: SparkSession) -> None:
    found = sorted((row.log_partition, row.log_offset, row.kind) for row in decoded(live, spark).collect())
    assert [(partition, offset) for partition, offset, _ in found] == places(rows_of(live, Reading(), 1))
    kinds = {kind for _, _, kind in found}
    assert {"commit", "classic"} <= kinds <= {"commit", "classic", "share"}  # other tests may have a share group


@contextmanager
def listening(answer: bytes | None) -> Iterator[str]:
    """A port on which every client gets this answer, and is then disconnected; None: no client is ever answered."""

    def serve() -> None:
        with suppress(OSError):
            while True:
                kept.append(server.accept()[0])
                if answer is not None:
                    kept[-1].recv(1)
                    kept[-1].sendall(answer)
                    kept[-1].close()

    kept: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
            for one in kept:
                one.close()


@pytest.mark.parametrize(
    ("answer", "reported"),
    [
        (None, "nobody answered for 1 s"),
        (b"", "the connection was closed"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "what answered there is no Kafka"),
    ],
)
def test_an_address_that_is_no_broker_is_reported(
    answer: bytes | None, reported: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.pipeline.sources.cluster.FIRST_ANSWER_TIMEOUT_S", 1.0)
    with listening(answer) as address, pytest.raises(ClusterError) as error:
        check_reachable({"bootstrap.servers": address})
    assert str(error.value) == (
        f"{address} cannot be reached: {reported}: is a broker listening there, and does it speak PLAINTEXT "
        "(-X kafka.security.protocol=...)?"
    )


def test_an_address_without_a_listener_is_reported(live: Live) -> None:
    with pytest.raises(
        ClusterError, match=r"^127\.0\.0\.1:1 cannot be reached: Connect to \S+ failed: Connection refused:"
    ):
        check_reachable({"bootstrap.servers": "127.0.0.1:1"})
    with pytest.raises(BadOption, match="No such configuration property"):
        check_reachable({**live.client, "no.such": "1"})
    # one existing address is enough
    check_reachable({"bootstrap.servers": f"127.0.0.1:1,{live.bootstrap}"})


def test_a_cluster_without_groups_is_an_error(tmp_path: Path, spark: SparkSession) -> None:
    server = MusterServer(tmp_path, QUICK, in_memory=True)
    server.start()
    try:
        rows = spark.read.format("muster").option("bootstrap.servers", server.bootstrap)
        with pytest.raises(AnalysisException, match=f"{OFFSETS_TOPIC} holds nothing|no topic {OFFSETS_TOPIC}"):
            rows.load().count()
    finally:
        server.stop()


def streamed(live: Live, spark: SparkSession, root: Path, rows_a_batch: int) -> tuple[list[tuple[int, int]], list[int]]:
    """Read everything that exists now. Returns all rows of the table since its beginning, and the sizes of the
    batches.
    """
    rows = (
        spark.readStream.format("muster")
        .option("kafka.bootstrap.servers", live.bootstrap)
        .option("maxRowsPerTrigger", str(rows_a_batch))
        .load()
    )
    writing = rows.select("partition", "offset").writeStream.format("parquet").option("path", str(root / "table"))
    writing = writing.option("checkpointLocation", str(root / "checkpoint")).trigger(availableNow=True)
    has_ended = False
    while not has_ended:
        query = writing.start()
        try:
            has_ended = query.awaitTermination() is None
        except StreamingQueryException as error:
            if LATE_WORKER not in str(error):  # on a busy machine
                raise
    table = spark.read.parquet(str(root / "table")).collect()
    return sorted((row.partition, row.offset) for row in table), [
        progress.numInputRows for progress in query.recentProgress if progress.numInputRows
    ]


def test_a_stream_reads_at_most_its_limit_and_continues_from_its_checkpoint(
    live: Live, spark: SparkSession, tmp_path: Path
) -> None:
    wanted = places(rows_of(live, Reading(), 1))
    found, sizes = streamed(live, spark, tmp_path, -(-len(wanted) // 2))
    assert found == wanted
    assert len(sizes) >= 2
    live.commit("later", 5)
    found, sizes = streamed(live, spark, tmp_path, 1_000_000)
    assert found == places(rows_of(live, Reading(), 1))
    assert len(found) > len(wanted)
    assert sum(sizes) == len(found) - len(wanted)


def test_a_log_that_ends_before_the_checkpoint_is_an_error(live: Live) -> None:
    stream = ClusterStream(options_of({"bootstrap.servers": live.bootstrap}))
    start = stream.initialOffset()
    assert stream.latestOffset(start, ReadAllAvailable()) == stream.reportLatestOffset()
    with pytest.raises(ClusterError, match=r"ends at .* begin with a new checkpoint"):
        stream.latestOffset(start | {"3": 1_000_000}, ReadAllAvailable())


def test_a_stream_can_wait_for_its_topic(live: Live) -> None:
    options = {"bootstrap.servers": live.bootstrap, "topic": "not-yet"}
    with pytest.raises(NoSource, match="has no topic not-yet"):
        ClusterStream(options_of(options)).initialOffset()
    stream = ClusterStream(options_of({**options, "waitForTopic": "true"}))
    assert stream.initialOffset() == {}
    assert stream.latestOffset({}, ReadAllAvailable()) == {}
    with pytest.raises(ClusterError, match=r"not-yet was deleted; begin with a new checkpoint"):
        stream.latestOffset({"0": 5}, ReadAllAvailable())
