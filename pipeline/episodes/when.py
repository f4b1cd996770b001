"""The times of claims in words. Pure."""

from __future__ import annotations

from typing import NamedTuple

from muster.pipeline.episodes import thresholds as limits
from muster.pipeline.wording import DAY, moment


class When(NamedTuple):
    """The times of one log."""

    end_ms: int
    """The end of the log."""
    first_ms: int | None = None
    """The start of the log; None: not known."""

    def is_over(self, from_ms: int, until_ms: int, times: int = 1) -> bool:
        """Is something that happened `times` times over: has it not happened again for long enough?"""
        usual_ms = (until_ms - from_ms) / max(times - 1, 1)
        overdue_ms = max(limits.MINUTE, limits.GOES_ON * usual_ms if times > 1 else 0)
        return self.end_ms - until_ms > min(overdue_ms, limits.AGAIN_MS)

    def between(self, from_ms: int, until_ms: int, times: int = 1) -> str:
        """A time in words: ` since 09:14`, or ` from 09:14 to 09:20` if it is over."""
        if until_ms - from_ms < limits.MINUTE:
            return self.at(from_ms)
        over = self.is_over(from_ms, until_ms, times)
        return self.from_to(from_ms, until_ms) if over else self.since(from_ms)

    def at(self, ms: int) -> str:
        """A time in words: ` at 09:14`."""
        return f" at {self.clock(ms)}"

    def since(self, ms: int) -> str:
        """The start of something that lasts, in words: ` since 09:14`."""
        return f" since {self.clock(ms)}"

    def from_to(self, from_ms: int, until_ms: int, *, seconds: bool = False) -> str:
        """A time that is over, in words: ` from 09:14 to 09:20`, or ` at 09:14` if it was short."""
        begin, end = self.clock(from_ms, seconds=seconds), self.clock(until_ms, from_ms, seconds=seconds)
        return f" from {begin} to {end}" if begin != end else f" at {begin}"

    def clock(self, ms: int, first_ms: int | None = None, *, seconds: bool = False) -> str:
        """A time as hours and minutes. It has seconds if the log is short, or if `seconds` is true.

        It has the day if it, or `first_ms`, is at least one day before the end of the log.
        """
        is_short = self.first_ms is not None and self.end_ms - self.first_ms < limits.SHORT_MS
        begin_ms = ms if first_ms is None else min(first_ms, ms)
        return moment(ms, day=self.end_ms - begin_ms >= DAY, seconds=is_short or seconds)
