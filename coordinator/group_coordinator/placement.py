"""Whether the groups lie on the partitions of __consumer_offsets that they belong to: not so when the partitions were
copied from a cluster with another number of them. Told after a start; changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

import structlog

from muster.protocol.hashing import group_partition, partitions_of

log = structlog.get_logger("muster.server")

LOOKED_AT: Final = 100
"""Groups of each partition that are looked at: if one belongs elsewhere, nearly all do."""
MOST_COUNTED: Final = 10_000
"""Groups of each partition that are counted when there is something to tell."""


def check(groups: Sequence[Iterable[str]]) -> None:
    """`groups`: the group ids that each partition holds; what is wrong with that is told in one line of the log."""
    count = len(groups)
    found = [(group, index) for index, ids in enumerate(groups) for group in islice(ids, LOOKED_AT)]
    if all(group_partition(group, count) == index for group, index in found):
        return
    every = [(group, index) for index, ids in enumerate(groups) for group in islice(ids, MOST_COUNTED)]
    probably = partitions_of(found)
    log.error(
        "groups lie on partitions of __consumer_offsets where nobody looks for them: their members and offsets cannot "
        "be found",
        groups=sum(group_partition(group, count) != index for group, index in every),
        looked_at=len(every),
        partitions=count,
        written_with=probably or "different numbers of partitions",
        what_to_do="stop, put the folders of __consumer_offsets into a data directory of their own and start there "
        + (f"with offsets.topic.num.partitions={probably}" if probably else "those of one cluster only"),
    )
