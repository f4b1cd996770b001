"""Muster's own reader reads the tests' record batches, and the tests' reader reads Muster's."""

from __future__ import annotations

from muster.conform.player.batches import Batch, batches_of, crc32c
from muster.coordinator.log import batches
from tests.support.markers import build_control


def test_a_batch_of_a_story_is_read_unchanged() -> None:
    made = Batch(["a", "bc"], (7, 3), 5, is_transactional=True)
    made.timestamp_ms = 1_700_000_000_000
    ((header, records),) = batches.read(bytes(made))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 5)
    assert header.is_transactional
    assert [record.value for record in records] == [b"a", b"bc"]
    (kept,) = batches_of(bytes(made))
    assert kept[:6] == (0, 1, 7, 3, True, False)
    assert kept.records == [(0, None, b"a"), (1, None, b"bc")]


def test_markers_are_recognized_and_incomplete_batches_ignored() -> None:
    marker = build_control(batches.CONTROL_COMMIT, timestamp_ms=1, producer_id=9, producer_epoch=2, coordinator_epoch=4)
    (kept,) = batches_of(bytes(marker) + bytes(Batch(["x"], (-1, -1), -1, is_transactional=False))[:-1])
    assert kept.is_control
    assert kept.is_transactional
    assert (kept.producer_id, kept.producer_epoch) == (9, 2)
    assert kept.records[0][1] == b"\0\0\0\1"


def test_the_batch_checksum_is_crc32c() -> None:
    assert crc32c(b"123456789") == 0xE3069283
