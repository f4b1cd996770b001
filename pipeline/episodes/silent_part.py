"""Finds the times in which a part of the groups gave no sign of life, while others went on.

Each broker coordinates some of the groups. If one broker is away, just its groups fall silent at one moment, and they
are back at one moment. Meanwhile the log has nothing of them, not even the end of a session. Pure.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from muster.pipeline.episodes import thresholds as limits
from muster.pipeline.episodes.silence import STEP_MS, Silence, silent_ms, with_losses

_LEAST_MS: Final = 30_000
"""A shorter time without a sign does no harm: no partition seems to stand still, and few sessions end."""
_BESIDE: Final = 25
"""This many gaps before and after show how long a group is usually silent."""
_FEW: Final = 8
"""Fewer gaps do not show how long a group is usually silent."""
_UNUSUAL: Final = 3
"""A silence of a group is this many times longer than the second longest of those gaps."""
_RAREST_MS: Final = 60_000
"""Groups that commit more rarely do not show at which moment they fell silent."""
_LEAST_GROUPS: Final = 2
_LEAST_SHARE: Final = 0.1
"""At least this share of the groups fell silent. With many groups, a few are silent at one moment by chance."""
_OTHERS: Final = 1
"""At least so many groups went on."""


class Part(NamedTuple):
    """A silence of some groups."""

    silence: Silence
    """Its `groups` are those that were silent."""
    only: tuple[int, ...]
    """The numbers of these groups."""


class _Gap(NamedTuple):
    """A long time without a sign of life of one group."""

    from_ms: int
    until_ms: int
    group: int
    usual_ms: int

    @property
    def last_ms(self) -> int:
        """The latest time at which its coordinator went away: the next commit would have come then."""
        return self.from_ms + self.usual_ms + STEP_MS


_Stays = Sequence[tuple[int, int | None]]


def silent_parts(
    signs: Iterable[Collection[int]], stays: Sequence[_Stays], whole: Sequence[Silence] = (), end_ms: int = 0
) -> list[Part]:
    """The silences of a part of the groups, in the order of time.

    `signs`, `stays`: of each group, the times of its signs of life, and when its members came and went. `whole`: the
    silences of all groups. `end_ms`: the end of the log, if it is later than all signs.
    """
    times = [sorted(set(one)) for one in signs]
    end_ms = max([end_ms, *(one[-1] for one in times if one)])
    found = sorted(
        gap
        for number, (own, its_stays) in enumerate(zip(times, stays, strict=True))
        for gap in _gaps(number, own, whole, end_ms)
        if _was_away(gap, its_stays, end_ms)
    )
    return sorted(_parts(found, times, stays, end_ms), key=lambda one: one.silence)


def _gaps(number: int, times: Sequence[int], whole: Sequence[Silence], end_ms: int) -> Iterator[_Gap]:
    """The unusually long gaps of one group, without silences of all groups. The last one may reach to the end."""
    spans = [(one, after) for one, after in pairwise(times) if not _is_whole(one, after, whole)]
    lengths = [until_ms - from_ms for from_ms, until_ms in spans]
    if times and end_ms - times[-1] >= limits.MINUTE and not _is_whole(times[-1], end_ms, whole):
        spans.append((times[-1], end_ms))
    for at, (from_ms, until_ms) in enumerate(spans):
        if until_ms - from_ms < _LEAST_MS:
            continue
        beside = sorted((*lengths[max(at - _BESIDE, 0) : at], *lengths[at + 1 : at + 1 + _BESIDE]))
        if len(beside) >= _FEW and beside[-2] <= min(_RAREST_MS, (until_ms - from_ms) // _UNUSUAL):
            yield _Gap(from_ms, until_ms, number, beside[-2])


def _is_whole(from_ms: int, until_ms: int, whole: Sequence[Silence]) -> bool:
    is_long = until_ms - from_ms >= limits.SILENCE_MS
    return is_long and 2 * silent_ms(whole, from_ms, until_ms) >= until_ms - from_ms


def _was_away(gap: _Gap, stays: _Stays, end_ms: int) -> bool:
    """Does nothing show that the group had a coordinator meanwhile?

    A coordinator ends the session of a member that is away, and a group without members does not commit.
    """
    is_open = gap.until_ms >= end_ms
    if any(end is not None and gap.from_ms + STEP_MS < end < gap.until_ms - STEP_MS for _, end in stays):
        return False
    there = any(start <= gap.from_ms and (end is None or end >= gap.until_ms - STEP_MS) for start, end in stays)
    return there or not (stays or is_open)


def _parts(
    gaps: Sequence[_Gap], times: Sequence[Sequence[int]], stays: Sequence[_Stays], end_ms: int
) -> Iterator[Part]:
    begins = [one.from_ms for one in gaps]
    used: set[_Gap] = set()
    for at, gap in enumerate(gaps):
        near = gaps[bisect_left(begins, gap.from_ms - _RAREST_MS - STEP_MS) : at + 1]
        some = [one for one in near if one not in used and one.last_ms >= gap.from_ms]
        after = gaps[at + 1] if at + 1 < len(gaps) else None
        if after is not None and all(one.last_ms >= after.from_ms for one in some):
            continue  # with the next gap there are more
        together = _back_together(some)
        part = _part(together, times, stays, end_ms)
        if part is not None:
            used.update(together)
            yield part


def _back_together(gaps: Sequence[_Gap]) -> list[_Gap]:
    """Those of the gaps that end at about the same moment. Some clients need half a minute until they are back."""
    least = {one: one.until_ms - one.usual_ms - limits.CONNECT_MS for one in gaps}
    begins, ends = sorted(least.values()), sorted(one.until_ms for one in gaps)
    most_ms = max(begins, key=lambda ms: bisect_right(begins, ms) - bisect_left(ends, ms), default=0)
    return [one for one in gaps if least[one] <= most_ms <= one.until_ms]


def _part(gaps: Sequence[_Gap], times: Sequence[Sequence[int]], stays: Sequence[_Stays], end_ms: int) -> Part | None:
    some = {one.group for one in gaps}
    if len(some) < _LEAST_GROUPS:
        return None
    from_ms, until_ms = max(one.from_ms for one in gaps), min(one.until_ms for one in gaps)
    if until_ms - from_ms < _LEAST_MS:
        return None
    silent = {number for number, own in enumerate(times) if not _has_any(own, from_ms, until_ms)}
    others = len(times) - len(silent)
    if others < _OTHERS or len(some) < _LEAST_SHARE * (len(some) + others):
        return None
    some |= {one for one in silent - some if _was_silent(times[one], stays[one], from_ms, until_ms, end_ms)}
    only = tuple(sorted(some))
    (silence,) = with_losses([Silence(from_ms, until_ms, len(only))], [stays[number] for number in only])
    return Part(silence, only)


def _was_silent(times: Sequence[int], stays: _Stays, from_ms: int, until_ms: int, end_ms: int) -> bool:
    """Was this group silent too, though it does not show just when? It commits rarely, or had lost a member before."""
    at = bisect_right(times, from_ms)
    last_ms = times[at - 1] if at else None
    back_ms = times[at] if at < len(times) else end_ms
    if last_ms is None or last_ms < from_ms - _RAREST_MS or back_ms > until_ms + _RAREST_MS:
        return False
    return _was_away(_Gap(last_ms, back_ms, 0, 0), stays, end_ms)


def _has_any(times: Sequence[int], from_ms: int, until_ms: int) -> bool:
    """Is one of the times between the two?"""
    at = bisect_right(times, from_ms)
    return at < len(times) and times[at] < until_ms
