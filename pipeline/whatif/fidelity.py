"""How true a replay is: its generations under the real settings, compared with the real ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from muster.pipeline.whatif.history import EVENTS, LOG, Generation, History, Owned
from muster.pipeline.whatif.replay import Made

ENOUGH: Final = {EVENTS: 0.99, LOG: 0.90}
"""The share of generations that must come out the same, by what the history was read from."""
NEAR_MS: Final = 60_000
"""A generation further than this from the real one is not the same."""


@dataclass(frozen=True, slots=True)
class Fidelity:
    """`generations`: real ones, or those of the replay if they are more; `reproduced`: with the same members and the
    same assignment. `why`: why the what-if is withheld, or what else is to be known of it.
    """

    source: str
    generations: int
    reproduced: int
    withheld: bool = False
    why: str | None = None

    @property
    def share(self) -> float:
        """1.0 where there was nothing to reproduce."""
        return self.reproduced / self.generations if self.generations else 1.0


def withheld(history: History, why: str) -> Fidelity:
    """Nothing could be replayed."""
    return Fidelity(history.source, len(history.generations), 0, True, why)


def judge(history: History, made: Sequence[Made]) -> Fidelity:
    """Compare a replay with what really was."""
    real = history.generations
    reproduced = count_same(real, made)
    # what came after the last thing that is told is not one too many: a log may end in the midst of a rebalance; nor is
    # an epoch that was nearly reached
    told = [one for one in made if one.start_ms <= history.last_ms]
    generations = max(len(real), sum(one.number not in history.overtaken for one in told))
    found = Fidelity(history.source, generations, reproduced)
    enough = ENOUGH[history.source]
    if found.share >= enough:
        return found
    same_members = count_same(real, made, assignments=False)
    what = "members" if generations - same_members > same_members - reproduced else "assignments"
    why = (
        f"the replay of what really held made {reproduced} of {generations} generations as they were, "
        f"{enough:.0%} are needed; mostly {what} differ"
    )
    return Fidelity(history.source, generations, reproduced, True, why)


def count_same(real: Sequence[Generation], made: Sequence[Made], *, assignments: bool = True) -> int:
    """How many real generations the replay made too, in their order, at about the same time."""
    count = at = 0
    for generation in real:
        for index in range(at, len(made)):
            one = made[index]
            if one.start_ms > generation.start_ms + NEAR_MS:
                break
            if one.start_ms >= generation.start_ms - NEAR_MS and _same(generation.shares, one.shares, assignments):
                count += 1
                at = index + 1
                break
    return count


def _same(real: Mapping[str, Owned], made: Mapping[str, Owned], assignments: bool) -> bool:
    if real.keys() != made.keys():
        return False
    return not assignments or all(_partitions(owned) == _partitions(made[name]) for name, owned in real.items())


def _partitions(owned: Owned) -> dict[str, list[int]]:
    return {topic: sorted(partitions) for topic, partitions in owned.items() if partitions}
