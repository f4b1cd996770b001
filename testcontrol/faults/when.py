"""Which of the fitting requests a rule hits."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster.testcontrol.expected import called, sentence
from muster.testcontrol.faults.errors import WrongFault

_KINDS: Final = ("once", "times", "on_call", "every", "with_probability", "until_released")


@dataclass(frozen=True)
class When:
    """At most one of these is set; without one, each fitting request is hit. The functions below make them for a test:
    `once()`, `times(2)` and so on.

    `once`: the first request; `times`: the first so many; `on_call`: only this one, counted from 1; `every`: each n-th.
    `with_probability`: each with this chance, drawn by a generator with the seed `seed`. `until_released`: each of them
    until the rule is released.
    """

    once: bool = False
    times: int | None = None
    on_call: int | None = None
    every: int | None = None
    with_probability: float | None = None
    seed: int = 0
    until_released: bool = False

    def __post_init__(self) -> None:
        """Raises WrongFault."""
        given = list(self._given())
        if len(given) > 1:
            raise WrongFault(f"when: {' and '.join(given)} are given; give one")
        for name in ("once", "until_released"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise WrongFault(sentence(f"when: {name}", value, "true or false"))
        for name in ("times", "on_call", "every"):
            value = getattr(self, name)
            if value is not None and (not _is_a(value, int) or value < 1):
                raise WrongFault(sentence(f"when: {name}", value, "a number from 1 on"))
        chance = self.with_probability
        if chance is not None and (not _is_a(chance, int | float) or not 0 <= chance <= 1):
            raise WrongFault(sentence("when: with_probability", chance, "a number from 0 to 1"))
        if not _is_a(self.seed, int):
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
    """Hit each fitting request with this chance, 0 to 1, drawn by a generator with this seed. Each run hits the same
    ones.
    """
    return When(with_probability=p, seed=seed)


def until_released() -> When:
    """Hit each fitting request, until the rule is released."""
    return When(until_released=True)


def _is_a(value: object, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


class Turns:
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
    def are_over(self) -> bool:
        """Whether no further request can be hit."""
        when, seen = self._when, self.seen
        if when.until_released:
            return self.was_released
        last = 1 if when.once else when.times if when.times is not None else when.on_call
        return last is not None and seen >= last
