"""The positions of producers in the topics of the sample: offsets as a function of time. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

FIRST_OFFSETS = 1_000_000
"""Topics were there before the sample begins: their partitions start at offsets below this."""


class Traffic:
    """One topic's producers: each partition grows evenly from its first offset, at its own rate."""

    def __init__(self, name: str, partitions: int, records_per_s: int, start_ms: int, random: Random) -> None:
        """`records_per_s`: of an average partition; 0: nothing is ever produced. `start_ms`: wall time."""
        self.name = name
        self.records_per_s = records_per_s
        self._random = random
        self._first: list[int] = []
        self._since_ms: list[int] = []
        self._rates: list[int] = []
        self.grow(partitions, start_ms, is_new=False)

    def grow(self, partitions: int, wall_ms: int, *, is_new: bool = True) -> None:
        """There are so many partitions from now on; those added begin at offset 0 when the topic `is_new` there."""
        while len(self._first) < partitions:
            self._first.append(0 if is_new else self._random.randrange(1_000, FIRST_OFFSETS))
            self._since_ms.append(wall_ms)
            self._rates.append(self.records_per_s * self._random.randrange(500, 1_500))

    @property
    def partitions(self) -> int:
        """How many there are now."""
        return len(self._first)

    def end(self, partition: int, wall_ms: int) -> int:
        """The end offset of a partition at a time."""
        elapsed_ms = max(wall_ms - self._since_ms[partition], 0)
        return self._first[partition] + elapsed_ms * self._rates[partition] // 1_000_000

    def position(self, partition: int) -> tuple[int, int, int]:
        """What `end` is computed from: first offset, since when (wall ms), records in 1,000,000 ms."""
        return self._first[partition], self._since_ms[partition], self._rates[partition]

    def facts(self) -> dict[str, Sequence[int]]:
        """The same for all partitions, in the form of the truth."""
        return {"first": self._first, "since": self._since_ms, "records_per_1000_s": self._rates}
