"""What tests of handlers share: contexts, a node made of parts, and a Respond that remembers."""

from __future__ import annotations

import itertools
from typing import Any, cast

from muster.coordinator.api.context import Channel, Endpoint, RequestContext
from muster.coordinator.api.node import Node
from muster.coordinator.clock import ManualClock
from muster.coordinator.groups.interface import Client
from muster.protocol.message import Message


class Answers:
    """A `Respond` that keeps what it is called with."""

    def __init__(self) -> None:
        self.all: list[Message | None] = []

    def __call__(self, response: Message | None) -> None:
        self.all.append(response)

    def one(self) -> Any:
        """The one answer; fails when there was none yet, or more than one."""
        assert len(self.all) == 1, f"{len(self.all)} answers"
        return self.all[0]


def make_channel(host: str = "127.0.0.1", port: int = 9092, listener: str = "PLAINTEXT") -> Channel:
    """A connection from 10.0.0.9 to a node that is reached at host:port."""
    return Channel(listener, Endpoint(host, port), peer="10.0.0.9:50000", host="/10.0.0.9")


def make_context(
    api_key: int = 12, api_version: int = 4, client_id: str = "test", channel: Channel | None = None
) -> RequestContext:
    """The context of a request."""
    channel = channel or make_channel()
    return RequestContext(channel, Client(client_id, channel.host), api_key, api_version)


class PlainConfig:
    """A ConfigView over a dict; everything in it counts as static."""

    def __init__(self, values: dict[str, str] | None = None) -> None:
        self.values = values or {}

    def text(self, name: str) -> str | None:
        return self.values.get(name)

    def source(self, name: str) -> str:
        return "static" if name in self.values else "default"


def make_node(**parts: Any) -> Node:
    """A node; the parts not given are a ManualClock, known ids, and nothing for topics and routing."""
    ids = itertools.count(1)
    defaults: dict[str, Any] = {
        "clock": ManualClock(),
        "topics": None,
        "routing": None,
        "config": PlainConfig(),
        "cluster_id": "test-cluster-id-000000",
        "draw_uuid": lambda: next(ids).to_bytes(16, "big"),
        "draw_uuid_text": lambda: f"00000000-0000-4000-8000-{next(ids):012}",
    }
    return Node(**cast(Any, {**defaults, **parts}))
