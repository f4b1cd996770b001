"""Checks whether the keys in a coordinator's topic are on the partitions that they belong to.

They are not, when the partitions were copied from a cluster with another number of partitions. The check logs its
result after a start and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

import structlog

from muster.protocol.hashing import group_partition, partitions_of

log = structlog.get_logger("muster.server")

LOOKED_AT: Final = 100
"""Names of each partition that are checked: if one is on a wrong partition, nearly all are."""
MOST_COUNTED: Final = 10_000
"""Names of each partition that are counted when some are on a wrong partition."""


def check(names: Sequence[Iterable[str]], what: str, topic: str, number: str, lost: str) -> None:
    """Log one line when names are on wrong partitions. `names`: the names in each partition of `topic`.

    `what`: the plural noun for the names ("groups"). `number`: the property that sets the number of partitions. `lost`:
    the consequence ("their offsets cannot be found").
    """
    count = len(names)
    found = [(name, index) for index, here in enumerate(names) for name in islice(here, LOOKED_AT)]
    if all(group_partition(name, count) == index for name, index in found):
        return
    every = [(name, index) for index, here in enumerate(names) for name in islice(here, MOST_COUNTED)]
    probably = partitions_of(found)
    log.error(
        f"{what} lie on partitions of {topic} where nobody looks for them: {lost}",
        misplaced=sum(group_partition(name, count) != index for name, index in every),
        looked_at=len(every),
        partitions=count,
        written_with=probably or "different numbers of partitions",
        what_to_do=f"stop, put the folders of {topic} into a data directory of their own and start there "
        + (f"with {number}={probably}" if probably else "those of one cluster only"),
    )
