"""What a scenario is made with: it puts rules in force, tells its steps, does things later, and says how all ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from muster.coordinator.server import Server
from muster.testcontrol.disk import Disk
from muster.testcontrol.faults.actions import Action
from muster.testcontrol.faults.engine import ALWAYS, Faults
from muster.testcontrol.faults.errors import NoSuchFault
from muster.testcontrol.faults.matching import Match
from muster.testcontrol.faults.rule import Rule
from muster.testcontrol.faults.when import When
from muster.testcontrol.groups import Groups
from muster.testcontrol.nodes import Nodes
from muster.testcontrol.waits import pause


class Parts(NamedTuple):
    """What scenarios reach."""

    server: Server
    faults: Faults
    groups: Groups
    nodes: Nodes
    disk: Disk


class Parameter(NamedTuple):
    """One parameter of a scenario. `default` None: it must be given."""

    name: str
    kind: type[str] | type[int]
    about: str
    default: str | int | None = None

    def to_json(self) -> dict[str, Any]:
        """As the contract shows it."""
        named = {str: "string", int: "integer"}[self.kind]
        shown = {"name": self.name, "type": named, "about": self.about, "required": self.default is None}
        return shown if self.default is None else {**shown, "default": self.default}


class Scenario:
    """One that runs, or has run: its `steps` in words, and its rules."""

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

    # ---- for who makes one

    def text(self, name: str) -> str:
        """A parameter that is a text."""
        return str(self.parameters[name])

    def number(self, name: str) -> int:
        """A parameter that is a number."""
        return int(self.parameters[name])

    def step(self, words: str) -> None:
        """This was done."""
        self.steps.append(words)

    def rule(self, match: Match, then: Action, when: When = ALWAYS) -> Rule:
        """Put a rule in force, until the scenario ends."""
        rule = self.parts.faults.add(match, then, when, name=self.name)
        self.rules.append(rule)
        return rule

    def at_end(self, undo: Callable[[], object]) -> None:
        """When the scenario ends, do this; the last one first."""
        self._undo.append(undo)

    def go_on(self, steps: Callable[[], Awaitable[None]]) -> None:
        """Do this from now on, until it is over or the scenario ends."""

        async def guarded() -> None:
            try:
                await steps()
            except Exception as error:  # noqa: BLE001 - it is told, where a test looks for it
                self.step(f"it could not go on: {error}")

        self._task = asyncio.get_running_loop().create_task(guarded())

    async def wait(self, ms: int) -> None:
        """Let so much of the machine's time pass."""
        await pause(self.parts.server.clock.machine, ms)

    # ---- for who runs it

    @property
    def is_done(self) -> bool:
        """Whether it has nothing more to do."""
        if self._ended:
            return True
        goes_on = self._task is not None and not self._task.done()
        return not goes_on and not self._undo and all(rule.is_spent for rule in self.rules)

    def end(self) -> None:
        """Take its rules away, and undo what it did; harmless when it has ended."""
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
                continue  # it was taken away before
        self.step("ended")

    def to_json(self) -> dict[str, Any]:
        """As the contract shows it."""
        return {
            "id": self.id,
            "name": self.name,
            "parameters": dict(self.parameters),
            "rules": [rule.id for rule in self.rules],
            "steps": list(self.steps),
            "done": self.is_done,
        }


class Kind(NamedTuple):
    """A scenario that can be started: `begin` makes it happen."""

    name: str
    about: str
    begin: Callable[[Scenario], Awaitable[None]]
    parameters: tuple[Parameter, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As the contract shows it."""
        return {"name": self.name, "about": self.about, "parameters": [one.to_json() for one in self.parameters]}
