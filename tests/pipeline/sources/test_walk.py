from __future__ import annotations

import io
import struct

import pytest

from muster.pipeline.sources import walk
from muster.pipeline.sources.walk import Damage, Walk
from tests.pipeline.sources.logs import batch

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
def test_batches_whole_whatever_the_size_of_the_chunks(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "CHUNK_BYTES", chunk)
    assert read(b"".join(PARTS)) == (PARTS, [])
    assert read(b"") == ([], [])


@pytest.mark.parametrize("chunk", [64, 1 << 20])
@pytest.mark.parametrize("left", [8, 40, 61, 100])
def test_a_torn_tail_is_told(chunk: int, left: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "CHUNK_BYTES", chunk)
    found, damages = read(b"".join(PARTS)[: -len(PARTS[-1]) + left])
    assert found == PARTS[:-1]
    position = sum(map(len, PARTS[:-1]))
    text = f"f: the file ends in the middle of the batch at {position} (torn tail)"
    assert damages == [Damage(33, text)]


@pytest.mark.parametrize("chunk", [64, 1 << 20])
def test_room_reserved_in_advance_is_no_damage(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "CHUNK_BYTES", chunk)
    assert read(b"".join(PARTS) + bytes(40)) == (PARTS, [])
    assert read(b"".join(PARTS) + bytes(4_000)) == (PARTS, [])


@pytest.mark.parametrize("chunk", [64, 1 << 20])
def test_a_wrong_crc_costs_its_batch_only(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "CHUNK_BYTES", chunk)
    bent = bytearray(b"".join(PARTS))
    bent[len(PARTS[0]) + 70] ^= 1
    found, damages = read(bytes(bent))
    assert found == [PARTS[0], *PARTS[2:]]
    size = len(PARTS[0])
    assert damages == [Damage(10, f"f: the CRC of the batch of {size} bytes at {size} is wrong")]


@pytest.mark.parametrize("chunk", [64, 1 << 20])
@pytest.mark.parametrize("length", [-5, 0, 3, 2**31 - 1])
def test_nothing_is_found_again_after_bytes_that_are_no_batch(
    chunk: int, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "CHUNK_BYTES", chunk)
    bent = bytearray(b"".join(PARTS))
    struct.pack_into(">i", bent, len(PARTS[0]) + 8, length)
    found, damages = read(bytes(bent))
    assert found == PARTS[:1]
    (damage,) = damages
    assert damage.offset == 3
    assert "the rest is not read" in damage.text


@pytest.mark.parametrize("chunk", [20, 64, 1 << 20])
def test_zeros_before_something_else_are_told(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "CHUNK_BYTES", chunk)
    found, damages = read(PARTS[0] + bytes(200) + PARTS[1])
    assert found == PARTS[:1]
    assert len(damages) == 1


@pytest.mark.parametrize("chunk", [20, 64, 1 << 20])
def test_messages_of_old_formats_are_told_and_passed_over(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "CHUNK_BYTES", chunk)
    body = b"\0\0\0\0\1\0" + bytes(60)
    old = struct.pack(">qi", 1, len(body)) + body
    found, damages = read(PARTS[0] + old + PARTS[1])
    assert found == PARTS[:2]
    position = len(PARTS[0])
    assert damages == [Damage(3, f"f: messages of format 1 at {position} (Kafka before 0.11) are not read")]


def test_a_length_beyond_the_file_reads_no_more_than_the_file() -> None:
    bent = bytearray(b"".join(PARTS))
    struct.pack_into(">i", bent, 8, 100_000)
    found, damages = read(bytes(bent))
    assert found == []
    assert [damage.text for damage in damages] == ["f: the file ends in the middle of the batch at 0 (torn tail)"]
