"""When commits were made: by which groups, and by which members. Along the commits, with numpy."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from muster.pipeline.facts.commit_rows import CommitRows
from muster.pipeline.facts.in_order import Parts, begins, known, sorted_rows, struct
from muster.pipeline.schema import columns

STEP_MS: Final = 2_000
"""In such steps it is told when somebody committed."""
SEEN: Final = pa.schema([*columns("group string, first_ms long, last_ms long"), ("steps", pa.list_(pa.int64()))])
"""From when to when a group committed, or its offsets were deleted; and the numbers of the steps of STEP_MS in which it
committed. There may be several of a group."""
HEARD: Final = pa.schema(columns("group string, member_id string, generation int, heard_ms long"))
"""The last commit of a member in a generation, or one of the last ones: there may be several."""


def seen(commits: CommitRows) -> pa.StructArray:
    """Rows of SEEN."""
    order = sorted_rows(commits.group.numbers.values, commits.time_ms)
    group, time_ms = commits.group.at(order), commits.time_ms[order]
    each = Parts(begins(group.numbers))
    step, live = time_ms // STEP_MS, ~commits.is_deleted[order]
    alive = np.flatnonzero(live)
    kept = alive[begins(known(each.number[alive]), known(step[alive]))]
    bounds = np.append(np.searchsorted(kept, each.starts), len(kept)).astype(np.int32)
    steps = pa.ListArray.from_arrays(pa.array(bounds), pa.array(step[kept]))
    starts = each.starts
    arrays = [group.at(starts).array(), pa.array(time_ms[starts]), pa.array(time_ms[each.last[starts]]), steps]
    return pa.StructArray.from_arrays(arrays, fields=list(SEEN))


def heard(commits: CommitRows) -> pa.StructArray:
    """Rows of HEARD."""
    member, generation = commits.member_id, commits.generation
    rows = np.flatnonzero(member.numbers.valid & ~commits.is_deleted)
    keys = (commits.group.numbers.values[rows], member.numbers.values[rows], generation.filled(-1)[rows])
    order = rows[sorted_rows(*keys, commits.time_ms[rows])]
    each = Parts(begins(commits.group.numbers.at(order), member.numbers.at(order), generation.at(order)))
    last = order[each.last[each.starts]] if len(order) else order
    return struct(
        HEARD,
        {
            "group": commits.group.at(last),
            "member_id": member.at(last),
            "generation": generation.at(last),
            "heard_ms": known(commits.time_ms[last]),
        },
    )
