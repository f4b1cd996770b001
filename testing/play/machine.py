"""The machine of a server in a play: the loop's time, its network, and no thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from muster.coordinator.log import SharedSync
from muster.coordinator.net.listener import Listener, ListenerAddress
from muster.coordinator.server.machine import Post
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.system.clock import Clock, Timer
from muster.coordinator.system.jobs import AtOnce, Worker
from muster.testcontrol.clock import MovableClock
from muster.testcontrol.machine import ControlledMachine
from muster.testing.play.loop import BEGAN_S, End, PlayLoop

BEGAN_WALL_MS: Final = 1_767_225_600_000
"""The wall time at which each play begins, 2026-01-01 UTC, so that a history can be compared with its times."""
_ROUND_S: Final = 1e-6
"""A timer may run this much before its whole ms, because times are floats."""


class PlayClock:
    """The clock of the server, with the time of the loop."""

    def __init__(self, loop: PlayLoop) -> None:
        self._loop = loop

    def now(self) -> Now:
        """See `Clock`, as all below."""
        mono_ms = self.mono_ms()
        return Now(mono_ms, BEGAN_WALL_MS + mono_ms - int(BEGAN_S * 1_000))

    moment = now

    def mono_ms(self) -> int:
        """Whole ms."""
        return int((self._loop.time() + _ROUND_S) * 1_000)

    def mono_us(self) -> int:
        """The same in microseconds."""
        return int((self._loop.time() + _ROUND_S) * 1_000_000)

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Call back in the next iteration."""
        self._loop.call_soon(callback)

    def call_at(self, mono_ms: int, callback: Callable[[], object], every_ms: int = 0) -> Timer:
        """Call back at that time."""
        del every_ms  # each repetition counts
        return self._loop.call_at(mono_ms / 1_000, callback)

    def read_first(self, input_waits: Callable[[], bool]) -> None:
        """Do nothing: no timer is ever late here."""

    @property
    def machine(self) -> PlayClock:
        """This clock: nothing moves it."""
        return self


class PlayListener(Listener):
    """Takes connections of the loop's network."""

    network: PlayLoop

    async def start(self) -> None:
        """Raises OSError."""
        self._waiting: list[End] | None = None
        self.port = self.network.listen(self, self.address.port)

    def close(self) -> None:
        """No more connections."""
        self.network.listen_no_more(self.port)

    def pause(self) -> None:
        """Let new connections wait."""
        self._waiting = []

    def resume(self) -> None:
        """Accept the waiting connections."""
        waiting, self._waiting = self._waiting, None
        for end in waiting or ():
            self.connect(end)

    def connect(self, end: End) -> None:
        """The server's end of a new connection."""
        if self._waiting is None:
            end.opened(self._connection())
        else:
            self._waiting.append(end)

    def _set_options(self, transport: Any) -> None:
        """Do nothing: a wire has no socket options."""


class PlayMachine(ControlledMachine):
    """See the module. What the server has in memory stays when it is started again on it."""

    cleaner_cpu_share = 1.0
    has_sockets = False

    def __init__(self, loop: PlayLoop, seed: int) -> None:
        super().__init__(seed)
        self._loop = loop

    def clock(self) -> Clock:
        """See `Machine`; a clock that can be moved, too."""
        return MovableClock(PlayClock(self._loop), self._loop.random)

    def workers(self, post: Post, threads: int) -> SharedSync:
        """Jobs run at once, on the loop."""
        executor: Any = _Here()
        return SharedSync(post, threads=threads, executor=executor)

    def thread(self, post: Post) -> Worker:  # noqa: ARG002  # as of Machine
        """Work runs at once, on the loop."""
        return AtOnce()

    def listener(self, address: ListenerAddress, *more: Any) -> Listener:
        """See `Machine`."""
        if not address.port and self.ports:
            address = address._replace(port=self.ports.pop(0))
        listener = PlayListener(address, *more)
        listener.network = self._loop
        return listener


class _Here:
    """An executor without threads."""

    def submit(self, job: Callable[[], object]) -> None:
        """Run the job now."""
        job()

    def shutdown(self, *, wait: bool) -> None:
        """Do nothing: no job is left."""
