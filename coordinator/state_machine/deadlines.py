"""Deadlines in one heap, and the times for which answers waited. This module reads no clock.

Every heartbeat moves a deadline to a later time, which changes one field. The deadline's place in the heap is corrected
at the old time. A deadline that moves to an earlier time is queued again, and its old entry is skipped.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

from muster.coordinator.state_machine.interface import Now

NEVER: Final = 2**63 - 1
"""The time of a deadline that is off."""

_SLACK: Final = 64
"""With more than this number of entries to be skipped, the heap may be built again."""


class Due:
    """A deadline at `due_ms` (NEVER: the deadline is off). `queued_ms`: the time of the entry in the heap, or NEVER."""

    __slots__ = ("due_ms", "group_id", "queued_ms")

    kind: str
    """The kind of the work that falls due."""
    every_ms = 0
    """The interval of repeated work, in ms; one call may stand for several intervals. 0: the work falls due once."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.due_ms = NEVER
        self.queued_ms = NEVER


class Deadline(Due):
    """One deadline of a `kind`, for `group_id`, about `subject` (a member id, or "")."""

    __slots__ = ("kind", "subject")

    def __init__(self, kind: str, group_id: str, subject: str = "") -> None:
        super().__init__(group_id)
        self.kind = kind
        self.subject = subject


class Deadlines:
    """All deadlines of one core. `rang_ms`: the due time of the deadline that `pop_due` returned last. `earliest_ms`:
    no deadline is due before this time; NEVER without deadlines.
    """

    __slots__ = ("_heap", "_order", "_stale", "earliest_ms", "rang_ms")

    def __init__(self) -> None:
        self.earliest_ms = self.rang_ms = NEVER
        self._heap: list[tuple[int, int, Due]] = []
        self._order = 0
        self._stale = 0

    def __len__(self) -> int:
        """The number of entries in the heap, including those to be skipped."""
        return len(self._heap)

    def set(self, deadline: Due, due_ms: int) -> None:
        """Let `deadline` fall due at `due_ms`, instead of at its present time."""
        deadline.due_ms = due_ms
        if due_ms < deadline.queued_ms:
            if deadline.queued_ms != NEVER:
                self._skip_one()
            self._queue(deadline)

    def cancel(self, deadline: Due) -> None:
        """Switch the deadline off, if it is on."""
        deadline.due_ms = NEVER
        if deadline.queued_ms != NEVER:
            deadline.queued_ms = NEVER
            self._skip_one()

    def next_ms(self) -> int | None:
        """When `pop_due` is to be called: at the earliest deadline, or before it. None when nothing can fall due."""
        heap = self._heap
        while heap and heap[0][0] != heap[0][2].queued_ms:
            self._drop_top()
        self._update_earliest()
        return heap[0][0] if heap else None

    def pop_due(self, mono_ms: int) -> Due | None:
        """Switch off and return the earliest deadline that is due at `mono_ms`. None when no deadline is due."""
        heap = self._heap
        while heap and heap[0][0] <= mono_ms:
            at_ms, _, deadline = heap[0]
            if at_ms != deadline.queued_ms:
                self._drop_top()
                continue
            heapq.heappop(heap)
            deadline.queued_ms = NEVER
            if deadline.due_ms <= mono_ms:
                self.rang_ms, deadline.due_ms = deadline.due_ms, NEVER
                self._update_earliest()
                return deadline
            if deadline.due_ms != NEVER:
                self._queue(deadline)
        self._update_earliest()
        return None

    def next_once_ms(self) -> int:
        """The time of the earliest deadline without repetition, or an earlier time; NEVER without such a deadline."""
        heap = self._heap
        if not heap:
            return NEVER
        if heap[0][0] != heap[0][2].queued_ms or not heap[0][2].every_ms:
            return heap[0][0]
        return min((entry[0] for entry in heap[1:3]), default=NEVER)

    def leave_out(self, until_ms: int) -> None:
        """Let the time jump to `until_ms`. The earliest repeated work falls due once, not once for each interval."""
        self.next_ms()
        if not self._heap:
            return
        deadline = self._heap[0][2]
        times = (until_ms - deadline.due_ms) // deadline.every_ms if deadline.every_ms else 0
        if times > 0:
            heapq.heappop(self._heap)
            deadline.due_ms += times * deadline.every_ms
            self._queue(deadline)
            self._update_earliest()

    def clear(self) -> None:
        """Switch off and remove all deadlines, because the core is dropped."""
        for _, _, deadline in self._heap:
            deadline.due_ms = deadline.queued_ms = NEVER
        self._heap.clear()
        self._stale = 0
        self.earliest_ms = NEVER

    def _queue(self, deadline: Due) -> None:
        deadline.queued_ms = deadline.due_ms
        self._order += 1
        heapq.heappush(self._heap, (deadline.due_ms, self._order, deadline))
        if deadline.due_ms < self.earliest_ms:
            self.earliest_ms = deadline.due_ms

    def _update_earliest(self) -> None:
        self.earliest_ms = self._heap[0][0] if self._heap else NEVER

    def _drop_top(self) -> None:
        heapq.heappop(self._heap)
        self._stale -= 1

    def _skip_one(self) -> None:
        # Each member that joins or leaves adds an entry for a time in five minutes. Such entries must not pile up.
        self._stale += 1
        if self._stale > _SLACK and self._stale * 3 > len(self._heap):
            kept: list[tuple[int, int, Due]] = []
            seen: set[int] = set()
            for entry in sorted(self._heap):
                if entry[0] == entry[2].queued_ms and id(entry[2]) not in seen:
                    seen.add(id(entry[2]))
                    kept.append(entry)
            self._heap = kept  # a sorted list is a heap
            self._stale = 0


BELIEVABLE_MS: Final = 60_000
"""The largest believable change of the wall clock since the last check. After a larger change this check is left out.

A wrong clock would delete the offsets of all Empty groups. Such a clock would delete all transactional ids, and with
them the fencing of old producers.
"""
SLICE_AFTER_MS: Final = 1


class ExpiryCheck(Due):
    """The deadline of a check for expired things by the wall clock, or of the next slice of a check."""

    __slots__ = ("_ahead_ms", "_interval_ms", "_left", "every_ms", "kind")

    def __init__(self, kind: str, interval_ms: int) -> None:
        super().__init__("")
        self.kind = kind
        self.every_ms = self._interval_ms = interval_ms
        self._left: Iterator[Any] | None = None
        self._ahead_ms = 0
        """The wall clock minus the monotonic clock at the last check."""

    def start(self, deadlines: Deadlines, now: Now, first_ms: int) -> None:
        """Start the checks after a load. `first_ms`: the time from now to the first check."""
        self._ahead_ms = now.wall_ms - now.mono_ms
        deadlines.set(self, now.mono_ms + first_ms)

    def run(
        self, deadlines: Deadlines, now: Now, begin: Callable[[], Iterator[Any]], check: Callable[[Iterator[Any]], bool]
    ) -> None:
        """Begin or continue a check. `begin` returns an iterator over all ids to be checked. `check` checks some of
        these ids, and returns whether no id remains.
        """
        if self._left is None:
            before_ms, self._ahead_ms = self._ahead_ms, now.wall_ms - now.mono_ms
            if abs(self._ahead_ms - before_ms) <= BELIEVABLE_MS:
                self._left = begin()
        if self._left is not None and not check(self._left):
            self.every_ms = 0  # the check continues at once
            deadlines.set(self, now.mono_ms + SLICE_AFTER_MS)
            return
        self._left = None
        self.every_ms = self._interval_ms
        deadlines.set(self, now.mono_ms + self.every_ms)


MAX_LATE_ANSWERS: Final = 4_096
"""How many late answers are kept. Older answers are dropped."""


class LateAnswers:
    """When answers of one shard left late (monotonic ms).

    A client that waits for an answer sends nothing more on its connection, and must not be treated as dead. `since_ms`:
    the arrival time of the oldest request that waits for an answer now; NEVER when none waits.
    """

    __slots__ = ("_late", "since_ms")

    def __init__(self) -> None:
        self.since_ms = NEVER
        self._late: deque[tuple[int, int]] = deque(maxlen=MAX_LATE_ANSWERS)

    def late(self, began_ms: int, ended_ms: int) -> None:
        """Note that a request of `began_ms` was answered only at `ended_ms`. Calls are in the order of `ended_ms`."""
        self._late.append((began_ms, ended_ms))

    def until(self, heard_ms: int, patience_ms: int, now_ms: int, *, is_own: bool = True) -> int:
        """Return the time until which a client that sent bytes at `heard_ms` may be silent.

        The client may be silent for `patience_ms`, or longer after late answers. If the client sent a request at
        `heard_ms` (`is_own`), `patience_ms` begins with the answer. If an answer was late by half of `patience_ms`,
        another request of the client may have waited. Then `patience_ms` begins after that wait.
        """
        until_ms = heard_ms + patience_ms
        if not self._late and self.since_ms == NEVER:
            return until_ms
        waits = [wait for wait in self._late if wait[1] > heard_ms]
        if self.since_ms <= now_ms:
            waits.append((self.since_ms, now_ms))
        for began_ms, ended_ms in waits:
            is_long = began_ms <= until_ms and ended_ms - began_ms >= patience_ms // 2
            if is_long or (is_own and began_ms <= heard_ms):
                until_ms = max(until_ms, ended_ms + patience_ms)
        return until_ms


NO_LATE_ANSWERS: Final = LateAnswers()
"""An object for "no answer was late". Never change this object."""
