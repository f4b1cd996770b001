"""Members sorted by load, as two runs that grow towards each other: those with fewest and those with most.

Each run has members of one load. Going over it once raises (or lowers) their load by one; then the run takes in its
neighbours of that load. Kafka: the MemberAssignmentBalancer of
UniformHeterogeneousAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Sequence


class Levels:
    """The members of one topic. The caller changes `loads` after `next_least` and `next_most`."""

    def __init__(self, loads: Sequence[int], members: Sequence[int]) -> None:
        self._loads = loads
        self._row = sorted(members, key=lambda member: (loads[member], member))
        least, most = loads[self._row[0]], loads[self._row[-1]]
        self.imbalance = most - least
        self._low_end = 0
        self._low_load = least - 1
        self._low_turn = 0
        self._high_start = self._high_end = len(self._row)
        self._high_load = most + 1
        self._high_turn = len(self._row) - 1

    def next_least(self) -> int:
        """The member that gets a partition."""
        if self._low_turn >= self._low_end:
            self._low_load += 1
            while self._low_end < len(self._row) and self._loads[self._row[self._low_end]] == self._low_load:
                self._low_end += 1
            self._low_turn = 0
        self._low_turn += 1
        return self._row[self._low_turn - 1]

    def next_most(self) -> int | None:
        """The member that gives one away; None when none is left."""
        if self._high_turn < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                # all of the run were excluded
                self._high_load = self._loads[self._row[self._high_start - 1]]
            else:
                self._high_load -= 1
            while self._high_start > 0 and self._loads[self._row[self._high_start - 1]] == self._high_load:
                self._high_start -= 1
            self._high_turn = self._high_end - 1
        if self._high_turn < 0:
            return None
        self._high_turn -= 1
        return self._row[self._high_turn + 1]

    def exclude_most(self) -> None:
        """Take the member that next_most gave last out of the run: it has nothing to give."""
        place, last = self._high_turn + 1, self._high_end - 1
        self._row[place], self._row[last] = self._row[last], self._row[place]
        self._high_end = last

    def balanced(self) -> bool:
        """Whether the two runs differ by one at most."""
        return self._high_load - self._low_load <= 1
