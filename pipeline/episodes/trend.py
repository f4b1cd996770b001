"""Does a group fall behind, or catch up? Only a clear trend of the lag counts, with its uncertainty. Pure.

The slope is the median of the slopes between all pairs of steps (Theil and Sen). So a single odd step does not change
it. Its bounds are quantiles of the same slopes. The lag of a group that commits rarely goes up and down. Then the
smallest and the largest lags of the parts of the window show no trend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, combinations, pairwise
from math import ceil, sqrt
from statistics import mean, median
from typing import Final, NamedTuple

from muster.pipeline.episodes import thresholds as limits
from muster.pipeline.episodes.claims import Span, Step
from muster.pipeline.wording import number

_SURE: Final = 2.58
"""The bounds include the true slope with a probability of 99 %."""
_PARTS: Final = 4
"""The window is compared in this number of parts."""
_BURST: Final = 3
"""Producers write evenly if no step has more records than this many times the median."""
_FEW_COMMITS: Final = 3
"""An uneven trend needs this many steps with commits. Two are enough if a whole batch waited all the time."""
_CLEARLY: Final = 1.5
"""A lag after the last commits must grow by this many times what one step commits."""


class Trend(NamedTuple):
    """The change of a group's lag in a window of time. Rates are records per second."""

    from_ms: int
    until_ms: int
    rate: float
    """By how much the lag grows; it is negative if the lag shrinks."""
    least: float
    most: float
    read: float
    written: float
    lag: int
    """The lag at the end of the window."""

    def rate_words(self) -> str:
        """The rate at which the lag grows, with its bounds: `14 to 18 records/s`."""
        least, most = number(round(self.least)), number(round(self.most))
        return f"{least if least == most else f'{least} to {most}'} records/s"


class Closed(NamedTuple):
    """Steps without the times of silence: the later steps come sooner, and the lag goes on."""

    steps: list[Step]
    moved: dict[int, int]
    """By how much the end of each step is earlier than it was."""


def closed(steps: Sequence[Step], gaps: Sequence[Span]) -> Closed:
    """The steps without those in `gaps`. The lag after a gap begins with the lag before the gap.

    While the broker is away, nobody reads, and producers keep their records. So the gap itself shows no trend.
    """
    found, moved, by_ms, by_lag = list[Step](), dict[int, int](), 0, 0
    last: Step | None = None
    level: int | None = None
    is_after_gap = False
    for one in steps:
        if any(one.start_ms < until_ms and one.until_ms > from_ms for from_ms, until_ms in gaps):
            continue
        if last is not None and one.start_ms > last.until_ms:
            by_ms, is_after_gap = one.start_ms - found[-1].until_ms, level is not None
        if is_after_gap and one.lag is not None and level is not None:
            by_lag, is_after_gap = one.lag - level, False
        lag = None if one.lag is None else one.lag - by_lag
        level = level if lag is None else lag
        found.append(one._replace(start_ms=one.start_ms - by_ms, until_ms=one.until_ms - by_ms, lag=lag))
        moved[one.until_ms - by_ms], last = by_ms, one
    return Closed(found, moved)


def even(window: Sequence[Step]) -> Trend | None:
    """The trend of steps that differ little from a straight line; just after commits, if these are rare."""
    return _of(window) if _commits_often(window) else _of_rare(window)


Way = Callable[[Sequence[Step]], Trend | None]
"""How the trend of a window is found: `even` or `uneven`."""


def trend(steps: Sequence[Step], since_ms: int | None = None, of: Way = even) -> Trend | None:
    """The clear trend in the longest window that ends with the last step; None without a clear trend.

    The window does not begin before `since_ms`.
    """
    known = [one for one in steps if one.lag is not None and (since_ms is None or one.until_ms >= since_ms)]
    if not steps or not known or known[-1] is not steps[-1]:
        return None
    for size in _sizes(len(known)):
        window, before = known[-size:], known[:-size]
        found = of(window)
        # a lag that was as large before, and shrank again, may shrink again
        if found and (found.rate < 0 or found.lag > max((one.lag or 0 for one in before), default=0)):
            return found
    return None


def _commits_often(window: Sequence[Step]) -> bool:
    """Does the group commit in each eighth of the window? Between two commits, a lag only grows."""
    longest = steps = 0
    for one in window:
        steps = 0 if one.commits else steps + 1
        longest = max(longest, steps)
    return longest <= len(window) / limits.TREND_STEPS


def _sizes(count: int) -> Iterator[int]:
    size = float(count)
    while size >= limits.TREND_STEPS:
        yield ceil(size)
        size *= 0.75


def _of(window: Sequence[Step]) -> Trend | None:
    first, last = window[0], window[-1]
    times = [one.until_ms / limits.SECOND for one in window]
    lags = [float(one.lag or 0) for one in window]
    if times[-1] - times[0] < limits.TREND_MS / limits.SECOND:
        return None
    slopes = _slopes(times, lags)
    rate, (least, most) = median(slopes), _bounds(slopes, len(window))
    if least <= 0 <= most or not _is_steady(lags, 1 if rate > 0 else -1):
        return None
    seconds = times[-1] - times[0]
    level = median(lag - rate * time for lag, time in zip(lags, times, strict=True))
    strays = median(abs(lag - rate * time - level) for lag, time in zip(lags, times, strict=True))
    if abs(rate) * seconds < limits.TREND_CLEAR * strays:
        return None
    whole = list(accumulate(one.records or 0 for one in window))
    read = max(median(_slopes(times, whole)), 0.0)
    return Trend(first.until_ms, last.until_ms, rate, least, most, read, max(read + rate, 0.0), round(lags[-1]))


def _of_rare(window: Sequence[Step]) -> Trend | None:
    """The trend of a group that commits rarely and falls behind: the lag just after each commit grows steadily.

    Records that a member has read and not committed yet count as lag when another member commits. So two steps side by
    side may differ by more than the bounds of the slope.
    """
    after = [one for one in window if one.commits]
    span_ms = window[-1].until_ms - after[0].until_ms if after else 0
    if len(after) < limits.TREND_COMMITS or span_ms < limits.TREND_MS:
        return None
    lags = [float(one.lag or 0) for one in after]
    slopes = _slopes([one.until_ms / limits.SECOND for one in after], lags)
    least, most = _bounds(slopes, len(after))
    if min(other - one for one, other in pairwise(lags)) <= 0 or most > limits.TREND_COMMITS * least:
        return None
    first, last = after[0], after[-1]
    seconds = (last.until_ms - first.until_ms) / limits.SECOND
    rate = ((last.lag or 0) - (first.lag or 0)) / seconds
    read = sum(one.records or 0 for one in after[1:]) / seconds
    return Trend(first.until_ms, window[-1].until_ms, rate, least, most, read, read + rate, last.lag or 0)


def uneven(window: Sequence[Step]) -> Trend | None:
    """The trend of a group that falls behind, and takes all records that it finds at once, or commits rarely.

    Between two commits, the lag of a group that keeps up grows, too. But it grows by no more than a commit takes away.
    So only a larger growth counts. It is measured from the commits with the smallest lag to the last commits. If it is
    at least half as large there, it is measured to the end. Producers must write evenly: after a burst, a lag is large
    for some time, too.
    """
    at = [number for number, one in enumerate(window) if one.commits]
    begin = min(at, key=lambda number: window[number].lag or 0, default=0)
    at = [number for number in at if number >= begin]
    if not at or window[at[-1]].lag != max(window[one].lag or 0 for one in at):
        return None
    low = window[begin].lag or 0
    grown, largest = (window[at[-1]].lag or 0) - low, max((one.records or 0 for one in window[begin + 1 :]), default=0)
    if len(at) < _FEW_COMMITS and low < largest:
        return None
    found = _grown(window[begin : at[-1] + 1], largest, window[-1])
    if found is None and 2 * grown >= largest:
        found = _grown(window[begin:], round(_CLEARLY * largest), window[-1])
    return found


def _grown(shown: Sequence[Step], least: int, end: Step) -> Trend | None:
    """The trend if the lag grows by at least so many records."""
    first, last, later = shown[0], shown[-1], shown[1:]
    span_ms = last.until_ms - first.until_ms
    written = [one.written or 0 for one in later]
    lags, grown = [float(one.lag or 0) for one in shown], (last.lag or 0) - (first.lag or 0)
    if span_ms < limits.TREND_MS or max(written) > _BURST * median(written) or not 0 < least <= grown:
        return None
    size = len(lags) / _PARTS
    parts = [mean(lags[round(at * size) : round((at + 1) * size)]) for at in range(_PARTS)]
    if any(after <= before for before, after in pairwise(parts)):
        return None
    seconds = span_ms / limits.SECOND
    read, rate = sum(one.records or 0 for one in later) / seconds, grown / seconds
    stray = max(one.records or 0 for one in later) / seconds
    return Trend(first.until_ms, end.until_ms, rate, rate - stray, rate + stray, read, read + rate, end.lag or 0)


def _slopes(times: Sequence[float], values: Sequence[float]) -> list[float]:
    """The slopes between all pairs of values, the smallest first."""
    pairs = combinations(range(len(times)), 2)
    return sorted((values[b] - values[a]) / (times[b] - times[a]) for a, b in pairs if times[b] > times[a])


def _bounds(slopes: Sequence[float], count: int) -> tuple[float, float]:
    """The quantiles of all slopes that include the true slope with the probability of _SURE."""
    spread = _SURE * sqrt(count * (count - 1) * (2 * count + 5) / 18)
    low = max(int((len(slopes) - spread) / 2), 0)
    return slopes[low], slopes[len(slopes) - 1 - low]


def _is_steady(lags: Sequence[float], sign: int) -> bool:
    """Do the smallest and the largest lags of all parts of the window change in one direction?"""
    size = len(lags) / _PARTS
    parts = [lags[round(at * size) : round((at + 1) * size)] for at in range(_PARTS)]
    return all(sign * (pick(after) - pick(before)) > 0 for pick in (min, max) for before, after in pairwise(parts))


def behind_since(steps: Sequence[Step], found: Trend, gaps: Sequence[Span]) -> int:
    """When a group that falls behind last had at most one part in FAR_SHARE of its lag.

    A rebalance or a silence begins a new window, but the lag from before it remains. If the lag was larger before, and
    shrank, the group falls behind only since then. Steps in `gaps` do not count.
    """
    since_ms, low = found.from_ms, found.lag
    for one in reversed(steps):
        is_in_gap = any(from_ms <= one.start_ms and one.until_ms <= until_ms for from_ms, until_ms in gaps)
        if one.lag is None or one.until_ms > found.from_ms or is_in_gap:
            continue
        if one.lag > low + found.lag / limits.FAR_SHARE:
            break
        if one.lag <= low:
            since_ms, low = one.until_ms, one.lag
        if one.lag * limits.FAR_SHARE <= found.lag:
            break
    return since_ms


def members_needed(found: Trend, members: int) -> int:
    """How many members would read as fast as producers write, if each of them read as fast as now."""
    return ceil(found.written * members / found.read) if found.read > 0 else 0
