"""Events of share partitions reach the history of their group, whichever node leads it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from muster.coordinator.groups.common.events import DELIVERIES_FAILED, Event
from muster.coordinator.runtime.routing import Routing
from muster.coordinator.server.nodes.share_events import ShareEvents
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.topics.names import GROUP_EVENTS_TOPIC

EVENT = Event(DELIVERIES_FAILED, "g", {"topic": "t", "partition": 0, "cause": "released"})


class Peers:
    """Another node leads all histories, if `leader` is not None."""

    def __init__(self, leader: int | None) -> None:
        self.leader = leader
        self.sent: list[Any] = []

    def leads(self, topic: str, index: int) -> int | None:
        assert topic == GROUP_EVENTS_TOPIC
        return self.leader

    def hand_over(self, *what: Any) -> None:
        self.sent.append(what)


def reported(peers: Peers | None, *, has_history: bool = True) -> list[Any]:
    """Report one event; the partitions whose observers got it."""
    found: list[Any] = []

    def observe(index: int) -> Any:
        return SimpleNamespace(report=lambda events, now: found.append((index, events)))

    topics: Any = SimpleNamespace(by_name={GROUP_EVENTS_TOPIC: None} if has_history else {})
    ShareEvents(topics, ManualClock(), Routing(range(5)), observe, peers).report(EVENT)
    return found


def test_a_node_that_leads_the_history_writes_the_event() -> None:
    index = Routing(range(5)).partition("g")
    assert reported(None) == reported(Peers(None)) == [(index, (EVENT,))]


def test_another_node_gets_the_event_for_its_history() -> None:
    peers = Peers(3)
    assert reported(peers) == []
    ((node_id, topic, index, ((key, value),)),) = peers.sent
    assert (node_id, topic, index, key) == (3, GROUP_EVENTS_TOPIC, Routing(range(5)).partition("g"), b"g")
    assert json.loads(value)["cause"] == "released"
    peers = Peers(3)
    assert reported(peers, has_history=False) == peers.sent == []
