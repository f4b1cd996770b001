"""The clock of one of several nodes. While the node is paused its timers do not fire.

Afterwards the timers wait as long as the pause was, at most `GRACE_MS`: requests that have arrived are read first.
"""

from __future__ import annotations

from collections.abc import Callable

from muster.coordinator.state_machine.interface import Now
from muster.coordinator.system.clock import GRACE_MS, Clock, Timer


class NodeClock:
    """See the module."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.held: dict[NodeTimer, None] | None = None
        """Timers that were due while the node was paused. None means that the node is not paused."""
        self.grace_until_ms = 0
        self._since_ms = 0
        self._machine = self if clock.machine is clock else NodeClock(clock.machine)

    @property
    def machine(self) -> NodeClock:
        """See `Clock`. This clock pauses with the node."""
        return self._machine

    def pause(self) -> None:
        """Let no timer fire until `resume`."""
        if self.held is None:
            self.held = {}
            self._since_ms = self.clock.mono_ms()
            self._machine.pause()

    def resume(self) -> None:
        """Let timers fire again, after the grace time."""
        held, self.held = self.held, None
        if held is None:
            return
        self._machine.resume()
        now_ms = self.clock.mono_ms()
        self.grace_until_ms = now_ms + min(now_ms - self._since_ms, GRACE_MS)
        for timer in held:
            timer.put_off()

    def now(self) -> Now:
        return self.clock.now()

    def mono_ms(self) -> int:
        return self.clock.mono_ms()

    def mono_us(self) -> int:
        return self.clock.mono_us()

    def moment(self) -> Now:
        return self.clock.moment()

    def call_soon(self, callback: Callable[[], object]) -> None:
        """See `Clock`. Work that has begun ends even while the node is paused; its result is not sent."""
        self.clock.call_soon(callback)

    def call_at(self, mono_ms: int, callback: Callable[[], object], every_ms: int = 0) -> Timer:
        return NodeTimer(self, mono_ms, callback, every_ms)

    def read_first(self, input_waits: Callable[[], bool]) -> None:
        self.clock.read_first(input_waits)


class NodeTimer:
    """One future call of a node."""

    __slots__ = ("_callback", "_had_grace", "_node", "_timer")

    def __init__(self, node: NodeClock, mono_ms: int, callback: Callable[[], object], every_ms: int) -> None:
        self._node = node
        self._callback = callback
        self._had_grace = False
        self._timer = node.clock.call_at(mono_ms, self._ring, every_ms)

    def _ring(self) -> None:
        node = self._node
        if node.held is not None:
            node.held[self] = None
        elif not self._had_grace and node.clock.mono_ms() < node.grace_until_ms:
            self.put_off()
        else:
            self._callback()

    def put_off(self) -> None:
        """Fire when the grace time is over. A timer is put off only once."""
        self._had_grace = True
        self._timer = self._node.clock.call_at(self._node.grace_until_ms, self._ring)

    def cancel(self) -> None:
        self._timer.cancel()
        if self._node.held is not None:
            self._node.held.pop(self, None)
