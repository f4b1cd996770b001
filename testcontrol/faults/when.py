"""At which of the requests that fit a rule hits."""

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
    """At most one of these; none: at each of them. A test has `once()`, `times(2)` and so on for it, below.

    `once`: the first; `times`: the first so many; `on_call`: only that one, counted from 1; `every`: each so-manieth;
    `with_probability`: each with this chance, as a generator seeded by `seed` draws it; `until_released`: each of them
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
        """As JSON has it. Raises WrongFault."""
        for name, value in given.items():
            if name not in (*_KINDS, "seed"):
                raise WrongFault(f"when: {called(name)} is none of {', '.join((*_KINDS, 'seed'))}")
            if value is None:
                raise WrongFault(f"when: {name} is null; leave it out, or give it a value")
        return When(**given)

    def to_json(self) -> dict[str, Any]:
        """As JSON has it."""
        shown: dict[str, Any] = {name: getattr(self, name) for name in self._given()}
        return shown | ({"seed": self.seed} if "with_probability" in shown else {})


def once() -> When:
    """At the first request that fits."""
    return When(once=True)


def times(n: int) -> When:
    """At the first `n` of them. Raises WrongFault, as all below."""
    return When(times=n)


def on_call(n: int) -> When:
    """At the `n`-th only, counted from 1."""
    return When(on_call=n)


def every(n: int) -> When:
    """At each `n`-th."""
    return When(every=n)


def with_probability(p: float, seed: int = 0) -> When:
    """At each with this chance, 0 to 1, as a generator seeded by `seed` draws it: the same ones in each run."""
    return When(with_probability=p, seed=seed)


def until_released() -> When:
    """At each of them, until the rule is released."""
    return When(until_released=True)


def _is_a(value: object, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


class Turns:
    """Counts the requests that fitted a rule, `seen`, and says at which of them it hits."""

    __slots__ = ("_draw", "_when", "seen", "was_released")

    def __init__(self, when: When) -> None:
        self.seen = 0
        self.was_released = False
        self._when = when
        self._draw = random.Random(when.seed) if when.with_probability is not None else None

    def hits_next(self) -> bool:
        """Another request fits: is it hit?"""
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
        """Whether no request can be hit any more."""
        when, seen = self._when, self.seen
        if when.until_released:
            return self.was_released
        last = 1 if when.once else when.times if when.times is not None else when.on_call
        return last is not None and seen >= last
