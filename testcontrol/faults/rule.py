"""A rule: which requests, what happens to them, and when."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from muster.testcontrol.expected import called, sentence
from muster.testcontrol.faults.actions import Action
from muster.testcontrol.faults.errors import WrongFault
from muster.testcontrol.faults.kinds import action_of
from muster.testcontrol.faults.matching import Match
from muster.testcontrol.faults.when import Turns, When


class Rule:
    """A rule in force. `hits`: the number of requests that it acted on; `engine.Faults` gives the `id`."""

    def __init__(self, match: Match, then: Action, when: When, name: str = "") -> None:
        """Raises WrongFault."""
        _demand("match", match, Match, 'Match(api="Heartbeat")')
        _demand("then", then, Action, 'Error("NOT_COORDINATOR")')
        _demand("when", when, When, "once()")
        if not isinstance(name, str):
            raise WrongFault(sentence("name", name, "a text"))
        self.id = ""
        self.name = name
        self.match = match
        self.then = then
        self.when = when
        self.turns = Turns(when)
        self.hits = 0
        self._held: dict[Callable[[], None], None] = {}

    @staticmethod
    def of(given: Mapping[str, Any]) -> Rule:
        """The rule of a JSON object. Raises WrongFault."""
        for name in given:
            if name not in ("match", "then", "when", "name"):
                raise WrongFault(f"{called(name)} is none of match, then, when, name")
        parts = {name: given.get(name, {}) for name in ("match", "then", "when")}
        for name, part in parts.items():
            if not isinstance(part, dict):
                raise WrongFault(sentence(name, part, "an object"))
        match, then, when = Match.of(parts["match"]), action_of(parts["then"]), When.of(parts["when"])
        return Rule(match, then, when, given.get("name", ""))

    @property
    def is_spent(self) -> bool:
        """Whether it can hit no more requests."""
        return self.turns.are_over

    # ---- held requests

    @property
    def held(self) -> int:
        """How many requests and answers the rule holds."""
        return len(self._held)

    def hold(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Hold this callback until `let_go`. The returned function removes it before."""
        self._held[callback] = None

        def forget() -> None:
            self._held.pop(callback, None)

        return forget

    def release(self) -> None:
        """Release what the rule holds. A rule with `until_released` hits no more."""
        self.turns.was_released = True
        held, self._held = self._held, {}
        for callback in held:
            callback()

    def to_json(self) -> dict[str, Any]:
        """The rule as JSON."""
        return {
            "id": self.id,
            "name": self.name,
            "match": self.match.to_json(),
            "then": self.then.to_json(),
            "when": self.when.to_json(),
            "seen": self.turns.seen,
            "hits": self.hits,
            "held": self.held,
            "spent": self.is_spent,
        }


def _demand(what: str, value: object, kind: type, example: str) -> None:
    if not isinstance(value, kind):
        raise WrongFault(sentence(what, value, f"{kind.__name__}, such as {example},"))
