"""A share partition that keeps one state for each offset, as Kafka does after a batch was divided.

The model is slow, and follows the rules of Kafka 4.4 literally. The tests compare it with `SharePartition`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from muster.coordinator.share.acknowledge import Acknowledgement

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVING, ARCHIVED = range(5)
TERMINAL = (ACKNOWLEDGED, ARCHIVED)


@dataclass
class Record:
    """One offset. `before`: state, member and limit of deliveries before a change that is not durable."""

    state: int
    deliveries: int
    member: str = ""
    until_ms: int | None = None
    change: int = 0
    before: tuple[int, str, int] | None = None
    is_final: bool = False


@dataclass
class NaiveBatch:
    first: int
    last: int
    records: dict[int, Record]
    is_divided: bool = False


@dataclass
class Naive:
    """`max_in_flight`, `max_deliveries`, `lock_ms`, `has_dead_letters`: see `Settings`."""

    max_in_flight: int
    max_deliveries: int
    lock_ms: int
    has_dead_letters: bool
    start: int = 0
    end: int = 0
    looks_back: bool = False
    batches: list[NaiveBatch] = field(default_factory=list)
    changes: int = 0

    def _floor(self, offset: int) -> NaiveBatch | None:
        return max((one for one in self.batches if one.first <= offset), key=lambda one: one.first, default=None)

    def _between(self, first: int, last: int) -> list[NaiveBatch]:
        return [one for one in self.batches if first <= one.first <= last]

    def next_offset(self) -> int:
        if not self.batches or self.start > self.batches[-1].last:
            self.looks_back = False
            return self.end
        if self.looks_back:
            for batch in self.batches:
                for offset, record in batch.records.items():
                    if record.state == AVAILABLE and not record.change:
                        return offset
            self.looks_back = False
        return self.end + 1

    def acquire(
        self, member: str, spans: Any, fetch: int, now_ms: int, *, max_records: int, batch_size: int, is_strict: bool
    ) -> list[tuple[int, int, int]]:
        if max_records <= 0 or not spans or spans[-1][1] < self.start:
            return []
        last = spans[-1][1]
        in_flight = self.end - self.start + 1 if self.batches else 0
        room = min(max_records, self.max_in_flight - in_flight)
        if room <= 0 and fetch <= self.end:
            room, last = min(max_records, self.end - fetch + 1), min(last, self.end)
        if room <= 0:
            return []
        first = spans[0][0]
        if self.batches and fetch < first:
            floor = self._floor(fetch)
            begin = floor.first if floor is not None and floor.last >= fetch else fetch
            if self._drop(self._between(begin, first - 1), fetch, first - 1, AVAILABLE):
                self.looks_back = True
        base, floor = first, self._floor(first)
        if floor is None:
            base = max(base, self.start)
        elif floor.last >= base:
            base = floor.first
        batches = self._between(min(first, base), last)
        until = now_ms + self.lock_ms
        new = (member, spans, until, batch_size, is_strict)
        if not batches:
            return self._new(base, last, room, *new)[0]
        found: list[tuple[int, int, int]] = []
        count = 0
        smaller_from = max(2, -(-self.max_deliveries // 2))
        for batch in batches:
            if count >= room:
                break
            looked_at = [
                record
                for offset, record in batch.records.items()
                if record.state == AVAILABLE and not record.change
                and (not batch.is_divided or first <= offset <= last)
            ]  # fmt: skip
            is_smaller = max((one.deliveries for one in looked_at), default=0) >= smaller_from
            if is_smaller and count:
                return found
            is_whole = first <= batch.first and batch.last <= last
            size = batch.last - batch.first + 1
            one = batch.records[batch.first]
            if not batch.is_divided:
                if one.state != AVAILABLE or one.change:
                    continue
                if is_whole and not (is_strict and size > room - count) and not is_smaller:
                    for record in batch.records.values():
                        self._take(record, member, until)
                    found.append((batch.first, batch.last, one.deliveries))
                    count += size
                    continue
                batch.is_divided = True
            got = self._some(batch, first, last, room - count, smaller_from, member, until, is_strict=is_strict)
            found += got
            added = sum(row[1] - row[0] + 1 for row in got)
            count += added
            if is_smaller and added:
                return found
        if count < room and batches[-1].last < last:
            found += self._new(batches[-1].last + 1, last, room - count, *new)[0]
        return found

    def _some(
        self, batch: NaiveBatch, first: int, last: int, room: int, smaller_from: int, member: str, until: int,
        *, is_strict: bool,
    ) -> list[tuple[int, int, int]]:  # fmt: skip
        rows: list[tuple[int, int, int]] = []
        count, portion = 0, -1
        for offset, record in batch.records.items():
            if offset < first:
                continue
            if offset > last:
                break
            if record.state != AVAILABLE or record.change:
                continue
            if self.max_deliveries > 2 and record.deliveries == self.max_deliveries - 1 and count > 0:
                break
            if record.deliveries >= smaller_from and portion < 0:
                portion = max(1, len(batch.records) >> (record.deliveries - smaller_from + 1))
            self._take(record, member, until)
            count += 1
            if rows and rows[-1][1] == offset - 1 and rows[-1][2] == record.deliveries:
                rows[-1] = (rows[-1][0], offset, record.deliveries)
            else:
                rows.append((offset, offset, record.deliveries))
            if record.deliveries == self.max_deliveries and self.max_deliveries > 2:
                break
            if is_strict and count == room:
                break
            if count == portion:
                break
        return rows

    @staticmethod
    def _take(record: Record, member: str, until: int) -> None:
        record.state, record.member, record.until_ms = ACQUIRED, member, until
        record.deliveries += 1

    def _new(
        self, first: int, last: int, room: int, member: str, spans: Any, until: int, batch_size: int, is_strict: bool
    ) -> tuple[list[tuple[int, int, int]], int]:
        if not self.batches and self.end > first:
            first = self.end
        if room < last - first + 1:
            wanted = first + room - 1
            last = next((span[1] for span in spans if span[0] <= wanted <= span[1]), wanted)
        starts = [first]
        if not is_strict and last - first + 1 > batch_size:
            for span in spans:
                if span[0] <= last and span[0] - starts[-1] >= batch_size:
                    starts.append(span[0])
        rows = []
        for start, end in zip(starts, [*(one - 1 for one in starts[1:]), last], strict=True):
            records = {offset: Record(ACQUIRED, 1, member, until) for offset in range(start, end + 1)}
            batch = NaiveBatch(start, end, records)
            if is_strict and end - start + 1 > room:
                batch.is_divided = True
                for offset in range(start + room, end + 1):
                    records[offset] = Record(AVAILABLE, 0)
                self.looks_back = True
                end = start + room - 1
            self.batches.append(batch)
            rows.append((start, end, 1))
        self.batches.sort(key=lambda one: one.first)
        if self.batches[0].first == first:
            self.start = first
        self.end = max(self.end, last)
        return rows, 0

    def _drop(self, batches: list[NaiveBatch], first: int, last: int, state: int) -> bool:
        dropped = False
        for batch in batches:
            if batch.first > last:
                break
            if not (first <= batch.first and batch.last <= last) and not batch.is_divided:
                if batch.records[batch.first].state != state:
                    continue
                batch.is_divided = True
            for offset, record in batch.records.items():
                if first <= offset <= last and record.state == state:
                    self._archive(record)
                    dropped = True
        return dropped

    @staticmethod
    def _archive(record: Record) -> None:
        record.state, record.member, record.until_ms = ARCHIVED, "", None
        record.is_final = record.change != 0

    # ---- changes

    def _given_back(self, offset: int, record: Record) -> int:
        if offset < self.start:
            return ARCHIVED
        if record.deliveries < self.max_deliveries:
            return AVAILABLE
        return ARCHIVING if self.has_dead_letters else ARCHIVED

    def _change(self, record: Record, state: int) -> None:
        record.before = (record.state, record.member, self.max_deliveries)
        record.state, record.member, record.change = state, "", self.changes

    def acknowledge(self, member: str, some: Iterable[Acknowledgement], now_ms: int) -> str | None:
        """None, or the words of the refusal."""
        self.changes += 1
        for first, last, types in some:
            error = self._acknowledge(member, first, last, types, now_ms)
            if error is not None:
                self.complete(self.changes, now_ms, is_durable=False)
                return error
        return None

    def _acknowledge(self, member: str, first: int, last: int, types: Sequence[int], now_ms: int) -> str | None:
        if last < self.start:
            return None
        floor = self._floor(first)
        if floor is None and first < self.start <= last:
            floor = self._floor(self.start)
        if floor is None:
            return "Batch record not found. The request batch offsets are not found in the cache."
        batches = self._between(floor.first, last)
        if not batches or batches[-1].last < first:
            return "Batch record not found. The first offset in request is past acquired records."
        if last > batches[-1].last:
            return "Batch record not found. The last offset in request is past acquired records."
        for batch in batches:
            if batch.last < self.start:
                continue
            error = self._acknowledge_batch(batch, member, first, last, types, now_ms)
            if error is not None:
                return error
        return None

    def _acknowledge_batch(
        self, batch: NaiveBatch, member: str, first: int, last: int, types: Sequence[int], now_ms: int
    ) -> str | None:
        one = batch.records[batch.first]
        is_part = not (first <= batch.first and batch.last <= last) or batch.is_divided or len(types) > 1
        is_part = is_part or batch.first < self.start <= batch.last
        if not batch.is_divided:
            if not one.member:
                return "The batch cannot be acknowledged. The batch is not in the acquired state."
            if one.member != member:
                return "Member is not the owner of batch record"
            if one.state != ACQUIRED:
                return "The batch cannot be acknowledged. The subset batch is not in the acquired state."
        if is_part:
            batch.is_divided = True
        for offset, record in batch.records.items():
            if is_part and not (max(first, self.start) <= offset <= last):
                continue
            if record.state != ACQUIRED:
                return "The offset cannot be acknowledged. The offset is not acquired."
            if record.member != member:
                return "Member is not the owner of offset"
            kind = types[0] if len(types) == 1 else types[offset - first]
            if kind == 4:
                record.until_ms = now_ms + self.lock_ms
            elif kind == 2:
                self._change(record, self._given_back(offset, record))
            else:
                archived = ARCHIVING if kind == 3 and self.has_dead_letters else ARCHIVED
                self._change(record, ACKNOWLEDGED if kind == 1 else archived)
        return None

    def release(self, member: str) -> None:
        self.changes += 1
        for batch in self.batches:
            mine = [one for one in batch.records.values() if one.state == ACQUIRED and one.member == member]
            if mine and batch.first < self.start <= batch.last:
                batch.is_divided = True
            for offset, record in batch.records.items():
                if record.state == ACQUIRED and record.member == member:
                    self._change(record, self._given_back(offset, record))

    def expire(self, now_ms: int) -> None:
        self.changes += 1
        for batch in self.batches:
            for offset, record in batch.records.items():
                if record.state != ACQUIRED or record.until_ms is None or record.until_ms > now_ms:
                    continue
                if batch.first < self.start <= batch.last:
                    batch.is_divided = True
                record.state, record.member, record.until_ms = self._given_back(offset, record), "", None
                record.change = self.changes if record.state == ARCHIVING else 0
                self.looks_back = self.looks_back or record.state == AVAILABLE

    def complete(self, change: int, now_ms: int, *, is_durable: bool, may_fail: bool = True) -> list[int]:
        """The offsets that go to the dead-letter queue."""
        letters = []
        for batch in self.batches:
            for offset, record in batch.records.items():
                if record.change != change:
                    continue
                before, record.before, record.change = record.before, None, 0
                if is_durable or record.is_final or before is None:
                    record.until_ms, record.is_final = None, False
                elif record.until_ms is not None and record.until_ms <= now_ms:
                    record.state = ARCHIVED if record.deliveries >= before[2] else AVAILABLE
                    record.until_ms = None
                else:
                    record.state, record.member = before[0], before[1]
                if record.state == AVAILABLE:
                    self.looks_back = True
                if record.state == ARCHIVING and (is_durable or not may_fail):
                    letters.append(offset)
        if is_durable or not may_fail:
            self._move_start()
        return letters

    def queued(self, first: int, last: int) -> None:
        self.changes += 1
        for batch in self.batches:
            for offset, record in batch.records.items():
                if first <= offset <= last and record.state == ARCHIVING:
                    self._archive(record)

    def _move_start(self) -> None:
        floor = self._floor(self.start)
        if floor is None:
            return
        at = floor.records.get(self.start) if floor.is_divided else floor.records[floor.first]
        if at is None or at.change or at.state not in TERMINAL:
            return
        done = None
        for batch in self.batches:
            stop = False
            for offset, record in batch.records.items():
                if record.change or record.state not in TERMINAL:
                    stop = True
                    break
                done = offset
            if stop:
                break
        if done is None:
            return
        if done == self.batches[-1].last:
            self.start = self.end = done + 1
            self.batches.clear()
            return
        floor = self._floor(done)
        assert floor is not None
        index = self.batches.index(floor)
        if done == floor.last:
            self.start = max(self.start, self.batches[index + 1].first)
            del self.batches[: index + 1]
        else:
            self.start = max(self.start, done + 1)
            del self.batches[:index]

    def log_starts_at(self, offset: int) -> None:
        if offset <= self.start:
            return
        if not self.batches:
            self.start = self.end = offset
            return
        if self._drop(self.batches, self.start, offset - 1, AVAILABLE):
            self.looks_back = True
        self.start, self.end = offset, max(self.end, offset)

    def done_count(self) -> int:
        return sum(
            1
            for batch in self.batches
            for offset, record in batch.records.items()
            if offset >= self.start and record.state in TERMINAL
        )
