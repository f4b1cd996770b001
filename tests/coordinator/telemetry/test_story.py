"""The answers to clients of KIP-714 are those of Kafka 4.4.0 (`story`)."""

from __future__ import annotations

from typing import Any

from muster.coordinator.api.context import Channel
from muster.coordinator.api.node import Node
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.telemetry.reports import ClientReports
from muster.coordinator.topics.cluster_image import Endpoint
from muster.protocol.api import api_named
from muster.protocol.message import Message
from tests.coordinator.api import harness
from tests.coordinator.api.data_plane import data_node
from tests.coordinator.telemetry import story


class InMemory:
    """Asks the handlers of a node, in virtual time."""

    def __init__(self) -> None:
        self.node: Node = data_node()
        self.node.client_reports = ClientReports()
        self._channels: dict[str, Channel] = {}

    def ask(self, connection: str, request: Message) -> Any:
        """See `story.Broker`."""
        if connection not in self._channels:
            self._channels[connection] = Channel("PLAINTEXT", Endpoint("h", 1), "127.0.0.1:50000", "/127.0.0.1")
        kind = api_named(type(request).__name__.removesuffix("Request"))
        context = harness.make_context(kind.key, kind.max_version, "story", self._channels[connection])
        return harness.ask(self.node, request, context).one()

    def close(self, connection: str) -> None:
        """See `story.Broker`."""
        self._channels.pop(connection).close()

    def wait(self, ms: int) -> None:
        """See `story.Broker`."""
        assert isinstance(self.node.clock, ManualClock)
        self.node.clock.advance(ms)


def test_the_answers_are_kafkas() -> None:
    assert story.play(InMemory()) == story.recorded()


def test_without_a_receiver_the_apis_are_served_but_not_advertised() -> None:
    broker = InMemory()
    assert {71, 72} <= _advertised(broker)
    broker.node.client_reports = None
    assert not {71, 72} & _advertised(broker)
    one = story.Story(broker)
    one.get("A")
    one.push("A", "not even read", b"?", 1)
    assert one.said[-1][1] == "NONE"


def _advertised(broker: InMemory) -> set[int]:
    return {row.api_key for row in broker.ask("1", story.ApiVersionsRequest("java", "1")).api_keys}
