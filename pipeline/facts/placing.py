"""In which state its group was when a commit was logged, and who had its partition then. With numpy, along the rows of
a partition of a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from muster.pipeline.facts.in_order import Column, Ints, Mask, Parts, begins, known, sorted_rows

NO_MEMBERS: Final = 0


def said_of(place: Parts, is_mark: Mask, state: Column, generation: Column, members: Column) -> list[Column]:
    """State, generation and number of members at each row: what the last mark up to it says. A group of which nothing
    is said has no members.
    """
    mark, there = place.latest(is_mark)
    is_silent = place.count(is_mark) == 0
    has = members.at(mark, there)
    return [
        state.at(mark, there),
        generation.at(mark, there),
        Column(np.where(is_silent, NO_MEMBERS, has.values), has.valid | is_silent),
    ]


def owners_at(place: Sequence[Ints], log_offset: Ints, is_owner: Mask) -> tuple[Ints, Mask]:
    """The row that says who has a partition at each row: the last one of the same `place` up to its offset; and whether
    there is one. Of several from the same offset the last one counts.
    """
    order = sorted_rows(*place, log_offset, ~is_owner)
    last, has_last = Parts(begins(*(known(key[order]) for key in place))).latest(is_owner[order])
    found, there = np.empty(len(order), np.int64), np.empty(len(order), np.bool_)
    found[order], there[order] = order[last], has_last
    return found, there
