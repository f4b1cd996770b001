"""Episodes of one group: rules that take changes of members one after the other, each at most once.

The rules stand in the order in which they are asked (`_RULES`); what is left are rebalances without a change of
members. docs/pipeline-episodes.md explains each. The order of the rows that are given does not matter.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from muster.coordinator.groups.common import events
from muster.pipeline.episodes import model
from muster.pipeline.episodes import thresholds as limits
from muster.pipeline.episodes.model import DEATHS, LEFT, REPLACED, TIMEOUTS, Episode, Rebalance, Spell, Who
from muster.pipeline.episodes.places import Change, changes

_POLLED_TOO_LATE: Final = "poll timeout"
_NEAR_MS: Final = 60_000
"""A member comes or goes at most so long before its rebalance begins."""
_AFTER_MS: Final = 5_000
"""It is told at most so long after its rebalance ended."""


def episodes(spells: Iterable[Spell], rebalances: Sequence[Rebalance]) -> list[Episode]:
    """All episodes of a group, by time. `Episode.numbers` are places in `rebalances`."""
    order = sorted(range(len(rebalances)), key=lambda one: _place(rebalances[one]))
    finder = _Finder(sorted(spells, key=_begin), [rebalances[one] for one in order])
    found = [one._replace(numbers=tuple(order[number] for number in one.numbers)) for one in finder.run()]
    return sorted(found, key=lambda one: (one.from_ms, one.until_ms, one.kind, one.members))


def _place(one: Rebalance) -> tuple[int, int, int, str]:
    return one.end_ms, one.generation, one.start_ms, one.trigger or ""


def _begin(one: Spell) -> tuple[int, int, str]:
    return one.start_ms, one.end_ms or 0, one.who.member_id


class _Finder:
    """One group's."""

    def __init__(self, spells: Sequence[Spell], rebalances: Sequence[Rebalance]) -> None:
        self.spells = spells
        self.rebalances = rebalances
        self._ends = [one.end_ms for one in rebalances]
        self._by_generation: dict[int, list[int]] = defaultdict(list)
        self._by_before: dict[int, list[int]] = defaultdict(list)
        for number, one in enumerate(rebalances):
            self._by_generation[one.generation].append(number)
            if one.before_generation is not None:
                self._by_before[one.before_generation].append(number)
        self._came = {number: self._rebalance_of_coming(one) for number, one in enumerate(spells)}
        self._went = {number: self._rebalance_of_going(one) for number, one in enumerate(spells)}
        # who was there when the log begins did not come then
        self.left = [one for one in changes(spells) if one.gone is not None or self._came[one.came or 0] is not None]
        self._clients: dict[str, set[tuple[str, ...]]] = defaultdict(set)
        for spell in spells:
            self._clients[spell.who.client_id or ""].add(spell.who.slot)
        self._free = set(range(len(rebalances)))
        self.found: list[Episode] = []

    def run(self) -> list[Episode]:
        """All rules, then what no member came or went in."""
        self.left = [one for one in self.left if self._numbers([one]) or one.how == REPLACED]
        picked: list[tuple[str, list[Change]]] = []
        for rule in _RULES:
            for kind, some in rule(self):
                taken = set(some)
                self.left = [one for one in self.left if one not in taken]
                picked.append((kind, some))
        owner = self._owners(picked)
        for at, (kind, some) in enumerate(picked):
            numbers = sorted(number for number, which in owner.items() if which == at)
            if numbers or any(one.how == REPLACED for one in some):
                self._free -= set(numbers)
                self.found.append(self._episode(kind, some, numbers))
        self._attach_second_rounds()
        self._without_members()
        return self.found

    # ---- members and rebalances

    def _rebalance_of_coming(self, spell: Spell) -> int | None:
        known = [] if spell.first_generation is None else self._by_generation[spell.first_generation]
        return self._nearest(known, spell.start_ms) if known else self._around(spell.start_ms)

    def _rebalance_of_going(self, spell: Spell) -> int | None:
        if spell.end_ms is None or spell.how == REPLACED:
            return None
        known = [] if spell.last_generation is None else self._by_before[spell.last_generation]
        end_ms = spell.end_ms
        return min(known, key=lambda one: self._away_ms(one, end_ms)) if known else self._around(end_ms)

    def _nearest(self, known: Sequence[int], ms: int) -> int | None:
        best = min(known, key=lambda one: self._away_ms(one, ms))
        one = self.rebalances[best]
        return best if one.start_ms - _NEAR_MS <= ms <= one.end_ms + _AFTER_MS else None

    def _away_ms(self, number: int, ms: int) -> int:
        one = self.rebalances[number]
        return max(one.start_ms - ms, ms - one.end_ms, 0)

    def _around(self, ms: int) -> int | None:
        number = bisect_left(self._ends, ms)
        near = [one for one in (number - 1, number) if 0 <= one < len(self._ends)]
        near = [one for one in near if self._away_ms(one, ms) <= _AFTER_MS]
        return min(near, key=lambda one: (self._away_ms(one, ms), one), default=None)

    def _numbers(self, some: Iterable[Change]) -> set[int]:
        """Rebalances of changes."""
        told = {self._went[one.gone] for one in some if one.gone is not None}
        told |= {self._came[one.came] for one in some if one.came is not None}
        return told - {None}  # type: ignore[return-value]  # None is taken out

    def _owners(self, picked: Sequence[tuple[str, list[Change]]]) -> dict[int, int]:
        """Which episode a rebalance belongs to: that of the member that caused it, else of the first one in it."""
        claims: dict[int, list[tuple[bool, int, int]]] = defaultdict(list)
        for at, (_, some) in enumerate(picked):
            for one in some:
                for spell, numbers in ((one.gone, self._went), (one.came, self._came)):
                    number = None if spell is None else numbers[spell]
                    if spell is None or number is None:
                        continue
                    is_cause = self.spells[spell].who.member_id == self.rebalances[number].trigger
                    claims[number].append((not is_cause, one.from_ms, at))
        return {number: min(several)[2] for number, several in claims.items()}

    # ---- what rules ask

    def chains(self, some: Sequence[Change], most_ms: int, *, distinct: bool = False) -> Iterator[list[Change]]:
        """Changes that follow each other within this time; `distinct`: each place once."""
        chain: list[Change] = []
        for one in some:
            last_ms = max((each.until_ms for each in chain), default=0)
            again = distinct and any(each.place == one.place for each in chain)
            if chain and (one.from_ms - last_ms > most_ms or again):
                yield chain
                chain = []
            chain.append(one)
        if chain:
            yield chain

    def runs(self) -> dict[int, list[list[Change]]]:
        """For each place: exchanges that follow each other so soon that they may be a loop."""
        by_place: dict[int, list[Change]] = defaultdict(list)
        for one in self.left:
            if one.gone is not None:
                by_place[one.place].append(one)
        return {place: list(self.chains(some, limits.LOOP_MS)) for place, some in by_place.items()}

    def was_slow(self, one: Change) -> bool | None:
        """Did a member not poll in time? True: it is told; None: its commits say so."""
        number = None if one.gone is None else self._went[one.gone]
        if one.gone is None:
            return False
        spell = self.spells[one.gone]
        if number is not None and self.rebalances[number].trigger == spell.who.member_id:
            rebalance = self.rebalances[number]
            if rebalance.cause in TIMEOUTS or _POLLED_TOO_LATE in (rebalance.reason or ""):
                return True
            if rebalance.reason:
                return False
        silent_ms, patience_ms = spell.silent_ms, spell.patience_ms
        if spell.how not in (LEFT, *DEATHS) or silent_ms is None or not patience_ms:
            return False
        return None if silent_ms >= limits.SLOW_SHARE * patience_ms else False

    def is_sure_of_slowness(self, some: Sequence[Change]) -> bool:
        """Do commits alone tell that members were slow so many times? A dead member is silent for its session too."""
        spells = [self.spells[one.gone] for one in some if one.gone is not None]
        patient = all(
            one.how == LEFT or (one.patience_ms or 0) > limits.SLOW_SESSIONS * (one.session_ms or 0) for one in spells
        )
        return len(spells) >= (limits.SLOW_TWICE if patient else limits.LOOPS)

    def is_common(self, one: Change) -> bool:
        """Did members of several groups die at this moment?"""
        rows = [self.rebalances[number] for number in self._numbers([one])]
        return one.died and any(row.at_once >= max(limits.AT_ONCE, limits.AT_ONCE_SHARE * row.groups) for row in rows)

    def alive(self, ms: int) -> int:
        """Members just before a time."""
        return sum(one.start_ms < ms and (one.end_ms is None or one.end_ms >= ms) for one in self.spells)

    def empty_times(self) -> list[int]:
        """When the last member went."""
        steps = sorted(
            [(one.start_ms, 1) for one in self.spells]
            + [(one.end_ms, 0) for one in self.spells if one.end_ms is not None],
            key=lambda step: (step[0], -step[1]),
        )
        found, count = [], 0
        for ms, came in steps:
            count += 1 if came else -1
            if not count:
                found.append(ms)
        return found

    # ---- the episodes themselves

    def name(self, who: Who) -> str:
        """As people call it: the host only where it is needed to tell members apart."""
        if who.instance_id:
            return who.instance_id
        if not who.client_id:
            return who.member_id
        several = len(self._clients[who.client_id]) > 1
        return f"{who.client_id} ({(who.host or '').removeprefix('/')})" if several and who.host else who.client_id

    def _episode(self, kind: str, some: Sequence[Change], numbers: Sequence[int]) -> Episode:
        rows = [self.rebalances[number] for number in numbers]
        times = [one.from_ms for one in some] + [one.start_ms for one in rows]
        ends = [one.until_ms for one in some] + [one.end_ms for one in rows]
        spells = [one.came if one.gone is None else one.gone for one in some]
        names = dict.fromkeys(self.name(self.spells[one].who) for one in spells if one is not None)
        if kind == model.FLAPPING:
            both = [self.spells[number].who for one in some for number in (one.gone, one.came) if number is not None]
            names = dict.fromkeys(map(self.name, both))
            if len(names) == 1:  # two processes with one instance id
                names = dict.fromkeys(f"{who.instance_id} ({(who.host or '').removeprefix('/')})" for who in both)
        sure = sum(one.confidence for one in rows) / len(rows) if rows else 1.0
        exchanges = [one for one in some if one.gone is not None]
        back_ms = None
        if exchanges and all(one.back_ms is not None for one in exchanges):
            back_ms = max((one.back_ms or 0) - one.gone_ms for one in exchanges)
        if kind == model.STOP:
            empty_ms = max(one.gone_ms for one in exchanges)
            back_ms = min((one.back_ms - empty_ms for one in some if (one.back_ms or 0) > empty_ms), default=None)  # type: ignore[operator]  # it is above something
        return Episode(
            kind,
            min(times),
            max(ends),
            tuple(names),
            len(rows),
            sum(one.cost_ms for one in rows),
            round(_SURE.get(kind, 0.95) * sure, 3),
            max((one.partitions for one in rows), default=0),
            tuple(numbers),
            bool(some) and all(one.how == REPLACED for one in some),
            bool(exchanges) and all(one.died for one in exchanges),
            back_ms if back_ms is None else max(back_ms, 0),
            len({one.place for one in some if one.gone is not None or kind != model.STOP}),
        )

    def _attach_second_rounds(self) -> None:
        """A rebalance with the same members, just after another one, is the second half of that one."""
        by_number = {number: at for at, one in enumerate(self.found) for number in one.numbers}
        for number in sorted(self._free):
            one = self.rebalances[number]
            at = by_number.get(number - 1)
            if at is None or one.cause not in _SECOND:
                continue
            if one.start_ms - self.rebalances[number - 1].end_ms <= limits.SECOND_ROUND_MS:
                self._add(at, number)
                by_number[number] = at
                self._free.discard(number)

    def _add(self, at: int, number: int) -> None:
        old, one = self.found[at], self.rebalances[number]
        self.found[at] = old._replace(
            until_ms=max(old.until_ms, one.end_ms),
            rebalances=old.rebalances + 1,
            cost_ms=old.cost_ms + one.cost_ms,
            partitions=max(old.partitions, one.partitions),
            numbers=tuple(sorted((*old.numbers, number))),
        )

    def _without_members(self) -> None:
        """Rebalances in which nobody came or went, by their cause."""
        by_kind: dict[str, list[int]] = defaultdict(list)
        for number in sorted(self._free):
            by_kind[_KIND_OF_CAUSE.get(self.rebalances[number].cause or "", model.OTHER)].append(number)
        who = {spell.who.member_id: spell.who for spell in self.spells}
        for kind, numbers in by_kind.items():
            chain: list[int] = []
            for number, after in [*pairwise(numbers), (numbers[-1], None)]:
                chain.append(number)
                ended_ms = self.rebalances[number].end_ms
                if after is None or self.rebalances[after].start_ms - ended_ms > limits.TOGETHER_MS:
                    triggers = [self.rebalances[each].trigger for each in chain]
                    names = dict.fromkeys(self.name(who[one]) for one in triggers if one in who)
                    self.found.append(self._episode(kind, (), chain)._replace(members=tuple(names), size=len(names)))
                    chain = []
        self._free.clear()


_Found = Iterator[tuple[str, list[Change]]]


def _formation(of: _Finder) -> _Found:
    """The first members of a group of which nothing was known before."""
    first = of.rebalances[0] if of.rebalances else None
    if first is None or first.members_before or any(one.start_ms < first.start_ms - _NEAR_MS for one in of.spells):
        return
    came = [one for one in of.left if one.gone is None]
    chain = next(of.chains(came, limits.FORM_MS), None)
    if chain and chain[0].gone_ms <= first.end_ms:
        yield model.FORMATION, chain


def _trouble(of: _Finder) -> _Found:
    """Members of several groups died at the same moment."""
    common = [one for one in of.left if of.is_common(one)]
    for chain in of.chains(sorted(common, key=lambda one: one.gone_ms), 3 * limits.MOMENT_MS):
        yield model.TROUBLE, chain


def _whole_stop(of: _Finder) -> _Found:
    """The last member went, and others with it; or nobody came for long."""
    ended = sorted((one for one in of.left if one.gone is not None), key=lambda one: one.gone_ms)
    times = [one.gone_ms for one in ended]
    came = sorted((one for one in of.left if one.back_ms is not None), key=lambda one: one.back_ms or 0)
    came_at = [one.back_ms or 0 for one in came]
    taken: set[Change] = set()
    for ms in of.empty_times():
        gone: list[Change] = []
        for one in reversed(ended[: bisect_right(times, ms)]):
            if one in taken or (gone[-1].gone_ms if gone else ms) - one.gone_ms > limits.STOP_MS:
                break
            gone.append(one)
        if not gone:
            continue
        after = came[bisect_right(came_at, ms) :] or []
        soon = bool(after) and (after[0].back_ms or 0) - ms <= limits.RETURN_MS
        if len(gone) < 2 and soon:  # the only member was started anew
            continue
        back: list[Change] = []
        for one in after:
            if back and (one.back_ms or 0) - (back[-1].back_ms or 0) > limits.FORM_MS:
                break
            # an exchange of somebody else's is no return, nor one that took its place much later
            if one.gone is None or one in gone:
                back.append(one)
        some = [one for one in dict.fromkeys([*reversed(gone), *back]) if one not in taken]
        taken.update(some)
        yield model.STOP, some


def _slow(of: _Finder) -> _Found:
    """A member that is put out, or puts itself out, since it polls too slowly."""
    for runs in of.runs().values():
        for run in runs:
            slow = [one for one in run if of.was_slow(one) is not False]
            told = [one for one in slow if of.was_slow(one)]
            if told or of.is_sure_of_slowness(slow):
                yield model.SLOW, slow


def _loops(of: _Finder) -> _Found:
    """A member that goes and comes again and again, or two that do so in turn."""
    runs = [(place, run) for place, several in of.runs().items() for run in several if len(run) > 1]
    runs.sort(key=lambda one: one[1][0].from_ms)
    used: set[int] = set()
    for at, (_, run) in enumerate(runs):
        if at in used:
            continue
        beside = [
            other
            for other, (_, some) in enumerate(runs)
            if other != at and some[0].from_ms <= run[-1].until_ms and run[0].from_ms <= some[-1].until_ms
        ]
        if len(beside) == 1 and len(run) + len(runs[beside[0]][1]) >= limits.TWO_LOOP:
            both = sorted((*run, *runs[beside[0]][1]), key=lambda one: one.from_ms)
            turns = sum(one.place != other.place for one, other in pairwise(both))
            if 2 * turns >= len(both):
                used |= {at, beside[0]}
                yield model.FLAPPING, both
                continue
        if len(run) >= limits.LOOPS and (len(beside) < 2 or len(run) > limits.LOOPS * 2):
            used.add(at)
            yield (model.FLAPPING if _is_shared(of, run) else model.CRASH_LOOP), run


def _is_shared(of: _Finder, run: Sequence[Change]) -> bool:
    """Two processes of different hosts or client ids that take one instance id from each other in turn."""
    numbers = [run[0].gone, *(one.came for one in run)]
    whos = [of.spells[one].who for one in numbers if one is not None]
    return len({(one.client_id, one.host) for one in whos}) == 2 and all(
        (one.client_id, one.host) != (other.client_id, other.host) for one, other in pairwise(whos)
    )


def _rolling(of: _Finder) -> _Found:
    """Members that were started anew, one after the other."""
    some = [one for one in of.left if one.gone is not None and one.came is not None and not one.died]
    for chain in of.chains(some, limits.TOGETHER_MS, distinct=True):
        if len(chain) > 1:
            overlapping = sum(one.overlaps for one in chain)
            yield (model.OVERLAPPED if 2 * overlapping > len(chain) else model.ROLLING), chain


def _scale_out(of: _Finder) -> _Found:
    for chain in of.chains([one for one in of.left if one.gone is None], limits.TOGETHER_MS):
        yield model.SCALE_OUT, chain


def _scale_in(of: _Finder) -> _Found:
    gone = [one for one in of.left if one.gone is not None and one.came is None and not one.died]
    for chain in of.chains(gone, limits.TOGETHER_MS):
        yield model.SCALE_IN, chain


def _died(of: _Finder) -> _Found:
    dead = sorted((one for one in of.left if one.died), key=lambda one: one.gone_ms)
    chain: list[Change] = []
    for one in dead:
        if chain and one.gone_ms - chain[-1].gone_ms > limits.MOMENT_MS:
            yield model.DIED, chain
            chain = []
        chain.append(one)
    if chain:
        yield model.DIED, chain


def _restart(of: _Finder) -> _Found:
    for one in of.left:
        yield model.RESTART, [one]


_Rule = Callable[[_Finder], _Found]
_RULES: Final[Sequence[_Rule]] = (
    _formation, _trouble, _whole_stop, _slow, _loops, _rolling, _scale_out, _scale_in, _died, _restart,
)  # fmt: skip

_SECOND: Final = frozenset({events.METADATA_CHANGED, events.LEADER_REJOINED, events.PARTITIONS_CHANGED, None})
_KIND_OF_CAUSE: Final = {
    events.SUBSCRIPTION_CHANGED: model.SUBSCRIPTION,
    events.PARTITIONS_CHANGED: model.GROWTH,
}
_SURE: Final = {
    model.FORMATION: 0.99,
    model.STOP: 0.97,
    model.SLOW: 0.9,
    model.TROUBLE: 0.8,
    model.OVERLAPPED: 0.9,
    model.FLAPPING: 0.9,
    model.OTHER: 0.5,
}
"""How sure a kind is where its rebalances are; elsewhere 0.95."""
