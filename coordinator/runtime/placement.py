"""Whether what a coordinator's topic holds lies on the partitions that it belongs to: not so when the partitions were
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
"""Names of each partition that are looked at: if one belongs elsewhere, nearly all do."""
MOST_COUNTED: Final = 10_000
"""Names of each partition that are counted when there is something to tell."""


def check(names: Sequence[Iterable[str]], what: str, topic: str, number: str, lost: str) -> None:
    """`names`: what each partition of `topic` holds, by its names; what is wrong with that is told in one line of the
    log. `what`: in the plural ("groups"); `number`: the property that says how many partitions there are; `lost`: what
    comes of it ("their offsets cannot be found").
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
