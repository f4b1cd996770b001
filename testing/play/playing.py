"""Runs a play with its server. aiokafka reads Python's modules `time` and `random`. So during a play, aiokafka gets
other modules with the time and the random numbers of the play.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Final, TypeVar

from muster.coordinator.config.listeners import show
from muster.coordinator.server.machine import Post
from muster.coordinator.system.jobs import AtOnce, Worker
from muster.testcontrol.errors import CannotBeDone
from muster.testcontrol.machine import ControlledMachine
from muster.testcontrol.server_control import ServerControl
from muster.testing import server_lines
from muster.testing.in_thread import die, stop
from muster.testing.loop_bridge import LoopBridge, raise_failure
from muster.testing.play.loop import BEGAN_MS, PlayLoop, TimeIsUp
from muster.testing.server_lines import ServerLines
from muster.testing.settings import Given, config_of
from muster.testing.verbs import Verbs
from muster.virtual.machine import VirtualMachine, VirtualProcess
from muster.virtual.world import VirtualClock

CLIENT: Final = "aiokafka"
BUILDER: Final = "DefaultRecordBatchBuilder"


class Times:
    """Replaces the module `time` in aiokafka by the time of the play."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock

    def time(self) -> float:
        """The play's wall time in seconds since 1970."""
        return self._clock.now().wall_ms / 1_000

    def monotonic(self) -> float:
        """The play's monotonic time in seconds."""
        return self._clock.mono_us() / 1_000_000

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


@contextmanager
def replaced_modules(clock: VirtualClock, chance: random.Random) -> Iterator[None]:
    """In this block, aiokafka uses this clock and these random numbers. Other modules keep Python's."""
    if find_spec(CLIENT) is not None:
        import aiokafka  # noqa: F401  # only whether it is installed
    instead: dict[str, Any] = {"time": Times(clock), "random": chance}
    real: dict[str, Any] = {"time": time, "random": random}
    builder = getattr(sys.modules.get(f"{CLIENT}.producer.message_accumulator"), BUILDER, None)
    if builder is not None:
        real[BUILDER], instead[BUILDER] = builder, _stamped(builder, clock)
    changed: list[tuple[Any, str, Any]] = []
    for name, module in list(sys.modules.items()):
        if name == CLIENT or name.startswith(f"{CLIENT}."):
            for attribute, one in real.items():
                if vars(module).get(attribute) is one:
                    changed.append((module, attribute, one))
                    setattr(module, attribute, instead[attribute])
    try:
        yield
    finally:
        for module, attribute, one in changed:
            setattr(module, attribute, one)


def _stamped(builder: type[Any], clock: VirtualClock) -> type[Any]:
    """Make a builder of batches that gives a timestamp of the play to each record without a timestamp. The compiled
    builder of aiokafka would use the machine's time.
    """

    class Stamped(builder):  # type: ignore[misc]  # aiokafka is not typed
        """A builder with timestamps of the play."""

        def append(self, offset: int, timestamp: int | None, *more: Any, **named: Any) -> Any:
            """Append a record, at the play's time unless a timestamp is given."""
            stamp_ms = clock.now().wall_ms if timestamp is None else timestamp
            return super().append(offset, stamp_ms, *more, **named)

    return Stamped


T = TypeVar("T")


class PlayMachine(ControlledMachine, VirtualMachine):
    """The machine of a play's server. Data in the server's memory stays on this machine over a restart."""

    def __init__(self, process: VirtualProcess, seed: int) -> None:
        ControlledMachine.__init__(self, seed)
        VirtualMachine.__init__(self, process)

    def thread(self, post: Post) -> Worker:  # noqa: ARG002  # the signature of Machine
        """A worker that runs its work immediately, on the event loop."""
        return AtOnce()


class InPlay:
    """A `verbs.Runner` with its server on the event loop of a play. Its start and end are awaited."""

    def __init__(self, given: Given, loop: PlayLoop, seed: int) -> None:
        self.bridge = LoopBridge()
        self.lines = ServerLines()
        self.bootstrap_servers = ""
        self._given = given
        self._loop = loop
        self._machine = PlayMachine(loop.process, seed)
        self._control: ServerControl | None = None
        self._failure: BaseException | None = None

    @property
    def is_running(self) -> bool:
        return self._control is not None

    async def change(self, how: str) -> None:
        """Do what `how` says: `start`, `stop` or `kill`. Raises what these raise."""
        if how == "start":
            await self._start()
        elif self._control is not None:
            self._failure = self.take_failure()
            control, self._control = self._control, None
            self.bridge.close()
            await (stop if how == "stop" else die)(control)
        elif how == "kill":
            raise CannotBeDone("the server does not run")

    async def _start(self) -> None:
        if self._control is not None:
            raise CannotBeDone("the server runs already")
        control = ServerControl(config_of(self._given, None), machine=self._machine)
        await control.server.start()
        self.bridge.open(self._loop)
        self._control = control
        bound = control.server.bound
        self._machine.ports = [one.port for one in bound]
        first = bound[0].listener
        self.bootstrap_servers = ",".join(show(one.host, one.port) for one in bound if one.listener == first)

    def _awaited(self) -> None:
        raise CannotBeDone("in a play this is awaited: await muster.restart(), and so on")

    start = stop = kill = _awaited

    def take_failure(self) -> BaseException | None:
        failure, self._failure = self._failure, None
        if failure is None and self._control is not None:
            failure = self._control.take_failure()
        return failure

    def verbs(self) -> Verbs:
        if self._control is None:
            raise CannotBeDone("the server does not run")
        return self._control


def play(
    given: Given, seed: int, story: Callable[[Any], Awaitable[T]], open_muster: Callable[[InPlay], Any], limit_s: float
) -> T:
    """Play a story: await `story(muster)` on the event loop of a play, with the `muster` that `open_muster` has made.
    Returns the story's result. Raises what the story raises, and TimeIsUp after `limit_s` of virtual time.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise RuntimeError("a play has an event loop of its own: call it from a test that is not asynchronous")
    loop = PlayLoop(seed)
    loop.until_s = BEGAN_MS / 1_000 + limit_s
    runner = InPlay(given, loop, seed)
    tasks: list[asyncio.Task[Any]] = []

    async def whole() -> T:
        tasks.extend(filter(None, [asyncio.current_task()]))
        await runner.change("start")
        try:
            found = await story(open_muster(runner))
            raise_failure(runner.take_failure())
            return found
        finally:
            await runner.change("stop")

    server_lines.keep(runner.lines)
    try:
        with (
            replaced_modules(VirtualClock(loop.world), loop.world.rng),
            asyncio.Runner(loop_factory=lambda: loop) as running,
        ):
            try:
                return running.run(whole())
            except TimeIsUp as failure:
                raise TimeIsUp("\n".join([f"{failure}; the story was here:", *_where(tasks)])) from None
    finally:
        server_lines.keep_no_more()


def _where(tasks: list[asyncio.Task[Any]]) -> list[str]:
    """The lines of code at which these tasks wait, also lines of coroutines that they await."""
    lines: list[str] = []
    for task in tasks:
        waiting: Any = task.get_coro()
        while waiting is not None and getattr(waiting, "cr_frame", None) is not None:
            lines += traceback.format_list(traceback.extract_stack(waiting.cr_frame, limit=1))
            waiting = waiting.cr_await
    return [line.rstrip() for line in lines]
