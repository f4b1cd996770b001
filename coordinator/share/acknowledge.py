"""Acknowledge records (Kafka: SharePartition.acknowledge; KIP-932, and KIP-1222 for the renewal of locks).

An acknowledgement fails as a whole: then no record of the request changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from muster.coordinator.share.in_flight import (
    ACCEPT,
    ACQUIRED,
    DEAD_LETTER,
    REJECT,
    Batch,
    Run,
)
from muster.coordinator.share.partition import Change, SharePartition
from muster.protocol.errors import ErrorCode

GAP: Final = 0
ACCEPTED: Final = 1
RELEASED: Final = 2
REJECTED: Final = 3
RENEWED: Final = 4
TYPES: Final = frozenset((GAP, ACCEPTED, RELEASED, REJECTED, RENEWED))
"""The types of acknowledgements (AcknowledgeType). A gap is a record that the batch does not have."""


class Acknowledgement(NamedTuple):
    """The acknowledgement of some records, with one type for all, or one for each record."""

    first: int
    last: int
    types: Sequence[int]


class Refusal(NamedTuple):
    """Why a request is refused. The words are Kafka's."""

    error_code: int
    message: str


_NOT_ACQUIRED = "The batch is not in the acquired state."
_NOT_FOUND = "Batch record not found."
_ONGOING = "The record state is invalid. The acknowledgement of delivery could not be completed."


class _Refused(Exception):
    def __init__(self, message: str, error_code: int = ErrorCode.INVALID_RECORD_STATE) -> None:
        super().__init__(message)
        self.refusal = Refusal(error_code, message)


def acknowledge(
    partition: SharePartition, member: str, some: Sequence[Acknowledgement], now_ms: int
) -> Change | Refusal | None:
    """Acknowledge records of a member. None means that no change has to become durable."""
    acknowledging = _Acknowledging(partition, member, now_ms)
    try:
        for one in some:
            acknowledging.take(one)
    except _Refused as refused:
        acknowledging.undo()
        return refused.refusal
    return acknowledging.change()


class _Acknowledging:
    """One call of `acknowledge`."""

    def __init__(self, partition: SharePartition, member: str, now_ms: int) -> None:
        self._partition = partition
        self._member = member
        self._now_ms = now_ms
        self._number = partition.begin()
        self._runs: list[Run] = []
        self._rejected: set[int] = set()
        self._last: list[Batch] = []
        """The batches that had the records of the last acknowledgement."""
        self._next = 0
        """The index of the batch behind these."""

    def change(self) -> Change | None:
        if not self._runs:
            return None
        return self._partition.changed(self._number, self._runs, self._rejected)

    def undo(self) -> None:
        change = self.change()
        if change is not None:
            self._partition.complete(change, self._now_ms, is_durable=False)

    def take(self, one: Acknowledgement) -> None:
        if not TYPES.issuperset(one.types):
            message = f"Invalid acknowledge type: {list(one.types)}"
            raise _Refused(message, ErrorCode.INVALID_REQUEST)
        if one.last < self._partition.start_offset:
            return  # these records were archived before
        for batch in self._batches(one):
            if batch.last >= self._partition.start_offset:
                self._take_batch(one, batch)

    def _batches(self, one: Acknowledgement) -> list[Batch]:
        last = self._last
        if len(last) == 1 and last[0].first <= one.first and one.last <= last[0].last:
            return last  # as for most acknowledgements of many
        partition, at = self._partition, self._next
        if at < len(partition.batches):
            batch = partition.batches[at]
            if batch.first <= one.first and one.last <= batch.last:
                self._next, self._last = at + 1, [batch]  # as for records that were produced alone
                return self._last
        floor = partition.floor(one.first)
        if floor < 0 and one.first < partition.start_offset <= one.last:
            floor = partition.floor(partition.start_offset)
        if floor < 0:
            raise _Refused(f"{_NOT_FOUND} The request batch offsets are not found in the cache.")
        batches = partition.between(partition.batches[floor].first, one.last)
        if not batches or batches[-1].last < one.first:
            message = f"{_NOT_FOUND} The first offset in request is past acquired records."
            raise _Refused(message, ErrorCode.INVALID_REQUEST)
        if one.last > batches[-1].last:
            message = f"{_NOT_FOUND} The last offset in request is past acquired records."
            raise _Refused(message, ErrorCode.INVALID_REQUEST)
        self._next, self._last = floor + len(batches), batches
        return batches

    def _take_batch(self, one: Acknowledgement, batch: Batch) -> None:
        start = self._partition.start_offset
        if not batch.is_divided:
            self._check_whole(batch.whole)
            is_whole = one.first <= batch.first and batch.last <= one.last
            if is_whole and len(one.types) == 1 and not batch.first < start <= batch.last:
                if batch.whole.state != ACQUIRED:
                    raise _Refused(f"The batch cannot be acknowledged. {_NOT_ACQUIRED}")
                self._apply(batch.whole, one.types[0])
                return
            if batch.whole.state != ACQUIRED:
                raise _Refused("The batch cannot be acknowledged. The subset batch is not in the acquired state.")
            batch.is_divided = True
        for first, last, kind in _portions(one, max(one.first, start, batch.first), min(one.last, batch.last)):
            for run in batch.within(first, last):
                self._check(run)
                self._apply(run, kind)

    def _check_whole(self, run: Run) -> None:
        if not run.member:
            raise _Refused(f"The batch cannot be acknowledged. {_NOT_ACQUIRED}")
        if run.member != self._member:
            raise _Refused("Member is not the owner of batch record")
        if run.change:
            raise _Refused(_ONGOING)

    def _check(self, run: Run) -> None:
        if run.state != ACQUIRED:
            raise _Refused("The offset cannot be acknowledged. The offset is not acquired.")
        if run.member != self._member:
            raise _Refused("Member is not the owner of offset")

    def _apply(self, run: Run, kind: int) -> None:
        partition = self._partition
        if kind == RENEWED:
            if not partition.settings.may_renew:
                raise _Refused("Renewing acquisition locks is not enabled for the group.")
            run.lock_until_ms = self._now_ms + partition.settings.lock_ms
            return
        if kind == ACCEPTED:
            event = ACCEPT
        elif kind == RELEASED:
            event = partition.release_event(run)
        elif kind == REJECTED:
            event = DEAD_LETTER if partition.settings.has_dead_letters else REJECT
            self._rejected.add(run.first)
        else:
            event = REJECT
        partition.change(run, event, self._number)
        self._runs.append(run)


def _portions(one: Acknowledgement, first: int, last: int) -> Iterator[tuple[int, int, int]]:
    """The records from `first` to `last` in portions of one type: first offset, last offset, type."""
    if len(one.types) == 1:
        if first <= last:
            yield first, last, one.types[0]
        return
    begin = first
    for offset in range(first, last + 1):
        kind = one.types[offset - one.first]
        if offset == last or one.types[offset + 1 - one.first] != kind:
            yield begin, offset, kind
            begin = offset + 1
