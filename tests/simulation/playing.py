"""One seed is one history. The common part of all histories: a failure has all that is needed to see it again, and its
first line says which rule was broken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, Generic, Protocol, TypeVar

from tests.simulation import seeds

EVENTS: Final = 1_000
"""The least number of events of a history."""


class Failure(AssertionError):
    """A seed whose history broke a rule."""

    def __init__(self, seed: int, text: str) -> None:
        super().__init__(seed, text)
        self.seed = seed
        self.text = text

    def __str__(self) -> str:
        return self.text


class History(Protocol):
    """One history."""

    def play(self) -> None:
        """Play the whole history. Raises the error of a broken rule."""
        ...

    def now(self) -> str:
        """The present time of the history."""
        ...

    def described(self, error: Exception | None = None) -> list[str]:
        """The last events; those that concern the error, if they can be found."""
        ...

    def counted(self) -> Counter[str]:
        """How often each kind of event has happened."""
        ...


H = TypeVar("H", bound=History)


class Histories(Generic[H]):
    """Histories of one kind. `begin` makes a history of its seed and its number of events; `option` is that of `make
    simulate`.
    """

    def __init__(self, begin: Callable[[int, int], H], option: str = "") -> None:
        self._begin, self._option = begin, option

    def simulate(self, seed: int, events: int = EVENTS) -> H:
        """Play one history of at least `events` events. Raises Failure."""
        history = self._begin(seed, events)
        try:
            history.play()
        except Exception as error:  # whatever breaks, the seed must be reported
            head = f"seed {seed}, {history.now()}: {type(error).__name__}: {error}"
            again = f"again: make simulate ARGS='{self._option}--seeds 1 --start {seed} --events {events}'"
            raise Failure(seed, "\n".join([head, again, *history.described(error)])) from error
        return history

    def first_failure(self, numbers: Iterable[int], words: str, events: int = EVENTS) -> Failure | None:
        """Play these histories until one fails with these words; None when none fails so."""
        for seed in numbers:
            try:
                self.simulate(seed, events)
            except Failure as failure:
                if words in failure.text.partition("\n")[0]:
                    return failure
        return None

    def chunk(self, events: int, start: int, count: int) -> seeds.Played:
        """Play some seeds: the events of the successful ones, and the failures."""
        counts: Counter[str] = Counter(histories=count)
        failures: list[str] = []
        for seed in range(start, start + count):
            try:
                counts += self.simulate(seed, events).counted()
            except Failure as failure:
                failures.append(failure.text)
        return seeds.Played(counts, failures)
