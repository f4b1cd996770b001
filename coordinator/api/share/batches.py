"""The record batches that a ShareFetch has read: their offsets, and the batches of aborted transactions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from muster.coordinator.log.records import headers
from muster.coordinator.log.records.markers import read_marker
from muster.coordinator.log.segments.transaction_index import AbortedTransaction
from muster.coordinator.share.in_flight import Acquired, Span

_MAGIC = headers.MAGIC


class Batches(NamedTuple):
    """The whole record batches in `records`. `ends`: the position behind each batch."""

    records: bytes
    spans: list[Span]
    ends: list[int]

    def holding(self, acquired: Sequence[Acquired]) -> bytes | memoryview:
        """The bytes of the batches from the first to the last acquired record."""
        first, last = acquired[0].first, acquired[-1].last
        begin, end = 0, self.ends[0]
        for number in range(1, len(self.spans)):
            base = self.spans[number].first
            if base <= first:
                begin = self.ends[number - 1]
            elif base > last:
                break
            end = self.ends[number]
        if begin == 0 and end == len(self.records):
            return self.records
        return memoryview(self.records)[begin:end]


def whole_batches(records: bytes) -> Batches:
    """Find the whole batches. The last batch of `records` may be cut off."""
    spans: list[Span] = []
    ends: list[int] = []
    at, stop = 0, len(records)
    while stop - at >= headers.HEADER_SIZE:
        base, length, magic, delta = headers.unpack_bounds(records, at)
        if magic != _MAGIC:
            return _any_format(records)
        at += length + headers.LENGTH_OVERHEAD
        if at > stop:
            break
        spans.append(Span(base, base + delta))
        ends.append(at)
    return Batches(records, spans, ends)


def _any_format(records: bytes) -> Batches:
    found = [(header.base_offset, header.last_offset, at + header.size) for at, header in headers.iterate(records)]
    return Batches(records, [Span(first, last) for first, last, _ in found], [end for _, _, end in found])


def aborted_batches(records: bytes, aborted: Iterable[AbortedTransaction]) -> list[Span]:
    """The batches of aborted transactions, ascending. `aborted`: the transactions that overlap the records."""
    waiting = deque(sorted(aborted, key=lambda one: one.first_offset))
    producers: set[int] = set()
    found: list[Span] = []
    if not waiting:
        return found
    for at, header in headers.iterate(records):
        if header.producer_id < 0:
            continue
        while waiting and waiting[0].first_offset <= header.last_offset:
            producers.add(waiting.popleft().producer_id)
        marker = read_marker(records[at : at + header.size], header) if header.is_control else None
        if marker is not None and not marker.is_committed:
            producers.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in producers:
            found.append(Span(header.base_offset, header.last_offset))
    return found
