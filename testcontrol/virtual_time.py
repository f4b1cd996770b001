"""The verbs on time: freeze it, advance it, run it until a condition holds, let it run again.

While time advances, each deadline is kept at its own time, in order. Between two deadlines the event loop iterates, so
that the effects of a deadline happen before the next deadline. Repeated work is retention of records and offsets,
checkpoints, and expiry of ids. Repeated work is done once between two of these deadlines, at the last of its times. So
to advance by a year costs only the deadlines of that year, and not a million checkpoints.

Clients follow the machine's time: their requests count when they arrive. So a live client that sends nothing meanwhile
is as silent as a dead client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from muster.coordinator.runtime.shard import CoordinatorShard
from muster.coordinator.server import Server, group_snapshots
from muster.coordinator.state_machine.deadlines import NEVER
from muster.coordinator.topics.names import PARTITIONS_PROPERTIES
from muster.testcontrol import checks
from muster.testcontrol.clock import MovableClock
from muster.testcontrol.errors import CannotBeDone
from muster.testcontrol.waits import next_iteration, pause

ITERATIONS: Final = 3
"""How many iterations the event loop does between two deadlines."""
LIMIT_MS: Final = 600_000
"""The default limit of the virtual time that `run_until` may pass."""
SETTLE_MS: Final = 100
"""The default time of the machine that clients get between two deadlines."""
TIMEOUT_MS: Final = 30_000
"""The default limit of the machine's time for all of `run_until`."""
CHECK_MS: Final = 5
"""How often `run_until` checks what clients have done."""
_LAST_MS: Final = 253_402_300_799_999
"""The end of the year 9999: later times cannot be shown."""
AT_REST: Final = frozenset(("Stable", "Empty", "Dead"))
"""States of groups that are not in a rebalance."""


class TimeView(NamedTuple):
    """The time of a server. `next_due_ms`: the time until the next deadline, or None if no deadline is set."""

    frozen: bool
    wall_ms: int
    mono_ms: int
    next_due_ms: int | None
    ahead_ms: int


class RanInVain(AssertionError):
    """The condition of `run_until` did not become true. The text describes the present state."""


class VirtualTime:
    """See the module. Call the methods from the server's event loop only."""

    def __init__(self, server: Server) -> None:
        """`server`: its machine is a `testcontrol.machine.ControlledMachine`."""
        self._server = server

    @property
    def _clock(self) -> MovableClock:
        clock = self._server.clock
        if not isinstance(clock, MovableClock):
            raise CannotBeDone("the time of this server cannot be moved: it was started without a control of it")
        return clock

    @property
    def is_movable(self) -> bool:
        """Whether the server's time can be moved."""
        return isinstance(self._server.clock, MovableClock)

    def now(self) -> TimeView:
        """The time. Raises `CannotBeDone`, as all methods here do, when time cannot be moved."""
        clock = self._clock
        now, due_ms = clock.now(), clock.next_due_ms
        left_ms = None if due_ms is None else max(due_ms - now.mono_ms, 0)
        return TimeView(clock.is_frozen, now.wall_ms, now.mono_ms, left_ms, clock.ahead_ms)

    def freeze(self) -> TimeView:
        """Freeze time, until it is moved or thawed."""
        self._clock.freeze()
        return self.now()

    def thaw(self) -> TimeView:
        """Let time run with the machine's time."""
        self._clock.thaw()
        return self.now()

    async def advance(self, ms: int) -> TimeView:
        """Advance time at once, frozen or not. Raises WrongValue."""
        clock = self._clock
        checks.whole("ms", ms, most=_LAST_MS - clock.now().wall_ms)
        was_frozen = clock.is_frozen
        clock.freeze()
        try:
            end_ms = clock.mono_ms() + ms
            await self._settle()
            await self._pass_deadlines_until(end_ms)
        finally:
            if not was_frozen:
                clock.thaw()
        return self.now()

    async def run_until(
        self,
        condition: Callable[[], bool],
        *,
        what: str = "it is so",
        limit_ms: int = LIMIT_MS,
        settle_ms: int = SETTLE_MS,
        timeout_ms: int = TIMEOUT_MS,
    ) -> TimeView:
        """Advance from one deadline of a group to the next until `condition()` is true. Time is frozen afterwards if it
        was frozen before.

        `limit_ms`: the limit of virtual time. `settle_ms`: the machine's time between two deadlines. `timeout_ms`: the
        limit of the machine's time. Raises `RanInVain`, whose text has `what`.
        """
        checks.whole("limit_ms", limit_ms, most=_LAST_MS)
        checks.whole("settle_ms", settle_ms, most=checks.MAX_COUNT)
        checks.whole("timeout_ms", timeout_ms, most=checks.MAX_COUNT)
        clock, machine = self._clock, self._clock.machine
        was_frozen = clock.is_frozen
        clock.freeze()
        try:
            began_ms, over_ms = clock.mono_ms(), machine.mono_ms() + timeout_ms
            while not await self._becomes_true(condition, min(machine.mono_ms() + settle_ms, over_ms)):
                due_ms = self._next_of_groups_ms()
                passed_ms = clock.mono_ms() - began_ms
                if machine.mono_ms() >= over_ms:
                    raise RanInVain(
                        f"not so after {timeout_ms} ms of the machine's time: {what} ({passed_ms} ms passed)"
                    )
                if due_ms is not None and due_ms - began_ms <= limit_ms:
                    await self._pass_deadlines_until(due_ms)
                elif passed_ms < limit_ms:
                    await self._pass_deadlines_until(began_ms + limit_ms)
                else:
                    raise RanInVain(f"not so after {limit_ms} ms of virtual time: {what}")
        finally:
            if not was_frozen:
                clock.thaw()
        return self.now()

    def is_idle(self) -> bool:
        """Whether no group is in a rebalance, or about to begin one."""
        views = (
            group_snapshots.describe(self._server, group_id) for group_id in group_snapshots.group_ids(self._server)
        )
        return all(view.state in AT_REST for view in views)

    async def _becomes_true(self, condition: Callable[[], bool], until_ms: int) -> bool:
        machine = self._clock.machine
        while not condition():
            if machine.mono_ms() >= until_ms:
                return False
            await pause(machine, CHECK_MS)
        return True

    def _next_of_groups_ms(self) -> int | None:
        due_ms = min((shard.timer.due_ms for shard in self._shards()), default=NEVER)
        return None if due_ms == NEVER else due_ms

    async def _pass_deadlines_until(self, end_ms: int) -> None:
        clock = self._clock
        self._skip_repeated(end_ms)
        while (due_ms := clock.next_due_ms) is not None and due_ms <= end_ms:
            await self._pass_to(due_ms)
            self._skip_repeated(end_ms)
        await self._pass_to(end_ms)

    def _skip_repeated(self, end_ms: int) -> None:
        """Have repeated work done once until the next deadline of other work, at the last of its times."""
        shards = [shard for shard in self._shards() if shard.timer.due_ms <= end_ms]
        for shard in shards:
            shard.look_past_repeated()
        stop_ms = self._clock.skip_repeated(end_ms)
        for shard in shards:
            shard.leave_out(stop_ms)

    def _shards(self) -> Iterator[CoordinatorShard[Any]]:
        for node in self._server.nodes:
            for topic in PARTITIONS_PROPERTIES:
                yield from node.shards_of(topic)

    async def _pass_to(self, mono_ms: int) -> None:
        clock = self._clock
        clock.move_to(max(mono_ms, clock.mono_ms()))
        clock.fire()
        await self._settle()

    async def _settle(self) -> None:
        for _ in range(ITERATIONS):
            await next_iteration()
