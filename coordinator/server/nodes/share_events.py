"""Brings events of share partitions into the histories of their groups, which another node may lead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from muster.coordinator.groups.common.events import Event
from muster.coordinator.history.event_writer import Row, record_key
from muster.coordinator.history.schema import to_json
from muster.coordinator.runtime.routing import Routing
from muster.coordinator.system.clock import Clock
from muster.coordinator.topics.names import GROUP_EVENTS_TOPIC
from muster.coordinator.topics.topics import Topics


class EventPeers(Protocol):
    """The other nodes, reached through `postgres.node_messages`."""

    def leads(self, topic: str, index: int) -> int | None:
        """The id of the node that leads a partition, if that is another node."""

    def hand_over(self, node_id: int, topic: str, index: int, rows: Sequence[Row]) -> None:
        """Let another node write rows of a history."""


class ShareEvents:
    """See the module."""

    def __init__(
        self,
        topics: Topics,
        clock: Clock,
        routing: Routing[Any],
        observe: Callable[[int], Any],
        peers: EventPeers | None,
    ) -> None:
        """`observe(partition)`: the observer of the groups of a partition. `peers`: the nodes of other processes."""
        self._topics = topics
        self._clock = clock
        self._routing = routing
        self._observe = observe
        self._peers = peers

    def report(self, event: Event) -> None:
        """Report an event to the history of its group. An event for a node that cannot be reached is lost."""
        index = self._routing.partition(event.group_id)
        now = self._clock.now()
        leader = None if self._peers is None else self._peers.leads(GROUP_EVENTS_TOPIC, index)
        if leader is None or self._peers is None:
            self._observe(index).report((event,), now)
        elif GROUP_EVENTS_TOPIC in self._topics.by_name:
            row = record_key(event.group_id), to_json(event, now.wall_ms)
            self._peers.hand_over(leader, GROUP_EVENTS_TOPIC, index, [row])
