"""Reads a cluster for `muster top`, in a thread: all groups each time, and what is known of one group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from muster.cli.cluster_rows import read_cluster
from muster.cli.groups.read_groups import find_group
from muster.client.event_reader import OF_GROUPS, Events
from muster.client.kept_client import KeptClient
from muster.client.security import ClientSecurity
from muster.coordinator.config.listeners import Address
from muster.coordinator.history.timeline import Timeline
from muster.coordinator.http.described_groups import Description
from muster.coordinator.http.live_groups import LiveGroups
from muster.coordinator.system.jobs import at_once
from muster.coordinator.system.wall_time import wall_now_ms
from muster.pipeline.episodes.from_events import episodes_of_events

NEWEST: Final = 2_000
"""The most events that are read of one group."""
LINES: Final = 200
"""The most lines of a group's history."""
Offset = tuple[str, int, int, int | None]
"""Topic, partition, committed offset, and the end of the log."""


class GroupNow(NamedTuple):
    """What is known of one group."""

    found: Description | None
    """None: the group does not exist."""
    offsets: list[Offset]
    verdict: str | None
    """None: the cluster has no events of the group, since it is not of Muster."""
    lines: list[str]
    """The newest lines of its history."""


class ClusterReader:
    """One client, which connects at the first use, and again after a failure."""

    def __init__(self, bootstrap: Sequence[Address], security: ClientSecurity | None) -> None:
        self._kept = KeptClient(bootstrap, security)
        self.groups = LiveGroups()
        self.brokers = 0
        self._offsets: dict[str, list[Offset]] = {}

    def read(self) -> None:
        """Read all groups. Raises RequestFailed."""
        with self._kept.using() as client:
            client.refresh_nodes()
            rows = read_cluster(client)
            self.brokers = rows.brokers
            kept = [row._replace(offsets=[(topic, list(some)) for topic, some in row.offsets]) for row in rows.groups]
            at_once(self.groups.take(rows.topics, kept, wall_now_ms()))
            self._offsets = {
                row.group: [
                    (topic, index, offset, self._end(topic, index, offset, lag))
                    for topic, some in row.offsets for index, offset, lag in some
                ]
                for row in kept
            }  # fmt: skip

    def _end(self, topic: str, index: int, offset: int, lag: int | None) -> int | None:
        known = self.groups.ends.get(topic, {}).get(index)
        return known[1] if known is not None else None if lag is None else offset + lag

    def read_group(self, group_id: str) -> GroupNow:
        """Read one group. Raises RequestFailed."""
        with self._kept.using() as client:
            found = find_group(client, group_id)
            has_events = client.topics([OF_GROUPS.topic]).get(OF_GROUPS.topic) is not None
            values = list(Events(client).newest(group_id, NEWEST)) if has_events else []
        timeline = Timeline(dates=False)
        lines = [line for value in values for line in timeline.feed(value)]
        verdict = episodes_of_events(values, wall_now_ms()).verdict
        text = None if verdict is None else verdict.text
        return GroupNow(found, self._offsets.get(group_id, []), text, lines[-LINES:][::-1])

    def close(self) -> None:
        """Close all connections."""
        self._kept.close()
