"""Starts scenarios by name, and ends them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any, Final

from muster.testcontrol.expected import MOST_COUNT, called, sentence, text
from muster.testcontrol.faults.errors import NoSuchFault, WrongFault
from muster.testcontrol.scenarios import of_groups, of_nodes, of_storage
from muster.testcontrol.scenarios.stage import Kind, Parts, Scenario

KINDS: Final[Mapping[str, Kind]] = {kind.name: kind for kind in (*of_groups.KINDS, *of_nodes.KINDS, *of_storage.KINDS)}
"""The kinds of scenarios by name."""


class Scenarios:
    """The scenarios that were started and not ended, by id."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._running: dict[str, Scenario] = {}
        self._ids = count(1)

    @property
    def running(self) -> list[Scenario]:
        """The running scenarios, in the order in which they were started."""
        return list(self._running.values())

    def kinds(self) -> list[dict[str, Any]]:
        """The kinds of scenarios, in the form of the contract."""
        return [kind.to_json() for kind in KINDS.values()]

    async def start(self, name: str, parameters: Mapping[str, Any] | None = None) -> Scenario:
        """Start one. Raises NoSuchFault, WrongValue for a parameter, and CannotBeDone."""
        kind = KINDS.get(text("scenario", name))
        if kind is None:
            raise NoSuchFault(f"there is no scenario {name}; there are {', '.join(KINDS)}")
        scenario = Scenario(f"s{next(self._ids)}", name, _checked(kind, parameters or {}), self._parts)
        try:
            await kind.begin(scenario)
        except BaseException:
            scenario.end()
            raise
        self._running[scenario.id] = scenario
        return scenario

    def find(self, scenario_id: str) -> Scenario:
        """The scenario of an id. Raises NoSuchFault."""
        found = self._running.get(scenario_id)
        if found is None:
            raise NoSuchFault(f"no scenario {scenario_id} runs")
        return found

    def end(self, scenario_id: str) -> Scenario:
        """End one. Raises NoSuchFault."""
        scenario = self.find(scenario_id)
        del self._running[scenario_id]
        scenario.end()
        return scenario

    def end_all(self) -> None:
        """End all."""
        for scenario_id in list(self._running):
            self.end(scenario_id)


def _checked(kind: Kind, given: Mapping[str, Any]) -> dict[str, Any]:
    known = {one.name: one for one in kind.parameters}
    for name, value in given.items():
        if name not in known:
            raise WrongFault(f"{called(name)} means nothing to {kind.name}; {', '.join(known) or 'nothing'} does")
        wanted = known[name].kind
        if (
            not isinstance(value, wanted)
            or isinstance(value, bool)
            or (wanted is int and not 0 <= int(value) <= MOST_COUNT)
        ):
            raise WrongFault(sentence(name, value, "a text" if wanted is str else f"a number from 0 to {MOST_COUNT}"))
    missing = [one.name for one in kind.parameters if one.default is None and one.name not in given]
    if missing:
        raise WrongFault(f"{kind.name} needs {', '.join(missing)}")
    return {one.name: given.get(one.name, one.default) for one in kind.parameters}
