"""Jobs: generators that do large work step by step, and the values that they may yield.

A job yields None where it may be interrupted: after at most a millisecond, with nothing half done. It yields an
`OffloadedWork` for work in a thread, whose result it gets. It yields a `PendingResult` for a result that a later call
delivers.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable
from typing import Any, Final, TypeVar

COUNTED_AT_ONCE: Final = 500
"""Keys that are counted in one step."""

T = TypeVar("T")
K = TypeVar("K")


class OffloadedWork:
    """Work for the thread: a pure function of objects that do not change. The job gets its result or error."""

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
        """Deliver the result; called once."""
        self.is_there = True
        self.value = value
        resume, self._resume = self._resume, None
        if resume is not None:
            resume()

    def when_there(self, resume: Callable[[], object]) -> None:
        """Call back when the result is delivered."""
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
            except Exception as failed:  # noqa: BLE001 - the job gets it, as in slices
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
    """Jobs that must not run at the same time: each begins when the one before has ended."""

    __slots__ = ("_is_busy", "_waiting")

    def __init__(self) -> None:
        self._is_busy = False
        self._waiting: deque[PendingResult] = deque()

    def run(self, job: Job[T]) -> Job[T]:
        """Run `job` after all earlier ones, in the order of the calls."""
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
