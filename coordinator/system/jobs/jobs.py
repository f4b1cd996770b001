"""Jobs: generators that do large work step by step, and the values that they may yield. Workers do what no job can.

A job yields None where it may be interrupted: after at most a millisecond, with nothing half done. A job yields an
`OffloadedWork` for work in a thread. For a result that a later call delivers, a job yields a `PendingResult`.
"""

from __future__ import annotations

import traceback
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol, TypeVar

COUNTED_AT_ONCE: Final = 500
"""How many rows are counted in one step."""

T = TypeVar("T")
K = TypeVar("K")


class OffloadedWork:
    """Work for the thread: a pure function of objects that do not change. The job gets the work's result or error."""

    __slots__ = ("work",)

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work


class PendingResult:
    """A result that a call delivers, now or at any time. A job that yields it gets the delivered value."""

    __slots__ = ("_resume", "is_there", "value")

    def __init__(self) -> None:
        self.is_there = False
        self.value: Any = None
        self._resume: Callable[[], object] | None = None

    def __call__(self, value: Any) -> None:
        """Deliver the result, once."""
        self.is_there = True
        self.value = value
        resume, self._resume = self._resume, None
        if resume is not None:
            resume()

    def when_delivered(self, resume: Callable[[], object]) -> None:
        """Call `resume` when the result is delivered."""
        self._resume = resume


Job = Generator[OffloadedWork | PendingResult | None, Any, T]


def at_once(job: Job[T]) -> T:
    """Run a job to its end at once: at a start, when no client waits. The job must not wait for a result."""
    value: Any = None
    error: Exception | None = None
    while True:
        try:
            asked = job.send(value) if error is None else job.throw(error)
        except StopIteration as end:
            result: T = end.value
            return result
        value = error = None
        if isinstance(asked, OffloadedWork):
            try:
                value = asked.work()
            except Exception as failed:  # noqa: BLE001  # the job gets the error, as in the queue
                error = failed
        elif asked is not None:
            if not asked.is_there:
                raise RuntimeError("a job that is done at once has to wait for another one")
            value = asked.value


def counting(keys: Iterable[K]) -> Job[Counter[K]]:
    """Count each of many keys."""
    counts: Counter[K] = Counter()
    for number, key in enumerate(keys):
        counts[key] += 1
        if not number % COUNTED_AT_ONCE:
            yield None
    return counts


class SerialJobs:
    """Jobs that must not run at the same time: each begins when the job before it has ended."""

    __slots__ = ("_is_busy", "_waiting")

    def __init__(self) -> None:
        self._is_busy = False
        self._waiting: deque[PendingResult] = deque()

    def run(self, job: Job[T]) -> Job[T]:
        """Run `job` after all earlier jobs, in the order of the calls."""
        if self._is_busy:
            turn = PendingResult()
            self._waiting.append(turn)
            try:
                yield turn
            except GeneratorExit:
                if turn in self._waiting:
                    self._waiting.remove(turn)
                else:
                    self._pass_on()
                raise
        self._is_busy = True
        try:
            return (yield from job)
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        # the first waiting job is next: no other job begins in between
        self._is_busy = bool(self._waiting)
        if self._waiting:
            self._waiting.popleft()(None)


class Worker(Protocol):
    """Does work that would take too long on the event loop."""

    def run(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], object]) -> None:
        """Do `work`, then call `done(result, error)` on the event loop. At least one argument of `done` is None."""

    def close(self) -> None:
        """Finish the running work, and begin no further work."""


class Thread:
    """A `Worker` of one thread, so that only one large request takes memory. The thread starts with the first work."""

    def __init__(self, post: Callable[[Callable[[], object]], object]) -> None:
        """`post`: runs a callable on the event loop soon, from any thread (`loop.call_soon_threadsafe`)."""
        self._post = post
        self._executor: ThreadPoolExecutor | None = None
        self._closed = False

    def run(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], object]) -> None:
        if self._closed:
            return
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="muster-large")
        self._executor.submit(self._run, work, done)

    def _run(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], object]) -> None:
        # no variable has the error: its traceback would refer to this frame, and this frame to the error
        self._deliver(done, *outcome(work))

    def _deliver(self, done: Callable[[Any, Exception | None], object], result: Any, error: Exception | None) -> None:
        if not self._closed:
            self._post(lambda: done(result, error))

    def close(self) -> None:
        self._closed = True
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=True, cancel_futures=True)


class AtOnce:
    """A `Worker` that runs work in the caller's thread: in memory, in tests, in virtual time."""

    def run(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], object]) -> None:
        done(*outcome(work))

    def close(self) -> None:
        """See `Worker`. No thread runs."""


def outcome(work: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """Run the work. Returns (result, None) or (None, error). The error keeps no object of the work in memory."""
    try:
        return work(), None
    except Exception as error:  # noqa: BLE001  # the caller gets the error
        _forget_objects(error)
        return None, error


def _forget_objects(error: BaseException) -> None:
    """Clear the variables of all frames in the traceback, maybe 64 MB. The lines can still be logged."""
    one: BaseException | None = error
    while one is not None:
        traceback.clear_frames(one.__traceback__)
        one = one.__cause__ or one.__context__
