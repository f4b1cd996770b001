"""What each rebalance of a group teaches of its members: how they part, how soon they hear of the next one. Pure."""

from __future__ import annotations

from typing import Final

from muster.pipeline.facts.infer_departures import LEFT
from muster.pipeline.facts.infer_evidence import survivors
from muster.pipeline.facts.infer_habits import is_off_beat
from muster.pipeline.facts.infer_hearing import Hearing
from muster.pipeline.facts.infer_start import SOON_MS, Seen, start_of, waited_for

_CALM_MS: Final = 300
"""A leader that is not late syncs within this time."""


def with_parted(hearing: Hearing, one: Seen) -> Hearing:
    """Learn from the last commits of those that gave partitions up whether they part with one."""
    if one.before is None:
        return hearing
    gave_up = [gone.member for gone in one.verdict.gone if gone.how == LEFT]
    if not one.before.is_cooperative:
        gave_up += survivors(one.before, one.after)
    for member in gave_up:
        is_off = is_off_beat(one.before, member, one.habits)
        if is_off is not None:
            hearing = hearing.with_commit(is_off)
    return hearing


def with_hearing(hearing: Hearing, one: Seen) -> Hearing:
    """Learn from a rebalance how soon members are back, if it waited for nothing but those that stayed."""
    start = start_of(one, hearing)
    if one.before is None or start is None:
        return hearing
    stayed = survivors(one.before, one.after)
    if not stayed or waited_for(one.before, one.after, one.verdict):
        return hearing
    end_ms = one.after.joined_ms
    gap_ms, late_ms = end_ms - one.before.at_ms, one.after.at_ms - end_ms
    # if all had partitions to give up, none waited for its heartbeat
    if late_ms <= _CALM_MS and (gap_ms > SOON_MS or not one.verdict.is_second_round):
        hearing = hearing.with_gap(end_ms - one.before.joined_ms, gap_ms, late_ms)
    took_ms = end_ms - start.likely_ms
    # if it took that long, it was something else
    if not start.is_seen or took_ms > max(member.session_timeout_ms for member in stayed):
        return hearing
    return hearing if one.verdict.joined or one.verdict.is_second_round else hearing.with_delay(took_ms)
