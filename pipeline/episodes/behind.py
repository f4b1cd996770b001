"""Is a group without other trouble far behind at the end of the log? Pure.

Such a group may be too slow, or stand still in a partition. If the log is too short to show that, the claim only
says what is unread, and for how long.
"""

from __future__ import annotations

from typing import Final

from muster.pipeline.episodes import thresholds as limits
from muster.pipeline.episodes.claims import BEHIND, LIKELY, Claim, Evidence, Facts, Last
from muster.pipeline.episodes.when import When
from muster.pipeline.wording import SECOND, duration, number, plural

_FEW: Final = 4
"""Fewer steps with a known lag do not show whether it falls."""
_FALLS: Final = 0.9
"""A lag that is at most this share of the lag a moment before falls."""


def behind(facts: Facts, when: When) -> Claim | None:
    """The claim that a group is behind. None: it is not, or it catches up, or nobody knows."""
    old = [one for one in facts.lags if _is_old(one, facts)]
    lag = sum(one.lag or 0 for one in old)
    read = [one for one in facts.lags if one.at_ms >= facts.end_ms - limits.MINUTE]
    if not old or 2 * lag < sum(one.lag or 0 for one in read) or not has_members(facts):
        return None
    if lag * 2 < _written_meanwhile(facts) * len(old) / len(facts.lags) or _falls(facts):
        return None
    since_ms = min(one.since_ms or 0 for one in old)
    owners = {one.owner for one in old}
    name = next(iter(owners)) if len(owners) == 1 and len({one.owner for one in facts.lags}) > 1 else None
    unread = f"{plural(lag, 'record')} of {plural(len(old), 'partition')}"
    age = duration(max((one.at_ms - (one.since_ms or 0)) for one in old))
    text = f"{name or 'the group'} is behind: {unread} unread at the end, some for {age}"
    who = tuple(f"{one.topic}-{one.partition}" for one in old)
    claim = Claim(BEHIND, text, who, since_ms, when.end_ms, LIKELY, advice="look whether this lag grows")
    return claim.proved_by([_row(one) for one in old])


def _is_old(one: Last, facts: Facts) -> bool:
    """Had the next record been there, unread, for BEHIND_MS when the partition was committed for the last time?

    A silence does not count, and after a silence a group has BACK_MS to catch up.
    """
    if not one.lag or one.since_ms is None or one.at_ms < facts.end_ms - limits.MINUTE:
        return False
    silent_ms = sum(max(min(until, one.at_ms) - max(since, one.since_ms), 0) for since, until in facts.silences)
    back_ms = max((until for _, until in facts.silences), default=0) + limits.BACK_MS
    return one.at_ms - one.since_ms - silent_ms >= limits.BEHIND_MS and one.at_ms >= back_ms


def has_members(facts: Facts) -> bool:
    """Does the group have members, or has it never had any?"""
    return not facts.stays or any(one.end_ms is None for one in facts.stays)


def _is_new(facts: Facts) -> bool:
    """Did all members join in the last BEHIND_MS?"""
    there = [one.start_ms for one in facts.stays if one.end_ms is None]
    return bool(there) and min(there) > facts.end_ms - limits.BEHIND_MS


def _written_meanwhile(facts: Facts) -> float:
    """How many records producers write in BEHIND_MS."""
    known = [one for one in facts.progress if one.written is not None]
    lasted_ms = sum(one.until_ms - one.start_ms for one in known)
    return sum(one.written or 0 for one in known) * limits.BEHIND_MS / max(lasted_ms, SECOND)


def _falls(facts: Facts) -> bool:
    """Is the lag smaller than a moment before? If too few lags are known, it may be.

    Members that have just joined have a lag that grew while nobody read. So it must still grow.
    """
    since_ms = facts.end_ms - 2 * limits.BEHIND_MS
    lags = [one.lag for one in facts.progress if one.lag is not None and one.until_ms > since_ms]
    half = len(lags) // 2
    if len(lags) < _FEW or (_is_new(facts) and lags[-1] < max(lags)):
        return True
    return max(lags[half:]) <= _FALLS * max(lags[:half])


def _row(one: Last) -> Evidence:
    return Evidence("lag", one.at_ms, f"{one.topic}-{one.partition}: {number(one.lag)} records behind")
