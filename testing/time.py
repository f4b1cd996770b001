"""The time of a server, for tests: it follows the machine's until a test freezes or moves it."""

from __future__ import annotations

from muster.testcontrol import checks
from muster.testcontrol.virtual_time import LIMIT_MS, SETTLE_MS, RanInVain, TimeView
from muster.testing.verbs import DEFAULT_TIMEOUT, Awaited, Blocking, Handle, Topics, verb, wait

__all__ = ["AsyncTime", "RanInVain", "Time", "TimeView"]


class _TimeVerbs(Handle):
    @verb
    def now(self) -> TimeView:
        """The time."""
        return self._behind().time.now()

    @verb
    def freeze(self) -> TimeView:
        """Freeze time, until it is moved or thawed."""
        return self._behind().time.freeze()

    @verb
    def thaw(self) -> TimeView:
        """Let time run with the machine's."""
        return self._behind().time.thaw()

    @verb
    def advance(self, ms: int) -> TimeView:
        """Advance time at once; each deadline on the way is kept at its own time."""
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
        """Advance from deadline to deadline until this group is stable, as `wait_stable` defines it. Without a group:
        until no group is in a rebalance. Between two deadlines clients have `settle_ms` of the machine's time.
        `limit_ms`: of the server's time; `timeout`: seconds of the machine's. Raises RanInVain, an AssertionError.
        """
        timeout_ms = round(checks.seconds("timeout", timeout) * 1000)
        return self._behind().run_until(
            group, members, partitions, limit_ms=limit_ms, settle_ms=settle_ms, timeout_ms=timeout_ms
        )


class AsyncTime(_TimeVerbs, Awaited):
    """The same for asynchronous tests."""


class Time(_TimeVerbs, Blocking):
    """Sessions, rebalance delays, retention and timeouts of transactions follow it. Requests of clients count when they
    arrive.
    """

    @property
    def aio(self) -> AsyncTime:
        """The same for asynchronous tests."""
        return AsyncTime(self._bridge, self._behind)
