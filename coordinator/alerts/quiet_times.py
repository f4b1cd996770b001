"""Quiet times: when webhooks are not called. A quiet time is `22:00-06:00`, `Sat`, or `Sun 09:00-12:00`, in UTC."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MINUTE_MS: Final = 60_000
DAY: Final = 24 * 60
"""The minutes of a day."""
_FIRST_DAY: Final = 3
"""The 1st of January 1970 was a Thursday."""
_FORM: Final = re.compile(r"(?:(Mon|Tue|Wed|Thu|Fri|Sat|Sun) ?)?(?:(\d\d):(\d\d)-(\d\d):(\d\d))?")


class QuietTime(NamedTuple):
    """A time of a day of the week, in minutes. `day` None: each day.

    A time that ends before it begins ends on the next day.
    """

    day: int | None
    begin: int
    end: int

    def holds(self, day: int, minute: int) -> bool:
        """Whether this minute of this day is in the quiet time."""
        if self.end > self.begin:
            return self.day in (None, day) and self.begin <= minute < self.end
        is_before_midnight = minute >= self.begin and self.day in (None, day)
        is_after_midnight = minute < self.end and self.day in (None, (day - 1) % len(DAYS))
        return is_before_midnight or is_after_midnight


def quiet_time(text: str) -> QuietTime:
    """Read a quiet time. Raises ValueError."""
    found = _FORM.fullmatch(text.strip())
    if found is None or not found[0]:
        raise ValueError(f"'{text}' is no quiet time; expected: 22:00-06:00, Sat or Sun 09:00-12:00 (UTC)")
    day = None if found[1] is None else DAYS.index(found[1])
    if found[2] is None:
        return QuietTime(day, 0, DAY)
    begin, end = (int(found[at]) * 60 + int(found[at + 1]) for at in (2, 4))
    if begin >= DAY or end > DAY or begin == end:
        raise ValueError(f"'{text}' is no quiet time: a time from 00:00 to 24:00 was expected")
    return QuietTime(day, begin, end)


def is_quiet(times: Iterable[QuietTime], wall_ms: int) -> bool:
    """Whether this moment is in a quiet time."""
    days, minute = divmod(wall_ms // MINUTE_MS, DAY)
    return any(one.holds((days + _FIRST_DAY) % len(DAYS), minute) for one in times)
