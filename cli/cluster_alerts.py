"""Alerts about the groups of any Kafka cluster, from what its brokers say of them. `muster exporter` uses it.

The brokers do not say who holds up a rebalance, nor which members came and left. So only rules about states, commits
and topics find something.
"""

from __future__ import annotations

from typing import Final

from muster.cli.cluster_rows import SHARE, ClusterRows
from muster.coordinator.alerts.book import Alert, alert_of
from muster.coordinator.alerts.commits import Commit
from muster.coordinator.alerts.group_watch import GroupWatch
from muster.coordinator.http.described_groups import Member
from muster.coordinator.http.kafka_metrics import GroupRow
from muster.pipeline.episodes.live import Rebalancing

LEAST_MS: Final = 10_000
"""Samples of commits are at least this far apart, however often the cluster is read."""
CALM: Final = frozenset(("Stable", "Empty", "Dead", ""))
_Place = tuple[str, str, int]


class ClusterAlerts:
    """See the module."""

    def __init__(self) -> None:
        self._watches: dict[str, GroupWatch] = {}
        self._commits: dict[_Place, tuple[int, int]] = {}
        """Offset by group, topic and partition, and when it was first seen."""
        self._sampled_ms: int | None = None

    def judged(self, rows: ClusterRows, now_ms: int) -> dict[str | None, list[Alert]]:
        """The alerts of each group; of none if the last sample was just now."""
        if self._sampled_ms is not None and now_ms - self._sampled_ms < LEAST_MS:
            return {}
        self._sampled_ms = now_ms
        ends = {(topic.topic, one.partition): one.end for topic in rows.topics for one in topic.partitions}
        before, self._commits = self._commits, {}
        groups = [row for row in rows.groups if row.kind != SHARE]
        known = {row.group: self._watches.get(row.group) or GroupWatch() for row in groups}
        gone: dict[str | None, list[Alert]] = {name: [] for name in self._watches.keys() - known.keys()}
        self._watches = known
        found: dict[str | None, list[Alert]] = {}
        for row in groups:
            watch = known[row.group]
            self._see(row, rows.members.get(row.group, []), watch, now_ms)
            for topic, committed in row.offsets:
                for index, offset, _ in committed:
                    place, end = (row.group, topic, index), ends.get((topic, index))
                    last = before.get(place)
                    seen = last if last is not None and last[0] == offset else (offset, now_ms)
                    self._commits[place] = seen
                    if end is not None:
                        watch.commits.see(Commit((topic, index), offset, seen[1], end), now_ms)
            watch.commits.end(now_ms)
            claims = watch.claims(now_ms, ()) if watch.may_have_claims(now_ms) else []
            found[row.group] = [alert_of(row.group, one, now_ms) for one in claims]
        return found | gone

    @staticmethod
    def _see(row: GroupRow, members: list[Member], watch: GroupWatch, now_ms: int) -> None:
        watch.owners = {
            (topic, index): one.client_id
            for one in members for topic, indexes in (one.assignment or {}).items() for index in indexes
        }  # fmt: skip
        topics = [(one.client_id, frozenset(one.subscribed or ())) for one in members]
        watch.subscribed(topics, now_ms)
        since_ms = now_ms if watch.rebalancing is None else watch.rebalancing.since_ms
        watch.rebalancing = None if row.state in CALM else Rebalancing(row.state, since_ms, row.members, ())
