"""What rebalances cost: how many there were, what moved, who stood still and for how long. Plain sums; decides nothing.

The same rules for what happened and for what would have happened:

* A rebalance is a generation that got its assignment.
* A partition has moved when its owner is not the one it had last; the first owner of all is none of it. Static members
  are the same owner when they come back.
* Under an eager strategy all partitions that had an owner are paused from the beginning of the rebalance until the
  assignment is there, failed attempts included. Under a cooperative one only those are that nobody has meanwhile: from
  the assignment that takes them away, or from the beginning of the rebalance when their owner is gone.
* A partition whose owner is dead or away, and has not been removed yet, is silent: counted apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from muster.pipeline.whatif.history import Owned


@dataclass(frozen=True, slots=True)
class Figures:
    """The sums. `detect_ms`: the mean time from the last sign of life of a dead member to its removal; None: nobody
    died.
    """

    rebalances: int = 0
    moved_partitions: int = 0
    paused_partition_ms: int = 0
    silent_partition_ms: int = 0
    detect_ms: float | None = None


class Costs:
    """Told of everything in its order. `who` is any name of an owner that stays the same as long as it is one."""

    __slots__ = ("_began_ms", "_detected", "_last", "_moved", "_owned", "_paused", "_rebalances",
                 "_silent", "_waiting")  # fmt: skip

    def __init__(self) -> None:
        self._rebalances = self._moved = self._paused = self._silent = 0
        self._detected: list[int] = []
        self._last: dict[tuple[str, int], str] = {}
        """The last owner of each partition."""
        self._owned: dict[str, list[tuple[str, int]]] = {}
        """What is consumed, or was when the rebalance began."""
        self._began_ms: int | None = None
        self._waiting: dict[tuple[str, int], int] = {}
        """Under a cooperative strategy: partitions that nobody has, and since when."""

    def given(self, shares: Mapping[str, Owned]) -> None:
        """Who has what when the history begins."""
        self._take(shares)

    def began(self, ms: int) -> None:
        """A rebalance begins; one that was on has failed."""
        if self._began_ms is None:
            self._began_ms = ms

    def gone(self, who: str, ms: int) -> None:
        """A member has left or was removed."""
        for one in self._owned.get(who, ()):
            self._waiting.setdefault(one, ms)

    def silent(self, who: str, since_ms: int, ms: int, *, removed: bool) -> None:
        """Nothing was heard of a member since then; now it is back, or `removed`."""
        self._silent += (ms - since_ms) * len(self._owned.get(who, ()))
        if removed:
            self._detected.append(ms - since_ms)

    def completed(self, ms: int, shares: Mapping[str, Owned], *, cooperative: bool) -> None:
        """The assignment is there."""
        self._rebalances += 1
        if not cooperative:
            self._pause_all(ms)
            self._waiting.clear()
        before = self._owned
        self._take(shares)
        if cooperative:
            self._pause_some(before, ms)
        self._began_ms = None

    def emptied(self) -> None:
        """The rebalance ended without members: nobody is to wait for."""
        self._owned, self._began_ms = {}, None
        self._waiting.clear()

    def figures(self, ms: int, *, cooperative: bool) -> Figures:
        """The sums, at the end; a rebalance that is on counts as long as it lasts so far."""
        paused = self._paused
        if self._began_ms is not None and cooperative:
            paused += sum(ms - since_ms for since_ms in self._waiting.values())
        elif self._began_ms is not None:
            paused += (ms - self._began_ms) * sum(map(len, self._owned.values()))
        detected = self._detected
        mean_ms = sum(detected) / len(detected) if detected else None
        return Figures(self._rebalances, self._moved, paused, self._silent, mean_ms)

    def _take(self, shares: Mapping[str, Owned]) -> None:
        last, moved = self._last, 0
        owned: dict[str, list[tuple[str, int]]] = {}
        for who, topics in shares.items():
            owned[who] = rows = [(topic, number) for topic, numbers in topics.items() for number in numbers]
            for one in rows:
                if last.setdefault(one, who) != who:
                    last[one] = who
                    moved += 1
        self._owned = owned
        self._moved += moved

    def _pause_all(self, ms: int) -> None:
        if self._began_ms is not None:
            self._paused += (ms - self._began_ms) * sum(map(len, self._owned.values()))

    def _pause_some(self, before: Mapping[str, list[tuple[str, int]]], ms: int) -> None:
        waiting = self._waiting
        now = {one for rows in self._owned.values() for one in rows}
        self._paused += sum(ms - since_ms for one, since_ms in waiting.items() if one in now)
        waiting.clear()  # what this assignment leaves out too nobody subscribes to
        for rows in before.values():
            for one in rows:
                if one not in now:
                    waiting[one] = ms
