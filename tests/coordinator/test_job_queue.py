"""Large work in slices: what is done at once, what waits, and how much time each owner gets. Only steps move the
clock.
"""

from __future__ import annotations

import gc
import queue
import threading
import traceback
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from muster.coordinator.system.clock import ManualClock
from muster.coordinator.system.jobs import (
    MANY_STEPS,
    SHARE_MS,
    SLICE_MS,
    Job,
    JobQueue,
    OffloadedWork,
    PendingResult,
    SerialJobs,
    Thread,
    at_once,
)


class Owner:
    """A connection that owns jobs."""

    def __init__(self) -> None:
        self.closed = False
        self.faults: list[Exception] = []

    def fault(self, error: Exception) -> None:
        self.faults.append(error)


class World:
    """A job queue on a clock that moves by a millisecond with each step of a job."""

    def __init__(self, worker: Any = None) -> None:
        self.clock = ManualClock()
        self.job_queue = JobQueue(self.clock, worker)
        self.owner = Owner()
        self.steps: list[str] = []
        self.results: list[Any] = []

    def job(self, steps: int, name: str = "job", result: Any = None) -> Job[Any]:
        """A job of `steps` steps. Each step takes a millisecond."""
        try:
            for _ in range(steps):
                self.steps.append(name)
                self.clock._move_to(self.clock.mono_ms() + 1)
                yield None
        finally:
            self.steps.append(f"end of {name}")
        return result

    def run(self, job: Job[Any], owner: Owner | None = None) -> None:
        self.job_queue.run(job, self.results.append, owner or self.owner)

    def turn(self) -> list[str]:
        """Run the work of the next iteration of the loop."""
        self.steps.clear()
        timers, self.clock._timers = self.clock._timers, []
        for _, _, timer in sorted(timers, key=lambda t: t[:2]):
            assert timer.callback is not None
            timer.callback()
        return self.steps


def test_a_small_job_is_done_within_the_call() -> None:
    world = World()

    def small() -> Job[str]:
        yield None
        return "done"

    world.run(small())
    assert world.results == ["done"]
    assert world.clock._timers == []


def test_a_large_job_continues_in_later_iterations() -> None:
    world = World()
    world.run(world.job(SLICE_MS * 3 - 1, result="done"))
    assert world.steps == ["job"] * SLICE_MS
    assert world.turn() == ["job"] * SLICE_MS
    assert world.results == []
    assert world.turn() == ["job"] * (SLICE_MS - 1) + ["end of job"]
    assert world.results == ["done"]
    world.turn()
    assert world.turn() == []
    assert world.clock._timers == []


def test_jobs_of_one_iteration_share_its_time() -> None:
    world = World()
    for name in "abc":
        world.run(world.job(100, name))
    assert world.steps == ["a"] * SLICE_MS  # nothing was left for the others
    turn = world.turn()
    assert len(turn) == SLICE_MS
    assert turn == [*"bbccaabbcc"]
    assert SHARE_MS == 2


def test_a_later_small_job_does_not_wait_for_large_jobs() -> None:
    world = World()
    world.run(world.job(1000, "a"))
    world.run(world.job(1000, "b"))
    world.turn()
    world.run(world.job(1, "small", "done"))
    assert world.turn()[:2] == ["small", "end of small"]
    assert world.results == ["done"]


def test_each_iteration_has_time_for_new_jobs() -> None:
    world = World()
    world.run(world.job(SLICE_MS, "a"))
    world.turn()
    world.turn()
    world.steps.clear()
    world.run(world.job(3, "b", "b"))
    assert world.results == [None, "b"]


def test_small_work_without_a_job_counts_in_the_iterations_time() -> None:
    world = World()

    def work() -> None:
        world.clock._move_to(world.clock.mono_ms() + SLICE_MS // 2)
        world.results.append("small")

    assert [world.job_queue.run_small(work) for _ in range(3)] == [True, True, False]
    world.run(world.job(1, result="large"))
    assert world.results == ["small", "small"]
    world.clock.advance(0)
    assert world.results == ["small", "small", "large"]
    world.clock.advance(0)
    assert world.job_queue.run_small(work)
    world.job_queue.stop()
    assert not world.job_queue.run_small(work)


def test_a_pending_result_is_delivered_after_small_work() -> None:
    world, later = World(), PendingResult()

    def waiting() -> Job[str]:
        return f"after {(yield later)}"

    def work() -> None:
        later("small")
        world.results.append("end of small")

    world.run(waiting())
    world.job_queue.run_small(work)
    world.clock.advance(0)
    assert world.results == ["end of small", "after small"]


def test_offloaded_work_returns_its_result_to_the_job() -> None:
    class Elsewhere:
        def __init__(self) -> None:
            self.asked: list[tuple[Callable[[], Any], Callable[[Any, Exception | None], object]]] = []

        def run(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], object]) -> None:
            self.asked.append((work, done))

        def close(self) -> None:
            self.asked.clear()

    elsewhere = Elsewhere()
    world = World(elsewhere)

    def job() -> Job[list[Any]]:
        got = yield OffloadedWork(lambda: 6 * 7)
        try:
            yield OffloadedWork(lambda: 1 // 0)
        except ZeroDivisionError as error:
            return [got, str(error)]
        raise AssertionError

    world.run(job())
    work, done = elsewhere.asked.pop()
    done(work(), None)
    assert world.results == []
    _, done = elsewhere.asked.pop()
    done(None, ZeroDivisionError("no"))
    assert world.results == [[42, "no"]]


def test_offloaded_work_without_a_thread_is_done_at_once() -> None:
    world = World()

    def job() -> Job[int]:
        return (yield OffloadedWork(lambda: 42))

    world.run(job())
    assert world.results == [42]


def test_a_pending_result_may_be_complete_or_come_later() -> None:
    world = World()
    first, second = PendingResult(), PendingResult()

    def job() -> Job[list[Any]]:
        return [(yield first), (yield second)]

    first("one")
    world.run(job())
    assert world.results == []
    second("two")
    assert world.results == [["one", "two"]]


def test_a_job_of_a_closed_owner_is_closed_at_its_next_step() -> None:
    world = World()
    gone = Owner()
    world.run(world.job(100, "a"), gone)
    gone.closed = True
    assert world.turn() == ["end of a"]
    assert world.results == []


def test_a_fault_in_a_later_step_goes_only_to_its_owner() -> None:
    world = World()

    def bad() -> Job[None]:
        yield from world.job(SLICE_MS, "bad")
        raise KeyError("bug")

    world.run(bad())
    other = Owner()
    world.run(world.job(1, "good", "good"), other)
    world.turn()
    assert [str(fault) for fault in world.owner.faults] == ["'bug'"]
    assert (world.results, other.faults) == (["good"], [])


def test_a_fault_in_the_first_step_is_raised() -> None:
    world = World()

    def bad() -> Job[None]:
        raise KeyError("bug")
        yield None

    with pytest.raises(KeyError):
        world.run(bad())


def test_a_job_of_many_steps_marks_its_result_as_large() -> None:
    world = World()
    seen: list[bool] = []

    def job(steps: int) -> Job[None]:
        for _ in range(steps):
            yield None

    for steps in (MANY_STEPS, MANY_STEPS + 1):
        world.job_queue.run(job(steps), lambda _: seen.append(world.job_queue.is_large), world.owner)
    assert seen == [False, True]
    assert not world.job_queue.is_large


def test_a_stop_abandons_unfinished_jobs() -> None:
    world = World()
    later = PendingResult()

    def waiting() -> Job[None]:
        yield later

    world.run(waiting())
    world.run(world.job(100, "begun"))
    world.run(world.job(100, "fresh"))
    world.steps.clear()
    world.job_queue.stop()
    assert world.steps == ["end of begun"]
    later(1)
    world.turn()
    assert (world.results, world.owner.faults) == ([], [])


def test_the_thread_does_offloaded_work_in_order_and_posts_the_results() -> None:
    posted: list[Callable[[], object]] = []
    there = threading.Semaphore(0)

    def post(callback: Callable[[], object]) -> None:
        posted.append(callback)
        there.release()

    thread = Thread(post)
    outcomes: list[tuple[Any, Any]] = []
    thread.run(threading.get_ident, lambda result, error: outcomes.append((result, error)))
    thread.run(lambda: 1 // 0, lambda result, error: outcomes.append((result, type(error))))
    for _ in range(2):
        assert there.acquire(timeout=30)
    for callback in posted:
        callback()
    assert outcomes[0][0] != threading.get_ident()
    assert outcomes[1] == (None, ZeroDivisionError)
    thread.close()
    thread.run(lambda: 1, lambda *_: outcomes.append((0, 0)))
    assert len(outcomes) == 2


def test_a_job_run_at_once_may_not_wait() -> None:
    there = PendingResult()
    there("there")

    def job() -> Job[list[Any]]:
        yield None
        return [(yield OffloadedWork(lambda: 42)), (yield there)]

    assert at_once(job()) == [42, "there"]

    def waits() -> Job[None]:
        yield PendingResult()

    with pytest.raises(RuntimeError, match="has to wait"):
        at_once(waits())


class TestOneByOne:
    def test_serial_jobs_run_one_after_the_other(self) -> None:
        world, changes = World(), SerialJobs()
        for name in "abc":
            world.run(changes.run(world.job(SLICE_MS - 1, name, name)))
        seen: list[str] = [*world.steps]
        for _ in range(10):
            seen += world.turn()
        ends = [seen.index(f"end of {name}") for name in "abc"]
        assert ends == sorted(ends)
        for name, end in zip("bc", ends, strict=False):
            assert name not in seen[:end]
        assert world.results == ["a", "b", "c"]
        world.run(changes.run(world.job(1, "d", "d")))
        assert world.results[-1] == "d"

    def test_a_failed_serial_job_does_not_stop_the_next(self) -> None:
        world, changes = World(), SerialJobs()

        def bad() -> Job[None]:
            yield from world.job(SLICE_MS, "bad")
            raise KeyError("bug")

        world.run(changes.run(bad()))
        world.run(changes.run(world.job(1, "good", "good")))
        for _ in range(4):
            world.turn()
        assert (world.results, len(world.owner.faults)) == (["good"], 1)

    def test_a_waiting_serial_job_of_a_closed_owner_is_skipped(self) -> None:
        world, changes = World(), SerialJobs()
        first = world.job(100, "first")
        running = changes.run(first)
        running.send(None)
        waiting, behind = changes.run(world.job(1, "gone")), changes.run(world.job(1, "behind"))
        turn, later = waiting.send(None), behind.send(None)
        assert isinstance(turn, PendingResult)
        assert isinstance(later, PendingResult)
        waiting.close()
        running.close()
        assert later.is_there
        behind.close()  # its share is used, and it runs all the same
        assert at_once(changes.run(world.job(1, "last", "last"))) == "last"

    def test_many_waiting_serial_jobs_need_no_deep_stack(self) -> None:
        world, changes = World(), SerialJobs()
        world.run(changes.run(world.job(SLICE_MS, "first")))
        for number in range(3_000):
            world.run(changes.run(world.job(0, "next", number)))
        for _ in range(5):
            world.turn()
        assert world.results == [None, *range(3_000)]


class TestBehind:
    """Work for which no client waits."""

    def test_background_work_gets_a_bounded_share_of_each_iteration(self) -> None:
        world = World()
        world.job_queue.run_behind(world.job(3 * SHARE_MS, "walk", "done"), world.results.append, world.owner)
        assert world.steps == ["walk"] * SHARE_MS
        assert world.turn() == ["walk"] * SHARE_MS
        assert world.turn() == ["walk"] * SHARE_MS
        assert world.turn() == ["end of walk"]
        assert world.results == ["done"]
        assert world.turn() == []
        assert world.turn() == []
        assert world.clock._timers == []

    def test_busy_clients_do_not_stop_background_work(self) -> None:
        world = World()
        world.run(world.job(100, "client"))
        world.job_queue.run_behind(world.job(100, "walk"), world.results.append, world.owner)
        world.job_queue.run_behind(world.job(100, "other"), world.results.append, world.owner)
        assert world.steps == ["client"] * SLICE_MS
        rest = ["client"] * (SLICE_MS - SHARE_MS)
        assert world.turn() == [*rest, *["walk"] * SHARE_MS]
        assert world.turn() == [*rest, *["other"] * SHARE_MS]

    def test_background_work_waits_if_the_iterations_time_is_used(self) -> None:
        world = World()
        world.run(world.job(1, "client"))
        world.job_queue.run_behind(world.job(1, "walk"), world.results.append, world.owner)
        assert world.steps == ["client", "end of client"]
        assert world.turn() == ["walk", "end of walk"]

    def test_background_work_gets_no_larger_share_after_offloaded_work(self) -> None:
        waiting: list[tuple[Any, Any]] = []

        class Slow:
            """A thread that works when the test says so."""

            def run(self, work: Any, done: Any) -> None:
                waiting.append((work, done))

            def close(self) -> None:
                """Do nothing."""

        world = World(Slow())

        def walk() -> Job[str]:
            got = yield OffloadedWork(lambda: "made")
            yield from world.job(2 * SHARE_MS, got)
            return "done"

        world.job_queue.run_behind(walk(), world.results.append, world.owner)
        assert world.steps == []
        ((work, done),) = waiting
        done(work(), None)
        assert world.steps == ["made"] * SHARE_MS
        world.turn()
        world.turn()
        assert world.results == ["done"]

    def test_a_fault_in_background_work_goes_to_its_owner_and_a_stop_ends_it(self) -> None:
        world = World()

        def bad() -> Job[None]:
            raise ValueError("bad")
            yield None

        world.job_queue.run_behind(bad(), world.results.append, world.owner)
        assert [str(one) for one in world.owner.faults] == ["bad"]
        world.job_queue.run_behind(world.job(100, "walk"), world.results.append, world.owner)
        world.job_queue.stop()
        assert world.steps[-1] == "end of walk"
        world.job_queue.run_behind(world.job(1, "late"), world.results.append, world.owner)
        world.turn()
        assert "late" not in world.steps


def test_a_job_run_at_once_gets_the_error_of_its_offloaded_work() -> None:
    def job() -> Job[str]:
        try:
            yield OffloadedWork(lambda: 1 / 0)
        except ZeroDivisionError:
            return "caught"
        return "nothing"

    assert at_once(job()) == "caught"


class Buffer:
    """What a failed job in a thread may have made: 64 MB."""


@pytest.mark.parametrize("kept", [True, False])
def test_the_error_of_offloaded_work_keeps_nothing_that_the_work_made(kept: bool) -> None:
    """A request of 1.6 MB with four gzip bombs once kept 256 MB until the next garbage collection."""
    made: list[weakref.ref[Buffer]] = []
    errors: list[Exception] = []

    def inner(_: Buffer) -> None:
        buffer = Buffer()
        made.append(weakref.ref(buffer))
        try:
            raise ValueError("it has no room")
        except ValueError as error:
            raise KeyError("it is too large") from error

    def job() -> Job[str]:
        try:
            given = Buffer()
            made.append(weakref.ref(given))
            work = OffloadedWork(partial(inner, given))
            del given
            yield work
        except KeyError as error:
            del work
            if kept:
                errors.append(error)
            return str(error)
        return ""

    posted: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
    thread = Thread(posted.put)
    world = World(thread)
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        world.run(job())
        posted.get(timeout=60)()
        assert world.results == ["'it is too large'"]
        thread.close()
        if not kept:
            assert [one() for one in made] == [None, None]
        else:
            assert made[1]() is None
            lines = "".join(traceback.format_exception(errors[0]))
            assert "in inner" in lines, "the lines of the traceback are still there"
    finally:
        if was_enabled:
            gc.enable()
