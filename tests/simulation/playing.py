"""One seed is one history. What histories of every kind have in common: a failure says all that is needed to see it
again, and the first line of its text what was broken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, Generic, Protocol, TypeVar

from tests.simulation import seeds

EVENTS: Final = 1_000
"""How long a history is at least."""


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
        """All of it. Raises what is wrong."""
        ...

    def now(self) -> str:
        """How far it is."""
        ...

    def described(self, error: Exception | None = None) -> list[str]:
        """The last events; those that concern the error, if they can be found."""
        ...

    def counted(self) -> Counter[str]:
        """What has happened in it, how often."""
        ...


H = TypeVar("H", bound=History)


class Histories(Generic[H]):
    """Those of one kind. `begin`: makes one of its seed and the number of its events; `option`: of `make simulate`."""

    def __init__(self, begin: Callable[[int, int], H], option: str = "") -> None:
        self._begin, self._option = begin, option

    def simulate(self, seed: int, events: int = EVENTS) -> H:
        """Play one history of at least so many events. Raises Failure."""
        history = self._begin(seed, events)
        try:
            history.play()
        except Exception as error:  # whatever breaks, the seed must be reported
            head = f"seed {seed}, {history.now()}: {type(error).__name__}: {error}"
            again = f"again: make simulate ARGS='{self._option}--seeds 1 --start {seed} --events {events}'"
            raise Failure(seed, "\n".join([head, again, *history.described(error)])) from error
        return history

    def first_failure(self, numbers: Iterable[int], words: str, events: int = EVENTS) -> Failure | None:
        """Play these histories until one fails with these words; None when none does."""
        for seed in numbers:
            try:
                self.simulate(seed, events)
            except Failure as failure:
                if words in failure.text.partition("\n")[0]:
                    return failure
        return None

    def chunk(self, events: int, start: int, count: int) -> seeds.Played:
        """Play some seeds: what happened in those that went well, and what failed."""
        counts: Counter[str] = Counter(histories=count)
        failures: list[str] = []
        for seed in range(start, start + count):
            try:
                counts += self.simulate(seed, events).counted()
            except Failure as failure:
                failures.append(failure.text)
        return seeds.Played(counts, failures)
