"""The time of a server, for tests. It follows the machine's time until a test freezes or moves it."""

from __future__ import annotations

from muster.testcontrol import checks
from muster.testcontrol.virtual_time import LIMIT_MS, SETTLE_MS, RanInVain, TimeView
from muster.testing.verbs import DEFAULT_TIMEOUT, Awaited, Blocking, Handle, Topics, verb, wait

__all__ = ["AsyncTime", "RanInVain", "Time", "TimeView"]


class _TimeVerbs(Handle):
    @verb
    def now(self) -> TimeView:
        """The server's time."""
        return self._behind().time.now()

    @verb
    def freeze(self) -> TimeView:
        """Freeze time until the test advances or thaws it."""
        return self._behind().time.freeze()

    @verb
    def thaw(self) -> TimeView:
        """Let time run at the speed of the machine's time."""
        return self._behind().time.thaw()

    @verb
    def advance(self, ms: int) -> TimeView:
        """Advance time immediately. Each deadline on the way is met at its own time."""
        return self._behind().time.advance(ms)

    @wait
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
        """Advance from deadline to deadline until this group is stable, as `wait_stable` defines that. `group` None:
        until no group is in a rebalance. Before each step, clients have `settle_ms` of the machine's time to act.
        `limit_ms`: of the server's time; `timeout`: in seconds of the machine's time. Raises RanInVain, an
        AssertionError.
        """
        timeout_ms = round(checks.seconds("timeout", timeout) * 1000)
        return self._behind().run_until(
            group, members, partitions, limit_ms=limit_ms, settle_ms=settle_ms, timeout_ms=timeout_ms
        )


class AsyncTime(_TimeVerbs, Awaited):
    """The same time for asynchronous tests."""


class Time(_TimeVerbs, Blocking):
    """The time that sessions, rebalance delays, retention and timeouts of transactions follow. A client's request
    counts at the time at which it arrives.
    """

    @property
    def aio(self) -> AsyncTime:
        """The same time for asynchronous tests."""
        return AsyncTime(self._bridge, self._behind)
