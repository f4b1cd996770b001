"""Finds the times in which no group gave a sign of life, though several groups did before and after.

Then the coordinator or the network was away. A commit and the join of a member are signs of life. The end of a session
is no sign: a coordinator ends sessions also while no client reaches it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from muster.pipeline.episodes import thresholds as limits

STEP_MS: Final = 2_000
"""Signs of life are counted in steps of this length."""
_STEPS: Final = 25
"""This many steps with a sign of life, before a silence, show how long the cluster is usually silent."""
_FEW: Final = 8
"""Fewer steps with a sign of life do not show how long the cluster is usually silent."""
_DENSE_MS: Final = 60_000
"""If _STEPS steps with a sign of life lie within this time, SILENCE_MS without a sign is not by chance."""
_LONGER: Final = 4
"""In other clusters, a silence is this many times longer than the second longest time without a sign before it."""
_NEAR_MS: Final = 300_000
"""Signs of life that are as near as a silence is long belong to it, up to this time."""
_THAWED_MS: Final = 200
"""A coordinator that goes on ends the first sessions within this time. One that is started again needs longer."""
_SEVERAL: Final = 2
"""One group may lose a member at that moment by chance."""
_GROUP_BITS: Final = 24


class Silence(NamedTuple):
    """A time without a sign of life of any group."""

    from_ms: int
    """The last sign of life before the silence."""
    until_ms: int
    """The first sign of life after the silence, or the end of the log."""
    groups: int
    """The number of groups that gave a sign of life shortly before and shortly after the silence.

    If the log ends with the silence, or soon after it, this counts the groups before it.
    """
    lost: int = 0
    """The number of groups that lost members at the end of the silence, at once."""

    @property
    def is_frozen(self) -> bool:
        """Whether the coordinator stood still: when it goes on, it ends sessions of several groups at once."""
        return self.lost >= _SEVERAL


def silences(signs: Iterable[Collection[int]], end_ms: int = 0) -> list[Silence]:
    """All silences, in the order of time. `signs`: the times of the signs of life of each group, in any order.

    `end_ms`: the end of the log, if it is later than all signs. A silence may last to the end of the log. If the log
    ends soon after a silence, the first group that is back shows the end of the silence.
    """
    coded = sorted({ms << _GROUP_BITS | number for number, times in enumerate(signs) for ms in times})
    gaps = [at for at, (one, after) in enumerate(pairwise(coded)) if _ms(after) - _ms(one) >= limits.SILENCE_MS]
    end_ms = max(end_ms, _ms(coded[-1]) if coded else 0)
    found: list[Silence] = []
    last = -1
    for first in gaps:
        from_ms, until_ms, least_ms = _ms(coded[first]), _ms(coded[first + 1]), _unusual_ms(coded, first)
        if first <= last or until_ms - from_ms < least_ms:
            continue
        # after a long absence, groups need longer until they are back
        near_ms = min(max(until_ms - from_ms, limits.MINUTE), _NEAR_MS)
        before = _groups(coded, range(first, -1, -1), from_ms, near_ms)
        after = _groups(coded, range(first + 1, len(coded)), until_ms, near_ms)
        common = len(before & after)
        if common < limits.AT_ONCE:
            # if the log ends soon, the other groups had no time to come back
            if end_ms >= until_ms + limits.BACK_MS // 2 or len(before) < limits.AT_ONCE or not common:
                continue
            common = len(before)
        last = _last_gap(coded, gaps, first, least_ms)
        lasted_ms = _ms(coded[last + 1]) - from_ms
        # at the start of a log, nothing shows how long the cluster is usually silent
        if lasted_ms >= limits.MINUTE or len(_steps(coded, first)) >= _FEW:
            found.append(Silence(from_ms, from_ms + lasted_ms, common))
    return [*found, *_to_the_end(coded, end_ms)]


def with_losses(some: Iterable[Silence], stays: Iterable[Sequence[tuple[int, int | None]]]) -> list[Silence]:
    """The silences, each with the number of groups that lost members at its end, at once.

    `stays`: when the members of each group came and went; None: they have not gone.
    """
    every = list(stays)
    return [one._replace(lost=sum(_lost_some(each, one) for each in every)) for one in some]


def _lost_some(stays: Sequence[tuple[int, int | None]], one: Silence) -> bool:
    return any(
        start_ms <= one.from_ms and end_ms is not None and abs(end_ms - one.until_ms) <= _THAWED_MS
        for start_ms, end_ms in stays
    )


def _to_the_end(coded: Sequence[int], end_ms: int) -> list[Silence]:
    """The silence with which the log ends, if there is one. Records in topics show that the log goes on."""
    if not coded or end_ms - _ms(coded[-1]) < max(limits.MINUTE, _unusual_ms(coded, len(coded) - 1)):
        return []
    from_ms = _ms(coded[-1])
    near_ms = min(end_ms - from_ms, _NEAR_MS)
    before = _groups(coded, range(len(coded) - 1, -1, -1), from_ms, near_ms)
    return [Silence(from_ms, end_ms, len(before))] if len(before) >= limits.AT_ONCE else []


def _ms(code: int) -> int:
    return code >> _GROUP_BITS


def _last_gap(coded: Sequence[int], gaps: Sequence[int], first: int, least_ms: int) -> int:
    """The last of the gaps that belong to the silence which begins with the gap `first`.

    Not all groups are back at once. So a later gap belongs to it too if only a few groups gave a sign between.
    """
    last = first
    for at in gaps[bisect_right(gaps, first) :]:
        between = coded[last + 1 : at + 1]
        is_long = _ms(coded[at + 1]) - _ms(coded[at]) >= least_ms
        if not is_long or _ms(between[-1]) - _ms(between[0]) > limits.MOMENT_MS or _count(between) >= limits.AT_ONCE:
            break
        last = at
    return last


def _count(coded: Iterable[int]) -> int:
    return len({code & ((1 << _GROUP_BITS) - 1) for code in coded})


def _groups(coded: Sequence[int], order: Iterable[int], at_ms: int, near_ms: int) -> set[int]:
    """The groups with a sign of life at most `near_ms` away from `at_ms`. `order`: the indexes from `at_ms` on."""
    found = set()
    for index in order:
        if abs(_ms(coded[index]) - at_ms) > near_ms:
            break
        found.add(coded[index] & ((1 << _GROUP_BITS) - 1))
    return found


def _unusual_ms(coded: Sequence[int], last: int) -> int:
    """A time without a sign after the sign `last` is a silence if it has at least this length."""
    steps = _steps(coded, last)
    if len(steps) > _STEPS and steps[0] - steps[-1] <= _DENSE_MS:
        return limits.SILENCE_MS
    gaps = sorted(later - earlier for later, earlier in pairwise(steps))
    usual_ms = gaps[-2] if len(gaps) > 1 else limits.MINUTE
    return max(limits.SILENCE_MS, _LONGER * usual_ms)


def _steps(coded: Sequence[int], last: int) -> list[int]:
    """The last steps up to the sign `last`, at most one more than _STEPS, the newest first. Each has a sign of life."""
    steps = [_ms(coded[last])]
    for index in range(last - 1, -1, -1):
        if _ms(coded[index]) // STEP_MS != steps[-1] // STEP_MS:
            steps.append(_ms(coded[index]))
            if len(steps) > _STEPS:
                break
    return steps


def silent_ms(some: Iterable[Silence], from_ms: int, until_ms: int) -> int:
    """The time from `from_ms` to `until_ms` that lies in silences."""
    return sum(max(min(one.until_ms, until_ms) - max(one.from_ms, from_ms), 0) for one in some)


def ended_by(
    some: Iterable[Silence], start_ms: int, heard_ms: int | None, end_ms: int, session_ms: int
) -> Silence | None:
    """The silence that ended the stay of a member from `start_ms` to `end_ms`, or None.

    `heard_ms`: the last commit of the member; None: it never committed. After a silence, sessions begin again, and a
    member has some time to join again.
    """
    for one in some:
        back_ms = one.until_ms + limits.BACK_MS
        if not one.from_ms <= end_ms <= back_ms + session_ms:
            continue
        if start_ms <= one.from_ms and (heard_ms is None or heard_ms <= one.from_ms):
            return one
        if one.from_ms < start_ms <= one.until_ms + limits.MOMENT_MS and heard_ms is None:
            return one  # the member joined when groups were not yet whole again
    return None
