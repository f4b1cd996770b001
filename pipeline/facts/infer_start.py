"""An estimate of when the members of a group lost their work in an inferred rebalance. Pure.

The verdict's time comes from commits: those that stayed made none after they had been told to join again. That is good
if they commit often. If a minute lies between two commits, it says nothing; then the estimate is that members learn of
a rebalance by their next heartbeat.
"""

from __future__ import annotations

from muster.pipeline.defaults import HEARTBEAT_MS
from muster.pipeline.facts.infer import Verdict
from muster.pipeline.facts.infer_departures import EXPIRED
from muster.pipeline.facts.infer_evidence import State, survivors


def start_ms(before: State | None, after: State, verdict: Verdict) -> int:
    """When it began; no later than its join phase ended."""
    stayed = [] if before is None else survivors(before, after)
    if before is None or not stayed:
        return verdict.start_ms
    heartbeat_ms = heartbeat(before)
    usual_ms = before.usual_ms()
    if usual_ms is not None and usual_ms <= heartbeat_ms / 2:
        return verdict.start_ms
    if _waited(before, after, verdict):
        return verdict.start_ms
    # the last of n members, each of which hears of it at any time within a heartbeat
    heard_ms = heartbeat_ms * len(stayed) // (len(stayed) + 1)
    return max(after.joined_ms - heard_ms, before.at_ms)


def heartbeat(state: State) -> int:
    """How often the members of a state send heartbeats: as they do by default, or thrice a session, as they have to."""
    return min(HEARTBEAT_MS, *(member.session_timeout_ms // 3 for member in state.members))


def _waited(before: State, after: State, verdict: Verdict) -> bool:
    """Did more hold it up than heartbeats: the session of somebody who was dead, or attempts that failed?"""
    died = any(one.how == EXPIRED for one in verdict.gone)
    return (
        after.generation > before.generation + 1
        or any(one.in_join_phase for one in verdict.gone)
        or (died and verdict.joined > 0)
    )
