"""What samples of a group's commits show: its progress, partitions that stand still, and commits that go back. Pure.

A log shows each commit. A running server is looked at now and then, so that commits cost nothing. The rules that judge
both are the same (`pipeline/episodes/other_trouble.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from statistics import mean
from typing import Final, NamedTuple

from muster.pipeline.episodes import thresholds as limits
from muster.pipeline.episodes.claims import SECOND_APPLICATION, Back, Last, Stall, Step

STEPS_KEPT: Final = 40
"""How many samples of a group that is behind are kept: ten minutes."""
GAPS_KEPT: Final = 10
"""How many times between two commits of a group show its habit."""
Place = tuple[str, int]
"""A partition: topic and index."""
Owners = Mapping[Place, str]
"""The client id of each partition's owner."""


class Commit(NamedTuple):
    """The last commit of a partition, and the end of its log."""

    place: Place
    offset: int
    commit_ms: int
    end: int


class _Behind:
    """A partition with unread records."""

    __slots__ = ("commit_ms", "commits", "end", "offset", "since_ms")

    def __init__(self, one: Commit, since_ms: int) -> None:
        self.offset = one.offset
        self.commit_ms = one.commit_ms
        self.end = one.end
        self.since_ms = since_ms
        """Since when its offset is the same, with unread records behind it."""
        self.commits = 1
        """How many commits of this offset were seen."""


class CommitSamples:
    """The samples of one group. A sample is a call of `see` for each partition, and then `end`."""

    __slots__ = ("_begins", "_behind", "_ends", "_gaps", "_lag", "_last_ms", "_newest_ms", "_offsets", "_partitions",
                 "_seen", "_went_back", "steps")  # fmt: skip

    def __init__(self) -> None:
        self.steps: deque[Step] = deque(maxlen=STEPS_KEPT)
        self._behind: dict[Place, _Behind] = {}
        self._gaps: deque[int] = deque(maxlen=GAPS_KEPT)
        self._went_back: deque[int] = deque(maxlen=STEPS_KEPT)
        """When the sum of all offsets was less than in the sample before."""
        self._last_ms: int | None = None
        self._newest_ms = -1
        """The time of the newest commit."""
        self._seen = (0, 0, 0)
        """Of the sample before: partitions, sum of offsets, sum of ends."""
        self._begin()

    def _begin(self) -> None:
        self._partitions = self._offsets = self._ends = self._lag = 0
        self._begins = self._newest_ms

    def see(self, one: Commit, now_ms: int) -> None:
        """Take one partition."""
        self._partitions += 1
        self._offsets += one.offset
        self._ends += one.end
        self._newest_ms = max(self._newest_ms, one.commit_ms)
        if one.end <= one.offset:
            self._behind.pop(one.place, None)
            return
        self._lag += one.end - one.offset
        known = self._behind.get(one.place)
        if known is None:
            self._behind[one.place] = _Behind(one, now_ms)
            return
        known.end = one.end
        if one.offset != known.offset:
            known.offset, known.commit_ms, known.since_ms, known.commits = one.offset, one.commit_ms, one.commit_ms, 1
        elif one.commit_ms != known.commit_ms:
            known.commit_ms, known.commits = one.commit_ms, known.commits + 1

    def end(self, now_ms: int) -> None:
        """End the sample."""
        commits = int(self._newest_ms > self._begins)
        if commits and self._begins >= 0:
            self._gaps.append(self._newest_ms - self._begins)
        partitions, offsets, ends = self._seen
        is_same = self._last_ms is not None and partitions == self._partitions
        if is_same and self._offsets < offsets:
            self._went_back.append(now_ms)
        if self._last_ms is not None and (self._lag or self.steps):
            records = max(self._offsets - offsets, 0) if is_same else None
            written = max(self._ends - ends, 0) if is_same else None
            self.steps.append(Step(self._last_ms, now_ms, commits, records, written, self._lag))
            if not any(one.lag for one in self.steps):
                self.steps.clear()
        self._seen, self._last_ms = (self._partitions, self._offsets, self._ends), now_ms
        if not self._lag:
            self._behind.clear()  # partitions whose offsets were deleted too
        self._begin()

    @property
    def is_behind(self) -> bool:
        """Whether the group has unread records, or had some lately."""
        return bool(self._behind or self.steps or self._went_back)

    def may_be_trouble(self, now_ms: int) -> bool:
        """Whether `stalls` or `back` may find something, or the lag may have a trend. This costs little."""
        steps = self.steps
        grows = len(steps) >= limits.TREND_COMMITS and (steps[-1].lag or 0) > (steps[0].lag or 0)
        return bool(grows or self._went_back) or any(
            now_ms - one.since_ms >= limits.SETTLE_MS for one in self._behind.values()
        )

    def stalls(self, now_ms: int, owners: Owners) -> list[Stall]:
        """The partitions with an owner that stand still."""
        gaps = self._gaps
        # without a known habit, a group perhaps commits rarely
        usual_ms = max(limits.USUAL_GAPS * mean(gaps), limits.LONGEST_GAPS * max(gaps)) if gaps else limits.RETURN_MS
        least_ms = max(limits.SETTLE_MS, usual_ms)
        found = []
        for (topic, partition), one in self._behind.items():
            owner, lag = owners.get((topic, partition)), one.end - one.offset
            if owner is None or lag <= 1 or now_ms - one.since_ms < least_ms:
                continue
            status = STALL if one.commits >= limits.AGAIN_COMMITS else STOP
            found.append(Stall(topic, partition, one.since_ms, None, lag, status, one.offset, owner))
        return found

    def lags(self, owners: Owners) -> list[Last]:
        """The partitions with unread records."""
        return [
            Last(topic, partition, one.commit_ms, one.end - one.offset, owners.get((topic, partition)))
            for (topic, partition), one in self._behind.items()
        ]

    def back(self, now_ms: int) -> list[Back]:
        """Commits that went back several times: two applications commit for the same partitions."""
        recent = [ms for ms in self._went_back if now_ms - ms <= limits.SERIES_MS]
        if len(recent) < limits.SERIES:
            return []
        return [Back(SECOND_APPLICATION, recent[0], recent[-1], len(recent))]


STALL: Final = "STALL"
STOP: Final = "STOP"
"""The status of a partition that stands still: its offset is committed again and again, or nothing is committed."""
