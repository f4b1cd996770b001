"""The verdict: one sentence about a group. Does the group need help? What happened, and what did it cost?

The sentence is made from claims (`claims`). docs/pipeline-episodes.md has the rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from muster.coordinator.groups.common import events
from muster.pipeline.defaults import EPOCH_SESSION_MS
from muster.pipeline.episodes import claims, model
from muster.pipeline.episodes import thresholds as limits
from muster.pipeline.episodes.behind import behind
from muster.pipeline.episodes.claims import CERTAIN, LIKELY, PERHAPS, Claim, Evidence, Facts
from muster.pipeline.episodes.contradictions import made, stalls_of
from muster.pipeline.episodes.model import Episode, Stay
from muster.pipeline.episodes.other_trouble import clock_claim, on_purpose, troubles
from muster.pipeline.episodes.when import When
from muster.pipeline.wording import duration, plural, to_the_second

HELP: Final = "help"
"""The group is in trouble at the end of the log, or was in trouble at most an hour before."""
LOOK: Final = "look"
"""The group was in trouble, and this is over. Or a member was lost, and the other members have its partitions."""
UNKNOWN: Final = "unknown"
"""No trouble is known. But nobody knows whether the group reads all records, because no end of its topics is known."""
FINE: Final = "fine"
LEVELS: Final = (HELP, LOOK, UNKNOWN, FINE)
"""The levels of verdicts, the worst first."""

_NAMED: Final = 3
_LONGEST: Final = 64
"""A name is cut to this number of characters."""
_TROUBLES: Final = 2
"""A verdict names at most this many troubles, and the number of the others."""


class Verdict(NamedTuple):
    """The judgement of one group."""

    level: str
    text: str
    kind: str | None
    """The rule of the worst trouble: a kind of episode, or a rule of `claims.OF_COMMITS`. None without trouble."""
    trouble_ms: int
    """The unread time because of trouble, summed over the partitions, with stalled partitions. Formations, restarts,
    scaling and stops on purpose are no trouble.
    """
    claims: tuple[Claim, ...] = ()
    """All claims about the group, the worst first. The text has the first ones."""


def verdict(episodes: Sequence[Episode], facts: Facts) -> Verdict:
    """The verdict of one group. `Episode.numbers` are indexes in `facts.rebalances`."""
    when = When(facts.end_ms, facts.first_ms)
    every = sorted(filter(is_trouble, episodes), key=lambda one: (_rank(one, facts), -one.cost_ms, one.from_ms))
    # a time without a sign of life of any group is named once for all groups
    bad = [one for one in every if not _is_by_silence(one, facts)]
    by_silence = [_claim([one], when, facts)._replace(is_on=False, advice=None) for one in every if one not in bad]
    of_commits = made(troubles(facts, when), facts)
    of_episodes = made((_claim(some, when, facts) for some in _merged(bad)), facts)
    trouble_ms = sum(one.cost_ms for one in bad) + _stalled_ms(of_commits, facts)
    # trouble that still lasts comes first. Of trouble that is over, episodes come before commits: they have a cost
    worst = sorted(
        [*(one for one in of_commits if one.is_on), *of_episodes, *(one for one in of_commits if not one.is_on)],
        key=lambda one: not one.is_on,
    )  # fmt: skip
    level = HELP if any(one.is_on for one in worst) else LOOK
    kind = worst[0].rule if worst else None
    if not worst:
        level, claim = _without_trouble([one for one in episodes if not _is_by_silence(one, facts)], facts, when)
        if level == FINE and (lag := behind(facts, when)) is not None:
            level, claim, kind = LOOK, lag, lag.rule
        elif level == FINE and _is_lag_unknown(facts):
            level, claim = UNKNOWN, _unknown(claim)
        worst = [claim]
    rest = sum(one.happenings for one in worst[_TROUBLES:])
    shown = [one.text for one in worst[:_TROUBLES]] + ([f"{rest} more"] if rest else [])
    if facts.fall is not None:
        worst.append(clock_claim(facts.fall, when))
        shown.append(worst[-1].text)
        level = LOOK if level in (UNKNOWN, FINE) else level
    return Verdict(level, "; ".join(shown), kind, trouble_ms, (*worst, *by_silence))


def _is_after_silence(one: Episode, facts: Facts) -> bool:
    """Were members lost when no client reached the coordinator?"""
    session_ms = max((stay.session_ms or 0 for stay in facts.stays), default=0) or EPOCH_SESSION_MS
    late_ms = limits.BACK_MS + session_ms
    return one.kind == model.TROUBLE and any(
        from_ms <= one.until_ms and one.from_ms <= until_ms + late_ms for from_ms, until_ms in facts.silences
    )


def _is_by_silence(one: Episode, facts: Facts) -> bool:
    """Were members only lost because no client reached the coordinator, and are they back?"""
    if not _is_after_silence(one, facts):
        return False
    lost = [stay for stay in facts.stays if stay.end_ms is not None and one.from_ms <= stay.end_ms <= one.until_ms]
    if any(_is_back_late(stay, facts) for stay in lost):
        return False
    there = {stay.who.slot for stay in facts.stays if stay.end_ms is None or stay.end_ms > one.until_ms}
    return one.back_ms is not None or all(stay.who.slot in there for stay in lost)


def _is_back_late(lost: Stay, facts: Facts) -> bool:
    """Did a lost member come back long after the others of its group? Then the silence alone does not explain it.

    Some clients wait for half a minute until they connect again.
    """
    end_ms = lost.end_ms or 0
    later = [stay for stay in facts.stays if stay.start_ms >= end_ms]
    own = min((stay.start_ms for stay in later if stay.who.slot == lost.who.slot), default=None)
    others = [stay for stay in facts.stays if stay.who.slot != lost.who.slot]
    # others may have kept their sessions
    stayed = any(stay.start_ms < end_ms and (stay.end_ms is None or stay.end_ms > end_ms) for stay in others)
    first_ms = end_ms if stayed else min((stay.start_ms for stay in others if stay.start_ms >= end_ms), default=None)
    if own is None or first_ms is None:
        return False
    back_ms = max((until_ms for _, until_ms in facts.silences if until_ms <= own), default=own)
    return own - first_ms > limits.EXCHANGE_MS and own - back_ms > limits.CONNECT_MS


def _stalled_ms(of_commits: Sequence[Claim], facts: Facts) -> int:
    """The time of the stalls that the claims describe, summed over the partitions."""
    some = {one for claim in of_commits if claim.rule == claims.STALLED for one in stalls_of(claim, facts)}
    return sum(one.lasted_ms(facts.end_ms) for one in some)


def _without_trouble(episodes: Sequence[Episode], facts: Facts, when: When) -> tuple[str, Claim]:
    """The level of a group without known trouble, and the claim about it."""
    some = [one for one in episodes if one.kind not in (model.FORMATION, model.STOP)]
    count = sum(one.rebalances for one in some)
    if (facts.score or 0) < limits.UNSTABLE_SCORE or count < limits.UNSTABLE_MIN:
        return FINE, _fine(episodes, facts, when)
    # an episode that somebody wanted explains its rebalances
    unexplained = sum(one.rebalances for one in some if one.kind not in _WANTED)
    level, why = (HELP, ", for no single reason") if unexplained >= limits.UNSTABLE_MIN else (
        LOOK, f": {', '.join(_kinds(some))}"
    )  # fmt: skip
    text = f"unstable{why}: {_costs(some)}{_when(some, when)}"
    from_ms, until_ms = _span(some)
    claim = Claim(claims.UNSTABLE, text, (), from_ms, until_ms, is_on=level == HELP)
    return level, claim.proved_by(_rows(some, facts))


def is_trouble(one: Episode) -> bool:
    """Is the episode something that nobody wanted?"""
    again = one.kind == model.RESTART and (one.times >= limits.LOOPS or one.perhaps_lost)
    return one.kind in _BAD or again or (one.kind == model.STOP and one.died)


def describe(one: Episode, end_ms: int) -> str:
    """An episode in words, with its cost. `end_ms`: the end of the log."""
    return claim_about(one, Facts(end_ms)).text


def claim_about(one: Episode, facts: Facts) -> Claim:
    """The claim about one episode. `Episode.numbers` are indexes in `facts.rebalances`."""
    (found,) = made([_claim([one], When(facts.end_ms, facts.first_ms), facts)], facts)
    return found


_BAD: Final = frozenset({model.CRASH_LOOP, model.FLAPPING, model.SLOW, model.TROUBLE, model.DIED})
_LOOPS: Final = frozenset({model.CRASH_LOOP, model.FLAPPING, model.SLOW})
_WANTED: Final = frozenset({model.ROLLING, model.OVERLAPPED, model.SCALE_OUT, model.SCALE_IN})


def _is_wrong(one: Episode, facts: Facts) -> bool:
    """Does the group still need help because of this episode? A lost member alone needs no help."""
    recent = facts.end_ms - one.until_ms <= limits.AGAIN_MS
    is_read = _is_after_silence(one, facts) and any(stay.end_ms is None for stay in facts.stays)
    is_open = one.by_instance or one.is_unsure  # nobody knows whether the members of a stop died
    is_lost = (one.kind == model.TROUBLE and one.size > 0 and not is_read) or (one.kind == model.STOP and not is_open)
    return recent and (one.kind in _LOOPS or (is_lost and one.back_ms is None))


def _rank(one: Episode, facts: Facts) -> tuple[bool, int]:
    return not _is_wrong(one, facts), 0 if one.kind in _LOOPS else 1


def _merged(bad: Sequence[Episode]) -> list[list[Episode]]:
    """Groups of episodes that one claim describes: all losses of members, or all loops of the same members."""
    found: dict[tuple[object, ...], list[Episode]] = {}
    for one in bad:
        key = (one.kind,) if one.kind in (model.DIED, model.TROUBLE, model.STOP) else (one.kind, one.members)
        found.setdefault(key, []).append(one)
    return list(found.values())


# ---- groups without trouble


def _fine(episodes: Sequence[Episode], facts: Facts, when: When) -> Claim:
    also = on_purpose(facts.back)
    counted = [one for one in episodes if one.kind != model.FORMATION and not one.is_midst and not is_trouble(one)]
    stop = max((one for one in counted if one.kind == model.STOP), key=lambda one: one.until_ms, default=None)
    what = f"fine: {', '.join(also)}" if also else "fine"
    if counted:
        what = f"fine: {', '.join([*_kinds(counted), *also])} ({_costs(counted)})"
    elif any(one.is_midst for one in episodes):
        since = when.clock(max(one.until_ms for one in episodes), episodes[0].from_ms)
        what = f"fine: {', '.join([f'no rebalance since {since}, when what the log has of it begins', *also])}"
    claim = Claim(claims.FINE, what).proved_by(_rows(counted, facts))
    if stop is None or stop.back_ms is not None or any(one.until_ms > stop.until_ms for one in episodes):
        return claim
    lost = f" or {'was' if stop.size == 1 else 'were'} lost" if stop.is_unsure else ""
    left_ms, left = stop.until_ms, f"{_all(stop)} left{lost}"
    if facts.deleted_ms is not None:
        deleted = when.clock(facts.deleted_ms, episodes[0].from_ms)
        before = f": {left} at {when.clock(left_ms, episodes[0].from_ms)}"
        claim = claim._replace(text=f"deleted or expired at {deleted}{before}")
    text = f"stopped at {when.clock(left_ms, episodes[0].from_ms)}: {left}"
    stopped = Claim(claims.STOPPED, text, stop.members, stop.from_ms, left_ms, weaker=claim)
    (found,) = made([stopped.proved_by(_rows([stop], facts))], facts)
    return found


def _is_lag_unknown(facts: Facts) -> bool:
    """Does the group commit offsets, though the end of none of its partitions is known?"""
    return bool(facts.lags) and all(one.lag is None for one in facts.lags)


def _unknown(fine: Claim) -> Claim:
    """The claim about a group without known trouble whose lag is not known. `fine`: the claim about its rebalances."""
    text = "not known: no end offsets" + ("" if fine.text == FINE else f"; otherwise {fine.text}")
    advice = "read the logs of its topics too, or ask a running cluster, to know its lag"
    return fine._replace(rule=claims.NO_ENDS, text=text, advice=advice)


def _kinds(some: Sequence[Episode]) -> list[str]:
    counted = Counter(one.kind for one in some)
    return [count_of_kind(kind, counted[kind]) for kind in model.KINDS if counted[kind]]


def _all(one: Episode) -> str:
    return "its only member" if one.size == 1 else "both members" if one.size == 2 else f"all {one.size} members"


def count_of_kind(kind: str, count: int) -> str:
    """The number of episodes of a kind, in words: `2 scale-outs`."""
    return plural(count, *_TITLES[kind])


_TITLES: Final[Mapping[str, tuple[str, ...]]] = {
    model.FORMATION: ("first formation",),
    model.ROLLING: ("rolling restart",),
    model.OVERLAPPED: ("deploy that overlapped", "deploys that overlapped"),
    model.SCALE_OUT: ("scale-out",),
    model.SCALE_IN: ("scale-in",),
    model.CRASH_LOOP: ("crash loop",),
    model.FLAPPING: ("time of flapping", "times of flapping"),
    model.TROUBLE: ("trouble of coordinator or network", "troubles of coordinator or network"),
    model.SLOW: ("time that a slow poller was put out", "times that slow pollers were put out"),
    model.STOP: ("whole stop",),
    model.DIED: ("loss of members", "losses of members"),
    model.RESTART: ("absence of a member", "absences of members"),
    model.SUBSCRIPTION: ("change of subscriptions", "changes of subscriptions"),
    model.GROWTH: ("change of partitions", "changes of partitions"),
    model.OTHER: ("other rebalance",),
}


def title(kind: str) -> str:
    """The name of a kind of episodes."""
    return _TITLES[kind][0]


# ---- claims about episodes


class _Clause(NamedTuple):
    """Episodes of one kind that one claim describes."""

    kind: str
    some: Sequence[Episode]
    names: str
    """The names of the members in words; "" without members."""
    over: bool
    """Whether the episodes are over: nothing has happened again for long enough."""
    at: str
    """The time of the last episode."""
    later: bool = False
    """Whether the members that seem to be missing came back later."""


def _claim(some: Sequence[Episode], when: When, facts: Facts) -> Claim:
    """The claim about episodes of one kind."""
    kind, (from_ms, until_ms) = some[0].kind, _span(some)
    names = list(dict.fromkeys(name for one in some for name in one.members))
    count = max((one.size for one in some), default=0)
    named = _names(names) if count <= max(len(names), 1) else f"{plural(count, 'member')} ({_names(names)})"
    if count > 1 and not names:
        named = plural(count, "member")  # the log has none of their names
    over = when.is_over(from_ms, until_ms, _times(some))
    clause = _Clause(kind, some, named if names or count else "", over, when.clock(max(one.until_ms for one in some)))
    words = _WORDS.get(kind, _plainly)
    cost = f"{_costs(some)}{_when(some, when)}"
    text = _in_sentences(words(clause), cost)
    if all(one.is_midst for one in some):
        text = f"the log begins in the midst of its life{_when(some, when)}"
    missing = sum(one.size for one in some if one.back_ms is None) if kind in (model.DIED, model.STOP) else 0
    claim = Claim(
        kind, text, tuple(names), from_ms, until_ms, _confidence(some), is_on=any(
            _is_wrong(one, facts) for one in some
        ), happenings=len(some), missing=missing, advice=_advice(clause) if is_trouble(some[0]) else None,
    )  # fmt: skip
    claim = claim.proved_by(_rows(some, facts))
    silent = _in_sentences(f"{clause.names or 'the group'} rebalanced while no group committed {_PERHAPS}", cost)
    claim = claim._replace(weaker=claim._replace(rule=model.TROUBLE, text=silent, confidence=PERHAPS, missing=0))
    if not missing:
        return claim
    clause = clause._replace(later=True)
    later = _in_sentences(words(clause), cost)
    advice = _advice(clause) if claim.advice else None
    return claim._replace(weaker=claim._replace(text=later, missing=0, is_on=False, advice=advice))


def _in_sentences(what: str, cost: str) -> str:
    """What happened, and its cost: two sentences if one is too long."""
    text = f"{what}: {cost}"
    return text if len(text.split()) <= _MOST_WORDS else f"{what}. It cost {cost}"


_MOST_WORDS: Final = 20


def _confidence(some: Sequence[Episode]) -> str:
    least = min(one.confidence for one in some)
    if some[0].kind == model.TROUBLE or least < _LEAST_LIKELY:
        return PERHAPS
    return CERTAIN if least >= _LEAST_CERTAIN else LIKELY


_LEAST_CERTAIN: Final = 0.95
_LEAST_LIKELY: Final = 0.5


def _rows(some: Sequence[Episode], facts: Facts) -> list[Evidence]:
    """The rebalances that prove claims about these episodes. A static restart has none: its memberships prove it."""
    numbers = sorted({number for one in some for number in one.numbers if number < len(facts.rebalances)})
    found = []
    for number in numbers:
        one = facts.rebalances[number]
        before = "" if one.before_generation is None else f"{one.before_generation} to "
        cause = (one.cause or "cause not known").replace("_", " ")
        found.append(Evidence("rebalances", one.end_ms, f"generation {before}{one.generation}: {cause}"))
    spans = [(one.from_ms, one.until_ms) for one in some if not one.numbers]
    # the engine may give them in any order
    for stay in sorted(facts.stays, key=lambda stay: (stay.end_ms or 0, stay.who.member_id)):
        if stay.end_ms is not None and any(from_ms <= stay.end_ms <= until_ms for from_ms, until_ms in spans):
            name = stay.who.instance_id or stay.who.client_id or stay.who.member_id
            found.append(Evidence("memberships", stay.end_ms, f"{name}: {stay.how}"))
    return found


def _advice(clause: _Clause) -> str | None:
    """What a user can do."""
    if clause.kind == model.CRASH_LOOP and any(one.any_died for one in clause.some):
        return f"look why {clause.names} ends, in its log at {clause.at}; static ids would only hide its end"
    if clause.kind in (model.DIED, model.STOP):
        who = "all members were" if clause.kind == model.STOP else f"{clause.names} {_was(clause)}"
        is_missing = any(one.back_ms is None for one in clause.some) and not clause.later
        start = f", and start {'them' if _are_several(clause) else 'it'} again" if is_missing else ""
        return f"look in the logs at {clause.at} why {who} lost{_perhaps_slow(clause, '')}{start}"
    return _DO.get(clause.kind)


_DO: Final[Mapping[str, str]] = {
    model.CRASH_LOOP: "look what starts and stops this member again and again",
    model.SLOW: "set a longer max.poll.interval.ms, or do less work between two polls",
    model.FLAPPING: "give each process a client id and a group.instance.id that no other process has",
    model.TROUBLE: "look at the brokers and at the network at that time",
}


def _plainly(clause: _Clause) -> str:
    times = sum(one.times for one in clause.some)
    if clause.kind == model.RESTART and times >= limits.LOOPS:
        return f"{clause.names} left and came back {plural(times, 'time')}"
    if clause.kind == model.RESTART:
        lost = f" or {_was(clause)} lost" if any(one.is_unsure for one in clause.some) else ""
        then = "came back" if all(one.same for one in clause.some) else "another member joined"
        return f"{clause.names} left{lost} and {then}"
    if clause.kind in _DID:
        lost = f" or {_was(clause)} lost" if any(one.is_unsure for one in clause.some) else ""
        return f"{clause.names} {_DID[clause.kind]}{lost}"
    if clause.kind == model.SUBSCRIPTION and clause.names:
        return f"{clause.names} subscribed to other topics, or a pattern found one"
    words = count_of_kind(clause.kind, len(clause.some)) if len(clause.some) > 1 else title(clause.kind)
    if not clause.names or clause.kind in (model.FORMATION, model.OTHER):
        return words
    return f"{words} {'by' if clause.kind in _BY else 'of'} {clause.names}"


def _loops(clause: _Clause) -> str:
    return events.unstable_text(
        events.CRASH_LOOP, clause.names, over=clause.over, died=any(one.any_died for one in clause.some),
        several=_are_several(clause),
    )  # fmt: skip


def _are_several(clause: _Clause) -> bool:
    return len({name for one in clause.some for name in one.members}) > 1


def _flaps(clause: _Clause) -> str:
    return events.unstable_text(events.FLAPPING, clause.names, over=clause.over)


def _slow(clause: _Clause) -> str:
    again = len(clause.some) > 1 or any(one.rebalances > _OUT_AND_BACK for one in clause.some)
    return events.unstable_text(events.SLOW, clause.names, again=again, several=_are_several(clause))


def _common(clause: _Clause) -> str:
    if not any(one.died for one in clause.some):
        return f"{clause.names or 'the group'} rebalanced, perhaps by coordinator or network"
    return f"{clause.names} {_was(clause)} lost, perhaps by coordinator or network"


def _was(clause: _Clause) -> str:
    return "was" if max((one.size for one in clause.some), default=1) == 1 and len(clause.some) == 1 else "were"


def _deaths(clause: _Clause) -> str:
    count = sum(one.size for one in clause.some)
    back = [one.back_ms for one in clause.some]
    is_static = all(one.by_instance for one in clause.some)
    if count == 1:
        if back[0] is None:
            how = f"the static member {clause.names} was lost or stopped" if is_static else (
                f"{clause.names} was lost{_perhaps_slow(clause)}"
            )  # fmt: skip
            return f"{how} and {'came back later' if clause.later else 'nobody took its place'}"
        away = f"{'was back' if clause.some[0].same else 'another member joined'} after {duration(back[0])}"
        if is_static:
            return f"{clause.names} was away past its session, and {away.removeprefix('was ')}"
        return f"{clause.names} was lost{_perhaps_slow(clause)}" + (f" and {away}" if back[0] else "")
    lost = sum(one is None for one in back)
    if not _are_several(clause) and all(one.size == 1 for one in clause.some):
        times = f"was lost{' or stayed away' if is_static else _perhaps_slow(clause)} {plural(count, 'time')}"
        return f"{clause.names} {times}" + (f", {lost} not replaced" if lost and not clause.later else "")
    what = f"{count} static members were lost or stayed away" if is_static else (
        f"{count} members were lost{_perhaps_slow(clause)}"
    )  # fmt: skip
    whose = f" ({clause.names})" if any(one.members for one in clause.some) else ""
    return f"{what}{whose}" + (f", {lost} not replaced" if lost and not clause.later else "")


def _perhaps_slow(clause: _Clause, perhaps: str = "perhaps ") -> str:
    """What may have happened instead of a death.

    A dead member and one that polls too late look alike if their timeouts are about equal.
    """
    if all(one.may_be_slow for one in clause.some):
        return f" or {perhaps}polled too late"
    return " or left" if perhaps and all(one.is_unsure for one in clause.some) else ""


def _stopped(clause: _Clause) -> str:
    one = clause.some[-1]
    if not one.times:  # it had stopped before the log begins
        return f"nobody was in the group until {clause.names} joined"
    were = "was lost" if one.size == 1 else "were lost"
    who = _all(one).replace("member", "static member") if one.by_instance and one.died else _all(one)
    is_open = one.by_instance or one.is_unsure
    how = (f"{were} or stopped" if is_open else were) if one.died else "stopped"
    how += f" or {were}" if one.is_unsure and not one.died else ""
    what = f"{who} {how}"
    if one.back_ms is None:
        return f"{what} and {'somebody came back later' if clause.later else 'nobody came back'}"
    return f"{what} and somebody was back after {duration(one.back_ms)}"


_DID: Final[Mapping[str, str]] = {model.SCALE_OUT: "joined", model.SCALE_IN: "left"}
"""Of these kinds of episodes, the sentence says what the members did. Nobody knows why they did it."""
_PERHAPS: Final = "(perhaps coordinator or network)"
_BY: Final = frozenset({model.GROWTH})
"""The kinds of episodes whose sentence names members with `by`: they noticed something."""
_OUT_AND_BACK: Final = 2
_WORDS: Final[Mapping[str, Callable[[_Clause], str]]] = {
    model.CRASH_LOOP: _loops,
    model.FLAPPING: _flaps,
    model.TROUBLE: _common,
    model.SLOW: _slow,
    model.DIED: _deaths,
    model.STOP: _stopped,
}


def _costs(some: Sequence[Episode]) -> str:
    """A cost in words: `38 rebalances, 12 min unread in all`. The unread time of all partitions is added up."""
    rebalances, cost_ms = sum(one.rebalances for one in some), sum(one.cost_ms for one in some)
    count = plural(rebalances, "rebalance") if rebalances else "no rebalance"
    return f"{count}, {to_the_second(cost_ms)} unread in all" if cost_ms else count


def _span(some: Sequence[Episode]) -> tuple[int, int]:
    return min(one.from_ms for one in some), max(one.until_ms for one in some)


def _when(some: Sequence[Episode], when: When) -> str:
    return when.between(*_span(some), _times(some)) if some else ""


def _times(some: Sequence[Episode]) -> int:
    """How many times something happened in these episodes."""
    return sum(one.times or one.rebalances for one in some)


def _names(whole: Sequence[str]) -> str:
    names = [name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…" for name in whole]
    if len(names) > _NAMED:
        return f"{', '.join(names[: _NAMED - 1])} and {len(names) - _NAMED + 1} more"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names) or "a member"
