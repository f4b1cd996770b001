"""Records of share partitions as batches, and back, with their places in the log."""

from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.log import CorruptBatch
from muster.coordinator.log.records.building import build_packed
from muster.coordinator.runtime.share_coordinator.record_codec import RecordCodec
from muster.coordinator.share.in_flight import Row
from muster.coordinator.share_state.persister import StateKey
from muster.coordinator.share_state.state import LogPosition, tombstone, update_record
from muster.coordinator.state_machine.interface import Now
from muster.protocol.records import pack_key_value
from tests.coordinator.topics.support import batch

KEY = StateKey("g", bytes(15) + b"\7", 3)
UPDATE = update_record(KEY, snapshot_epoch=1, leader_epoch=2, start_offset=5, done_count=1, rows=[Row(5, 9, 2, 1)])
NOW = Now(1, 1_700_000_000_000)


def read(data: bytes) -> list[Any]:
    return [one for part in RecordCodec(0).reader().read(data) for one in part]


def test_records_come_back_with_their_place() -> None:
    codec = RecordCodec(0)
    rows, size = codec.encode([UPDATE, tombstone(KEY)])
    assert size == sum(map(len, rows))
    built = bytes(codec.build(rows, NOW, None))
    assert read(built) == [(LogPosition(0), None), UPDATE[:2], (tombstone(KEY).key, None)]
    assert list(codec.reader().rest()) == []


def test_records_of_a_later_kafka_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    codec = RecordCodec(0)
    (row,), _ = codec.encode([UPDATE])
    later = pack_key_value(b"\0\x09later", b"\0\0")
    built = bytes(build_packed([row, later, row, later], timestamp_ms=0))
    positions = [one[0] for one in read(built)]
    assert positions == [LogPosition(0), UPDATE.key, LogPosition(2), UPDATE.key, LogPosition(4)]
    assert capsys.readouterr().out.count("records of an unknown kind") == 1


def test_damage_is_found() -> None:
    codec = RecordCodec(0)
    built = codec.build(codec.encode([UPDATE])[0], NOW, None)
    built[-1] ^= 1
    with pytest.raises(CorruptBatch):
        read(bytes(built))


def test_records_without_a_key_are_left_out() -> None:
    assert read(batch(b"v", key=None)) == [(LogPosition(1), None)]
