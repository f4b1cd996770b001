"""Kafka's DumpLogSegments reads what our log wrote: batches of every codec, markers, both indexes. A broker starts on
it.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from muster.coordinator.log import FileStorage, LogConfig, LogManager, LogSettings, UnifiedLog, batches
from tests.support.markers import build_control
from tests.support.servers import KAFKA_SCRIPTS

NOW = 1_700_000_000_000
CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=300)
BATCH = re.compile(r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .*partitionLeaderEpoch: (\d+) .*isvalid: (\w+)")


def dump(paths: list[Path], *more: str) -> str:
    names = ",".join(str(path) for path in paths)
    command = [KAFKA_SCRIPTS / "kafka-tool.sh", "org.apache.kafka.tools.DumpLogSegments", "--files", names, *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def write(log: UnifiedLog) -> None:
    for index in range(300):
        records = [(b"k%d" % index, b"value " * (index % 30), [("h", b"x"), ("n", None)]), (None, None)]
        codec = index % 5
        data = batches.build(records, timestamp_ms=NOW + index, compression=codec, log_append_time=index % 7 == 0)
        log.append(index // 100, data, wall_ms=NOW)
        if index % 50 == 49:
            marker = build_control(index % 2, timestamp_ms=NOW + index, producer_id=index, producer_epoch=0)
            log.append(index // 100, marker, wall_ms=NOW)


@pytest.fixture(scope="module")
def partition(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a partition, after a clean stop."""
    directory = tmp_path_factory.mktemp("data")
    manager = LogManager(FileStorage(directory), LogSettings())
    manager.open(cluster_id=None, node_id=1, draw_uuid=lambda: bytes(16))
    write(manager.open_log("t", 0, config=CONFIG, topic_id=bytes(range(16))))
    manager.close()
    return directory / "t-0"


def test_kafka_dumps_the_batches_and_records_of_our_segments(partition: Path) -> None:
    paths = sorted(partition.glob("*.log"))
    assert len(paths) > 1
    text = dump(paths, "--deep-iteration", "--print-data-log")
    found = [tuple(match) for match in BATCH.findall(text)]
    assert len(found) == 306
    assert {match[4] for match in found} == {"true"}
    assert [int(match[3]) for match in found] == [0] * 102 + [1] * 102 + [2] * 102
    ends = [int(match[1]) + 1 for match in found]
    assert [int(match[0]) for match in found] == [0, *ends[:-1]]
    assert text.count("endTxnMarker: COMMIT") == 6
    assert sum(line.startswith("| offset:") for line in text.splitlines()) == 606
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        assert f"compresscodec: {codec}" in text
    assert "LogAppendTime: " in text


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_kafka_accepts_the_indexes_of_our_segments(partition: Path, suffix: str) -> None:
    paths = sorted(partition.glob(f"*.{suffix}"))
    assert dump(paths, "--index-sanity-check").count("passed sanity check") == len(paths)
    # entries are compared with the log itself; each difference is reported
    reported = dump(paths, "--verify-index-only")
    assert reported.split() == [word for path in paths for word in ("Dumping", str(path))]
