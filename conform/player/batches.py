"""Record batches (magic 2) to bytes and back, by Kafka's description of the format. The code is the tests' own, like
the codec.

It does only what stories need: no compression, no headers, and values without keys. Standard library only.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

_HEADER = struct.Struct(">iBIhiqqqhii")
"""The header from the leader epoch on: the bytes that the length counts."""
_AFTER_CRC = 4 + 1 + 4
TRANSACTIONAL, CONTROL = 0x10, 0x20


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC_TABLE = _crc_table()


def crc32c(raw: bytes) -> int:
    """The Castagnoli checksum."""
    value = 0xFFFFFFFF
    for byte in raw:
        value = _CRC_TABLE[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ 0xFFFFFFFF


class Batch:
    """What a producer sends to one partition. The driver sets `timestamp_ms`, because it knows the server's time."""

    def __init__(self, values: list[str], producer: tuple[int, int], sequence: int, *, is_transactional: bool) -> None:
        self.values, self.producer, self.sequence = values, producer, sequence
        self.is_transactional = is_transactional
        self.timestamp_ms = -1

    def __bytes__(self) -> bytes:
        records = b""
        for i, value in enumerate(self.values):
            raw = value.encode()
            body = b"\0" + _varint(0) + _varint(i) + _varint(-1) + _varint(len(raw)) + raw + _varint(0)
            records += _varint(len(body)) + body
        attributes = TRANSACTIONAL if self.is_transactional else 0
        last, time, (producer_id, epoch) = len(self.values) - 1, self.timestamp_ms, self.producer
        tail = struct.pack(">hiqqqhii", attributes, last, time, time, producer_id, epoch, self.sequence, last + 1)
        tail += records
        head = struct.pack(">iBI", -1, 2, crc32c(tail))
        return struct.pack(">qi", 0, len(head) + len(tail)) + head + tail

    def __len__(self) -> int:
        return len(bytes(self))


class Kept(NamedTuple):
    """A batch as a partition has it: its records as (offset, key, value)."""

    base_offset: int
    last_offset: int
    producer_id: int
    producer_epoch: int
    is_transactional: bool
    is_control: bool
    records: list[tuple[int, bytes | None, bytes | None]]


def batches_of(raw: bytes | None) -> list[Kept]:
    """The batches in a Fetch answer; an incomplete last batch is left out."""
    kept, at, raw = [], 0, raw or b""
    while at + 12 <= len(raw):
        base, size = struct.unpack_from(">qi", raw, at)
        end = at + 12 + size
        if end > len(raw):
            break
        _, magic, crc, attributes, last, _, _, producer_id, epoch, _, count = _HEADER.unpack_from(raw, at + 12)
        if magic != 2 or crc32c(raw[at + 12 + _AFTER_CRC : end]) != crc:
            raise ValueError(f"the batch at {base} is damaged")
        reader = _Reader(raw, at + 12 + _HEADER.size)
        records = [reader.record(base) for _ in range(count)]
        is_transactional, is_control = bool(attributes & TRANSACTIONAL), bool(attributes & CONTROL)
        kept.append(Kept(base, base + last, producer_id, epoch, is_transactional, is_control, records))
        at = end
    return kept


def _varint(number: int) -> bytes:
    number = number << 1 if number >= 0 else (-number << 1) - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


class _Reader:
    def __init__(self, raw: bytes, at: int) -> None:
        self.raw, self.at = raw, at

    def varint(self) -> int:
        shift = value = 0
        while True:
            byte = self.raw[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value >> 1 ^ -(value & 1)
            shift += 7

    def text(self) -> bytes | None:
        size = self.varint()
        if size < 0:
            return None
        self.at += size
        return self.raw[self.at - size : self.at]

    def record(self, base: int) -> tuple[int, bytes | None, bytes | None]:
        end = self.varint() + self.at
        self.at += 1
        self.varint()
        offset = base + self.varint()
        key, value = self.text(), self.text()
        self.at = end
        return offset, key, value
