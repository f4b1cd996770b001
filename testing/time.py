"""The time of a server, for tests: it follows the machine's until a test freezes or moves it."""

from __future__ import annotations

from muster.testcontrol import checks
from muster.testcontrol.virtual_time import LIMIT_MS, SETTLE_MS, RanInVain, TimeView
from muster.testing.loop_bridge import LoopBridge
from muster.testing.verbs import DEFAULT_TIMEOUT, Behind, Topics

__all__ = ["AsyncTime", "RanInVain", "Time", "TimeView"]


def timeout_ms(timeout: float) -> int:
    """Seconds as ms. Raises WrongValue."""
    return round(checks.seconds("timeout", timeout) * 1000)


class Time:
    """Sessions, rebalance delays, retention and timeouts of transactions follow it. Requests of clients count when they
    arrive.
    """

    def __init__(self, portal: LoopBridge, behind: Behind) -> None:
        self._portal = portal
        self._behind = behind

    @property
    def aio(self) -> AsyncTime:
        """The same for asynchronous tests."""
        return AsyncTime(self._portal, self._behind)

    def now(self) -> TimeView:
        """The time."""
        found: TimeView = self._portal.call(lambda: self._behind().time.now())
        return found

    def freeze(self) -> TimeView:
        """Freeze time, until it is moved or thawed."""
        found: TimeView = self._portal.call(lambda: self._behind().time.freeze())
        return found

    def thaw(self) -> TimeView:
        """Let time run with the machine's."""
        found: TimeView = self._portal.call(lambda: self._behind().time.thaw())
        return found

    def advance(self, ms: int) -> TimeView:
        """Advance time at once; each deadline on the way is kept at its own time."""
        found: TimeView = self._portal.call(lambda: self._behind().time.advance(ms))
        return found

    def run_until(
        self,
        group: str | None = None,
        *,
        members: int | None = None,
        partitions: Topics = None,
        limit_ms: int = LIMIT_MS,
        settle_ms: int = SETTLE_MS,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> TimeView:
        """Advance from deadline to deadline until this group is stable, as `wait_stable` defines it. Without a group:
        until no group is in a rebalance. Between two deadlines clients have `settle_ms` of the machine's time.
        `limit_ms`: of the server's time; `timeout`: seconds of the machine's. Raises RanInVain, an AssertionError.
        """
        allowed_ms = timeout_ms(timeout)
        found: TimeView = self._portal.wait(
            lambda: self._behind().run_until(
                group, members, partitions, limit_ms=limit_ms, settle_ms=settle_ms, timeout_ms=allowed_ms
            ),
            timeout,
        )
        return found


class AsyncTime:
    """The same for asynchronous tests."""

    def __init__(self, portal: LoopBridge, behind: Behind) -> None:
        self._portal = portal
        self._behind = behind

    async def now(self) -> TimeView:
        """The time."""
        found: TimeView = await self._portal.awaited(lambda: self._behind().time.now())
        return found

    async def freeze(self) -> TimeView:
        """Freeze time, until it is moved or thawed."""
        found: TimeView = await self._portal.awaited(lambda: self._behind().time.freeze())
        return found

    async def thaw(self) -> TimeView:
        """Let time run with the machine's."""
        found: TimeView = await self._portal.awaited(lambda: self._behind().time.thaw())
        return found

    async def advance(self, ms: int) -> TimeView:
        """Advance time at once; each deadline on the way is kept at its own time."""
        found: TimeView = await self._portal.awaited(lambda: self._behind().time.advance(ms))
        return found

    async def run_until(
        self,
        group: str | None = None,
        *,
        members: int | None = None,
        partitions: Topics = None,
        limit_ms: int = LIMIT_MS,
        settle_ms: int = SETTLE_MS,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> TimeView:
        """See `Time.run_until`."""
        allowed_ms = timeout_ms(timeout)
        found: TimeView = await self._portal.awaited(
            lambda: self._behind().run_until(
                group, members, partitions, limit_ms=limit_ms, settle_ms=settle_ms, timeout_ms=allowed_ms
            )
        )
        return found
