"""Virtual time on a running server. The clock follows the machine's clock until a test freezes or moves it.

Groups, transactions and topics keep their deadlines by this clock. Examples are sessions, rebalance delays, retention
and timeouts of transactions. The server's timestamps follow this clock, too. Waits for clients or for the disk follow
the machine's time (`Clock.machine`): a Fetch, an idle connection, a quota.

Time that is not moved costs nothing: then this clock's methods are those of the machine's clock.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from itertools import count
from typing import Any, Final

from muster.coordinator.state_machine.interface import Now
from muster.coordinator.system.clock import Clock, Timer

_MAX_CANCELLED: Final = 64
"""Cancelled timers are removed when they outnumber the other timers, and are more than this number."""


class _MovableTimer:
    __slots__ = ("_clock", "callback", "every_ms")

    def __init__(self, clock: MovableClock, callback: Callable[[], object], every_ms: int) -> None:
        self._clock = clock
        self.every_ms = every_ms
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        """Cancel the call."""
        if self.callback is not None:
            self.callback = None
            self._clock.cancelled()


class MovableClock:
    """See the module. `machine`: the clock that a `MovableClock` follows."""

    def __init__(self, machine: Clock, order: random.Random | None = None) -> None:
        """`order`: the generator for the order of timers with the same deadline. None: the order of `call_at` stays."""
        self.machine = machine
        """The machine's clock, which no test moves."""
        self._drawn = order
        self._frozen: Now | None = None
        self._ahead_ms = self._wall_ahead_ms = 0
        self._timers: list[tuple[int, float, int, _MovableTimer]] = []
        self._order = count()
        self._cancelled = 0
        self._armed: Timer | None = None
        self._armed_ms = 0
        self.now: Callable[[], Now]
        self.moment: Callable[[], Now]
        self.mono_ms: Callable[[], int]
        self.mono_us: Callable[[], int] = machine.mono_us
        self.call_soon: Callable[[Callable[[], object]], None] = machine.call_soon
        self.read_first: Callable[[Callable[[], bool]], None] = machine.read_first
        self._choose()

    # ---- the time

    def _choose(self) -> None:
        machine = self.machine
        chosen: Any = self
        if self._frozen is not None:
            chosen.now = chosen.moment = self._frozen_now
        elif self._ahead_ms or self._wall_ahead_ms:
            chosen.now, chosen.moment = self._moved_now, self._moved_moment
        else:
            chosen.now, chosen.moment, chosen.mono_ms = machine.now, machine.moment, machine.mono_ms
            return
        chosen.mono_ms = self._moved_mono_ms

    def _frozen_now(self) -> Now:
        assert self._frozen is not None
        return self._frozen

    def _moved(self, now: Now) -> Now:
        return Now(now.mono_ms + self._ahead_ms, now.wall_ms + self._wall_ahead_ms)

    def _moved_now(self) -> Now:
        return self._moved(self.machine.now())

    def _moved_moment(self) -> Now:
        return self._moved(self.machine.moment())

    def _moved_mono_ms(self) -> int:
        return self.now().mono_ms

    # ---- moving time

    @property
    def is_frozen(self) -> bool:
        """Whether time is frozen."""
        return self._frozen is not None

    @property
    def ahead_ms(self) -> int:
        """How far this clock is ahead of the machine's. Negative: this clock is behind, as after a freeze."""
        return self.now().mono_ms - self.machine.mono_ms()

    def freeze(self) -> None:
        """Freeze time; has no effect if it is frozen."""
        if self._frozen is None:
            self._frozen = self.now()
            self._choose()
            self._arm()

    def thaw(self) -> None:
        """Let time run again as the machine's time does, from its present value; has no effect if it runs."""
        if self._frozen is None:
            return
        frozen, machine, self._frozen = self._frozen, self.machine.now(), None
        self._ahead_ms = frozen.mono_ms - machine.mono_ms
        self._wall_ahead_ms = frozen.wall_ms - machine.wall_ms
        self._choose()
        self._arm()

    def move_to(self, mono_ms: int) -> None:
        """Set the time while it is frozen. Calls no timer."""
        frozen = self._frozen
        assert frozen is not None, "time goes on by itself"
        passed_ms = mono_ms - frozen.mono_ms
        assert passed_ms >= 0, "time does not go backwards"
        self._frozen = Now(mono_ms, frozen.wall_ms + passed_ms)

    # ---- timers

    def call_at(self, mono_ms: int, callback: Callable[[], object], every_ms: int = 0) -> Timer:
        """Call back once, as soon as `now().mono_ms >= mono_ms`."""
        timer = _MovableTimer(self, callback, every_ms)
        self._push(mono_ms, timer)
        if self._timers[0][3] is timer or (self._frozen is not None and mono_ms <= self._frozen.mono_ms):
            self._arm()
        return timer

    def _push(self, mono_ms: int, timer: _MovableTimer) -> None:
        place = 0.0 if self._drawn is None else self._drawn.random()
        heapq.heappush(self._timers, (mono_ms, place, next(self._order), timer))

    def cancelled(self) -> None:
        """Count a cancelled timer, which is not removed yet."""
        self._cancelled += 1
        if self._cancelled > _MAX_CANCELLED and self._cancelled * 2 > len(self._timers):
            self._timers = [row for row in self._timers if row[3].callback is not None]
            heapq.heapify(self._timers)
            self._cancelled = 0

    @property
    def next_due_ms(self) -> int | None:
        """The deadline of the next timer, or None if no timer is set."""
        timers = self._timers
        while timers and timers[0][3].callback is None:
            heapq.heappop(timers)
            self._cancelled -= 1
        return timers[0][0] if timers else None

    def skip_repeated(self, end_ms: int) -> int:
        """Skip repeated work before time moves to `end_ms`. Returns the time up to which only repeated work is due. Of
        each repeated work, only the last call until then is kept.
        """
        repeated: list[tuple[int, _MovableTimer]] = []
        stop_ms = end_ms
        while (due_ms := self.next_due_ms) is not None and due_ms <= end_ms:
            if not self._timers[0][3].every_ms:
                stop_ms = due_ms
                break
            repeated.append((due_ms, heapq.heappop(self._timers)[3]))
        for due_ms, timer in repeated:
            times = max(stop_ms - due_ms, 0) // timer.every_ms
            self._push(due_ms + times * timer.every_ms, timer)
        return stop_ms

    def _arm(self) -> None:
        """Request a call of `machine` at the next deadline. While time is frozen, only a past deadline gets a call."""
        due_ms = self.next_due_ms
        if due_ms is not None:
            if self._frozen is None:
                due_ms -= self._ahead_ms
            elif due_ms <= self._frozen.mono_ms:
                due_ms = self.machine.mono_ms()
            else:
                due_ms = None
        if self._armed is not None:
            if due_ms == self._armed_ms:
                return
            self._armed.cancel()
            self._armed = None
        if due_ms is not None:
            self._armed_ms = due_ms
            self._armed = self.machine.call_at(due_ms, self._fire)

    def _fire(self) -> None:
        self._armed = None
        try:
            self.fire()
        finally:
            self._arm()

    def fire(self) -> int:
        """Call the timers that are due now, in order; return their number. New due timers wait for the next `fire`."""
        now_ms, fired = self.now().mono_ms, 0
        due = []
        while (due_ms := self.next_due_ms) is not None and due_ms <= now_ms:
            due.append(heapq.heappop(self._timers))
        try:
            while due:
                timer = due.pop(0)[3]
                callback, timer.callback = timer.callback, None
                if callback is None:
                    self._cancelled -= 1  # an earlier callback has cancelled this timer
                    continue
                fired += 1
                callback()
        finally:
            for row in due:
                heapq.heappush(self._timers, row)
        return fired
