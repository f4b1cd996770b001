"""A rule of faults: which requests, what happens to them, and when. `When` is here, and rules are read from JSON."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Final

from muster.testcontrol.checks import called, sentence
from muster.testcontrol.errors import WrongFault
from muster.testcontrol.faults.actions import Action, Cut, Delay, Error, Hold, LoseAnswer, Note, Throttle, Trickle
from muster.testcontrol.faults.matching import Match, is_a
from muster.testcontrol.faults.older_broker import OlderBroker

_KINDS: Final = ("once", "times", "on_call", "every", "with_probability", "until_released")


@dataclass(frozen=True)
class When:
    """At most one field is set; without one, each fitting request is hit. The functions below make a `When` for a test:
    `once()`, `times(2)` and so on.

    `once`: the first request; `times`: this number of first requests. `on_call`: only this request, counted from 1.
    `every`: each n-th. `with_probability`: each with this chance, drawn by a generator with the seed `seed`.
    `until_released`: each request until the rule is released.
    """

    once: bool = False
    times: int | None = None
    on_call: int | None = None
    every: int | None = None
    with_probability: float | None = None
    seed: int = 0
    until_released: bool = False

    def __post_init__(self) -> None:
        given = list(self._given())
        if len(given) > 1:
            raise WrongFault(f"when: {' and '.join(given)} are given; give one")
        for name in ("once", "until_released"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise WrongFault(sentence(f"when: {name}", value, "true or false"))
        for name in ("times", "on_call", "every"):
            value = getattr(self, name)
            if value is not None and (not is_a(value, int) or value < 1):
                raise WrongFault(sentence(f"when: {name}", value, "a number from 1 on"))
        chance = self.with_probability
        if chance is not None and (not is_a(chance, int | float) or not 0 <= chance <= 1):
            raise WrongFault(sentence("when: with_probability", chance, "a number from 0 to 1"))
        if not is_a(self.seed, int):
            raise WrongFault(sentence("when: seed", self.seed, "a number"))

    def _given(self) -> Iterator[str]:
        for name in _KINDS:
            value = getattr(self, name)
            if value is not None and value is not False:
                yield name

    @staticmethod
    def of(given: Mapping[str, Any]) -> When:
        """The value of a JSON object. Raises WrongFault."""
        for name, value in given.items():
            if name not in (*_KINDS, "seed"):
                raise WrongFault(f"when: {called(name)} is none of {', '.join((*_KINDS, 'seed'))}")
            if value is None:
                raise WrongFault(f"when: {name} is null; leave it out, or give it a value")
        return When(**given)

    def to_json(self) -> dict[str, Any]:
        """The value as JSON."""
        shown: dict[str, Any] = {name: getattr(self, name) for name in self._given()}
        return shown | ({"seed": self.seed} if "with_probability" in shown else {})


def once() -> When:
    """Hit the first fitting request."""
    return When(once=True)


def times(n: int) -> When:
    """Hit the first `n` fitting requests. Raises WrongFault, as all functions below."""
    return When(times=n)


def on_call(n: int) -> When:
    """Hit only the `n`-th fitting request, counted from 1."""
    return When(on_call=n)


def every(n: int) -> When:
    """Hit each `n`-th fitting request."""
    return When(every=n)


def with_probability(p: float, seed: int = 0) -> When:
    """Hit each fitting request with the chance `p`, 0 to 1. Each run with the same `seed` hits the same requests."""
    return When(with_probability=p, seed=seed)


def until_released() -> When:
    """Hit each fitting request, until the rule is released."""
    return When(until_released=True)


class HitCounter:
    """Counts the fitting requests of a rule (`seen`), and decides which of them it hits."""

    __slots__ = ("_draw", "_when", "seen", "was_released")

    def __init__(self, when: When) -> None:
        self.seen = 0
        self.was_released = False
        self._when = when
        self._draw = random.Random(when.seed) if when.with_probability is not None else None

    def hits_next(self) -> bool:
        """Count another fitting request, and return whether it is hit."""
        self.seen += 1
        when, seen = self._when, self.seen
        if when.once:
            return seen == 1
        if when.times is not None:
            return seen <= when.times
        if when.on_call is not None:
            return seen == when.on_call
        if when.every is not None:
            return seen % when.every == 0
        if self._draw is not None:
            assert when.with_probability is not None
            return self._draw.random() < when.with_probability
        return not (when.until_released and self.was_released)

    @property
    def is_over(self) -> bool:
        """Whether no further request can be hit."""
        when, seen = self._when, self.seen
        if when.until_released:
            return self.was_released
        last = 1 if when.once else when.times if when.times is not None else when.on_call
        return last is not None and seen >= last


ACTIONS: Final[Mapping[str, type[Any]]] = {
    kind.name: kind for kind in (Error, Delay, LoseAnswer, Cut, Trickle, Hold, Throttle, OlderBroker, Note)
}


def action_of(given: Mapping[str, Any]) -> Action:
    """The action of a JSON object. Raises WrongFault."""
    do = given.get("do")
    kind = ACTIONS.get(do) if isinstance(do, str) else None
    if kind is None:
        raise WrongFault(sentence("then: do", do, f"one of {', '.join(ACTIONS)}"))
    known = {field.name: field for field in fields(kind)}
    values = {name: value for name, value in given.items() if name != "do"}
    for name in values:
        if name not in known:
            raise WrongFault(f"then: {called(name)} means nothing to {kind.name}; {', '.join(known) or 'nothing'} does")
    missing = [name for name, field in known.items() if name not in values and field.default is MISSING]
    if missing:
        raise WrongFault(f"then: {kind.name} needs {', '.join(missing)}")
    made: Action = kind(**values)
    return made


class Rule:
    """A rule in force. `hits`: the number of requests that the rule acted on; `engine.Faults` gives the `id`."""

    def __init__(self, match: Match, then: Action, when: When, name: str = "") -> None:
        _require("match", match, Match, 'Match(api="Heartbeat")')
        _require("then", then, Action, 'Error("NOT_COORDINATOR")')
        _require("when", when, When, "once()")
        if not isinstance(name, str):
            raise WrongFault(sentence("name", name, "a text"))
        self.id = ""
        self.name = name
        self.match = match
        self.then = then
        self.when = when
        self.turns = HitCounter(when)
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
        """Whether the rule can hit no more requests."""
        return self.turns.is_over

    # ---- held requests

    @property
    def held(self) -> int:
        """How many requests and answers the rule holds."""
        return len(self._held)

    def hold(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Hold this callback until `release`. The returned function removes the callback before."""
        self._held[callback] = None
        return lambda: self._held.pop(callback, None)

    def release(self) -> None:
        """Release what the rule holds. A rule with `until_released` hits no further request."""
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


def _require(what: str, value: object, kind: type, example: str) -> None:
    if not isinstance(value, kind):
        raise WrongFault(sentence(what, value, f"{kind.__name__}, such as {example},"))
