"""The table `skips`: commits that moved an offset forward while the group was empty. No member read the records.

A tool moves offsets like this, as `kafka-consumer-groups --reset-offsets --to-latest` does. With numpy.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from muster.pipeline.frames import DataFrame
from muster.pipeline.tables.commit_rows import CommitRows
from muster.pipeline.tables.findings import unpacked
from muster.pipeline.tables.ordered_columns import NO_MEMBERS, known, struct
from muster.pipeline.tables.schema import TABLES, conform

SKIP = TABLES["skips"]


def skips(walk: DataFrame) -> DataFrame:
    """Rows of the table `skips`, made from rows of `commits.walked`."""
    return conform(unpacked(walk, "skip", SKIP), "skips")


def skipped(commits: CommitRows) -> pa.StructArray:
    """Rows of the table `skips`. A program that commits again while the group is empty reads by itself, and makes no
    row.
    """
    place, offset, members = commits.place, commits.offset, commits.members
    before, had, next_has = place.before(offset), place.before(members), place.after(members)
    is_empty = members.valid & (members.values == NO_MEMBERS) & ~commits.is_deleted & ~commits.producer_id.valid
    is_only = had.valid & (had.values > NO_MEMBERS) & ~(next_has.valid & (next_has.values == NO_MEMBERS))
    went_on = offset.valid & before.valid & (offset.values > before.values)
    rows = np.flatnonzero(is_empty & is_only & went_on)
    return struct(
        SKIP,
        {
            "group": commits.group.at(rows),
            "topic": commits.topic.at(rows),
            "partition": commits.partition.at(rows),
            "time_ms": known(commits.time_ms[rows]),
            "from_offset": before.at(rows),
            "to_offset": offset.at(rows),
        },
    )
