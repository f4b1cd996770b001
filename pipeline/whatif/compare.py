"""One group's history under many settings, compared with what happened, and the fidelity of its replay. Pure.

`job` does this for each group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from muster.pipeline.whatif.costs import Costs, EpochCosts, Figures
from muster.pipeline.whatif.epoch_replay import EpochReplay
from muster.pipeline.whatif.history import (
    CLASSIC,
    CONSUMER,
    EMPTIED,
    EVENTS,
    LOG,
    REPLACED,
    Generation,
    History,
    Incident,
    Owned,
)
from muster.pipeline.whatif.leader import AssignmentBook, NoAssignment, is_cooperative
from muster.pipeline.whatif.processes import Clients
from muster.pipeline.whatif.replay import EndlessRebalances, Made, Outcome, Replay
from muster.pipeline.whatif.schedule import Schedule, plan
from muster.pipeline.whatif.settings import ON_THE_SERVER, Setting

ENOUGH: Final = {EVENTS: 0.99, LOG: 0.90}
"""The share of generations that must be equal, by the source of the history."""
NEAR_MS: Final = 60_000
"""A generation of a replay that begins further than this from the real one is not the same."""


@dataclass(frozen=True, slots=True)
class Fidelity:
    """How faithful a replay is.

    `generations`: the number of real generations, or of those in the replay if these are more. `reproduced`: how many
    have the same members and the same assignment. `why`: why the what-if is withheld, or another remark.
    """

    source: str
    generations: int
    reproduced: int
    withheld: bool = False
    why: str | None = None

    @property
    def share(self) -> float:
        """The share of reproduced generations. It is 1.0 if there was no generation to reproduce."""
        return self.reproduced / self.generations if self.generations else 1.0


def withheld(history: History, why: str) -> Fidelity:
    """The fidelity for a history that could not be replayed."""
    return Fidelity(history.source, len(history.generations), 0, True, why)


def judge(history: History, made: Sequence[Made]) -> Fidelity:
    """Compare a replay with the real history."""
    real = history.generations
    reproduced = count_same(real, made)
    # a generation after the last event does not count: a log may end in the middle of a rebalance. Nor does an epoch
    # that was nearly reached
    made_before_end = [one for one in made if one.start_ms <= history.last_ms]
    generations = max(len(real), sum(one.number not in history.overtaken for one in made_before_end))
    found = Fidelity(history.source, generations, reproduced)
    enough = ENOUGH[history.source]
    if found.share >= enough:
        return found
    same_members = count_same(real, made, assignments=False)
    what = "members" if generations - same_members > same_members - reproduced else "assignments"
    why = (
        f"the replay of what really held made {reproduced} of {generations} generations as they were, "
        f"{enough:.0%} are needed; mostly {what} differ"
    )
    return Fidelity(history.source, generations, reproduced, True, why)


def count_same(real: Sequence[Generation], made: Sequence[Made], *, assignments: bool = True) -> int:
    """How many real generations the replay also made, in their order and at about the same time."""
    count = at = 0
    for generation in real:
        for index in range(at, len(made)):
            one = made[index]
            if one.start_ms > generation.start_ms + NEAR_MS:
                break
            if one.start_ms >= generation.start_ms - NEAR_MS and _same(generation.shares, one.shares, assignments):
                count += 1
                at = index + 1
                break
    return count


def _same(real: Mapping[str, Owned], made: Mapping[str, Owned], assignments: bool) -> bool:
    if real.keys() != made.keys():
        return False
    return not assignments or all(_partitions(owned) == _partitions(made[name]) for name, owned in real.items())


def _partitions(owned: Owned) -> dict[str, list[int]]:
    return {topic: sorted(partitions) for topic, partitions in owned.items() if partitions}


OTHER_ASSIGNOR: Final = (
    "its leader does not assign as Kafka's strategy of that name does: where the same members met, what it really gave "
    "them is taken"
)
_LAST: Final = 2**60


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What would have happened under a setting. If `figures` is None, `why` gives the reason."""

    setting: Setting
    figures: Figures | None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The results for one group. `whatif` is empty if the fidelity is too low."""

    fidelity: Fidelity
    actual: Figures
    whatif: list[WhatIf] = field(default_factory=list)
    played: Figures | None = None
    """The figures of the replay under the real settings. A setting gains only what it spares of these figures too."""


def compare(history: History, settings: Sequence[Setting]) -> Comparison:
    """Replay a history as it was. If that reproduces the history, replay it under each of the settings."""
    if history.unusable is not None:
        return Comparison(withheld(history, history.unusable), Figures())
    clients = Clients(history)
    as_it_was = plan(clients, Setting())
    actual = what_happened(clients, as_it_was.wanted())
    book = AssignmentBook(clients)
    try:
        base = _play(as_it_was, book)
        fidelity = judge(history, base.generations)
        if fidelity.withheld and history.protocol == CONSUMER and history.assignor is None:
            base, fidelity = _by_another(history, as_it_was, base, fidelity)
        if fidelity.withheld and history.protocol == CLASSIC:
            # perhaps the leader's client has a strategy of the same name that assigns differently from Kafka's
            book = AssignmentBook(clients, other_assignor=True)
            base = Replay(as_it_was, book).run()
            fidelity = judge(history, base.generations)
            if not fidelity.withheld:
                fidelity = replace(fidelity, why=OTHER_ASSIGNOR)
    except (NoAssignment, EndlessRebalances) as error:
        return Comparison(withheld(history, str(error)), actual)
    if fidelity.withheld:
        return Comparison(fidelity, actual)
    if history.note is not None:
        fidelity = replace(fidelity, why=history.note if fidelity.why is None else f"{history.note}; {fidelity.why}")
    known: dict[tuple[object, ...], Outcome] = {as_it_was.key(): base}
    rows = []
    for setting in settings:
        schedule = plan(clients, setting)
        key = schedule.key()
        try:
            outcome = known.get(key) or _play(schedule, book)
        except (NoAssignment, EndlessRebalances) as error:
            rows.append(WhatIf(setting, None, str(error)))
            continue
        known[key] = outcome
        # if a setting changes nothing, the figures are the real ones, without the errors of the replay
        rows.append(WhatIf(setting, actual if outcome is base else outcome.figures))
    return Comparison(fidelity, actual, rows, base.figures)


def _by_another(history: History, schedule: Schedule, base: Outcome, fidelity: Fidelity) -> tuple[Outcome, Fidelity]:
    """Replay with each other strategy of the server.

    The members left the strategy to the server, and its default does not reproduce the history. Perhaps the server is
    configured for another strategy.
    """
    for history.assignor in ON_THE_SERVER[1:]:
        other = EpochReplay(schedule).run()
        found = judge(history, other.generations)
        if not found.withheld:
            return other, found
    history.assignor = None
    return base, fidelity


def _play(schedule: Schedule, book: AssignmentBook) -> Outcome:
    """Play a schedule once. Raises NoAssignment, EndlessRebalances."""
    return EpochReplay(schedule).run() if schedule.protocol == CONSUMER else Replay(schedule, book).run()


def what_happened(clients: Clients, wanted: Sequence[tuple[int, int]]) -> Figures:
    """The figures of the real generations, by the same rules as for replayed ones. `wanted`: see `Schedule.wanted`."""
    history = clients.history
    if history.protocol == CONSUMER:
        return _what_happened_in_epochs(history, wanted)
    costs = Costs(wanted)
    names = {stay.member_id: stay.instance_id or stay.member_id for stay in history.stays}
    if history.given is not None:
        costs.given(_named(history.given, names), cooperative=is_cooperative(history.given.protocol))
    for *_, calls in sorted(_cost_calls(clients, costs, names), key=lambda one: one[:2]):
        calls()
    unassigned = sum(history.counts[-1][1].values()) if history.counts else 0
    return costs.figures(history.end_ms, unassigned=unassigned)


def _what_happened_in_epochs(history: History, wanted: Sequence[tuple[int, int]]) -> Figures:
    costs = EpochCosts(wanted)
    names = {stay.member_id: stay.instance_id or stay.member_id for stay in history.stays}
    if history.given is not None:
        costs.given(_named(history.given, names))
    calls: Mapping[str, Callable[[Incident], None]] = {
        "back": lambda one: costs.back(one.who, one.ms),
        "vanished": lambda one: costs.vanished(one.who, one.ms),
        "gone": lambda one: costs.gone(one.who, one.ms),
        "target": lambda _: costs.target(),
        "took": lambda one: costs.took(one.who, one.place or ("", 0), one.ms, one.paused_ms),
        "settled": lambda _: costs.settled(),
        "emptied": lambda one: costs.emptied(one.ms),
    }
    order = {what: rank for rank, what in enumerate(calls)}
    for one in sorted(history.incidents, key=lambda one: (one.ms, order[one.what])):
        calls[one.what](one)
    return costs.figures(history.end_ms)


def _named(generation: Generation, names: Mapping[str, str]) -> dict[str, Owned]:
    return {names.get(name, name): share for name, share in generation.shares.items()}


def _cost_calls(
    clients: Clients, costs: Costs, names: Mapping[str, str]
) -> Iterator[tuple[int, int, Callable[[], None]]]:
    """The calls on `costs`: the time, the rank among calls at the same time, and the call."""
    history = clients.history
    for number, one in enumerate(history.generations):
        shares, cooperative = _named(one, names), is_cooperative(one.protocol)
        yield one.stopped_ms, 2 * number, partial(costs.began, one.stopped_ms)
        yield one.start_ms, 2 * number + 1, partial(costs.completed, one.start_ms, shares, cooperative=cooperative)
    emptied = [one.began_ms for one in history.rounds if one.outcome == EMPTIED]
    for ms in emptied if history.open_ms is None else (history.open_ms, *emptied):
        yield ms, _LAST, partial(costs.began, ms)
    for ms in history.emptied:
        yield ms, _LAST + 1, partial(costs.emptied, ms)
    for stay in history.stays:
        vanished_ms, name = clients.vanished_ms(stay), names[stay.member_id]
        if vanished_ms is not None:
            yield vanished_ms, _LAST + 2, partial(costs.vanished, name, vanished_ms)
        if stay.end_ms is not None:
            calls = costs.back if stay.end == REPLACED else costs.gone
            yield stay.end_ms, -1, partial(calls, name, stay.end_ms)
