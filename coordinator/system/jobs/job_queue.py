"""Runs jobs: at once, or in the next iterations of the event loop if they take longer than a slice.

All jobs together get one slice of each iteration. A job is closed with its owner. A small job costs no iteration, no
thread and no timer. Jobs for which no client waits (`run_behind`) get a small share, and never more.

`history.pending_rows` divides its work without jobs: events keep their order, and a stop writes all of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs.jobs import AtOnce, Job, OffloadedWork, PendingResult, Worker

SLICE_MS: Final = 10
"""The time that all jobs together may take of one iteration of the event loop."""
SHARE_MS: Final = 2
"""How long one of several jobs runs before the next job: small jobs need not wait for large jobs."""
MANY_STEPS: Final = 2_000
"""A job of more steps is large, and so is the answer that is made of its result."""

_NOTHING_YET: Final = object()

T = TypeVar("T")


class Owner(Protocol):
    """The owner of a job: a connection."""

    @property
    def closed(self) -> bool:
        """Whether the result is no longer needed."""

    def fault(self, error: Exception) -> None:
        """Handle the error of a job that has failed by a bug."""


class _Running:
    __slots__ = ("done", "error", "is_behind", "job", "owner", "steps", "value")

    def __init__(self, job: Job[Any], done: Callable[[Any], object], owner: Owner, *, is_behind: bool = False) -> None:
        self.job = job
        self.done = done
        self.owner = owner
        self.is_behind = is_behind
        """Whether no client waits for the job."""
        self.steps = 0
        self.value: Any = None
        self.error: _Failed | None = None


class JobQueue:
    """See the module."""

    def __init__(self, clock: Clock, worker: Worker | None = None) -> None:
        """`worker`: None runs offloaded work at once."""
        self._clock = clock
        self.worker: Worker = worker or AtOnce()
        self.is_large = False
        """Whether the job whose result is being delivered took many steps."""
        self._new: deque[_Running] = deque()
        """Jobs that have not had their first share."""
        self._started: deque[_Running] = deque()
        self._behind: deque[_Running] = deque()
        self._used_ms = 0
        self._is_scheduled = False
        self._is_running = False
        self._stopped = False
        self.meter: Callable[[Owner, int], object] | None = None
        """Called with the microseconds that a job took of the event loop; may be None."""

    def run(self, job: Job[T], done: Callable[[T], object], owner: Owner) -> None:
        """Run a job and pass its result to `done`, within this call if possible.

        An exception within this call is raised, a later exception is passed to the owner.
        """
        if self._used_ms >= SLICE_MS or owner.closed or self._stopped:
            self._enter(_Running(job, done, owner), self._run_steps)
            return
        clock, was_running, self._is_running = self._clock, self._is_running, True
        began_ms, running = clock.mono_ms(), None
        began_us = 0 if self.meter is None else clock.mono_us()
        try:
            asked = job.send(None)
        except StopIteration as end:  # most jobs have one step
            if self.is_large:
                self._finish(_Running(job, done, owner), end.value)
            else:
                done(end.value)
        else:
            running = _Running(job, done, owner)
            if not self._do_steps(running, began_ms + SLICE_MS - self._used_ms, asked):
                running = None
        finally:
            self._is_running = was_running
            if began_us and self.meter is not None:
                self.meter(owner, clock.mono_us() - began_us)
        self._used(running, clock.mono_ms() - began_ms)

    @property
    def waiting(self) -> int:
        """How many jobs wait for an iteration of the event loop."""
        return len(self._new) + len(self._started) + len(self._behind)

    @property
    def has_time(self) -> bool:
        """Whether this iteration of the event loop has time for work without a job."""
        return self._used_ms < SLICE_MS and not self._stopped

    def _enter(self, running: _Running, run_steps: Callable[[_Running, int], bool]) -> None:
        if self._used_ms >= SLICE_MS:
            self._new.append(running)
            self._schedule()
            return
        began_ms = self._clock.mono_ms()
        continues = run_steps(running, began_ms + SLICE_MS - self._used_ms)
        self._used(running if continues else None, self._clock.mono_ms() - began_ms)

    def _used(self, continues: _Running | None, used_ms: int) -> None:
        """Note the time that a job has used. `continues`: the job, if it has further steps."""
        if continues is not None:
            self._started.append(continues)
        if used_ms or continues is not None:
            self._used_ms += used_ms
            self._schedule()

    def run_behind(self, job: Job[T], done: Callable[[T], object], owner: Owner) -> None:
        """Run a job for which no client waits. Such a job gets `SHARE_MS` of each iteration, also when it is alone.

        Every exception is passed to the owner.
        """
        self._enter_behind(_Running(job, done, owner, is_behind=True))

    def _enter_behind(self, running: _Running) -> None:
        if self._used_ms or self._behind or self._is_running:
            self._behind.append(running)
            self._schedule()
            return
        began_ms = self._clock.mono_ms()
        continues = self._run_steps_safely(running, began_ms + SHARE_MS)
        self._used_ms += self._clock.mono_ms() - began_ms
        if continues:
            self._behind.append(running)
        if continues or self._used_ms:
            self._schedule()

    def run_small(self, work: Callable[[], object]) -> bool:
        """Do work that takes much less than a slice. False: the slice is used up, and the work was not done."""
        if self._used_ms >= SLICE_MS or self._stopped:
            return False
        began_ms, was_running, self._is_running = self._clock.mono_ms(), self._is_running, True
        before_ms = self._used_ms
        try:
            work()
        finally:
            self._is_running = was_running
        used_ms = self._clock.mono_ms() - began_ms
        if used_ms and not was_running:
            self._used_ms = max(self._used_ms, before_ms + used_ms)  # jobs that began within `work` are counted already
            self._schedule()
        return True

    def run_soon(self, work: Callable[[], object], owner: Owner) -> bool:
        """Do work that takes much less than a slice: now, or (False) when an iteration has time. After `stop`: now."""
        if self._stopped:
            work()
            return True
        if self.run_small(work):
            return True
        self._new.append(_Running(_one_step(work), _ignore, owner))
        self._schedule()
        return False

    def stop(self) -> None:
        """Close all jobs, and begin no further job: the server stops."""
        self._stopped = True
        for waiting in (self._new, self._started, self._behind):
            for running in waiting:
                running.job.close()
            waiting.clear()
        self.worker.close()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._clock.call_soon(self._run_slice)

    def _run_slice(self) -> None:
        self._is_scheduled = False
        began_ms = now_ms = self._clock.mono_ms()
        end_ms = began_ms + SLICE_MS - (SHARE_MS if self._behind else 0)
        while (self._new or self._started) and now_ms < end_ms:
            running = self._new.popleft() if self._new else self._started.popleft()
            alone = not (self._new or self._started)
            if self._run_steps_safely(running, end_ms if alone else min(now_ms + SHARE_MS, end_ms)):
                self._started.append(running)
            now_ms = self._clock.mono_ms()
        if self._behind:
            running = self._behind.popleft()
            if self._run_steps_safely(running, now_ms + SHARE_MS):
                self._behind.append(running)
            now_ms = self._clock.mono_ms()
        self._used_ms = now_ms - began_ms
        if self._new or self._started or self._behind or self._used_ms:
            self._schedule()

    def _run_steps_safely(self, running: _Running, until_ms: int) -> bool:
        try:
            return self._run_steps(running, until_ms)
        except Exception as error:  # noqa: BLE001  # a bug in one handler costs its connection, not the server
            running.owner.fault(error)
            return False

    def _run_steps(self, running: _Running, until_ms: int) -> bool:
        """Run the next steps. False: the job has ended, or waits for a result."""
        was_running, self._is_running = self._is_running, True
        began_us = 0 if self.meter is None else self._clock.mono_us()
        try:
            return self._do_steps(running, until_ms)
        finally:
            self._is_running = was_running
            if began_us and self.meter is not None:
                self.meter(running.owner, self._clock.mono_us() - began_us)

    def _do_steps(self, running: _Running, until_ms: int, asked: Any = _NOTHING_YET) -> bool:
        """See `_run_steps`. `asked`: what the first step has yielded, if it is done already."""
        job, clock = running.job, self._clock
        while True:
            if asked is None:
                running.steps += 1
                if clock.mono_ms() >= until_ms:
                    return True
            elif asked is not _NOTHING_YET:
                later = self._offload(asked.work) if type(asked) is OffloadedWork else asked
                assert isinstance(later, PendingResult)
                if not later.is_there:
                    later.when_delivered(partial(self._resume, running, later))
                    return False
                _set_result(running, later)
                # a result without a wait is a step like any other
                if clock.mono_ms() >= until_ms:
                    return True
            if running.owner.closed or self._stopped:
                job.close()
                return False
            try:
                if running.error is not None:
                    failed, running.error = running.error, None
                    asked = job.throw(failed.remove_error())  # no variable holds the error: see `Thread._run`
                else:
                    value, running.value = running.value, None
                    asked = job.send(value)
            except StopIteration as end:
                self._finish(running, end.value)
                return False

    def _finish(self, running: _Running, result: Any) -> None:
        was_large, self.is_large = self.is_large, running.steps > MANY_STEPS
        try:
            running.done(result)
        finally:
            self.is_large = was_large

    def _offload(self, work: Callable[[], Any]) -> PendingResult:
        later = PendingResult()
        self.worker.run(work, lambda result, error: later(result if error is None else _Failed(error)))
        return later

    def _resume(self, running: _Running, later: PendingResult) -> None:
        if self._stopped:
            return
        _set_result(running, later)
        if running.is_behind:
            self._enter_behind(running)
        elif self._is_running:
            # the job does not continue within another job's step: each step could deliver the next result, without end
            self._new.append(running)
            self._schedule()
        else:
            self._enter(running, self._run_steps_safely)


def _one_step(work: Callable[[], object]) -> Job[None]:
    work()
    yield from ()


def _ignore(_: object) -> None:
    """Do nothing with a result, because the work itself has passed it on."""


class _Failed:
    """An error, until a job gets it. Its traceback refers to frames that refer to this object."""

    __slots__ = ("_error",)

    def __init__(self, error: Exception) -> None:
        self._error: Exception | None = error

    def remove_error(self) -> Exception:
        error, self._error = self._error, None
        assert error is not None
        return error


def _set_result(running: _Running, later: PendingResult) -> None:
    value = later.value
    if type(value) is _Failed:
        running.error = value
    else:
        running.value = value


async def to_its_end(job_queue: JobQueue, job: Job[T]) -> T:
    """Return the result of a job that runs in the queue. Raises what the job raises."""
    done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def guarded() -> Job[None]:
        try:
            result = yield from job
        except Exception as error:  # noqa: BLE001  # the waiting caller gets the error
            if not done.done():
                done.set_exception(error)
        else:
            if not done.done():
                done.set_result(result)

    job_queue.run(guarded(), lambda _: None, _BackgroundOwner())
    return await done


class _BackgroundOwner:
    """The owner of a job for which other code waits."""

    closed = False

    def fault(self, error: Exception) -> None:
        raise error
