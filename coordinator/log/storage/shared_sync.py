"""Syncs that run in threads, never on the event loop, and serve all that wait; and callbacks that wait for them.

Two promises: the page cache's (a log without a `SharedSync`, or one that does not wait for it: durable as soon as it
is written; survives a killed process, not a power cut) and the disk's (durable once synced).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Final

from muster.coordinator.log.errors import LogOffline
from muster.coordinator.system.clock import Clock

FEW: Final = 2
"""Up to so many files each is synced by itself: it is quicker, and does not wait for the bytes of others."""

Sync = tuple[Callable[[], object], Callable[["OSError | None"], object]]
"""What syncs some files, and what is called with the outcome."""
GATHER_MS: Final = 5
"""The longest that a sync of many files waits for others to come along."""
QUIET_TURNS: Final = 2
"""After so many turns of the event loop without another wish for a sync no other is expected."""
Waiter = Callable[[LogOffline | None], object]


class Waiters:
    """Callbacks by the position they wait for; called in the order of positions, then of arrival."""

    __slots__ = ("_queue",)

    def __init__(self) -> None:
        self._queue: deque[tuple[int, Waiter]] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, position: int, callback: Waiter) -> None:
        """Hold `callback` until `position` is durable."""
        queue = self._queue
        later: list[tuple[int, Waiter]] = []
        while queue and queue[-1][0] > position:  # rare: nearly all wait for the newest position
            later.append(queue.pop())
        queue.append((position, callback))
        queue.extend(reversed(later))

    def release(self, durable_offset: int) -> None:
        """Call all that wait for `durable_offset` or less."""
        queue = self._queue
        while queue and queue[0][0] <= durable_offset:
            queue.popleft()[1](None)

    def fail(self, error: LogOffline) -> None:
        """Call all with `error`: what they wait for will not come."""
        queue, self._queue = self._queue, deque()
        for _, callback in queue:
            callback(error)


class SharedSync:
    """Runs jobs that wait for the disk in a few threads and hands their outcome back to the event loop."""

    def __init__(
        self, post: Callable[[Callable[[], object]], object], *, threads: int = 4, executor: Executor | None = None
    ):
        """`post`: runs a callable on the event loop soon, from any thread (`loop.call_soon_threadsafe`).

        `executor`: where jobs run; by default `threads` threads, started when the first job comes.
        """
        self._post = post
        self._threads = threads
        self._executor = executor
        self._outcomes: deque[tuple[Callable[[OSError | None], object], OSError | None]] = deque()
        self._posted = False
        self._sync_all: Callable[[], object] | None = None
        self._clock: Clock | None = None
        self.wanted = 0
        """Grows with each wish for a sync, of any log."""
        self._seen = self._quiet = self._until_ms = 0
        self._waiting: list[tuple[Callable[[], Sync], Callable[[], int]]] = []
        self._in_round = False
        self._closed = False

    def share(self, sync_all: Callable[[], object], clock: Clock) -> None:
        """From now on `sync_all` syncs every file there is at once (`files.FilesystemSync`); it raises OSError."""
        self._sync_all, self._clock = sync_all, clock

    def sync(self, begin: Callable[[], Sync], files: Callable[[], int] = lambda: 1) -> None:
        """`run` for a job that syncs files, `begin` giving what `run` takes when its time has come: when many want that
        at the same time, or there are many `files`, one `sync_all` does it for them.

        Rounds follow each other: a wish that comes during one shares the next. A round waits for more wishes (above all
        those of clients that the last round has answered): a few turns of the loop, for `GATHER_MS` at most.
        """
        if self._clock is None:
            self.run(*begin())
            return
        self.wanted += 1
        self._waiting.append((begin, files))
        if not self._in_round:
            self._in_round = True
            self._gather(self._clock)

    def _gather(self, clock: Clock) -> None:
        self._seen, self._quiet, self._until_ms = self.wanted, 0, clock.mono_ms() + GATHER_MS
        clock.call_soon(self._look)

    def _look(self) -> None:
        """Begin a round when no other wish comes."""
        if self._clock is None or self._closed:
            return
        if self.wanted == self._seen:
            self._quiet += 1
        else:
            self._seen, self._quiet = self.wanted, 0
        if self._quiet < QUIET_TURNS and self._clock.mono_ms() < self._until_ms:
            self._clock.call_soon(self._look)
        else:
            self._begin_round()

    def _begin_round(self) -> None:
        are_many = sum(files() for _, files in self._waiting) > FEW
        asked = [begin() for begin, _ in self._waiting]
        self._waiting = []
        outcomes: list[OSError | None] = []
        self.run(
            lambda: outcomes.extend(self._sync_round(asked, are_many)),
            lambda _: self._end_round(asked, outcomes, are_many),
        )

    def _sync_round(self, asked: Sequence[Sync], are_many: bool) -> list[OSError | None]:
        if are_many and self._sync_all is not None:
            return [_outcome(self._sync_all)] * len(asked)
        return [_outcome(job) for job, _ in asked]

    def _end_round(self, asked: Sequence[Sync], outcomes: Sequence[OSError | None], are_many: bool) -> None:
        for (_, done), outcome in zip(asked, outcomes, strict=True):
            self._outcomes.append((done, outcome))
        failure = outcomes[0] if are_many else None
        if failure is not None:
            # it may concern bytes of those that came meanwhile, and the system does not report it a second time
            self._outcomes.extend((begin()[1], failure) for begin, _ in self._waiting)
            self._waiting = []
        if self._waiting and self._clock is not None:
            self._gather(self._clock)
        else:
            self._in_round = False

    def run(self, job: Callable[[], object], done: Callable[[OSError | None], object]) -> None:
        """Do `job` in a thread, then `done` on the event loop, with the OSError that `job` raised or None."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="muster-sync")

        def work() -> None:
            failure = _outcome(job)
            self._outcomes.append((done, failure))
            if self._posted:
                return  # what tells the event loop of an earlier outcome is still on its way, and tells of this one too
            self._posted = True
            try:
                self._post(self._deliver)
            except RuntimeError:
                # the event loop was closed meanwhile: there is nothing left to be told
                return

        self._executor.submit(work)

    def _deliver(self) -> None:
        # first of all: an outcome that comes from now on is told anew
        self._posted = False
        outcomes = self._outcomes
        try:
            while outcomes:
                done, failure = outcomes.popleft()
                done(failure)
        finally:
            if outcomes:  # a callback raised: the others are still called
                self._posted = True
                self._post(self._deliver)

    def close(self) -> None:
        """Let the running jobs come to their end, take no others."""
        self._closed = True
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=True)


def _outcome(job: Callable[[], object]) -> OSError | None:
    """Do it; what went wrong."""
    try:
        job()
    except OSError as error:
        return error
    return None
