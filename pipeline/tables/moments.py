"""Finds times at which the coordinator or the network was in trouble, from all groups together.

At such a moment, members of several groups were lost, or nobody could commit. A moment is the time of the members' last
signs of life, not the time of their removal. The reason is that session timeouts of groups differ, and that sessions
begin anew after a broker's restart.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it
from pyspark.sql.pandas.types import from_arrow_schema

from muster.pipeline.episodes import thresholds as limits
from muster.pipeline.schema import structs
from muster.pipeline.tables import rows_of
from muster.pipeline.tables.commit_activity import SEEN, STEP_MS
from muster.pipeline.tables.findings import unpacked
from muster.pipeline.tables.ordered_columns import Ints

Moments = list[tuple[int, int]]
"""The moments, each with its start and its end in ms."""

MOMENT: Final = "from_ms long, until_ms long"
_MOMENTS: Final = pa.schema([("moments", structs(MOMENT))])
_NEIGHBOURS: Final = (-1, 0, 1)
"""A moment consists of three steps of MOMENT_MS: one step, and the steps beside it."""
_AROUND: Final = limits.AROUND_MS // limits.MOMENT_MS
_STEPS: Final = 10
"""The number of steps in a period."""
_DENSE: Final = 25
_DENSE_PERIODS: Final = 3
"""If _DENSE steps with commits lie within this many periods, a step without a commit is not by chance."""
_NO_STEPS: Final[Ints] = np.empty(0, np.int64)


def moments(walk: DataFrame, lost: DataFrame) -> DataFrame:
    """One row with the column `moments`, in the order of time. `walk`: rows of `commits.walked`.

    `lost`: group and heard_ms of every member. For a lost member it is the last sign of life; for others it is null.
    """
    rows = unpacked(walk, "seen", SEEN).select("group", "steps").unionByName(lost, allowMissingColumns=True)
    # now all rows of a group are together, and the groups are read one after the other
    in_order = rows.repartition(1).sortWithinPartitions("group")
    found = in_order.mapInArrow(_moments, from_arrow_schema(_MOMENTS))
    # without any commit and any member, the result has no row
    return found.agg(F.coalesce(F.first("moments"), F.array().cast(found.schema[0].dataType)).alias("moments"))


def _moments(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    commits, losses = Silences(), Losses()
    for _, rows in groupby(rows_of(batches), itemgetter("group")):
        steps: list[list[int]] = []
        heard: list[int | None] = []
        for row in rows:
            if row["steps"] is None:
                heard.append(row["heard_ms"])
            else:
                steps.append(row["steps"])
        commits.add(steps)
        losses.add(heard)
    found = sorted([*commits.found(), *losses.found()])
    listed = [{"from_ms": from_ms, "until_ms": until_ms} for from_ms, until_ms in found]
    yield pa.RecordBatch.from_pylist([{"moments": listed}], _MOMENTS)


class Losses:
    """The moments at which members of many groups were last heard of: too many groups to be chance.

    A group that loses members all the time loses some at any moment. Such a group counts for less. The more of the time
    around the moment it also loses members, the less it counts for.
    """

    def __init__(self) -> None:
        self._groups = 0
        self._hit: Counter[int] = Counter()
        self._weight: dict[int, float] = {}

    def add(self, heard: Sequence[int | None]) -> None:
        """Add the members of a group: the last sign of life of each. It is None if the member was not lost."""
        self._groups += bool(heard)
        lost = Counter(heard_ms // limits.MOMENT_MS for heard_ms in heard if heard_ms is not None)
        steps = sorted(lost)
        for at in {one + shift for one in steps for shift in _NEIGHBOURS}:
            near = steps[bisect_left(steps, at - _AROUND) : bisect_right(steps, at + _AROUND)]
            others = sum(lost[one] for one in near if one - at not in _NEIGHBOURS)
            share = others * len(_NEIGHBOURS) / (2 * _AROUND + 1)
            self._hit[at] += 1
            self._weight[at] = self._weight.get(at, 0.0) + max(1 - share, 0.0)

    def found(self) -> Moments:
        """The moments that the added groups show."""
        least = max(limits.AT_ONCE, limits.AT_ONCE_SHARE * self._groups)
        return [
            ((at - 1) * limits.MOMENT_MS, (at + 2) * limits.MOMENT_MS)
            for at, hit in self._hit.items()
            if hit >= least and self._weight[at] > least - limits.BY_CHANCE
        ]


class Silences:
    """The times in which nobody could commit, though several groups committed all the time before and after."""

    def __init__(self) -> None:
        self._steps = _NO_STEPS
        self._active: Counter[int] = Counter()
        """The number of groups that committed in each period."""

    def add(self, steps: Sequence[Sequence[int]]) -> None:
        """Add the steps in which a group committed."""
        if steps:
            own = np.unique(np.concatenate([np.asarray(some, np.int64) for some in steps]))
            self._steps = np.union1d(self._steps, own)
            self._active.update(np.unique(own // _STEPS).tolist())

    def found(self) -> Moments:
        """The moments that the added steps show."""
        at, last = self._steps[_DENSE:], self._steps[_DENSE - 1 : -1]
        first = self._steps[:-_DENSE]
        is_gap = (at - last - 1 >= limits.SILENCE_MS / STEP_MS) & (last - first <= _STEPS * _DENSE_PERIODS)
        found: Moments = []
        for before, after in zip(last[is_gap].tolist(), at[is_gap].tolist(), strict=True):
            # on each side, a period and the period next to it
            then, now = before // _STEPS, after // _STEPS
            if self._busy(then - 1, then) and self._busy(now, now + 1):
                found.append(((before + 1) * STEP_MS - limits.MOMENT_MS, after * STEP_MS))
        return found

    def _busy(self, *periods: int) -> bool:
        return max(self._active[one] for one in periods) >= limits.AT_ONCE
