"""The facts that contradict claims. A claim that a fact of the same tables contradicts is not made. Pure.

Each contradiction is a row of CONTRADICTIONS. If a claim names a weaker claim, that one is made instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from muster.pipeline.defaults import EPOCH_SESSION_MS
from muster.pipeline.episodes import model
from muster.pipeline.episodes import thresholds as limits
from muster.pipeline.episodes.claims import (
    LOCK_TOO_SHORT,
    POISON,
    STALLED,
    STOPPED,
    TOO_SLOW,
    Claim,
    Facts,
    Span,
    Stall,
)
from muster.pipeline.episodes.model import DEATHS


class Contradiction(NamedTuple):
    """A fact that contradicts claims of some rules."""

    name: str
    rules: frozenset[str]
    holds: Callable[[Claim, Facts], bool]
    """Whether the facts contradict the claim."""
    why: str


def made(claims: Iterable[Claim], facts: Facts) -> list[Claim]:
    """The claims that no fact contradicts. A weaker claim takes the place of a claim that a fact contradicts."""
    found = []
    for one in claims:
        kept: Claim | None = one
        while kept is not None and contradicted_by(kept, facts) is not None:
            kept = kept.weaker
        if kept is not None:
            found.append(kept)
    return found


def contradicted_by(claim: Claim, facts: Facts) -> Contradiction | None:
    """The first contradiction of a claim."""
    return next((one for one in CONTRADICTIONS if claim.rule in one.rules and one.holds(claim, facts)), None)


def stalls_of(claim: Claim, facts: Facts) -> list[Stall]:
    """The stalls that a claim describes."""
    who = set(claim.who)
    return [
        one for one in facts.stalled
        if one.name in who and claim.from_ms is not None and claim.until_ms is not None
        and one.from_ms >= claim.from_ms and one.end_ms(facts.end_ms) <= claim.until_ms
    ]  # fmt: skip


def _reads_in_turn(claim: Claim, facts: Facts) -> bool:
    """Do some of the partitions only wait for their turn, while the group reads on?

    A consumer that is too slow fetches from its partitions in turn. So each of them waits for the others, several times
    and for a short time.
    """
    mine = [one.span(facts.end_ms) for one in stalls_of(claim, facts) if one.is_short(facts.end_ms)]
    if not mine:
        return False
    from_ms, until_ms = min(mine)[0] - limits.RETURN_MS, max(end for _, end in mine)
    short = [one for one in facts.stalled if one.is_short(facts.end_ms)]
    some = [one for one in short if one.from_ms >= from_ms and one.end_ms(facts.end_ms) <= until_ms]
    from_ms = min(one.from_ms for one in some)
    stalled_ms = sum(one.lasted_ms(facts.end_ms) for one in some)
    share = stalled_ms / (len({one.place for one in some}) * (until_ms - from_ms))
    steps = [one for one in facts.progress if one.start_ms < until_ms and one.until_ms > from_ms]
    reads_on = bool(steps) and 2 * sum(bool(one.records) for one in steps) >= len(steps)
    return len(some) >= limits.LOOPS and share < _IN_TURN_SHARE and reads_on


_IN_TURN_SHARE: Final = 0.75


def _owner_is_behind(claim: Claim, facts: Facts) -> bool:
    """Is the owner of a partition busy with another partition, and far behind there too?

    Such an owner has too many records to read, and only waits to fetch from this partition. An owner that fails at one
    record reads all of its other partitions to their ends.
    """
    mine = stalls_of(claim, facts)
    return bool(mine) and all(_waits(one, facts) for one in mine)


def _waits(stall: Stall, facts: Facts) -> bool:
    if facts.end_ms - stall.end_ms(facts.end_ms) > limits.RETURN_MS:
        return False  # the lag at the end of the log says nothing about it
    recent_ms = _recent_ms(facts)
    still = {one.place for one in facts.stalled if one.until_ms is None or one.until_ms >= recent_ms}
    others = [one for one in facts.lags if one.owner == stall.owner and (one.topic, one.partition) not in still]
    busy = [one.lag or 0 for one in others if one.at_ms > recent_ms]
    return bool(stall.owner and stall.lag and busy) and limits.FAR_SHARE * max(busy) >= (stall.lag or 0)


def _recent_ms(facts: Facts) -> int:
    """A minute before the end of the log. A silence that touches this minute does not count."""
    recent_ms = facts.end_ms - limits.MINUTE
    for from_ms, until_ms in sorted(facts.silences, reverse=True):
        recent_ms -= until_ms - from_ms if until_ms >= recent_ms else 0
    return recent_ms


def _is_in_silence(claim: Claim, facts: Facts) -> bool:
    """Does the claim only describe a time in which no group of the cluster committed?"""
    if claim.from_ms is None or claim.until_ms is None:
        return False
    spans = [one.span(facts.end_ms) for one in stalls_of(claim, facts)] if claim.rule == STALLED else [
        (claim.from_ms, claim.until_ms)
    ]  # fmt: skip
    # members that are lost later were alive when the coordinator was back
    late_ms = limits.MOMENT_MS if claim.rule == STALLED else limits.LATE_MS
    return bool(spans) and all(any(_is_within(one, silence, late_ms) for silence in facts.silences) for one in spans)


def _is_within(span: Span, silence: Span, late_ms: int) -> bool:
    # what ended before the silence has another reason
    return silence[0] - limits.MOMENT_MS <= span[0] and silence[0] <= span[1] <= silence[1] + late_ms


def _came_back(claim: Claim, facts: Facts) -> bool:
    """Did a member come back that the claim reports as missing?"""
    if not claim.missing or claim.from_ms is None or claim.until_ms is None:
        return False
    until_ms = claim.until_ms
    later = [one for one in facts.stays if one.start_ms > until_ms]
    if claim.rule == model.STOP:
        return bool(later)
    lost = {
        one.who.slot for one in facts.stays
        if one.how in DEATHS and one.end_ms is not None and claim.from_ms <= one.end_ms <= until_ms
    }  # fmt: skip
    return any(one.who.slot in lost for one in later)


def _commits_go_on(claim: Claim, facts: Facts) -> bool:
    """Does the group still commit after its last member left?"""
    stopped_ms = claim.until_ms
    return stopped_ms is not None and any(
        one.commits and one.start_ms > stopped_ms + limits.MINUTE for one in facts.progress
    )


def _was_deleted(_: Claim, facts: Facts) -> bool:
    return facts.deleted_ms is not None


def _reads_nothing(claim: Claim, facts: Facts) -> bool:
    """Does a group that only seems too slow read nothing at all?"""
    from_ms = claim.from_ms or 0
    return not any(one.records for one in facts.progress if one.until_ms > from_ms)


def _has_caught_up(claim: Claim, facts: Facts) -> bool:
    """Does the last known lag contradict that the group falls behind?"""
    known = [one.lag for one in facts.progress if one.lag is not None and one.until_ms >= (claim.from_ms or 0)]
    return not known or known[-1] <= known[0]


def _stands_still(_: Claim, facts: Facts) -> bool:
    """Is most of the lag in partitions that stall? Then their owner does not read at all."""
    still = {one.place for one in facts.stalled if one.until_ms is None}
    unread = sum(one.lag or 0 for one in facts.lags if (one.topic, one.partition) in still)
    return unread > 0 and 2 * unread >= sum(one.lag or 0 for one in facts.lags)


def _most_fail(claim: Claim, facts: Facts) -> bool:
    """Do workers give up most records? Then it is not the record that fails."""
    if claim.from_ms is None or claim.until_ms is None:
        return False
    return facts.shares.done(claim.from_ms, claim.until_ms).fails


def _given_back(claim: Claim, facts: Facts) -> bool:
    """Do events say that the workers gave the records back, and that no lock was over?"""
    some = [one for one in facts.shares.deliveries if one.name in claim.who and one.held_ms is not None]
    return bool(some) and all(one.locks_over == 0 for one in some)


def _members_ended(claim: Claim, facts: Facts) -> bool:
    """Did members leave or die when most of the records were given back? Then their locks ended with them."""
    moments = sorted({ms for one in facts.shares.deliveries if one.name in claim.who for ms in one.ends})
    ends = sorted(one.end_ms for one in facts.stays if one.end_ms is not None)
    explained = 0
    for ms in moments:
        its = next((one for one in ends if -limits.LATE_MS <= one - ms <= EPOCH_SESSION_MS + limits.LATE_MS), None)
        if its is not None:
            # a member that ends gives its records back once
            ends.remove(its)
            explained += 1
    return 2 * explained > len(moments)


_LOST: Final = frozenset({model.DIED, model.STOP})
CONTRADICTIONS: Final = (
    Contradiction(
        "reads_in_turn", frozenset({STALLED}), _reads_in_turn, "the group reads on, from its partitions in turn"
    ),
    Contradiction(
        "owner_is_behind", frozenset({STALLED}), _owner_is_behind, "the owner is as far behind in other partitions"
    ),
    Contradiction(
        "silent_cluster", frozenset({STALLED, model.DIED, model.STOP, model.CRASH_LOOP, model.SLOW, model.FLAPPING}),
        _is_in_silence, "no group of the cluster committed at that time",
    ),
    Contradiction("came_back", _LOST, _came_back, "the member came back later"),
    Contradiction("commits_go_on", frozenset({STOPPED}), _commits_go_on, "the group still commits"),
    Contradiction("deleted", frozenset({STOPPED}), _was_deleted, "the group was deleted later"),
    Contradiction("reads_nothing", frozenset({TOO_SLOW}), _reads_nothing, "the group reads nothing"),
    Contradiction("stands_still", frozenset({TOO_SLOW}), _stands_still, "most of the lag is in partitions that stall"),
    Contradiction("most_fail", frozenset({POISON}), _most_fail, "the workers give up most records"),
    Contradiction(
        "members_ended", frozenset({LOCK_TOO_SHORT}), _members_ended, "members ended when the records were given back"
    ),
    Contradiction("given_back", frozenset({LOCK_TOO_SHORT}), _given_back, "the workers gave the records back"),
    Contradiction("caught_up", frozenset({TOO_SLOW}), _has_caught_up, "the group is no farther behind than before"),
)  # fmt: skip
"""All contradictions. A test has an example of each."""
