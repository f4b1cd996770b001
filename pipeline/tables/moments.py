"""Finds times at which members of several groups were lost: the coordinator or the network was in trouble.

A moment is the time of the members' last signs of life, not the time of their removal. The reason is that session
timeouts of groups differ, and that sessions begin again after a broker's restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Final

import pyarrow as pa

from muster.pipeline.episodes.moments import Heard, Losses
from muster.pipeline.frames import DataFrame, F, from_arrow_schema, from_arrow_type
from muster.pipeline.schema import structs
from muster.pipeline.tables import rows_of

MOMENT: Final = "from_ms long, until_ms long"
_MOMENTS: Final = pa.schema([("moments", structs(MOMENT))])


def moments(lost: DataFrame) -> DataFrame:
    """One row with the column `moments`, in the order of time.

    `lost`: group, start_ms, end_ms and heard_ms of every member. For a lost member heard_ms is the last sign of life;
    for others it is null.
    """
    # now all rows of a group are together, and the groups are read one after the other
    in_order = lost.repartition(1).sortWithinPartitions("group")
    found = in_order.mapInArrow(_moments, from_arrow_schema(_MOMENTS))
    # without any member, the result has no row
    none = F.array().cast(from_arrow_type(_MOMENTS.field("moments").type))
    return found.agg(F.coalesce(F.first("moments"), none).alias("moments"))


def _moments(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    losses = Losses()
    for _, rows in groupby(rows_of(batches), itemgetter("group")):
        losses.add([Heard(row["heard_ms"], row["start_ms"], row["end_ms"]) for row in rows])
    listed = [{"from_ms": from_ms, "until_ms": until_ms} for from_ms, until_ms in sorted(losses.found())]
    yield pa.RecordBatch.from_pylist([{"moments": listed}], _MOMENTS)
