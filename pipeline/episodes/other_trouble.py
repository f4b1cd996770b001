"""What a verdict mentions besides rebalances: stalled partitions, commits that went back, and groups that are too slow.

Also members with different topics, skipped records, and a clock that went back. Pure. docs/pipeline-episodes.md has the
rules.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from muster.pipeline.episodes import thresholds as limits
from muster.pipeline.episodes.applications import Together
from muster.pipeline.episodes.behind import has_members
from muster.pipeline.episodes.claims import (
    CLOCK,
    LIKELY,
    PERHAPS,
    SECOND_APPLICATION,
    SILENCE,
    SKIP,
    STALLED,
    TOO_SLOW,
    TWO_TOPICS,
    ZOMBIE,
    Back,
    Claim,
    Evidence,
    Facts,
    Fall,
    Last,
    Skip,
    Stall,
    Step,
)
from muster.pipeline.episodes.model import DEATHS, LEFT, Rebalance, Stay
from muster.pipeline.episodes.share_trouble import share_troubles
from muster.pipeline.episodes.stream_trouble import stream_troubles
from muster.pipeline.episodes.trend import Trend, Way, behind_since, closed, even, members_needed, trend, uneven
from muster.pipeline.episodes.when import When
from muster.pipeline.wording import MINUTE, SECOND, duration, number, plural

_ON_PURPOSE: Final = {
    "reset": ("reset of offsets", "resets of offsets"),
    "deleted": ("new start without offsets", "new starts without offsets"),
    "topic_recreated": ("new start in a topic made anew", "new starts in topics made anew"),
    "rewind": ("rewind",),
    "unknown": ("step back", "steps back"),
}
_NAMED: Final = 3


def troubles(facts: Facts, when: When) -> list[Claim]:
    """The claims about all trouble that the commits show, the worst first."""
    still = [one for one in facts.stalled if one.until_ms is None]
    over = [one for one in facts.stalled if one.until_ms is not None]
    found = [_without_short_ones(_stalls_now, still, when)] if still else []
    found += _too_slow(facts, when)
    for cause, words_of in _WORDS.items():
        some = [one for one in facts.back if one.cause == cause]
        if some:
            from_ms, until_ms = min(one.from_ms for one in some), max(one.until_ms for one in some)
            words = words_of(len(some), sum(one.commits for one in some)) + when.between(from_ms, until_ms)
            is_on = facts.end_ms - until_ms <= limits.AGAIN_MS
            claim = Claim(cause, words, (), from_ms, until_ms, LIKELY, is_on=is_on, advice=_ADVICE[cause])
            found.append(claim.proved_by([_back_row(one) for one in some]))
    if over:
        found.append(_without_short_ones(_stalled_before, over, when))
    if facts.together is not None:
        found.append(_two_topics(facts.together, when))
    if skips := [one for one in facts.skips if one.client is None and _is_by_tool(one, facts)]:
        found.append(_skipped(skips, when))
    if skips := [one for one in facts.skips if one.client is not None and not _is_just_back(one, facts)]:
        found.append(_skipped(skips, when))
    found += share_troubles(facts, when)
    found += stream_troubles(facts, when)
    return sorted(found, key=lambda one: not one.is_on)


def on_purpose(back: Sequence[Back]) -> list[str]:
    """The incidents that somebody wanted, as in `1 reset of offsets` or `2 rewinds`."""
    counted = Counter(one.cause for one in back)
    return [plural(counted[cause], *words) for cause, words in _ON_PURPOSE.items() if counted[cause]]


# ---- partitions that stall


def _without_short_ones(make: Callable[[Sequence[Stall], When], Claim], some: Sequence[Stall], when: When) -> Claim:
    """The claim about stalls. Its weaker claim does not count short ones: perhaps the partitions waited in turn."""
    long = [one for one in some if not one.is_short(when.end_ms)]
    return make(some, when)._replace(weaker=make(long, when) if long and len(long) < len(some) else None)


def _stalls_now(some: Sequence[Stall], when: When) -> Claim:
    since_ms, places = min(one.from_ms for one in some), _named(some)
    lag = sum(one.lag or 0 for one in some)
    behind = f", {plural(lag, 'record')} behind" if lag else ""
    since = when.since(since_ms)
    claim = Claim(STALLED, "", places, since_ms, when.end_ms, is_on=True)
    owner, one = _only_owner(some), some[0]
    if _has_one_owner(some) and all(map(_repeats, some)):
        behind = behind if len(places) == 1 else ""
        text = f"{owner or 'a member'} commits {_same_offset(some)} again and again{since}{behind}"
        claim = claim._replace(
            text=f"{text}: perhaps {_a_record(places)} fails", confidence=PERHAPS,
            advice=f"look at record {number(one.offset)} of {one.name}, and at {_log_of(owner)}",
        )  # fmt: skip
    else:
        at = f" at offset {number(one.offset)}" if len(places) == 1 and one.offset is not None else ""
        names = _places(some, with_offsets=len(places) > 1)
        text = f"{names} {'stands' if len(places) == 1 else 'stand'} still{at}{since}{behind}"
        whose = f" (owner {owner})" if owner else ""
        look = f"look at {owner}, which owns {'it' if len(places) == 1 else 'them'}" if owner else None
        claim = claim._replace(text=f"{text}{whose}", advice=look)
    return claim.proved_by([_stall_row(one, when) for one in some])


def _stalled_before(some: Sequence[Stall], when: When) -> Claim:
    from_ms, until_ms = min(one.from_ms for one in some), max(one.until_ms or 0 for one in some)
    places, owner = _named(some), _only_owner(some)
    at_once = len(some) == len(places) and max(one.from_ms for one in some) < min(one.until_ms or 0 for one in some)
    log, one = _log_of(owner), some[0]
    look = f"look in {log} at {when.clock(from_ms)} why nothing was read"
    claim = Claim(STALLED, "", places, from_ms, until_ms, advice=look)
    if at_once and _has_one_owner(some) and all(map(_repeats, some)):
        text = f"{owner or 'a member'} committed {_same_offset(some)} again and again{when.from_to(from_ms, until_ms)}"
        look = f"look at record {number(one.offset)} of {one.name}, and at {log} then"
        claim = claim._replace(text=f"{text}: perhaps {_a_record(places)} failed", confidence=PERHAPS, advice=look)
    elif at_once:
        claim = claim._replace(text=f"{_places(some)} stood still{when.from_to(from_ms, until_ms)}")
    else:
        longest = duration(max(one.lasted_ms(when.end_ms) for one in some))
        span = f"between {when.clock(from_ms)} and {when.clock(until_ms, from_ms)}"
        times = f"{plural(len(some), 'time')}, for at most {longest}, {span}"
        claim = claim._replace(text=f"{_places(some)} stood still {times}")
    return claim.proved_by([_stall_row(one, when) for one in some])


def _only_owner(some: Sequence[Stall]) -> str | None:
    """The client id of the member that owns all of these partitions; None: there are several, or nobody knows."""
    return some[0].owner if _has_one_owner(some) else None


def _has_one_owner(some: Sequence[Stall]) -> bool:
    """In a log that begins in mid-life, nobody knows who this owner is."""
    return len({one.owner for one in some}) == 1


def _log_of(owner: str | None) -> str:
    return f"the log of {owner}" if owner else "the logs of its members"


def _same_offset(some: Sequence[Stall]) -> str:
    """The offset that is committed again and again, and its partition. Of several partitions, the first one."""
    one, others = some[0], len(_named(some)) - 1
    also = f" (and {number(others)} more)" if others else ""
    return f"offset {number(one.offset)} of {one.name}{also}"


def _a_record(places: Sequence[str]) -> str:
    return "one record" if len(places) == 1 else "a record"


def _repeats(one: Stall) -> bool:
    """Does the owner commit the same offset again and again?"""
    return one.status == "STALL" and one.offset is not None


def _named(some: Iterable[Stall]) -> tuple[str, ...]:
    return tuple(f"{topic}-{partition}" for topic, partition in sorted({one.place for one in some}))


def _places(some: Sequence[Stall], *, with_offsets: bool = False) -> str:
    """The names of the partitions, as in `orders-3 and orders-5`. If there are many, their number and some names.

    `with_offsets`: the names have the committed offsets, unless there are many.
    """
    names: Sequence[str] = _named(some)
    if with_offsets and len(names) < _NAMED:
        at = {one.name: f"{one.name} at offset {number(one.offset)}" for one in some if one.offset is not None}
        names = [at.get(name, name) for name in names]
    if len(names) > _NAMED:
        return f"{plural(len(names), 'partition')} ({', '.join(names[: _NAMED - 1])} and others)"
    return " and ".join(names) if len(names) < _NAMED else f"{', '.join(names[:-1])} and {names[-1]}"


def _stall_row(one: Stall, when: When) -> Evidence:
    at = "" if one.offset is None else f" at offset {number(one.offset)}"
    lag = "" if one.lag is None else f", {plural(one.lag, 'record')} behind"
    owner = f", owner {one.owner}" if one.owner else ""
    lasted = "to the end" if one.until_ms is None else f"for {duration(one.lasted_ms(when.end_ms))}"
    return Evidence("stalls", one.from_ms, f"{one.name}{at} {lasted}{lag}{owner}")


# ---- groups that are too slow


def _too_slow(facts: Facts, when: When) -> Iterator[Claim]:
    found = _trend(facts) if has_members(facts) else None
    if found is None or found.rate <= 0 or not _is_far_behind(found, facts.lags):
        return
    unread = sum(one.lag or 0 for one in _given_up(facts.lags, (found.from_ms + found.until_ms) // 2))
    if 2 * unread > sum(one.lag or 0 for one in facts.lags):
        return  # most of the lag is in partitions that the group does not read at all
    from_ms = behind_since(facts.progress, found, facts.silences)
    since = when.since(from_ms)
    of = f"{number(round(found.read))} of {number(round(found.written))} records/s"
    slow = _slow_member(facts.lags)
    what = f"{slow or 'the group'} falls behind at {found.rate_words()}{since}"
    text = f"{what}: {'the group' if slow else 'it'} reads {of}"
    advice = f"look why {slow} reads more slowly than the other members" if slow else _more(facts, found)
    steps = [one for one in facts.progress if one.until_ms > from_ms]
    who = (slow,) if slow else ()
    claim = Claim(TOO_SLOW, text, who, from_ms, found.until_ms, LIKELY, is_on=True, advice=advice)
    yield claim.proved_by([_step_row(one) for one in steps])


def _trend(facts: Facts) -> Trend | None:
    """The trend since the last change of members, or since the last silence; else the trend across silences."""
    changed = [one.end_ms for one in facts.rebalances if one.members_before != one.members_after]
    begins = [*changed, *(until_ms for _, until_ms in facts.silences)]
    for of in (even, uneven):
        found = trend(facts.progress, max(begins, default=None), of) or _across_silences(facts, changed, of)
        if found is not None:
            return found
    return None


def _given_up(lags: Sequence[Last], since_ms: int) -> list[Last]:
    """The partitions that the group does not read any more.

    A group that is too slow reads its partitions in turn. Then it is as far behind in those that it reads now.
    """
    now: dict[str, int] = defaultdict(int)
    for one in lags:
        if one.at_ms >= since_ms:
            now[one.topic] = max(now[one.topic], one.lag or 0)
    return [one for one in lags if one.at_ms < since_ms and limits.FAR_SHARE * now[one.topic] < (one.lag or 0)]


def _across_silences(facts: Facts, changed: Sequence[int], of: Way) -> Trend | None:
    """The trend before and after silences, if the group then had as many members as before them.

    Before a silence at the beginning of the log nothing is known. So the trend begins after it.
    """
    begin_ms = min((one.start_ms for one in facts.progress), default=0)
    gaps = [(from_ms, _whole_ms(facts, until_ms)) for from_ms, until_ms in facts.silences if from_ms >= begin_ms]
    known = sorted((one.end_ms, one.members_after) for one in facts.rebalances)
    others = [one for one in changed if not any(from_ms <= one <= until_ms for from_ms, until_ms in gaps)]
    others += [until_ms for from_ms, until_ms in facts.silences if from_ms < begin_ms]
    for from_ms, until_ms in gaps:
        counts = [[count for ms, count in known if ms <= at_ms][-1:] for at_ms in (from_ms, until_ms)]
        others += [until_ms] if counts[0] != counts[1] else []
    since_ms = max(others, default=0)
    steps = [one for one in facts.progress if one.until_ms >= since_ms]
    joined = closed(steps, gaps)
    found = trend(joined.steps, None, of)
    if found is None:
        return None
    from_ms, until_ms = (ms + joined.moved.get(ms, 0) for ms in (found.from_ms, found.until_ms))
    return found._replace(from_ms=from_ms, until_ms=until_ms, lag=steps[-1].lag or 0)


def _whole_ms(facts: Facts, until_ms: int) -> int:
    """When the last of the rebalances ended that follow a silence."""
    some = [one.end_ms for one in facts.rebalances if until_ms <= one.end_ms <= until_ms + limits.BACK_MS]
    return max(some, default=until_ms)


def _is_far_behind(found: Trend, lags: Sequence[Last]) -> bool:
    """Is the group behind by as many records as producers write in BEHIND_MS?

    If only one of its members is too slow, the lag of the group is small. Then the oldest unread records count.
    """
    if found.lag >= found.written * limits.BEHIND_MS / SECOND:
        return True
    old = sum(one.lag or 0 for one in lags if (one.behind_ms or 0) >= limits.BEHIND_MS)
    return old > 0 and 2 * old >= sum(one.lag or 0 for one in lags)


def _slow_member(lags: Sequence[Last]) -> str | None:
    """The client id of the only member that is behind; None: others are behind too."""
    behind: dict[str, int] = defaultdict(int)
    for one in lags:
        if one.owner is not None:
            behind[one.owner] += one.lag or 0
    slowest = max(behind, key=lambda name: behind[name], default="")
    is_alone = len(behind) > 1 and behind[slowest] >= limits.SLOW_ALONE * sum(behind.values())
    return slowest if is_alone else None


def _more(facts: Facts, found: Trend) -> str | None:
    """How many members would keep up."""
    last = max(facts.rebalances, key=lambda one: one.end_ms, default=None)
    if last is None or not last.members_after or not found.read:
        return None
    needed = max(members_needed(found, last.members_after), last.members_after + 1)
    if last.partitions and needed > last.partitions:
        return f"{needed:,} members would keep up, but the group has only {plural(last.partitions, 'partition')}"
    return f"{needed:,} members would keep up (now {last.members_after:,})"


def _step_row(one: Step) -> Evidence:
    lag = "not known" if one.lag is None else number(one.lag)
    return Evidence("progress", one.start_ms, f"{number(one.records)} records read, {lag} behind")


# ---- commits that went back


def _second(_: int, commits: int) -> str:
    return f"a second application commits under the same group id ({plural(commits, 'commit')} went back)"


def _zombie(times: int, _: int) -> str:
    again = "" if times == 1 else f" ({plural(times, 'time')})"
    return f"a former owner still committed after its partitions had gone to another member{again}"


def _back_row(one: Back) -> Evidence:
    return Evidence("regressions", one.from_ms, f"{plural(one.commits, 'commit')} went back: {one.cause}")


_WORDS: Final[dict[str, Callable[[int, int], str]]] = {SECOND_APPLICATION: _second, ZOMBIE: _zombie}
_ADVICE: Final = {
    SECOND_APPLICATION: "give the two applications different group ids",
    ZOMBIE: "let the former owner commit before its partitions are revoked, and not after",
}


# ---- different topics, and records that were skipped


def _two_topics(found: Together, when: When) -> Claim:
    first, second = found.applications[:2]
    whose = " and ".join(f"{one.clients[0]} reads {one.topics[0]}" for one in (first, second))
    since = when.between(found.from_ms, found.until_ms)
    text = f"members read different topics, as two applications do: {whose}{since}"
    if not found.is_sure:
        text = f"perhaps two applications in one group: {whose}{since}"
    who = tuple(name for one in found.applications for name in one.clients)
    claim = Claim(TWO_TOPICS, text, who, found.from_ms, found.until_ms, LIKELY if found.is_sure else PERHAPS,
                  advice="give the applications different group ids: now each rebalance stops both")  # fmt: skip
    shown = f"members with {', '.join(first.topics)}, others with {', '.join(second.topics)}"
    return claim.proved_by([Evidence("generations", found.from_ms, shown)])


def _is_by_tool(one: Skip, facts: Facts) -> bool:
    """Had the group been empty for some time? A late commit of a member may come just after the end of its session.

    A member that leaves commits before that. A late commit may also come just before the member joins again, or when a
    lost process goes on. Then it is not for all partitions. A process that stopped in order commits no more.
    """
    ends = [(one.at_ms - stay.end_ms, stay.how) for stay in facts.stays if stay.end_ms is not None]
    if any(abs(ms) <= limits.LATE_MS and (how != LEFT or ms <= limits.SECOND) for ms, how in ends):
        return False
    back = [stay for stay in facts.stays if 0 <= stay.start_ms - one.at_ms <= limits.LATE_MS]
    is_back = not all(_had_stopped(stay, facts) for stay in back)
    is_lost = any(
        stay.how in DEATHS and 0 <= one.at_ms - (stay.end_ms or 0) <= limits.OVERLAP_MS for stay in facts.stays
    )
    places = {(skip.topic, skip.partition) for skip in facts.skips if abs(skip.at_ms - one.at_ms) <= limits.LATE_MS}
    is_whole = len(places) >= max((each.partitions for each in facts.rebalances), default=0)
    # a lost process that goes on commits what it has read, and joins again at once
    is_at_once = any(abs(each.start_ms - one.at_ms) <= limits.SECOND for each in facts.rebalances)
    return (is_whole and not (is_lost and is_at_once)) or not (is_back or is_lost)


def _had_stopped(back: Stay, facts: Facts) -> bool:
    """Had the process before this one stopped in order? One that polls too late leaves, too, but only after a hang."""
    before = [stay for stay in facts.stays if stay.who.slot == back.who.slot and stay.start_ms < back.start_ms]
    last = max(before, key=lambda stay: stay.start_ms, default=None)
    if last is None or last.how != LEFT or last.silent_ms is None or last.patience_ms is None:
        return False
    return last.silent_ms < limits.SLOW_SHARE * last.patience_ms


def _is_just_back(one: Skip, facts: Facts) -> bool:
    """Was the broker away just before? Then producers send old records at once, and members read them as fast."""
    return any(0 <= one.at_ms - until_ms <= limits.MOMENT_MS for _, until_ms in facts.silences)


def _skipped(some: Sequence[Skip], when: When) -> Claim:
    from_ms, until_ms = min(one.at_ms for one in some), max(one.at_ms for one in some)
    records = sum(one.to_offset - one.from_offset for one in some)
    names = tuple(sorted({f"{one.topic}-{one.partition}" for one in some}))
    places = names[0] if len(names) == 1 else plural(len(names), "partition")
    text = f"no member read {plural(records, 'record')} of {places}: while the group was empty, offsets went forward"
    client, span = some[0].client, when.between(from_ms, until_ms)
    if client is not None:
        who, them = (client, "it") if len({one.client for one in some}) == 1 else ("members", "they")
        skipped = f"{who} perhaps skipped {plural(records, 'record')} of {places}{span}"
        text, span = f"{skipped}: {them} went forward faster than {them} can read", ""
    claim = Claim(SKIP, f"{text}{span}", names, from_ms, until_ms,
                  LIKELY if client is None else PERHAPS,
                  advice="read these records again if nobody skipped them on purpose")  # fmt: skip
    return claim.proved_by([
        Evidence("skips", one.at_ms,
                 f"{one.topic}-{one.partition} from {number(one.from_offset)} to {number(one.to_offset)}")
        for one in some
    ])  # fmt: skip


LEAST_MS: Final = MINUTE
"""A smaller step back is no trouble: the clocks of brokers differ by less than this."""


def went_back(rebalances: Iterable[Rebalance]) -> Fall | None:
    """The largest step back of the clock. None means that no such step is known.

    The clock went back if a generation ended long before the generation that it followed. Records that are more than a
    day off are corrected before (`tables/log_times.py`). After a smaller step back, nobody knows whether the times
    before it or after it are right.
    """
    some = list(rebalances)
    ends: dict[int, list[int]] = defaultdict(list)
    for one in some:
        ends[one.generation].append(one.end_ms)
    found: list[Fall] = []
    for one in some:
        # a group that was deleted and created again may have several generations with the same number
        before = ends.get(one.before_generation) if one.before_generation is not None else None
        if before and min(before) - one.end_ms > LEAST_MS:
            found.append(Fall(min(before), min(before) - one.end_ms))
    return max(found, key=lambda fall: fall.by_ms, default=None)


SILENCE_ADVICE: Final = "look at the brokers and at the network at that time"


def silence_claim(from_ms: int, until_ms: int, groups: int, when: When, only: Sequence[str] | None = None) -> Claim:
    """The claim about a time in which no group gave a sign of life. `only`: just these groups gave none."""
    span = when.from_to(from_ms, until_ms, seconds=True)
    if only:
        names = ", ".join(only) if len(only) <= _NAMED else f"{', '.join(only[: _NAMED - 1])} and {len(only) - 2} more"
        text = f"{names} committed nothing{span}, while others did: perhaps their coordinator was away"
        row = Evidence("silences", from_ms, f"{plural(groups, 'group')} fell silent at one moment")
        return Claim(SILENCE, text, tuple(only), from_ms, until_ms, PERHAPS, advice=SILENCE_ADVICE).proved_by([row])
    text = f"no group committed{span}: coordinator or network were away"
    row = Evidence("silences", from_ms, f"{plural(groups, 'group')} committed before and after")
    return Claim(SILENCE, text, (), from_ms, until_ms, LIKELY, advice=SILENCE_ADVICE).proved_by([row])


def clock_claim(fall: Fall, when: When) -> Claim:
    """The claim about a clock that went back."""
    text = f"the broker's clock went back by {duration(fall.by_ms)}{when.at(fall.at_ms)}: times around it may be wrong"
    return Claim(CLOCK, text, (), fall.at_ms, fall.at_ms)
