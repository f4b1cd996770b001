"""The table `lag`: how far each group is behind on each partition that it has a committed offset for."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from muster.pipeline.facts.commit_rows import CommitRows
from muster.pipeline.facts.findings import unpacked
from muster.pipeline.facts.in_order import Column, behind, known, struct
from muster.pipeline.facts.schema import TABLES, conform
from muster.pipeline.facts.topic_ends import Marks, with_ends

LAST: Final = TABLES["lag"]


def lag(walk: DataFrame) -> DataFrame:
    """Rows of the table `lag` out of those of `commit_walk.walked`."""
    return conform(unpacked(walk, "last", LAST), "lag")


def lasts(commits: CommitRows, marks: Marks) -> pa.StructArray:
    """Rows of the table: of the last commit of each partition that is not deleted."""
    rows = commits.place.last[commits.place.starts]
    rows = rows[~commits.is_deleted[rows]]
    offset, time_ms = commits.offset.at(rows), commits.time_ms[rows]
    reach = with_ends(commits.topic_part[rows], time_ms, offset.values, marks)
    behind_by = behind(reach.end_offset, offset)
    since, until = reach.beyond_ms.where(reach.not_beyond_ms.valid), reach.end_ms
    is_level = behind_by.valid & (behind_by.values == 0)
    behind_ms = Column(np.where(is_level, 0, until.values - since.values), is_level | (since.valid & until.valid))
    return struct(
        LAST,
        {
            "group": commits.group.at(rows),
            "topic": commits.topic.at(rows),
            "partition": commits.partition.at(rows),
            "committed_offset": offset,
            "committed_ms": known(time_ms),
            "end_offset": reach.end_offset,
            "end_ms": reach.end_ms,
            "lag": behind_by,
            "behind_ms": behind_ms,
            "client_id": commits.client_id.at(rows),
        },
    )
