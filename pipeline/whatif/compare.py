"""One group's history under many settings, compared with what happened. Pure: what `job` does for each group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from muster.pipeline.whatif.costs import Costs, Figures
from muster.pipeline.whatif.fidelity import Fidelity, judge, withheld
from muster.pipeline.whatif.history import EMPTIED, REPLACED, History
from muster.pipeline.whatif.leader import Book, NoAssignment, is_cooperative
from muster.pipeline.whatif.processes import Cast
from muster.pipeline.whatif.replay import NoRest, Outcome, Replay
from muster.pipeline.whatif.schedule import plan
from muster.pipeline.whatif.settings import Setting

FOREIGN: Final = (
    "its leader does not assign as Kafka's strategy of that name does: where the same members met, what it really gave "
    "them is taken"
)
_LAST: Final = 2**60


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What would have happened under a setting; without figures there is a `why`."""

    setting: Setting
    figures: Figures | None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """All of it for one group. `whatif` is empty when the fidelity is too low."""

    fidelity: Fidelity
    actual: Figures
    whatif: list[WhatIf] = field(default_factory=list)


def compare(history: History, settings: Sequence[Setting]) -> Comparison:
    """Replay a history as it was, and, if that makes it come out, under each of the settings."""
    if history.unusable is not None:
        return Comparison(withheld(history, history.unusable), Figures())
    cast = Cast(history)
    as_it_was = plan(cast, Setting())
    actual = what_happened(cast, as_it_was.wanted())
    book = Book(cast)
    try:
        base = Replay(as_it_was, book).run()
        fidelity = judge(history, base.generations)
        if fidelity.withheld:
            # perhaps its leader's client has a strategy of that name that is not quite Kafka's
            book = Book(cast, foreign=True)
            base = Replay(as_it_was, book).run()
            fidelity = judge(history, base.generations)
            if not fidelity.withheld:
                fidelity = replace(fidelity, why=FOREIGN)
    except (NoAssignment, NoRest) as error:
        return Comparison(withheld(history, str(error)), actual)
    if fidelity.withheld:
        return Comparison(fidelity, actual)
    known: dict[tuple[object, ...], Outcome] = {as_it_was.key(): base}
    rows = []
    for setting in settings:
        schedule = plan(cast, setting)
        key = schedule.key()
        try:
            outcome = known.get(key) or Replay(schedule, book).run()
        except (NoAssignment, NoRest) as error:
            rows.append(WhatIf(setting, None, str(error)))
            continue
        known[key] = outcome
        rows.append(WhatIf(setting, outcome.figures))
    return Comparison(fidelity, actual, rows)


def what_happened(cast: Cast, wanted: Sequence[tuple[int, int]]) -> Figures:
    """The figures of the real generations, by the rules that hold for replayed ones. `wanted`: see Schedule."""
    history = cast.history
    costs, cooperative = Costs(wanted), False
    names = {spell.member_id: spell.instance_id or spell.member_id for spell in history.spells}
    if history.given is not None:
        costs.given({names.get(name, name): share for name, share in history.given.shares.items()})
        cooperative = is_cooperative(history.given.protocol)
    for ms, _, what, about in sorted(_told(cast), key=lambda one: one[:2]):
        match what:
            case "completed":
                cooperative = is_cooperative(about.protocol)
                shares = {names.get(name, name): share for name, share in about.shares.items()}
                costs.completed(ms, shares, cooperative=cooperative)
            case "began":
                costs.began(ms)
            case "emptied":
                costs.emptied(ms)
            case "vanished":
                costs.vanished(names[about], ms)
            case _:
                costs.gone(names[about], ms)
    unassigned = sum(history.counts[-1][1].values()) if history.counts else 0
    return costs.figures(history.end_ms, cooperative=cooperative, unassigned=unassigned)


def _told(cast: Cast) -> Iterator[tuple[int, int, str, Any]]:
    """What the costs are told: when, rank among what happens at the same time, what, and a generation or member id."""
    history = cast.history
    for number, generation in enumerate(history.generations):
        yield generation.stopped_ms, 2 * number, "began", None
        yield generation.start_ms, 2 * number + 1, "completed", generation
    if history.open_ms is not None:
        yield history.open_ms, _LAST, "began", None
    for one in history.rounds:
        if one.outcome == EMPTIED:
            yield one.began_ms, _LAST, "began", None
    for ms in history.emptied:
        yield ms, _LAST + 1, "emptied", None
    for spell in history.spells:
        vanished_ms = cast.vanished_ms(spell)
        if vanished_ms is not None:
            yield vanished_ms, _LAST + 2, "vanished", spell.member_id
        if spell.end_ms is not None and spell.end != REPLACED:
            yield spell.end_ms, -1, "gone", spell.member_id
