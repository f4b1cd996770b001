"""A sink of a dispatcher, and handlers that keep their requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from muster.coordinator.api import registry
from muster.coordinator.api.context import RequestContext

# ---- large requests and answers
from muster.coordinator.api.dispatch import ConnectionRequests, Dispatcher
from muster.coordinator.api.exchange import NO_INTERCEPT, Intercept
from muster.coordinator.api.layers import CloseConnection
from muster.coordinator.api.node import Respond
from muster.coordinator.system.jobs import outcome
from muster.protocol import frames
from muster.protocol.api import ApiKey, api
from muster.protocol.message import Message
from tests.coordinator.api.harness import (
    FakeTopics,
    make_channel,
    make_node,
)

HEARTBEAT, LEAVE = ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP


class Connection:
    """A sink that keeps its answers, and the requests that they belong to."""

    def __init__(self, intercept: Intercept = NO_INTERCEPT, dispatcher: Dispatcher | None = None) -> None:
        self.channel = make_channel()
        self.answers: list[Any] = []
        self.parts: list[bytes] = []
        self.failed: list[CloseConnection] = []
        self.dispatcher = dispatcher or Dispatcher(make_node(topics=FakeTopics()), intercept, caches=False)
        self.requests: ConnectionRequests = self.dispatcher.open(self.channel, self)

    def answer(self, answer: Any) -> None:
        self.answers.append(answer)

    def request_decoded(self) -> None:
        """Do nothing: no memory is counted."""

    def part(self, data: bytes) -> None:
        self.parts.append(data)

    def fail(self, refused: CloseConnection) -> None:
        self.failed.append(refused)

    def receive(self, frame: bytes) -> None:
        """Pass one frame, with its size, and with other bytes around it as in a real chunk."""
        data = b"\xff" * 3 + frame[4:] + b"\xff" * 5
        at_once = self.requests.handle(data, 3, 3 + len(frame) - 4)
        if at_once is not None:
            self.answer(at_once)

    def ask(self, key: int, version: int, message: Message, correlation_id: int = 5, client: str | None = "me") -> None:
        self.receive(frames.request_frame(api(key), version, correlation_id, message, client))

    def response(self, key: int, version: int) -> tuple[int, Any]:
        """The last answer: its correlation id and message."""
        answer = self.answers[-1]
        data = answer if isinstance(answer, bytes) else b"".join(answer)
        assert int.from_bytes(data[:4], "big") == len(data) - 4
        correlation_id, body = frames.decode_response_header(api(key), version, data, 4, len(data))
        return correlation_id, api(key).decode_response(version, data, body)


Seen = list[tuple[RequestContext, Any, Respond]]


def handle_with(monkeypatch: pytest.MonkeyPatch, run: Callable[[Respond], None]) -> None:
    monkeypatch.setitem(registry._loaded, HEARTBEAT, lambda node, context, request, respond: run(respond))


class Elsewhere:
    """A worker whose work is done when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], Any], Callable[[Any, Exception | None], object]]] = []

    def run(self, work: Callable[[], Any], done: Callable[[Any, Exception | None], object]) -> None:
        self.waiting.append((work, done))

    def close(self) -> None:
        self.waiting.clear()

    def do(self) -> None:
        work, done = self.waiting.pop(0)
        done(*outcome(work))
