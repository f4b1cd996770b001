"""Finds the episodes of one group.

The rules (`rules`) apply one after the other, and each takes some changes of members. A later rule does not get changes
that an earlier rule has taken. The remaining rebalances have no change of members. The input rows may have any order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from muster.coordinator.groups.common import events
from muster.pipeline.episodes import model
from muster.pipeline.episodes import thresholds as limits
from muster.pipeline.episodes.history import History, is_unknown
from muster.pipeline.episodes.model import REPLACED, Episode, Moment, Rebalance, Stay
from muster.pipeline.episodes.places import Change
from muster.pipeline.episodes.rules import RULES
from muster.pipeline.episodes.silence import Silence


def episodes(
    stays: Iterable[Stay],
    rebalances: Sequence[Rebalance],
    moments: Sequence[Moment] = (),
    silences: Sequence[Silence] = (),
) -> list[Episode]:
    """All episodes of a group, in the order of time. `Episode.numbers` are indexes in `rebalances`.

    `moments`: when members of several groups were lost. `silences`: when no group gave a sign of life.
    """
    order = sorted(range(len(rebalances)), key=lambda one: _place(rebalances[one]))
    ordered = [rebalances[one] for one in order]
    finder = _Finder(History(sorted(stays, key=_begin), ordered, moments, silences))
    found = [one._replace(numbers=tuple(order[number] for number in one.numbers)) for one in finder.run()]
    return sorted(found, key=lambda one: (one.from_ms, one.until_ms, one.kind, one.members))


def within(one: Episode, rebalances: Sequence[Rebalance], from_ms: int | None, until_ms: int | None) -> Episode:
    """An episode with only those of its rebalances that ended from `from_ms` on and before `until_ms`.

    So an episode that lasts over a time has the same kind before and after this time.
    """
    kept = [
        number for number in one.numbers
        if (from_ms is None or rebalances[number].end_ms >= from_ms)
        and (until_ms is None or rebalances[number].end_ms < until_ms)
    ]  # fmt: skip
    cost_ms = sum(rebalances[number].cost_ms for number in kept)
    return one._replace(numbers=tuple(kept), rebalances=len(kept), cost_ms=cost_ms)


def _place(one: Rebalance) -> tuple[int, int, int, str]:
    return one.end_ms, one.generation, one.start_ms, one.trigger or ""


def _begin(one: Stay) -> tuple[int, int, str]:
    return one.start_ms, one.end_ms or 0, one.who.member_id


class _Finder:
    """The search for the episodes of one group."""

    def __init__(self, of: History) -> None:
        self._of = of
        self._free = set(range(len(of.rebalances)))
        self._found: list[Episode] = []

    def run(self) -> list[Episode]:
        """Apply all rules, then find the rebalances in which no member joined or left."""
        picked: list[tuple[str, list[Change]]] = []
        for rule in RULES:
            for kind, some in rule(self._of):
                taken = set(some)
                self._of.left = [one for one in self._of.left if one not in taken]
                picked.append((kind, some))
        owner = self._of.owners(picked)
        for at, (kind, some) in enumerate(picked):
            numbers = sorted(number for number, which in owner.items() if which == at)
            if numbers or any(one.how == REPLACED for one in some):
                self._free -= set(numbers)
                self._found.append(self._episode(kind, some, numbers))
        self._attach_second_rounds()
        self._without_members()
        return self._found

    def _episode(self, kind: str, some: Sequence[Change], numbers: Sequence[int]) -> Episode:
        rows = [self._of.rebalances[number] for number in numbers]
        times = [one.from_ms for one in some] + [one.start_ms for one in rows]
        ends = [one.until_ms for one in some] + [one.end_ms for one in rows]
        stays = [one.came if one.gone is None else one.gone for one in some]
        exchanges = [one for one in some if one.gone is not None]
        is_stop = kind == model.STOP and bool(exchanges)
        if kind == model.STOP:
            stays = [one.gone for one in exchanges]  # the members that join later did not stop
        names = self._of.names(self._of.stays[one].who for one in stays if one is not None)
        if kind == model.FLAPPING:
            numbers_of = [number for one in some for number in (one.gone, one.came) if number is not None]
            both = [self._of.stays[number].who for number in numbers_of]
            names = self._of.names(both)
            if len(names) == 1:  # two processes with one instance id
                hosts = dict.fromkeys((who.host or "").removeprefix("/") for who in both)
                names = [f"{names[0]} ({host})" for host in hosts]
        places = {one.place for one in some if one.gone is not None or not is_stop}
        sure = sum(one.confidence for one in rows) / len(rows) if rows else 1.0
        back_ms = None
        if exchanges and all(one.back_ms is not None for one in exchanges):
            back_ms = max((one.back_ms or 0) - one.gone_ms for one in exchanges)
        if kind == model.STOP and not is_stop:  # the group had stopped before its log begins
            back_ms = min(one.until_ms for one in some) - self._of.rebalances[0].end_ms
        elif is_stop:
            # any member that joins the empty group ends the stop, though the member may belong to another episode
            empty_ms = max(one.gone_ms for one in exchanges)
            back_ms = min((one.start_ms - empty_ms for one in self._of.stays if one.start_ms > empty_ms), default=None)
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
            max(Counter(one.place for one in exchanges).values(), default=0),
            any(one.died for one in exchanges),
            bool(exchanges) and all(self._of.stays[one.gone or 0].who.instance_id is not None for one in exchanges),
            # processes that died one after the other in one place are several
            max(len(places), len(names) if kind in (model.DIED, model.TROUBLE) else 0),
            may_be_slow=bool(exchanges) and all(one.died and self._of.was_slow(one) is None for one in exchanges),
            is_unsure=any(self._of.is_unsure(one) for one in exchanges),
            perhaps_lost=any(self._of.is_unsure(one) and not self._of.is_after_silence(one) for one in exchanges),
            same=all(self._of.is_same(one) for one in exchanges),
        )

    def _attach_second_rounds(self) -> None:
        """Add second rounds to their episodes.

        A rebalance with the same members, soon after another one, is its second round.
        """
        by_number = {number: at for at, one in enumerate(self._found) for number in one.numbers}
        for number in sorted(self._free):
            one = self._of.rebalances[number]
            at = by_number.get(number - 1)
            if at is None or one.cause not in _SECOND:
                continue
            if one.start_ms - self._of.rebalances[number - 1].end_ms <= limits.SECOND_ROUND_MS:
                self._add(at, number)
                by_number[number] = at
                self._free.discard(number)

    def _add(self, at: int, number: int) -> None:
        old, one = self._found[at], self._of.rebalances[number]
        self._found[at] = old._replace(
            until_ms=max(old.until_ms, one.end_ms),
            rebalances=old.rebalances + 1,
            cost_ms=old.cost_ms + one.cost_ms,
            partitions=max(old.partitions, one.partitions),
            numbers=tuple(sorted((*old.numbers, number))),
        )

    def _without_members(self) -> None:
        """Make episodes of the rebalances in which nobody joined or left, by their causes."""
        by_kind: dict[str, list[int]] = defaultdict(list)
        for number in sorted(self._free):
            by_kind[self._kind(number)].append(number)
        who = {stay.who.member_id: stay.who for stay in self._of.stays}
        for kind, numbers in by_kind.items():
            chain: list[int] = []
            for number, after in [*pairwise(numbers), (numbers[-1], None)]:
                chain.append(number)
                ended_ms = self._of.rebalances[number].end_ms
                if after is None or self._of.rebalances[after].start_ms - ended_ms > limits.TOGETHER_MS:
                    triggers = [self._of.rebalances[each].trigger for each in chain]
                    names = self._of.names(who[one] for one in triggers if one in who)
                    is_midst = self._is_midst([self._of.rebalances[each] for each in chain])
                    found = self._episode(kind, (), chain)
                    self._found.append(found._replace(members=tuple(names), size=len(names), is_midst=is_midst))
                    chain = []
        self._free.clear()

    @staticmethod
    def _is_midst(some: Sequence[Rebalance]) -> bool:
        """Are these only the first records of a log? An empty group may have another one without members."""
        return is_unknown(some[0]) and all(
            is_unknown(one) or one.members_before == one.members_after == 0 for one in some
        )

    def _kind(self, number: int) -> str:
        """The kind of a rebalance in which nobody joined or left."""
        one = self._of.rebalances[number]
        kind = _KIND_OF_CAUSE.get(one.cause or "", model.OTHER)
        is_by_trouble = kind == model.OTHER and not is_unknown(one) and self._of.is_after_trouble(one)
        return model.TROUBLE if is_by_trouble else kind


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
"""How sure each kind of episode is, if its rebalances are certain. Other kinds have 0.95."""
