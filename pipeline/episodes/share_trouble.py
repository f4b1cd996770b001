"""What a verdict says about the deliveries of a share group. Pure.

It names poison records, locks that are too short for the work, and workers that hang or have no work. The state log
names no members. So a claim names a member only if this member alone had a partition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from muster.pipeline.episodes import thresholds as limits
from muster.pipeline.episodes.claims import (
    ALL_FAIL,
    LIKELY,
    LOCK_TOO_SHORT,
    NOT_DONE,
    PERHAPS,
    POISON,
    STARVED,
    STUCK,
    Claim,
    Evidence,
    Facts,
)
from muster.pipeline.episodes.share_facts import Delivery, Hold, Place, SharePartition
from muster.pipeline.episodes.when import When
from muster.pipeline.infer.share_deliveries import ACCEPTED, DEAD_LETTER, DISCARDED, WAITING
from muster.pipeline.wording import duration, number, plural


def share_troubles(facts: Facts, when: When) -> Iterator[Claim]:
    """The claims about all trouble that the deliveries show."""
    deliveries = facts.shares.deliveries
    if some := [one for one in deliveries if one.outcome == WAITING and one.deliveries >= limits.POISON_TIMES]:
        yield _not_done(some, when)
    failing = {(one.topic, one.partition): one for one in facts.shares.partitions if one.fails}
    given_up = [one for one in deliveries if _is_poison(one)]
    if some := [one for one in given_up if one.place not in failing]:
        yield _poison(some, facts, when)
    if some := [one for one in given_up if one.place in failing]:
        yield _fail_there(some, [failing[place] for place in sorted({one.place for one in some})], facts, when)
    late = [one for one in deliveries if one.outcome == ACCEPTED and (one.held_ms or 0) >= limits.LOCK_MS]
    over = [one for one in deliveries if one.outcome == ACCEPTED and one.locks_over]
    if sum(one.locks_over or 0 for one in over) >= limits.LOOPS:
        yield _lock_was_over(over, when)
    elif sum(one.moments for one in late) >= limits.LOOPS:
        yield _lock_too_short(late, when)
    yield from _workers(facts, when)


def _names(some: Sequence[Delivery]) -> tuple[str, ...]:
    return tuple(f"{topic}-{partition}" for topic, partition in sorted({one.place for one in some}))


def _of(names: Sequence[str], noun: str) -> str:
    """The only name, or the number of names."""
    return names[0] if len(names) == 1 else plural(len(names), noun)


def _span(some: Sequence[Delivery]) -> tuple[int, int]:
    return min(one.from_ms for one in some), max(one.until_ms for one in some)


def _which(some: Sequence[Delivery]) -> tuple[str, str]:
    """The records in words, and their verb."""
    one, records = some[0], sum(each.records for each in some)
    which = f"{number(one.first_offset)} of {one.name}"
    return (f"record {which}", "was") if records == 1 else (f"{plural(records, 'record')} (first {which})", "were")


def _count(some: Sequence[Delivery]) -> str:
    """How often the records were delivered, in words: `5`, `up to 5`."""
    most = max(one.deliveries for one in some)
    return number(most) if len({one.deliveries for one in some}) == 1 else f"up to {number(most)}"


def _row(one: Delivery) -> Evidence:
    return Evidence("deliveries", one.from_ms, delivery_words(one))


def delivery_words(one: Delivery) -> str:
    """What became of some records, in words."""
    where = f"{plural(one.records, 'record')} of {one.name} from {number(one.first_offset)} on"
    held = "" if one.held_ms is None else f", held for {duration(one.held_ms)} or longer"
    deliveries = plural(one.deliveries, "delivery", "deliveries")
    return f"{where}: {one.outcome.replace('_', ' ')} after {deliveries}{held}"


# ---- records that fail


def _is_poison(one: Delivery) -> bool:
    """Was the record delivered again and again, and then given up?

    Gaps of the log, which no client sees, are archived after one delivery, or with their neighbours. They never go to
    the dead-letter queue.
    """
    if one.outcome == DEAD_LETTER:
        return one.deliveries > 1
    return one.outcome == DISCARDED and one.deliveries >= limits.POISON_TIMES


def _poison(some: Sequence[Delivery], facts: Facts, when: When) -> Claim:
    from_ms, until_ms = _span(some)
    which, verb = _which(some)
    is_kept = all(one.outcome == DEAD_LETTER for one in some)
    end = "went to the dead-letter queue" if is_kept else f"{verb} archived"
    text = f"{which} {end} after {_count(some)} deliveries{when.from_to(from_ms, until_ms)}"
    advice = "look at this record, and at the logs of the workers"
    claim = Claim(
        POISON, text, _names(some), from_ms, until_ms,
        advice=advice if is_kept else f"{advice}; a dead-letter queue would keep it",
    ).proved_by([_row(one) for one in some])  # fmt: skip
    done = facts.shares.done(from_ms, until_ms)
    what = f"workers gave up {plural(done.archived, 'record')} and accepted {number(done.accepted)}"
    return claim._replace(weaker=_most_fail(some, f"{what}{when.from_to(done.start_ms, done.until_ms)}", facts))


def _fail_there(some: Sequence[Delivery], partitions: Sequence[SharePartition], facts: Facts, when: When) -> Claim:
    """The claim about partitions in which most records fail."""
    accepted, archived = sum(one.accepted for one in partitions), sum(one.archived for one in partitions)
    of = _of(_names(some), "partition")
    what = f"workers gave up {plural(archived, 'record')} of {of} and accepted {number(accepted)}"
    begin_ms, end_ms = min(one.first_ms for one in partitions), max(one.changed_ms or 0 for one in partitions)
    return _most_fail(some, f"{what}{when.from_to(begin_ms, end_ms)}", facts)


def _most_fail(some: Sequence[Delivery], what: str, facts: Facts) -> Claim:
    from_ms, until_ms = _span(some)
    is_on = facts.end_ms - until_ms <= limits.AGAIN_MS and facts.deleted_ms is None
    return Claim(
        ALL_FAIL, f"{what}: they fail at most records", _names(some), from_ms, until_ms, is_on=is_on,
        advice="look at the logs of the workers: not single records fail, but the work",
    ).proved_by([_row(one) for one in some])  # fmt: skip


def _not_done(some: Sequence[Delivery], when: When) -> Claim:
    from_ms, until_ms = _span(some)
    which, verb = _which(some)
    are = "is" if verb == "was" else "are"
    text = f"{which} {verb} delivered {_count(some)} times{when.since(from_ms)}, and {are} not done"
    return Claim(
        NOT_DONE, text, _names(some), from_ms, until_ms, is_on=True,
        advice="look at this record, and at the logs of the workers",
    ).proved_by([_row(one) for one in some])  # fmt: skip


# ---- locks


_LONGER: Final = "set a longer share.record.lock.duration.ms for the group, or take fewer records in one poll"


def _lock_was_over(some: Sequence[Delivery], when: When) -> Claim:
    """The claim about locks that were over, as events say, though the work could be done."""
    from_ms, until_ms = _span(some)
    records, times = sum(one.records for one in some), sum(one.locks_over or 0 for one in some)
    text = (
        f"the lock of {plural(records, 'accepted record')} of {_of(_names(some), 'partition')} was over "
        f"{plural(times, 'time')}{when.between(from_ms, until_ms)}: it is too short"
    )
    return Claim(
        LOCK_TOO_SHORT, text, _names(some), from_ms, until_ms, LIKELY, advice=_LONGER
    ).proved_by([_row(one) for one in some])  # fmt: skip


def _lock_too_short(some: Sequence[Delivery], when: When) -> Claim:
    from_ms, until_ms = _span(some)
    records, moments = sum(one.records for one in some), sum(one.moments for one in some)
    text = (
        f"{plural(records, 'accepted record')} of {_of(_names(some), 'partition')} were available again "
        f"{plural(moments, 'time')}{when.between(from_ms, until_ms)}: perhaps the lock is too short"
    )
    return Claim(
        LOCK_TOO_SHORT, text, _names(some), from_ms, until_ms, PERHAPS,
        advice=_LONGER,
    ).proved_by([_row(one) for one in some])  # fmt: skip


# ---- workers without work


class _Idle(NamedTuple):
    """A member that alone had a partition in which no record was done."""

    hold: Hold
    partition: SharePartition
    from_ms: int
    until_ms: int
    is_last: bool
    """Whether no record was done since."""

    @property
    def who(self) -> str:
        return self.hold.client or self.hold.member_id

    @property
    def took_records(self) -> bool:
        """Did a delivery end meanwhile, so that the member surely had records?"""
        changed_ms = self.partition.changed_ms
        return changed_ms is not None and self.from_ms < changed_ms <= self.until_ms

    @property
    def hangs(self) -> bool:
        """Has the member perhaps stopped in the midst of its work? Records may have come just now."""
        lag = self.partition.lag or 0
        return self.is_last and lag > 0 and (self.took_records or lag >= limits.STARVED_RECORDS)


def _workers(facts: Facts, when: When) -> Iterator[Claim]:
    idle = _idle(facts)
    stuck = [one for one in idle if one.hangs]
    if stuck:
        yield _stuck(stuck, when)
    starved = [one for one in idle if not one.took_records and not one.partition.lag and _is_starved(one, idle, facts)]
    if starved:
        yield _starved(starved, facts, when)


def _idle(facts: Facts) -> list[_Idle]:
    shares = facts.shares
    partitions = {(one.topic, one.partition): one for one in shares.partitions}
    holds: Mapping[Place, list[Hold]] = defaultdict(list)
    for hold in shares.holds:
        holds[hold.topic, hold.partition].append(hold)
    found = []
    for place, partition in partitions.items():
        for at, span in enumerate(partition.idle(facts.end_ms)):
            for hold in holds[place] if span[1] - span[0] >= limits.STARVED_MS else ():
                if _common_ms(hold, span, facts.end_ms) < limits.STARVED_MS:
                    continue
                from_ms, until_ms = _alone(hold, holds[place], span, facts.end_ms)
                is_long = until_ms - from_ms >= limits.STARVED_MS
                if is_long and _others_did(facts, from_ms, until_ms) >= limits.STARVED_RECORDS:
                    found.append(_Idle(hold, partition, from_ms, until_ms, is_last=at == 0))
    return sorted(found, key=lambda one: (one.from_ms, one.hold.name, one.hold.member_id))


def _common_ms(hold: Hold, span: tuple[int, int], end_ms: int) -> int:
    """How long a member had its partition within a time."""
    return min(span[1], end_ms if hold.until_ms is None else hold.until_ms) - max(span[0], hold.from_ms)


def _alone(hold: Hold, some: Sequence[Hold], span: tuple[int, int], end_ms: int) -> tuple[int, int]:
    """The longest part of a time in which this member alone had the partition."""
    begin, end = max(span[0], hold.from_ms), min(span[1], end_ms if hold.until_ms is None else hold.until_ms)
    best = (begin, begin)
    others = sorted(
        (one.from_ms, end_ms if one.until_ms is None else one.until_ms)
        for one in some
        if one.member_id != hold.member_id
    )
    for from_ms, until_ms in (*others, (end, end)):
        best = max(best, (begin, min(from_ms, end)), key=lambda one: one[1] - one[0])
        begin = max(begin, until_ms)
    return best


def _others_did(facts: Facts, from_ms: int, until_ms: int) -> int:
    """How many records the group accepted within this time."""
    return sum(one.accepted for one in facts.shares.steps if from_ms <= one.start_ms and one.until_ms <= until_ms)


def _is_starved(one: _Idle, idle: Sequence[_Idle], facts: Facts) -> bool:
    """Did the member have nothing to do for half of its time, in all partitions that it had?"""
    whole = facts.first_ms or 0, facts.end_ms
    if 2 * (one.until_ms - one.from_ms) < _common_ms(one.hold, whole, facts.end_ms):
        return False
    mine = {(each.hold.topic, each.hold.partition) for each in idle if each.hold.member_id == one.hold.member_id}
    had = {
        (hold.topic, hold.partition) for hold in facts.shares.holds
        if hold.member_id == one.hold.member_id and hold.from_ms < one.until_ms
        and (hold.until_ms is None or hold.until_ms > one.from_ms)
    }  # fmt: skip
    return had <= mine


def _places(some: Sequence[_Idle]) -> list[str]:
    return list(dict.fromkeys(one.hold.name for one in some))


def _idle_row(one: _Idle) -> Evidence:
    return Evidence("ownership", one.hold.from_ms, f"{one.who} alone had {one.hold.name}; nothing was done there")


def _stuck(some: Sequence[_Idle], when: When) -> Claim:
    from_ms, until_ms = min(one.from_ms for one in some), max(one.until_ms for one in some)
    who = tuple(dict.fromkeys(one.who for one in some))
    places = {(one.hold.topic, one.hold.partition): one for one in some}
    lag = sum(one.partition.lag or 0 for one in places.values())
    alone = f"{'it alone has' if len(who) == 1 else 'they alone have'} {_of(_places(some), 'partition')}"
    waits = f"where {plural(lag, 'record')} {'waits' if lag == 1 else 'wait'} and none was done"
    text = f"{_of(who, 'worker')} perhaps {'hangs' if len(who) == 1 else 'hang'}: {alone}, {waits}"
    is_on = any(one.took_records and one.hold.until_ms is None for one in some)
    return Claim(
        STUCK, f"{text}{when.between(from_ms, until_ms)}", who, from_ms, until_ms, PERHAPS, is_on=is_on,
        advice=f"look what {_of(who, 'worker')} waits for" if len(who) == 1 else "look what these workers wait for",
    ).proved_by([_idle_row(one) for one in some])  # fmt: skip


def _starved(some: Sequence[_Idle], facts: Facts, when: When) -> Claim:
    from_ms, until_ms = min(one.from_ms for one in some), max(one.until_ms for one in some)
    who = tuple(dict.fromkeys(one.who for one in some))
    # the end of the log shows that nothing had come; earlier, nobody knows when records came
    is_known = all(one.partition.lag == 0 and one.until_ms >= facts.end_ms - limits.MINUTE for one in some)
    did = number(_others_did(facts, from_ms, until_ms))
    had = f"{_of(who, 'worker')} {'' if is_known else 'perhaps '}had no work{when.between(from_ms, until_ms)}"
    alone = f"{'it' if len(who) == 1 else 'they'} alone had {_of(_places(some), 'partition')}"
    text = f"{had}: {alone}, and others did {did} records"
    return Claim(
        STARVED, text, who, from_ms, until_ms, LIKELY if is_known else PERHAPS,
        advice="spread the records over all partitions, or run fewer workers",
    ).proved_by([_idle_row(one) for one in some])  # fmt: skip
