"""Moments at which the coordinator or the network was in trouble, for all groups together.

Members of several groups were lost at once, or nobody could commit. A moment is the time of the last signs of life of
members, not of their removal. For session timeouts of groups differ, and sessions begin anew after a broker's restart.
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
"""Pairs of start and end."""

MOMENT: Final = "from_ms long, until_ms long"
_MOMENTS: Final = pa.schema([("moments", structs(MOMENT))])
_NEIGHBOURS: Final = (-1, 0, 1)
"""The number of steps of MOMENT_MS in a moment."""
_AROUND: Final = limits.AROUND_MS // limits.MOMENT_MS
_STEPS: Final = 10
"""The number of steps in a period."""
_DENSE: Final = 25
_DENSE_PERIODS: Final = 3
"""If so many steps of the last periods have a commit, a step without one is not by chance."""
_NO_STEPS: Final[Ints] = np.empty(0, np.int64)


def moments(walk: DataFrame, lost: DataFrame) -> DataFrame:
    """One row: `moments`, in order. `walk`: rows of `commits.walked`.

    `lost`: group and heard_ms of every member, its last sign of life; null: it was not lost.
    """
    rows = unpacked(walk, "seen", SEEN).select("group", "steps").unionByName(lost, allowMissingColumns=True)
    # a group has at most one number for each step, and one group is read after the other
    in_order = rows.repartition(1).sortWithinPartitions("group")
    found = in_order.mapInArrow(_moments, from_arrow_schema(_MOMENTS))
    # without any commit and any member there is no row at all
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
    """The moments at which members of many groups were last heard of: too many to be by chance.

    A group that loses members all the time loses some at any moment. It counts for less: by the share of the time
    around in which it also loses members.
    """

    def __init__(self) -> None:
        self._groups = 0
        self._hit: Counter[int] = Counter()
        self._weight: dict[int, float] = {}

    def add(self, heard: Sequence[int | None]) -> None:
        """Add the members of a group: the last sign of life of each; None: it was not lost."""
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
        """The moments."""
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
        """How many groups committed in each period."""

    def add(self, steps: Sequence[Sequence[int]]) -> None:
        """Add the steps in which a group committed."""
        if steps:
            own = np.unique(np.concatenate([np.asarray(some, np.int64) for some in steps]))
            self._steps = np.union1d(self._steps, own)
            self._active.update(np.unique(own // _STEPS).tolist())

    def found(self) -> Moments:
        """The moments."""
        at, last = self._steps[_DENSE:], self._steps[_DENSE - 1 : -1]
        first = self._steps[:-_DENSE]
        is_gap = (at - last - 1 >= limits.SILENCE_MS / STEP_MS) & (last - first <= _STEPS * _DENSE_PERIODS)
        found: Moments = []
        for before, after in zip(last[is_gap].tolist(), at[is_gap].tolist(), strict=True):
            # a period and its neighbour on the same side
            then, now = before // _STEPS, after // _STEPS
            if self._busy(then - 1, then) and self._busy(now, now + 1):
                found.append(((before + 1) * STEP_MS - limits.MOMENT_MS, after * STEP_MS))
        return found

    def _busy(self, *periods: int) -> bool:
        return max(self._active[one] for one in periods) >= limits.AT_ONCE
