from __future__ import annotations

import io
import json
import struct

import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from muster.pipeline.sources import segment_reader
from muster.pipeline.sources.segment_reader import Damage, Walk
from tests.pipeline.sources.logs import batch
from tests.support.old_formats import GOLDEN, GZIP, SEGMENT, Row, messages, rows_of, wrapped

PARTS = [batch([(b"k", b"v" * 50)] * 3, 10 * i) for i in range(5)]


def read(data: bytes) -> tuple[list[bytes], list[Damage]]:
    found, damages = [], []
    for stretch in Walk("f", io.BytesIO(data), len(data), 0):
        damages += stretch.damages
        for at in stretch.batches:
            (length,) = struct.unpack_from(">i", stretch.data, at + 8)
            found.append(stretch.data[at : at + 12 + length])
    return found, damages


@pytest.mark.parametrize("chunk", [1, 64, 300, 1 << 20])
def test_batches_are_complete_for_any_chunk_size(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_reader, "CHUNK_BYTES", chunk)
    assert read(b"".join(PARTS)) == (PARTS, [])
    assert read(b"") == ([], [])


@pytest.mark.parametrize("chunk", [64, 1 << 20])
@pytest.mark.parametrize("left", [8, 40, 61, 100])
def test_a_torn_tail_is_reported(chunk: int, left: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_reader, "CHUNK_BYTES", chunk)
    found, damages = read(b"".join(PARTS)[: -len(PARTS[-1]) + left])
    assert found == PARTS[:-1]
    position = sum(map(len, PARTS[:-1]))
    text = f"f: the file ends in the middle of the batch at {position} (torn tail)"
    assert damages == [Damage(33, text)]


@pytest.mark.parametrize("chunk", [64, 1 << 20])
def test_reserved_space_is_no_damage(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_reader, "CHUNK_BYTES", chunk)
    assert read(b"".join(PARTS) + bytes(40)) == (PARTS, [])
    assert read(b"".join(PARTS) + bytes(4_000)) == (PARTS, [])


@pytest.mark.parametrize("chunk", [64, 1 << 20])
def test_a_wrong_crc_loses_only_its_batch(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_reader, "CHUNK_BYTES", chunk)
    bent = bytearray(b"".join(PARTS))
    bent[len(PARTS[0]) + 70] ^= 1
    found, damages = read(bytes(bent))
    assert found == [PARTS[0], *PARTS[2:]]
    size = len(PARTS[0])
    assert damages == [Damage(10, f"f: the CRC of the batch of {size} bytes at {size} is wrong")]


@pytest.mark.parametrize("chunk", [64, 1 << 20])
@pytest.mark.parametrize("length", [-5, 0, 3, 2**31 - 1])
def test_reading_stops_at_bytes_that_are_no_batch(chunk: int, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_reader, "CHUNK_BYTES", chunk)
    bent = bytearray(b"".join(PARTS))
    struct.pack_into(">i", bent, len(PARTS[0]) + 8, length)
    found, damages = read(bytes(bent))
    assert found == PARTS[:1]
    (damage,) = damages
    assert damage.offset == 3
    assert "the rest is not read" in damage.text


@pytest.mark.parametrize("chunk", [20, 64, 1 << 20])
def test_zeros_before_other_bytes_are_reported(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_reader, "CHUNK_BYTES", chunk)
    found, damages = read(PARTS[0] + bytes(200) + PARTS[1])
    assert found == PARTS[:1]
    assert len(damages) == 1


def rows_in(parts: list[bytes]) -> list[Row]:
    return [Row(r.offset, r.timestamp, r.key, r.value) for part in parts for r in DefaultRecordBatch(part)]


@pytest.mark.parametrize("chunk", [20, 64, 500, 1 << 20])
def test_messages_of_old_formats_become_batches(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_reader, "CHUNK_BYTES", chunk)
    first, packed, last = rows_of(0, 3, 5), rows_of(1, 20, 5), rows_of(1, 60, 2)
    old = messages(0, first) + messages(1, packed, GZIP) + PARTS[4] + messages(1, last)
    found, damages = read(PARTS[0] + old)
    assert damages == []
    assert [found[0], PARTS[4]] == [part for part in found if part in PARTS]
    assert rows_in([part for part in found if part not in PARTS]) == [*first, *packed, *last]


@pytest.mark.parametrize("chunk", [64, 1 << 20])
def test_three_formats_of_kafka_are_read(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_reader, "CHUNK_BYTES", chunk)
    found, damages = read(SEGMENT.read_bytes())
    assert damages == []
    assert len(rows_in(found)) == 240
    assert [row.offset for row in rows_in(found)] == [
        json.loads(line)["offset"] for line in (GOLDEN / "expected.jsonl").read_text().splitlines()
    ]


@pytest.mark.parametrize("chunk", [64, 1 << 20])
def test_a_damaged_message_loses_only_itself(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_reader, "CHUNK_BYTES", chunk)
    rows = rows_of(1, 0, 4)
    bent = bytearray(messages(1, rows))
    second = 12 + struct.unpack_from(">i", bent, 8)[0]
    bent[second + 33] ^= 1
    packed = wrapped(1, 9, 6, b"whatever")
    found, damages = read(bytes(bent) + packed + PARTS[4])
    assert rows_in(found[:-1]) == [rows[0], *rows[2:]]
    assert found[-1] == PARTS[4]
    assert damages == [
        Damage(1, f"f: the message at {second} cannot be read: the CRC of the message at offset 1 is wrong"),
        Damage(9, f"f: the message at {len(bent)} cannot be read: unknown compression type 6"),
    ]


@pytest.mark.parametrize("chunk", [64, 1 << 20])
@pytest.mark.parametrize("left", [8, 20, 26, 33])
def test_a_torn_message_is_reported(chunk: int, left: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_reader, "CHUNK_BYTES", chunk)
    before, torn = messages(1, rows_of(1, 0, 2)), messages(1, [Row(2, 0, b"key", b"v" * 50)])
    found, damages = read(before + torn[:left])
    assert rows_in(found) == rows_of(1, 0, 2)
    assert damages == [Damage(2, f"f: the file ends in the middle of the batch at {len(before)} (torn tail)")]


def test_highly_compressed_batches_are_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_reader, "CHUNK_BYTES", 5_000)
    data = b"".join(messages(1, [Row(offset, 0, b"k", b"v" * 4_000)], GZIP) for offset in range(20))
    assert len(data) < 5_000
    stretches = list(Walk("f", io.BytesIO(data), len(data), 0))
    assert max(len(stretch.data) for stretch in stretches) < 10_000
    assert sum(len(stretch.batches) for stretch in stretches) == 20


def test_a_length_beyond_the_file_reads_no_more_than_the_file() -> None:
    bent = bytearray(b"".join(PARTS))
    struct.pack_into(">i", bent, 8, 100_000)
    found, damages = read(bytes(bent))
    assert found == []
    assert [damage.text for damage in damages] == ["f: the file ends in the middle of the batch at 0 (torn tail)"]
