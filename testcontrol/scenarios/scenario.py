"""Scenarios, failures of real clusters by name: what a scenario consists of, and how it is started and ended.

A scenario puts rules in force, records its steps, acts later, and undoes its actions at its end. See `kinds`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from muster.coordinator.server import Server
from muster.testcontrol.checks import MAX_COUNT, called, sentence, text
from muster.testcontrol.errors import NoSuchFault, WrongFault
from muster.testcontrol.faults.actions import Action
from muster.testcontrol.faults.engine import ALWAYS, Faults
from muster.testcontrol.faults.matching import Match
from muster.testcontrol.faults.rule import Rule, When
from muster.testcontrol.groups import Groups
from muster.testcontrol.machine import Disk
from muster.testcontrol.nodes import Nodes
from muster.testcontrol.waits import pause


class Parts(NamedTuple):
    """The parts of the server that scenarios use."""

    server: Server
    faults: Faults
    groups: Groups
    nodes: Nodes
    disk: Disk


class Parameter(NamedTuple):
    """One parameter of a scenario. `default` None: the parameter is required."""

    name: str
    kind: type[str] | type[int]
    about: str
    default: str | int | None = None

    def to_json(self) -> dict[str, Any]:
        """The parameter in the form of the contract."""
        named = {str: "string", int: "integer"}[self.kind]
        shown = {"name": self.name, "type": named, "about": self.about, "required": self.default is None}
        return shown if self.default is None else {**shown, "default": self.default}


class Scenario:
    """A scenario that runs, or has run: its `steps` in words, and its rules."""

    def __init__(self, scenario_id: str, name: str, parameters: Mapping[str, Any], parts: Parts) -> None:
        self.id = scenario_id
        self.name = name
        self.parameters = parameters
        self.parts = parts
        self.steps: list[str] = []
        self.rules: list[Rule] = []
        self._undo: list[Callable[[], object]] = []
        self._task: asyncio.Task[None] | None = None
        self._ended = False

    # ---- for scenarios

    def text(self, name: str) -> str:
        """A parameter that is a text."""
        return str(self.parameters[name])

    def number(self, name: str) -> int:
        """A parameter that is a number."""
        return int(self.parameters[name])

    def step(self, words: str) -> None:
        """Record a step that was done."""
        self.steps.append(words)

    def rule(self, match: Match, then: Action, when: When = ALWAYS) -> Rule:
        """Put a rule in force, until the scenario ends."""
        rule = self.parts.faults.add(match, then, when, name=self.name)
        self.rules.append(rule)
        return rule

    def on_end(self, undo: Callable[[], object]) -> None:
        """Call `undo` when the scenario ends; the last function is called first."""
        self._undo.append(undo)

    def run_in_background(self, steps: Callable[[], Awaitable[None]]) -> None:
        """Do `steps` from now on, until they are done or the scenario ends."""

        async def guarded() -> None:
            try:
                await steps()
            except Exception as error:  # noqa: BLE001  # reported where a test looks for it
                self.step(f"it could not go on: {error}")

        self._task = asyncio.get_running_loop().create_task(guarded())

    async def wait(self, ms: int) -> None:
        """Wait for `ms` of the machine's time."""
        await pause(self.parts.server.clock.machine, ms)

    # ---- for `Scenarios`

    @property
    def is_done(self) -> bool:
        """Whether the scenario has nothing more to do."""
        if self._ended:
            return True
        is_running = self._task is not None and not self._task.done()
        return not is_running and not self._undo and all(rule.is_spent for rule in self.rules)

    def end(self) -> None:
        """Remove the scenario's rules, and undo its actions; has no effect after the first call."""
        if self._ended:
            return
        self._ended = True
        if self._task is not None:
            self._task.cancel()
        while self._undo:
            self._undo.pop()()
        for rule in self.rules:
            try:
                self.parts.faults.remove(rule.id)
            except NoSuchFault:
                continue  # the rule was removed before
        self.step("ended")

    def to_json(self) -> dict[str, Any]:
        """The scenario in the form of the contract."""
        return {
            "id": self.id,
            "name": self.name,
            "parameters": dict(self.parameters),
            "rules": [rule.id for rule in self.rules],
            "steps": list(self.steps),
            "done": self.is_done,
        }


class Kind(NamedTuple):
    """A scenario that can be started: `begin` starts it."""

    name: str
    about: str
    begin: Callable[[Scenario], Awaitable[None]]
    parameters: tuple[Parameter, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The kind in the form of the contract."""
        return {"name": self.name, "about": self.about, "parameters": [one.to_json() for one in self.parameters]}


class Scenarios:
    """The scenarios that were started and not ended, by id."""

    def __init__(self, parts: Parts, kinds: Sequence[Kind]) -> None:
        self._parts = parts
        self._kinds = {kind.name: kind for kind in kinds}
        self._running: dict[str, Scenario] = {}
        self._ids = count(1)

    @property
    def running(self) -> list[Scenario]:
        """The running scenarios, in the order in which they were started."""
        return list(self._running.values())

    def kinds(self) -> list[dict[str, Any]]:
        """The kinds of scenarios, in the form of the contract."""
        return [kind.to_json() for kind in self._kinds.values()]

    async def start(self, name: str, parameters: Mapping[str, Any] | None = None) -> Scenario:
        """Start a scenario. Raises NoSuchFault, WrongValue for a parameter, and CannotBeDone."""
        kind = self._kinds.get(text("scenario", name))
        if kind is None:
            raise NoSuchFault(f"there is no scenario {name}; there are {', '.join(self._kinds)}")
        scenario = Scenario(f"s{next(self._ids)}", name, _checked(kind, parameters or {}), self._parts)
        try:
            await kind.begin(scenario)
        except BaseException:
            scenario.end()
            raise
        self._running[scenario.id] = scenario
        return scenario

    def find(self, scenario_id: str) -> Scenario:
        """The scenario with this id. Raises NoSuchFault."""
        found = self._running.get(scenario_id)
        if found is None:
            raise NoSuchFault(f"no scenario {scenario_id} runs")
        return found

    def end(self, scenario_id: str) -> Scenario:
        """End a scenario. Raises NoSuchFault."""
        scenario = self.find(scenario_id)
        del self._running[scenario_id]
        scenario.end()
        return scenario

    def end_all(self) -> None:
        """End all scenarios."""
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
            or (wanted is int and not 0 <= int(value) <= MAX_COUNT)
        ):
            raise WrongFault(sentence(name, value, "a text" if wanted is str else f"a number from 0 to {MAX_COUNT}"))
    missing = [one.name for one in kind.parameters if one.default is None and one.name not in given]
    if missing:
        raise WrongFault(f"{kind.name} needs {', '.join(missing)}")
    return {one.name: given.get(one.name, one.default) for one in kind.parameters}
