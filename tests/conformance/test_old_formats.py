"""Kafka's own builder wrote message sets of magic 0 and 1; Muster reads them as Kafka's DumpLogSegments does."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from muster.coordinator.log import batches
from muster.coordinator.log.records.headers import check_crc, iterate
from tests.conformance.test_log_segments import dump
from tests.support.servers import KAFKA_SCRIPTS

HERE = Path(__file__).parent
RECORD = re.compile(r"\| offset: (\d+) \w+: (-?\d+) keySize: (-?\d+) valueSize: (-?\d+)(.*)")
BATCH = re.compile(
    r"^(?:offset|.*lastOffset): (\d+) .*position: (\d+) \w+: (-?\d+) size: (\d+) magic: (\d) .*crc: (\d+)", re.M
)


@pytest.mark.parametrize("seed", [1, 2])
def test_message_sets_of_kafka_are_read_as_kafka_dumps_them(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "t-0" / "00000000000000000000.log"
    path.parent.mkdir()
    command = [KAFKA_SCRIPTS / "kafka-tool.sh", HERE / "OldFormats.java", path, str(seed)]
    subprocess.run(command, check=True, timeout=120)
    data = path.read_bytes()
    reported = dump([path], "--deep-iteration", "--print-data-log")
    expected = [tuple(map(int, match.groups())) for match in BATCH.finditer(reported)]
    found = list(iterate(data))
    assert [(h.last_offset, at, h.max_timestamp, h.size, h.magic, h.crc) for at, h in found] == expected
    assert {header.magic for _, header in found} == {0, 1, 2}
    assert all(check_crc(data, at, header) for at, header in found)
    lines = iter(RECORD.findall(reported))
    for header, records in batches.read(data):
        for record in records:
            offset, timestamp, key_size, value_size, texts = next(lines)
            sizes = [-1 if part is None else len(part) for part in (record.key, record.value)]
            assert [record.offset, record.timestamp, *sizes] == [*map(int, (offset, timestamp, key_size, value_size))]
            for name, part in (("key", record.key), ("payload", record.value)):
                assert part is None or f" {name}: {part.decode()}" in texts
        assert header.last_offset == records[-1].offset
        assert header.base_offset == records[0].offset or header.magic == 2
    assert next(lines, None) is None
