from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.coordinator.log.errors import LogError
from muster.coordinator.log.producers.append_checks import check_epoch, check_sequence, earlier_append
from muster.coordinator.log.producers.state import (
    KEPT_BATCHES,
    MAX_SEQUENCE,
    Producer,
    Producers,
    SeenBatch,
)
from muster.coordinator.log.records.headers import BatchHeader
from muster.coordinator.log.records.markers import EndMarker
from muster.coordinator.log.segments.transaction_index import AbortedTransaction
from muster.coordinator.log.settings import MAX_INT64
from muster.coordinator.system.jobs import at_once
from muster.protocol.errors import ErrorCode


def append(
    producers: Producers,
    first: int,
    count: int = 1,
    *,
    producer_id: int = 7,
    epoch: int = 0,
    at: int = 0,
    tx: bool = False,
) -> SeenBatch | None:
    """Do what a log does with a batch that begins at offset `at`."""
    last = (first + count - 1) & MAX_SEQUENCE
    header = BatchHeader(0, 0, 0, 2, 0, 0, count - 1, 0, 0, producer_id, epoch, first, count)
    producer = producers.get(producer_id)
    seen = earlier_append(producer, header)
    if seen is None:
        check_epoch(producer, producer_id, epoch)
        check_sequence(producer, header, None)
        producers.appended(producer_id, epoch, SeenBatch(first, last, at, at + count - 1, 1000 + at), tx)
    return seen


def refusal(producers: Producers, first: int, count: int = 1, *, epoch: int = 0) -> int:
    with pytest.raises(LogError) as caught:
        append(producers, first, count, epoch=epoch)
    return caught.value.error_code


def test_batches_in_order_are_accepted_and_a_gap_is_refused() -> None:
    producers = Producers()
    assert append(producers, 0, 3, at=0) is None
    assert append(producers, 3, 1, at=3) is None
    assert refusal(producers, 5) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(producers, 4, 1, at=4) is None


def test_a_duplicate_is_found_among_the_last_five() -> None:
    producers = Producers()
    for sequence in range(KEPT_BATCHES + 1):
        append(producers, sequence, at=100 + sequence)
    assert append(producers, 1) == SeenBatch(1, 1, 101, 101, 1101)
    assert append(producers, 5) == SeenBatch(5, 5, 105, 105, 1105)
    assert refusal(producers, 0) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_with_the_same_first_sequence_but_another_length_is_no_duplicate() -> None:
    producers = Producers()
    append(producers, 0, 3)
    assert refusal(producers, 0, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_older_epoch_is_fenced_and_a_newer_begins_at_zero() -> None:
    producers = Producers()
    append(producers, 0, epoch=3)
    assert refusal(producers, 1, epoch=2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(producers, 1, epoch=4) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(producers, 0, epoch=4, at=9) is None
    assert refusal(producers, 1, epoch=3) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert append(producers, 0, epoch=4) == SeenBatch(0, 0, 9, 9, 1009)


def test_an_unknown_producer_may_begin_at_any_sequence() -> None:
    assert append(Producers(), 41) is None


def test_any_sequence_is_accepted_after_a_batch_without_an_epoch() -> None:
    # as on Kafka 4.3 (ProducerAppendInfo.checkSequence)
    for epoch in (-1, 0, 3):
        producers = Producers()
        append(producers, 5, 3, epoch=-1)
        assert append(producers, 1, 2, epoch=epoch, at=3) is None


def test_sequences_wrap_to_zero() -> None:
    producers = Producers()
    append(producers, MAX_SEQUENCE - 1, 4, at=0)
    found = producers.get(7)
    assert found is not None
    assert found.last_sequence == 1
    assert append(producers, 2, at=4) is None


def test_silent_producers_expire_unless_in_a_transaction() -> None:
    producers = Producers()
    append(producers, 0, producer_id=1, at=0)
    append(producers, 0, producer_id=2, at=500)
    append(producers, 0, producer_id=3, at=1, tx=True)
    assert at_once(producers.expiring(now_ms=1900, after_ms=500)) == 1
    assert [producer.producer_id for producer in producers.all()] == [2, 3]


def marker(producer_id: int, *, committed: bool, epoch: int = 0) -> EndMarker:
    return EndMarker(producer_id, epoch, committed, 0, 0)


def test_transactions_hold_the_stable_offset_until_their_marker() -> None:
    producers = Producers()
    append(producers, 0, producer_id=1, at=10, tx=True)
    append(producers, 0, producer_id=2, at=20, tx=True)
    assert producers.first_unstable_offset(MAX_INT64) == 10
    assert producers.marked(marker(1, committed=False), 30, 1) == AbortedTransaction(1, 10, 30, 20)
    assert producers.first_unstable_offset(MAX_INT64) == 20
    assert producers.marked(marker(2, committed=True), 31, 1) is None
    assert producers.first_unstable_offset(MAX_INT64) is None
    assert producers.marked(marker(3, committed=False), 32, 1) is None


def test_a_transaction_is_unstable_until_its_marker_is_durable() -> None:
    producers = Producers()
    append(producers, 0, producer_id=1, at=10, tx=True)
    append(producers, 0, producer_id=2, at=20, tx=True)
    producers.marked(marker(1, committed=True), 30, 1)
    assert producers.first_unstable_offset(30) == 10
    assert producers.first_unstable_offset(31) == 20
    producers.marked(marker(2, committed=True), 31, 1)
    assert producers.first_unstable_offset(31) == 20
    assert producers.first_unstable_offset(32) is None


def test_open_transactions_are_ordered_by_their_start() -> None:
    known = []
    for producer_id, start in ((5, 30), (6, None), (7, 10)):
        producer = Producer(producer_id, 0)
        producer.transaction_start = start
        known.append(producer)
    producers = Producers()
    for producer in known:
        producers.restore([producer])
    producers.restored()
    assert producers.first_unstable_offset(MAX_INT64) == 10


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 3), st.integers(0, 2)), max_size=40))
def test_duplicates_and_gaps_are_found_as_by_a_model_of_all_batches(batches: list[tuple[int, int, int]]) -> None:
    """The model is a list of all accepted batches. A batch is a duplicate if it is among the last five; otherwise it
    must be the next.
    """
    producers, taken, epoch, offset = Producers(), list[tuple[int, int, int]](), -1, 0
    for first, count, batch_epoch in batches:
        last = first + count - 1
        before = [row for row in taken[-KEPT_BATCHES:] if row[:2] == (first, last)] if batch_epoch == epoch else []
        if epoch == -1:
            expected = "taken"
        elif batch_epoch < epoch:
            expected = "fenced"
        elif batch_epoch > epoch:
            expected = "taken" if first == 0 else "refused"
        elif before:
            expected = "duplicate"
        else:
            expected = "taken" if first == taken[-1][1] + 1 else "refused"
        seen = None
        try:
            seen = append(producers, first, count, epoch=batch_epoch, at=offset)
        except LogError as error:
            reported = {
                ErrorCode.INVALID_PRODUCER_EPOCH: "fenced",
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "refused",
            }[error.error_code]
        else:
            reported = "taken" if seen is None else "duplicate"
        assert reported == expected
        if reported == "duplicate":
            assert seen is not None
            assert seen.base_offset == before[-1][2]
        if reported != "taken":
            continue
        if batch_epoch != epoch:
            taken, epoch = [], batch_epoch
        taken.append((first, last, offset))
        offset += count
