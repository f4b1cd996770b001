"""When ends of topics may be compared with the staged log: once all that was committed up to then is staged."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.pipeline.sources.cluster import Offsets, bounds
from muster.pipeline.sources.ends import Reach, reach_of_cluster
from muster.pipeline.sources.segment_files import NoSource
from muster.pipeline.sources.segments import READ_UNCOMMITTED, Reading


class Seen(NamedTuple):
    """A look at a cluster."""

    reach: Reach
    logged: Offsets
    """How far the offsets log reached a moment later, with what was in transactions that were still open."""

    def is_in(self, staged: Offsets) -> bool:
        """Whether all that groups had committed by then was staged."""
        return all(staged.get(partition, 0) >= end for partition, end in self.logged.items())

    def is_all_of(self, staged: Offsets) -> bool:
        """Whether nothing was staged that came later."""
        return all(self.logged.get(partition, 0) >= end for partition, end in staged.items())


def look(kafka: Mapping[str, str]) -> Seen:
    """Look at a cluster. Raises ClusterError, BadOption."""
    reach = reach_of_cluster(kafka)
    try:
        return Seen(reach, bounds(kafka, Reading(isolation=READ_UNCOMMITTED))[1])
    except NoSource:
        return Seen(reach, {})


class Watch:
    """Looks at the cluster, and knows the newest look whose commits are all staged."""

    def __init__(self, look: Callable[[], Seen]) -> None:
        self._look = look
        self._waiting: Seen | None = None
        self._known: Seen | None = None
        self.places: Collection[tuple[str, int]] | None = None
        """The topics and partitions that matter; None: not known yet."""

    def begin(self) -> None:
        """Look, before anything more is staged."""
        self._waiting = self._look()

    def newest(self, staged: Offsets) -> Seen | None:
        """The newest look that may be used when the offsets log was staged so far; None: there is none yet."""
        now = self._look()
        if now.is_in(staged):
            self._known, self._waiting = now, None
        elif self._waiting is None or self._waiting.is_in(staged):
            self._known, self._waiting = self._waiting or self._known, now
        return self._known

    def has_grown(self, staged: Offsets) -> bool:
        """Whether a look may be used now, and partitions that matter have another end than at the newest look."""
        now, known = self._look(), self._known
        if not now.is_in(staged):
            return False
        if known is None or self.places is None:
            return True
        return any(now.reach.ends.get(place) != known.reach.ends.get(place) for place in self.places)


def committed_by_then(commits: DataFrame, seen: Seen) -> DataFrame:
    """Those rows of the table `commits` that had been logged at a look."""
    ends = [one for partition, end in sorted(seen.logged.items()) for one in (F.lit(partition), F.lit(end))]
    if not ends:
        return commits.limit(0)
    return commits.where(F.col("log_offset") < F.create_map(*ends)[F.col("log_partition")])
