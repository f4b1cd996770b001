from __future__ import annotations

from collections.abc import Callable

import pytest

from muster.coordinator.log import AppendResult
from muster.coordinator.log.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    LogError,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from muster.coordinator.log.producers.append_checks import MAX_EPOCH, NOT_NEEDED, VerificationGuard
from muster.coordinator.log.records.headers import read_header
from muster.coordinator.log.records.markers import EndMarker
from muster.coordinator.system.jobs import at_once
from muster.coordinator.topics.partition import Partition
from tests.coordinator.topics.support import add_topic, batch, make_topics
from tests.coordinator.topics.test_partition import NOW

ID = 7


@pytest.fixture
def target() -> Partition:
    return add_topic(make_topics(), "t", 1)


def append(
    target: Partition,
    sequence: int = 0,
    *,
    epoch: int = 0,
    guard: VerificationGuard | None = None,
    transactional: bool = True,
) -> AppendResult:
    data = batch(b"a", producer_id=ID, producer_epoch=epoch, base_sequence=sequence, transactional=transactional)
    return target.append(data, read_header(data), NOW, guard)


def verify(target: Partition, sequence: int = 0, *, epoch: int = 0, bumps: bool = False) -> VerificationGuard | None:
    return target.log.producers.verification(ID, epoch, sequence, supports_epoch_bump=bumps, now_ms=NOW.wall_ms)


def end(
    target: Partition, *, epoch: int = 0, committed: bool = True, coordinator_epoch: int = 0, version: int = 0
) -> AppendResult:
    return target.append_marker(EndMarker(ID, epoch, committed, coordinator_epoch, version), NOW)


def refused(call: Callable[[], object], error: type[LogError]) -> None:
    with pytest.raises(error):
        call()


def test_the_first_batch_of_a_transaction_needs_a_guard_and_the_next_ones_do_not(target: Partition) -> None:
    refused(lambda: append(target), InvalidTxnState)
    guard = verify(target)
    assert guard is not None
    refused(lambda: append(target, guard=VerificationGuard()), InvalidTxnState)
    append(target, guard=guard)
    assert verify(target, 1) is None
    append(target, 1)
    # another epoch means another transaction
    refused(lambda: append(target, epoch=1), InvalidTxnState)
    assert verify(target, epoch=1) is not None


def test_a_marker_between_verification_and_append_makes_the_guard_void(target: Partition) -> None:
    guard = verify(target)
    end(target)
    refused(lambda: append(target, guard=guard), InvalidTxnState)
    append(target, guard=verify(target))
    end(target)
    refused(lambda: append(target, 1), InvalidTxnState)


def test_the_marker_that_raised_the_epoch_to_that_of_the_guard_ends_the_transaction_before(target: Partition) -> None:
    append(target, guard=verify(target, bumps=True))
    guard = verify(target, epoch=1, bumps=True)
    end(target, epoch=1, version=2)
    append(target, epoch=1, guard=guard)
    guard = verify(target, epoch=2, bumps=True)
    end(target, epoch=3, version=2)
    refused(lambda: append(target, epoch=2, guard=guard), InvalidProducerEpoch)


def test_no_guard_is_needed_if_verification_is_switched_off(target: Partition) -> None:
    append(target, guard=NOT_NEEDED)
    assert target.last_stable_offset() == 0


def test_an_old_producer_epoch_is_refused_without_verification(target: Partition) -> None:
    append(target, epoch=3, guard=NOT_NEEDED)
    refused(lambda: verify(target, epoch=2), InvalidProducerEpoch)
    refused(lambda: append(target, epoch=2, guard=NOT_NEEDED), InvalidProducerEpoch)


def test_an_unknown_producer_with_raised_epochs_begins_at_sequence_zero(target: Partition) -> None:
    guard = verify(target, 3, bumps=True)
    refused(lambda: append(target, 3, guard=guard), OutOfOrderSequence)
    # an older client may continue at any sequence: its earlier records may have been deleted
    other = add_topic(make_topics(), "t", 1)
    append(other, 3, guard=verify(other, 3))


def test_no_batch_overtakes_an_earlier_batch_in_verification(target: Partition) -> None:
    first = verify(target, 0)
    second = verify(target, 1)
    assert first is second
    refused(lambda: append(target, 1, guard=second), OutOfOrderSequence)
    append(target, 0, guard=first)
    append(target, 1, guard=second)


def test_a_producer_with_an_open_transaction_writes_nothing_outside_of_it(target: Partition) -> None:
    append(target, guard=NOT_NEEDED)
    refused(lambda: append(target, 1, transactional=False), InvalidTxnState)
    end(target)
    append(target, 1, transactional=False)


def test_a_verification_guard_expires(target: Partition) -> None:
    guard = verify(target)
    at_once(target.expiring_producers(NOW._replace(wall_ms=NOW.wall_ms + 9), after_ms=10))
    append(target, guard=guard)
    end(target)
    guard = verify(target, 1)
    at_once(target.expiring_producers(NOW._replace(wall_ms=NOW.wall_ms + 10), after_ms=10))
    refused(lambda: append(target, 1, guard=guard), InvalidTxnState)


def test_a_marker_of_an_older_epoch_or_an_older_coordinator_is_refused(target: Partition) -> None:
    append(target, epoch=2, guard=NOT_NEEDED)
    refused(lambda: end(target, epoch=1), InvalidProducerEpoch)
    end(target, epoch=2, coordinator_epoch=5)
    refused(lambda: end(target, epoch=2, coordinator_epoch=4), TransactionCoordinatorFenced)
    end(target, epoch=2, coordinator_epoch=5)


def test_a_version_2_marker_needs_a_higher_epoch_unless_it_is_repeated(
    target: Partition,
) -> None:
    append(target, guard=NOT_NEEDED)
    refused(lambda: end(target, epoch=0, version=2), InvalidProducerEpoch)
    end(target, epoch=1, version=2, committed=False)
    assert target.last_stable_offset() == 2
    end(target, epoch=1, version=2, committed=False)
    assert target.last_stable_offset() == 3
    refused(lambda: end(target, epoch=0, version=2), InvalidProducerEpoch)


def test_the_last_epoch_cannot_be_raised(target: Partition) -> None:
    append(target, epoch=MAX_EPOCH, guard=NOT_NEEDED)
    end(target, epoch=MAX_EPOCH, version=2)
    assert target.last_stable_offset() == 2


def test_after_a_marker_with_a_raised_epoch_sequences_begin_at_zero(target: Partition) -> None:
    append(target, 0, guard=NOT_NEEDED)
    append(target, 1)
    end(target, epoch=1, version=2)
    refused(lambda: append(target, 2, epoch=1, guard=NOT_NEEDED), OutOfOrderSequence)
    append(target, 0, epoch=1, guard=NOT_NEEDED)


def test_after_a_marker_of_the_same_epoch_sequences_continue(target: Partition) -> None:
    append(target, 0, guard=NOT_NEEDED)
    end(target)
    append(target, 1, guard=NOT_NEEDED)
    assert append(target, 0, guard=None).base_offset == 0  # a duplicate, whatever happened to its transaction
