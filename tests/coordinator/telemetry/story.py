"""What clients of KIP-714 ask a broker, step by step. `tests/golden/telemetry.json` has the answers of Kafka 4.4.0.

The clients are named A, B …; `_id` makes the id of a client instance of the name.
"""

from __future__ import annotations

import gzip
import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from struct import pack
from typing import Any, Final, Protocol

import cramjam

from muster.coordinator.log.records.compression import compress
from muster.protocol.errors import error_name
from muster.protocol.message import Message
from muster.protocol.messages.api_versions import ApiVersionsRequest
from muster.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from muster.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from muster.protocol.messages.push_telemetry import PushTelemetryRequest

GOLDEN: Final = Path(__file__).parents[2] / "golden" / "telemetry.json"
CLIENT_METRICS: Final = 16
MAX_BYTES: Final = 1_048_576


def _part(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2, len(data)]) + data


_GAUGE: Final = _part(1, b"org.apache.kafka.consumer.test") + _part(5, _part(1, b"!" + pack("<d", 2.5)))
METRICS: Final = _part(1, _part(2, _part(2, _GAUGE)))
"""MetricsData with one gauge: org.apache.kafka.consumer.test."""


class Broker(Protocol):
    """A broker under test."""

    def ask(self, connection: str, request: Message) -> Any:
        """The answer to a request on the connection of this name, which is opened when it is new."""

    def close(self, connection: str) -> None:
        """End a connection."""

    def wait(self, ms: int) -> None:
        """Let time pass."""


class Story:
    """Plays steps, and keeps what a broker answers: (what was asked, the answer in words)."""

    def __init__(self, broker: Broker) -> None:
        self.said: list[list[Any]] = []
        self.connection = "1"
        self._broker = broker
        self._ids: dict[str, int] = {}

    def get(self, client: str) -> None:
        """Ask for the subscriptions of a client. "" is a client without an id yet."""
        request = GetTelemetrySubscriptionsRequest(_id(client))
        answer = self._broker.ask(self.connection, request)
        if not answer.error_code:
            self._ids[client] = answer.subscription_id
        fields: list[Any] = [error_name(answer.error_code)]
        if not answer.error_code:
            is_own = answer.client_instance_id == request.client_instance_id
            fields += [
                "own id" if is_own else "new id",
                answer.subscription_id if is_own else None,
                list(answer.accepted_compression_types),
                answer.push_interval_ms,
                answer.telemetry_max_bytes,
                answer.delta_temporality,
                list(answer.requested_metrics),
            ]
        self.said.append([f"get {client}", fields])

    def push(
        self, client: str, what: str = "", data: bytes = b"", codec: int = 0, more: int = 0, *, ends: bool = False
    ) -> None:
        """Push data. `more` makes the subscription id wrong."""
        at = (self._ids.get(client, 0) + more + 2**31) % 2**32 - 2**31
        request = PushTelemetryRequest(_id(client), at, ends, codec, data)
        self.said.append([f"push {client} {what}", error_name(self._broker.ask(self.connection, request).error_code)])

    def subscribe(self, name: str, **configs: str | None) -> None:
        """Set configs of a subscription. None removes a config."""
        rows = [AlterableConfig(key.replace("_", "."), 1 if text is None else 0, text) for key, text in configs.items()]
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(CLIENT_METRICS, name, rows)])
        (row,) = self._broker.ask(self.connection, request).responses
        self.said.append([f"subscribe {name}", [error_name(row.error_code), row.error_message]])
        self._broker.wait(300)

    def wait(self, ms: int) -> None:
        """Let time pass."""
        self._broker.wait(ms)

    def connect(self, connection: str) -> None:
        """Use a new connection from now on."""
        self.connection = connection
        self._broker.ask(connection, ApiVersionsRequest("apache-kafka-java", "4.4.0"))

    def close(self, connection: str) -> None:
        """End a connection."""
        self._broker.close(connection)
        self._broker.wait(300)


def _id(client: str) -> bytes:
    if client == "one":
        return bytes(15) + b"\1"
    return bytes((ord(client) * place + 40) % 256 for place in range(1, 17)) if client else bytes(16)


def _without_subscriptions(story: Story) -> None:
    story.connect("1")
    story.get("")
    story.get("A")
    story.get("A")
    story.push("A")
    story.push("A", "too soon")
    story.get("A")
    story.get("B")
    story.push("B", "another subscription", more=1)
    story.get("B")
    story.get("C")
    story.push("C", "unknown codec", codec=9)
    story.get("C")
    story.get("D")
    story.push("D", "too large", bytes(MAX_BYTES + 1))
    story.get("D")
    story.get("E")
    story.push("E", "the last", ends=True)
    story.push("E", "after the last")
    story.get("E")
    story.get("F")
    story.push("F", "the last, of another subscription", more=1, ends=True)
    story.push("F", "after that")
    story.get("F")
    story.push("", "without an id")
    story.push("one", "with a reserved id")
    story.push("G", "without asking before")
    story.get("G")


def _payloads(story: Story) -> None:
    large = bytes(2 * MAX_BYTES)
    cases: dict[str, tuple[bytes, int]] = {
        "plain": (METRICS, 0),
        "gzip": (gzip.compress(METRICS), 1),
        "snappy": (bytes(compress(METRICS, 2)), 2),
        "lz4": (bytes(compress(METRICS, 3)), 3),
        "zstd": (bytes(compress(METRICS, 4)), 4),
        "no gzip": (METRICS, 1),
        "no zstd": (METRICS, 4),
        "gzip of too much": (gzip.compress(large), 1),
        "zstd of too much": (bytes(cramjam.zstd.compress(large)), 4),
        "gzip of nothing": (gzip.compress(b""), 1),
    }
    for letter, (what, (data, codec)) in zip("abcdefghij", cases.items(), strict=True):
        story.get(letter)
        story.push(letter, what, data, codec)
        story.get(letter)


def _subscriptions(story: Story) -> None:
    story.subscribe("m1", metrics="org.apache.kafka.consumer.,org.apache.kafka.producer.", interval_ms="1000")
    story.get("A")
    story.get("A")
    story.wait(1_100)
    story.get("A")
    story.push("A")
    story.wait(1_100)
    story.push("A", "in time")
    story.push("A", "too soon")
    story.push("A", "too soon, but the last", ends=True)
    many = ",".join(f"metric.{number}." for number in range(30))
    story.subscribe("m2", metrics=many, interval_ms="2000", match="client_software_name=apache-.*")
    story.push("A", "with the subscription of before")
    story.get("A")
    story.get("H")
    story.subscribe("m3", metrics="*", match="client_id=nobody")
    story.get("H")
    story.subscribe("m3", match="client_source_address=127.0.0.1,client_software_version=4\\..*")
    story.get("H")
    story.subscribe("m3", metrics=None, match=None)
    story.get("H")
    story.subscribe("m2", metrics=None, match=None, interval_ms=None)
    story.get("H")
    story.subscribe("m4", metrics="")
    story.get("H")
    story.subscribe("m1", metrics=None, interval_ms=None)
    story.get("H")
    story.subscribe("m5", interval_ms="100")
    story.get("H")
    story.subscribe("m5", interval_ms="60000", match=f"client_instance_id={urlsafe_b64encode(_id('H'))[:22].decode()}")
    story.get("H")
    story.subscribe("bad", interval_ms="99")
    story.subscribe("bad", match="client_id")
    story.subscribe("bad", wrong="1")


def _connections(story: Story) -> None:
    story.connect("2")
    story.get("I")
    story.get("I")
    story.connect("3")
    story.get("I")
    story.close("2")
    story.get("I")


def play(broker: Broker) -> list[list[Any]]:
    """Play all steps."""
    story = Story(broker)
    steps: tuple[Callable[[Story], None], ...] = (_without_subscriptions, _payloads, _subscriptions, _connections)
    for step in steps:
        step(story)
    return story.said


def recorded() -> list[list[Any]]:
    """What Kafka 4.4.0 answered."""
    said: list[list[Any]] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return said
