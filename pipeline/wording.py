"""Times, numbers and counts as text. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from math import ceil, floor
from typing import Final

SECOND: Final = 1_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

NOT_KNOWN: Final = "–"


_SHARP_MS: Final = 50
"""If two bounds are no farther apart than this, the duration counts as measured."""
_NEAR_MS: Final = 20
"""The clocks of a broker's threads differ by up to this time."""


def duration(ms: float | None) -> str:
    """A duration in words: `350 ms`, `3.2 s`, `12 min`, `5 h 20 min`, `3 d 4 h`."""
    if ms is None:
        return NOT_KNOWN
    if ms < 0:
        return "-" + duration(-ms)
    if ms < SECOND:
        return f"{ms:.0f} ms"
    if ms < MINUTE:
        return f"{ms / SECOND:.1f} s".replace(".0 s", " s")
    if ms < HOUR:
        return _two(ms, MINUTE, "min", SECOND, "s") if ms < 10 * MINUTE else f"{ms / MINUTE:.0f} min"
    return _two(ms, HOUR, "h", MINUTE, "min") if ms < DAY else _two(ms, DAY, "d", HOUR, "h")


def span(likely_ms: float | None, least_ms: float | None, most_ms: float | None) -> str:
    """A duration with known bounds: `2.1 s`, or `0.1 to 3 s` if only the bounds are known.

    A duration that was not measured is given without milliseconds.
    """
    if likely_ms is None or least_ms is None or most_ms is None or most_ms - least_ms <= _SHARP_MS:
        return duration(likely_ms)
    if most_ms < MINUTE:
        if round(least_ms / SECOND, 1) == round(most_ms / SECOND, 1):
            return f"{round(most_ms / SECOND, 1):g} s"
        # the bounds are rounded outwards, because the range must include the true value
        least, most = (
            f"{tenths / 10:g}" for tenths in (floor((least_ms + _NEAR_MS) / 100), ceil((most_ms - _NEAR_MS) / 100))
        )
        return f"{least} to {most} s"
    least_s, most_s = floor(max(least_ms, 0) / SECOND), ceil(most_ms / SECOND)
    return f"{duration(least_s * SECOND)} to {duration(most_s * SECOND)}"


def to_the_second(ms: float | None) -> str:
    """A cost in words, to the second: `0 s`, `9.6 s`, `56 min 12 s`, `5 h 20 min 7 s`."""
    if ms is None or ms < 10 * MINUTE:
        return "0 s" if ms == 0 else duration(ms)
    left = round(ms / SECOND) * SECOND
    parts = []
    for size, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s")):
        count, left = divmod(left, size)
        parts += [f"{count} {name}"] if count else []
    return " ".join(parts)


def _two(ms: float, large: int, large_name: str, small: int, small_name: str) -> str:
    wholes, rest = divmod(round(ms / small), large // small)
    return f"{wholes} {large_name} {rest} {small_name}" if rest else f"{wholes} {large_name}"


def number(value: float | None) -> str:
    """A number with separators of thousands. A number below ten has one decimal."""
    if value is None:
        return NOT_KNOWN
    if isinstance(value, float) and not value.is_integer() and abs(value) < 10:
        return f"{value:.1f}"
    return f"{value:,.0f}"


def plural(count: int, one: str, many: str = "") -> str:
    """A count with its noun: `1 group`, `2 groups`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def moment(ms: int | None, *, day: bool = True, seconds: bool = True) -> str:
    """A time of the wall clock, UTC."""
    if ms is None:
        return NOT_KNOWN
    try:
        then = datetime.fromtimestamp(ms / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return f"{ms} ms"
    pattern = ("%Y-%m-%d " if day else "") + ("%H:%M:%S" if seconds else "%H:%M")
    return then.strftime(pattern)
