"""The verdict: one sentence about a group. Does the group need help? What happened, and what did it cost?

docs/pipeline-episodes.md has the rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from muster.coordinator.groups.common import events
from muster.pipeline.episodes import model
from muster.pipeline.episodes import thresholds as limits
from muster.pipeline.episodes.model import Episode
from muster.pipeline.episodes.other_trouble import Back, Fall, Stall, on_purpose, troubles
from muster.pipeline.wording import DAY, duration, moment, plural

HELP: Final = "help"
"""The group is in trouble at the end of the log, or was in trouble at most an hour before."""
LOOK: Final = "look"
"""The group was in trouble, and this is over. Or a member died, and the other members have its partitions."""
FINE: Final = "fine"
LEVELS: Final = (HELP, LOOK, FINE)
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
    """The kind of the worst trouble: a kind of episode, or one of `other_trouble`. It is None without trouble."""
    trouble_ms: int
    """The unread time because of trouble, summed over the partitions, with stalled partitions. Formations, restarts,
    scaling and stops on purpose are no trouble.
    """


def verdict(
    episodes: Sequence[Episode],
    end_ms: int,
    score: float | None = None,
    stalled: Sequence[Stall] = (),
    back: Sequence[Back] = (),
    fall: Fall | None = None,
) -> Verdict:
    """The verdict of one group. `end_ms`: the end of the log; `score`: the score in the table `flapping`.

    `stalled` and `back`: what the group's commits show. `fall`: the largest step back of the broker's clock.
    """
    found = _by_episodes(episodes, end_ms, score, stalled, back)
    if fall is None:
        return found
    remark = (
        f"the broker's clock went back by {duration(fall.by_ms)} at {_clock(fall.at_ms, fall.at_ms, end_ms)}: what is "
        "told of the time around that may be wrong"
    )
    return found._replace(level=LOOK if found.level == FINE else found.level, text=f"{found.text}; {remark}")


def _by_episodes(
    episodes: Sequence[Episode],
    end_ms: int,
    score: float | None,
    stalled: Sequence[Stall],
    back: Sequence[Back],
) -> Verdict:
    of_offsets = troubles(stalled, back, end_ms, lambda from_ms, until_ms: _between(from_ms, until_ms, end_ms))
    bad = sorted(filter(is_trouble, episodes), key=lambda one: (_rank(one, end_ms), -one.cost_ms, one.from_ms))
    trouble_ms = sum(one.cost_ms for one in bad)
    trouble_ms += sum((end_ms if one.until_ms is None else one.until_ms) - one.from_ms for one in stalled)
    if not bad and not of_offsets:
        some = [one for one in episodes if one.kind not in (model.FORMATION, model.STOP)]
        count = sum(one.rebalances for one in some)
        if score is not None and score >= limits.UNSTABLE_SCORE and count >= limits.UNSTABLE_MIN:
            # an episode that somebody wanted explains its rebalances
            unexplained = sum(one.rebalances for one in some if one.kind not in _WANTED)
            level, why = (HELP, ", for no single reason") if unexplained >= limits.UNSTABLE_MIN else (
                LOOK, f": {', '.join(_kinds(some))}"
            )  # fmt: skip
            every = _costs(count, sum(one.cost_ms for one in some), _most(some))
            return Verdict(level, f"unstable{why}: {every}{_when(some, end_ms)}", None, trouble_ms)
        return Verdict(FINE, _fine(episodes, end_ms, on_purpose(back)), None, trouble_ms)
    merged = [
        _TroubleText(kind, any(_is_wrong(one, end_ms) for one in some), _sentence(kind, some, end_ms), len(some))
        for kind, some in _merged(bad)
    ]
    # trouble that still lasts comes first. Of trouble that is over, episodes come before commits: they have a cost
    sentences = sorted(
        [*(_TroubleText(one.kind, one.is_on, one.text, 1) for one in of_offsets if one.is_on), *merged,
         *(_TroubleText(one.kind, one.is_on, one.text, 1) for one in of_offsets if not one.is_on)],
        key=lambda one: not one.is_on,
    )  # fmt: skip
    rest = sum(one.happenings for one in sentences[_TROUBLES:])
    more = [f"{rest} more"] if rest else []
    text = "; ".join([*(one.text for one in sentences[:_TROUBLES]), *more])
    return Verdict(HELP if any(one.is_on for one in sentences) else LOOK, text, sentences[0].kind, trouble_ms)


class _TroubleText(NamedTuple):
    kind: str
    is_on: bool
    text: str
    happenings: int


def is_trouble(one: Episode) -> bool:
    """Is the episode something that nobody wanted?"""
    again = one.kind == model.RESTART and one.times >= limits.LOOPS
    return one.kind in _BAD or again or (one.kind == model.STOP and one.died)


def describe(one: Episode, end_ms: int) -> str:
    """An episode in words, with its cost."""
    return _sentence(one.kind, [one], end_ms)


_BAD: Final = frozenset({model.CRASH_LOOP, model.FLAPPING, model.SLOW, model.TROUBLE, model.DIED})
_LOOPS: Final = frozenset({model.CRASH_LOOP, model.FLAPPING, model.SLOW})
_WANTED: Final = frozenset({model.ROLLING, model.OVERLAPPED, model.SCALE_OUT, model.SCALE_IN})


def _is_wrong(one: Episode, end_ms: int) -> bool:
    """Does the group still need help because of this episode? A death alone needs no help."""
    recent = end_ms - one.until_ms <= limits.AGAIN_MS
    is_lost = one.kind == model.TROUBLE or (one.kind == model.STOP and not one.by_instance)
    return recent and (one.kind in _LOOPS or (is_lost and one.back_ms is None))


def _rank(one: Episode, end_ms: int) -> tuple[bool, int]:
    return not _is_wrong(one, end_ms), 0 if one.kind in _LOOPS else 1


def _merged(bad: Sequence[Episode]) -> list[tuple[str, list[Episode]]]:
    """Groups of episodes that one sentence describes: all deaths, or all loops of the same members."""
    found: dict[tuple[object, ...], list[Episode]] = {}
    for one in bad:
        key = (one.kind,) if one.kind in (model.DIED, model.TROUBLE, model.STOP) else (one.kind, one.members)
        found.setdefault(key, []).append(one)
    return [(some[0].kind, some) for some in found.values()]


def _fine(episodes: Sequence[Episode], end_ms: int, also: Sequence[str]) -> str:
    counted = [one for one in episodes if one.kind != model.FORMATION and not one.is_midst and not is_trouble(one)]
    stop = max((one for one in counted if one.kind == model.STOP), key=lambda one: one.until_ms, default=None)
    gone = stop is not None and stop.back_ms is None and all(one.until_ms <= stop.until_ms for one in episodes)
    if stop is not None and gone:
        return f"stopped at {_clock(stop.until_ms, episodes[0].from_ms, end_ms)}: {_all(stop)} left"
    if not counted and any(one.is_midst for one in episodes):
        since = _clock(max(one.until_ms for one in episodes), episodes[0].from_ms, end_ms)
        return f"fine: {', '.join([f'no rebalance since {since}, when what the log has of it begins', *also])}"
    if not counted:
        return f"fine: {', '.join(also)}" if also else "fine"
    what = ", ".join([*_kinds(counted), *also])
    cost = _costs(sum(one.rebalances for one in counted), sum(one.cost_ms for one in counted), _most(counted))
    return f"fine: {what} ({cost})"


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
    model.DIED: ("death",),
    model.RESTART: ("restart",),
    model.SUBSCRIPTION: ("change of subscriptions", "changes of subscriptions"),
    model.GROWTH: ("change of partitions", "changes of partitions"),
    model.OTHER: ("other rebalance",),
}


def title(kind: str) -> str:
    """The name of a kind of episodes."""
    return _TITLES[kind][0]


class _Clause(NamedTuple):
    """Episodes of one kind that one sentence describes."""

    kind: str
    some: Sequence[Episode]
    names: str
    over: bool
    """Whether the episodes are over: nothing has happened again for long enough."""


def _sentence(kind: str, some: Sequence[Episode], end_ms: int) -> str:
    if all(one.is_midst for one in some):
        return f"the log begins in the midst of its life{_when(some, end_ms)}"
    names = list(dict.fromkeys(name for one in some for name in one.members))
    count = max((one.size for one in some), default=0)
    named = _names(names) if count <= len(names) else f"{plural(count, 'member')} ({_names(names)})"
    cost = _costs(sum(one.rebalances for one in some), sum(one.cost_ms for one in some), _most(some))
    over = _is_over(min(one.from_ms for one in some), max(one.until_ms for one in some), end_ms, _times(some))
    words = _WORDS.get(kind, _plainly)(_Clause(kind, some, named, over))
    return f"{words}: {cost}{_when(some, end_ms)}"


def _plainly(clause: _Clause) -> str:
    times = sum(one.times for one in clause.some)
    if clause.kind == model.RESTART and times >= limits.LOOPS:
        return f"{clause.names} left and came back {plural(times, 'time')}"
    words = count_of_kind(clause.kind, len(clause.some)) if len(clause.some) > 1 else title(clause.kind)
    if not clause.names or clause.kind in (model.FORMATION, model.OTHER):
        return words
    return f"{words} {'by' if clause.kind in _BY else 'of'} {clause.names}"


def _loops(clause: _Clause) -> str:
    return events.unstable_text(
        events.CRASH_LOOP, clause.names, over=clause.over, died=any(one.any_died for one in clause.some)
    )


def _flaps(clause: _Clause) -> str:
    return events.unstable_text(events.FLAPPING, clause.names, over=clause.over)


def _slow(clause: _Clause) -> str:
    again = len(clause.some) > 1 or any(one.rebalances > _OUT_AND_BACK for one in clause.some)
    return events.unstable_text(events.SLOW, clause.names, again=again)


def _common(clause: _Clause) -> str:
    if not any(one.died for one in clause.some):
        return f"{clause.names} went or came back when other groups lost members {_PERHAPS}"
    return f"{clause.names} died when members of other groups did {_PERHAPS}"


def _deaths(clause: _Clause) -> str:
    count = sum(one.size for one in clause.some)
    back = [one.back_ms for one in clause.some]
    is_static = all(one.by_instance for one in clause.some)
    if count == 1 and is_static:
        if back[0] is None:
            return f"{clause.names} died or was stopped {_STATIC} and nobody took its place"
        return (
            f"{clause.names} died or stayed away for longer than its session, and was back {duration(back[0])} "
            "after that"
        )
    if count == 1:
        if back[0] is None:
            return f"{clause.names} died and nobody took its place"
        return f"{clause.names} died" + (f" and was replaced after {duration(back[0])}" if back[0] else "")
    lost = sum(one is None for one in back)
    what = f"{count} times that static members died or stayed away" if is_static else plural(count, "death")
    return f"{what} ({clause.names})" + (f", nobody came for {lost} of them" if lost else "")


def _stopped(clause: _Clause) -> str:
    one = clause.some[-1]
    died = f"died or were stopped {_STATIC}" if one.by_instance else "died"
    what = f"{_all(one)} {died if one.died else 'stopped'}"
    return what + (
        " and nobody came back" if one.back_ms is None else f" and somebody was back after {duration(one.back_ms)}"
    )


_PERHAPS: Final = "(perhaps the coordinator or the network)"
_STATIC: Final = "(static members do not say which)"
_BY: Final = frozenset({model.SUBSCRIPTION, model.GROWTH})
"""The kinds of episodes whose sentence names members with `by`: they changed or noticed something."""
_OUT_AND_BACK: Final = 2
_WORDS: Final[Mapping[str, Callable[[_Clause], str]]] = {
    model.CRASH_LOOP: _loops,
    model.FLAPPING: _flaps,
    model.TROUBLE: _common,
    model.SLOW: _slow,
    model.DIED: _deaths,
    model.STOP: _stopped,
}


def _costs(rebalances: int, cost_ms: int, partitions: int) -> str:
    """A cost in words: `38 rebalances, 12 min of 6 partitions unread`."""
    count = plural(rebalances, "rebalance") if rebalances else "no rebalance"
    if not cost_ms:
        return count
    if not partitions:
        return f"{count}, {duration(cost_ms)} unread"
    return f"{count}, {duration(cost_ms / partitions)} of {plural(partitions, 'partition')} unread"


def _most(some: Sequence[Episode]) -> int:
    return max((one.partitions for one in some), default=0)


def _when(some: Sequence[Episode], end_ms: int) -> str:
    if not some:
        return ""
    return _between(min(one.from_ms for one in some), max(one.until_ms for one in some), end_ms, _times(some))


def _times(some: Sequence[Episode]) -> int:
    """How many times something happened in these episodes."""
    return sum(one.times or one.rebalances for one in some)


def _is_over(from_ms: int, until_ms: int, end_ms: int, times: int) -> bool:
    """Is something that happened `times` times over: has it not happened again for long enough?"""
    usual_ms = (until_ms - from_ms) / max(times - 1, 1)
    overdue_ms = max(limits.MINUTE, limits.GOES_ON * usual_ms if times > 1 else 0)
    return end_ms - until_ms > min(overdue_ms, limits.AGAIN_MS)


def _between(from_ms: int, until_ms: int, end_ms: int, times: int = 1) -> str:
    """A time in words: ` since 09:14`, or ` from 09:14 to 09:20` if it is over."""
    begin = _clock(from_ms, from_ms, end_ms)
    if until_ms - from_ms < limits.MINUTE:
        return f" at {begin}"
    over = _is_over(from_ms, until_ms, end_ms, times)
    return f" from {begin} to {_clock(until_ms, from_ms, end_ms)}" if over else f" since {begin}"


def _clock(ms: int, first_ms: int, end_ms: int) -> str:
    """A time as hours and minutes. It has the day if it is at least one day before the end of the log."""
    return moment(ms, day=end_ms - min(first_ms, ms) >= DAY, seconds=False)


def _names(whole: Sequence[str]) -> str:
    names = [name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…" for name in whole]
    if len(names) > _NAMED:
        return f"{', '.join(names[: _NAMED - 1])} and {len(names) - _NAMED + 1} more"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names) or "a member"
