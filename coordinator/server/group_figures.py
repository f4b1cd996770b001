"""Figures of single groups, counted from their events: rebalances by cause, time in rebalance, lost members, refusals.

The busiest groups have figures of their own. The others are counted together. A group that becomes busier than one of
these takes its place. Its figures begin at 0, and what was counted together stays there. So no counter ever falls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from typing import Any, Final

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event
from muster.coordinator.runtime.figures import CommitCounts
from muster.coordinator.server.exposition import COUNTER, GAUGE, Exemplar, Metric
from muster.coordinator.state_machine.interface import Now
from muster.protocol.errors import error_name

OTHERS: Final = ""
"""The label of the groups that are counted together."""
MAX_WAITING: Final = 10_000
"""The most groups whose events are counted to find busier ones."""
JOIN: Final = "join"
SYNC: Final = "sync"
RECONCILE: Final = "reconcile"


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """The properties of metrics; a field's name is the property's with "." as "_"."""

    muster_metrics_groups: int = 100
    """How many groups have figures of their own."""


class _Figures:
    __slots__ = ("exemplars", "expired", "last_ms", "paused_ms", "phase_ms", "rebalances", "recent", "refused")

    def __init__(self) -> None:
        self.recent = 0
        """The events since the last look for busier groups."""
        self.rebalances: Counter[str] = Counter()
        self.exemplars: dict[str, Exemplar] = {}
        self.phase_ms: Counter[str] = Counter()
        self.paused_ms = 0
        self.expired = 0
        self.refused: Counter[int] = Counter()
        self.last_ms: int | None = None
        """When the last rebalance began (monotonic)."""

    def count(self, event: Event, now: Now) -> None:
        kind, facts = event.kind, event.facts
        if kind in (events.REBALANCE_STARTED, events.EPOCH_BUMPED):
            cause = str(facts["cause"])
            self.rebalances[cause] += 1
            self.last_ms = now.mono_ms
            of = "generation" if kind == events.REBALANCE_STARTED else "epoch"
            self.exemplars[cause] = Exemplar({of: str(facts[of])}, now.wall_ms)
        elif kind in (events.REBALANCE_COMPLETED, events.REBALANCE_FAILED):
            self.phase_ms[JOIN] += _ms(facts.get("join_phase_ms"))
            self.phase_ms[SYNC] += _ms(facts.get("sync_phase_ms"))
        elif kind == events.EPOCH_RECONCILED:
            self.phase_ms[RECONCILE] += _ms(facts.get("took_ms"))
            self.paused_ms += _ms(facts.get("paused_partition_ms"))
        elif kind == events.MEMBER_EXPIRED:
            self.expired += 1
        elif kind == events.REQUEST_REFUSED:
            self.refused[_ms(facts["error"])] += 1


def _ms(value: Any) -> int:
    return value if isinstance(value, int) else 0


class GroupFigures:
    """See the module."""

    def __init__(self, commits: CommitCounts | None = None) -> None:
        self._commits = BusiestCommits(commits or CommitCounts())
        self.most = MetricsSettings().muster_metrics_groups
        """How many groups have figures of their own."""
        self._own: dict[str, _Figures] = {}
        self._others = _Figures()
        self._waiting: Counter[str] = Counter()

    def count(self, some: Sequence[Event], now: Now) -> None:
        """Count the events of groups."""
        for event in some:
            figures = self._own.get(event.group_id)
            if figures is None:
                figures = self._others_or_new(event.group_id)
            figures.recent += 1
            figures.count(event, now)
            if event.kind == events.GROUP_DELETED:
                self._own.pop(event.group_id, None)
                self._commits.forget(event.group_id)

    def _others_or_new(self, group_id: str) -> _Figures:
        if len(self._own) < self.most:
            return self._own.setdefault(group_id, _Figures())
        if group_id in self._waiting or len(self._waiting) < MAX_WAITING:
            self._waiting[group_id] += 1
        return self._others

    def _let_busier_in(self) -> None:
        """Give the busiest of the others figures of their own, in place of groups with fewer events since last time."""
        quiet = sorted(self._own, key=lambda group_id: self._own[group_id].recent)
        for (group_id, count), least in zip(self._waiting.most_common(self.most), quiet, strict=False):
            if count <= self._own[least].recent:
                break
            del self._own[least]
            self._own[group_id] = _Figures()
        self._waiting.clear()
        for figures in self._own.values():
            figures.recent = 0

    def metrics(self, now: Now) -> Iterator[Metric]:
        """The present metrics."""
        rows = [*self._own.items(), (OTHERS, self._others)]

        def counter(name: str, label: str, about: str, counts: Callable[[_Figures], Mapping[str, float]]) -> Metric:
            samples = {(group, key): value for group, of in rows for key, value in counts(of).items()}
            return Metric(name, COUNTER, about, samples, ("group", label))

        about = "Rebalances; in consumer groups new epochs. The group without a name is all others (docs/events.md)."
        of_causes = counter("muster_group_rebalances_total", "cause", about, lambda of: of.rebalances)
        exemplars = {(group, cause): one for group, of in rows for cause, one in of.exemplars.items()}
        yield replace(of_causes, exemplars=exemplars)
        about = "The time in rebalances: join, sync, and reconcile in consumer groups."
        yield counter("muster_group_rebalance_seconds_total", "phase", about, lambda of: in_seconds(of.phase_ms))
        about = "Refused requests of members."
        yield counter(
            "muster_group_refusals_total", "error", about,
            lambda of: {error_name(code): count for code, count in of.refused.items()},
        )  # fmt: skip
        about = "How long partitions of consumer groups had no owner, added up over all partitions."
        paused = {(group,): of.paused_ms / 1000 for group, of in rows if of.paused_ms}
        yield Metric("muster_group_paused_partition_seconds_total", COUNTER, about, paused, ("group",))
        about = "Members whose session timeout passed without a request."
        expired = {(group,): of.expired for group, of in rows if of.expired}
        yield Metric("muster_group_expired_members_total", COUNTER, about, expired, ("group",))
        about = "The time since the last rebalance began."
        since = {(group,): (now.mono_ms - of.last_ms) / 1000 for group, of in rows if of.last_ms is not None}
        since.pop((OTHERS,), None)
        yield Metric("muster_group_since_rebalance_seconds", GAUGE, about, since, ("group",))
        yield self._commits.metric(self.most)
        self._let_busier_in()


def in_seconds(times_ms: Mapping[str, int]) -> dict[str, float]:
    """Times in seconds."""
    return {key: ms / 1000 for key, ms in times_ms.items()}


class BusiestCommits:
    """The committed offsets of the busiest groups. As in `GroupFigures`, a busier group takes the place of another one.
    Its figure begins at 0, so no counter ever falls.
    """

    def __init__(self, counts: CommitCounts) -> None:
        self._counts = counts
        self._shown: dict[str, int] = {}
        """The groups with a figure of their own, and what they had committed before they got it."""
        self._last: dict[str, int] = {}
        """What each group had committed at the last look."""
        self._gone = 0
        """What groups committed while they had a figure which they have no more."""

    def forget(self, group_id: str) -> None:
        """Count a deleted group with the others."""
        if group_id in self._shown:
            self._hide(group_id)
        self._last.pop(group_id, None)
        self._counts.forget(group_id)

    def _hide(self, group_id: str) -> None:
        self._gone += self._own(group_id)
        del self._shown[group_id]

    def _own(self, group_id: str) -> int:
        return self._counts.of(group_id).offsets - self._shown[group_id]

    def metric(self, most: int) -> Metric:
        """The present counts, of at most `most` groups, and of all others."""
        present = {group_id: one.offsets for group_id, one in self._counts.of_groups.items()}
        recent = {group_id: count - self._last.get(group_id, 0) for group_id, count in present.items()}
        quiet = sorted(self._shown, key=recent.__getitem__)
        for group_id in nlargest(most, (one for one in present if one not in self._shown), recent.__getitem__):
            if len(self._shown) >= most:
                if not quiet or recent[group_id] <= recent[quiet[0]]:
                    break
                self._hide(quiet.pop(0))
            self._shown[group_id] = self._last.get(group_id, 0)
        self._last = present
        rows = {(group_id,): self._own(group_id) for group_id in self._shown}
        others = self._counts.all - sum(rows.values()) - self._gone
        if others:
            rows[OTHERS,] = others
        about = "Committed offsets, one for each partition. The group without a name is all others."
        return Metric("muster_group_committed_offsets_total", COUNTER, about, rows, ("group",))
