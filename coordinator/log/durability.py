"""When appended bytes count as durable, and who waits for it. A sync runs in a thread, never on the event loop, and
serves all that wait.

Two promises: the page cache's (a log without a `SharedSync`, or one that does not wait for it: durable as soon as it
is written; survives a killed process, not a power cut) and the disk's (durable once synced).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Final

from muster.coordinator.log.errors import LogOffline

FEW: Final = 2
"""Files up to which each is synced by itself: it is quicker, and waits for nobody else's bytes."""

Sync = tuple[Callable[[], object], Callable[["OSError | None"], object]]
"""What syncs some files, and who is told."""
Waiter = Callable[[LogOffline | None], object]


class Waiters:
    """Callbacks by the position they wait for; released in the order of positions, those of one position in order of
    arrival.
    """

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
        """Tell all that what they wait for will not come."""
        queue, self._queue = self._queue, deque()
        for _, callback in queue:
            callback(error)


class SharedSync:
    """Runs jobs that wait for the disk in a few threads and hands their outcome back to the event loop."""

    def __init__(
        self,
        post: Callable[[Callable[[], object]], object],
        *,
        threads: int = 4,
        executor: Executor | None = None,
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
        self._waiting: list[Sync] = []
        self._in_round = False
        self._closed = False

    def share(self, sync_all: Callable[[], object]) -> None:
        """From now on `sync_all` syncs every file there is at once (`files.FilesystemSync`); it raises OSError."""
        self._sync_all = sync_all

    def sync(self, job: Callable[[], object], done: Callable[[OSError | None], object]) -> None:
        """`run` for a job that syncs files: when many want that at the same time, one `sync_all` does it for them.

        Rounds follow each other: whoever comes during one shares the next.
        """
        if self._sync_all is None:
            self.run(job, done)
            return
        self._waiting.append((job, done))
        if not self._in_round:
            self._in_round = True
            self._post(self._begin_round)  # not at once: others will come in the same turn of the loop

    def _begin_round(self) -> None:
        if self._closed:
            return
        asked, self._waiting = self._waiting, []
        outcomes: list[OSError | None] = []
        self.run(lambda: outcomes.extend(self._sync_round(asked)), lambda _: self._end_round(asked, outcomes))

    def _sync_round(self, asked: Sequence[Sync]) -> list[OSError | None]:
        if len(asked) > FEW and self._sync_all is not None:
            return [_outcome(self._sync_all)] * len(asked)
        return [_outcome(job) for job, _ in asked]

    def _end_round(self, asked: Sequence[Sync], outcomes: Sequence[OSError | None]) -> None:
        for (_, done), outcome in zip(asked, outcomes, strict=True):
            self._outcomes.append((done, outcome))
        failure = outcomes[0] if len(asked) > FEW else None
        if failure is not None:
            # it may have met bytes of those that came meanwhile, and the next round would not be told of them again
            self._outcomes.extend((done, failure) for _, done in self._waiting)
            self._waiting = []
        if self._waiting:
            self._begin_round()
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
                # the event loop was closed meanwhile: nobody is left to be told
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
            if outcomes:  # one of them met a fault, which the others are not to suffer for
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
