"""What watchers see: clients, their connections, and each request with its answer and times. Pure.

A server knows when it handled a request, not when the client sent it. Clients may send several requests before the
first answer. `Call.sent_ms` is therefore the earliest time at which the client may have sent the request. A watcher
uses it to find out whether the client knew an earlier answer (`certainty`).
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final, NamedTuple

from muster.protocol.api import api
from muster.protocol.message import Message

KNOWN_MS: Final = 200
"""A client on an open connection has read an answer after this time."""
IDLE_MS: Final = 5
"""A request this long after the last answer of its connection was sent after that answer."""


MAX_ROWS: Final = 200
"""The most rows of a request or an answer that is looked at."""


class Certainty(StrEnum):
    """How sure a finding is. A client that keeps to the protocol never breaks a rule that is `SURE`."""

    SURE = "sure"
    PERHAPS = "perhaps"


class Client(NamedTuple):
    """Who asks. Several processes of one host may be one client here, if they share a client id."""

    client_id: str
    software: str
    version: str
    host: str

    @property
    def name(self) -> str:
        """The client's software with its version."""
        return f"{self.software} {self.version}".strip() or "unnamed software"


class Connection:
    """One connection. `busy_ms`: when its last answer left; `answers`: how many have left.

    `sent_ms`: see `Call.sent_ms`, of its last request.
    """

    __slots__ = ("answers", "busy_ms", "closed_ms", "node", "number", "opened_ms", "sent_ms")

    def __init__(self, number: int, node: str, opened_ms: int) -> None:
        self.number = number
        self.node = node
        self.opened_ms = self.busy_ms = self.sent_ms = opened_ms
        self.answers = 0
        self.closed_ms: int | None = None

    def sending(self, now_ms: int) -> int:
        """The earliest time at which a request that is handled now may have been sent."""
        if now_ms - self.busy_ms >= IDLE_MS:
            self.sent_ms = now_ms
        return self.sent_ms


class Call:
    """One request, and later its answer, in their newest shapes. `answer` None: it has not left yet, or is not wanted.

    `error`: the first error code of the answer that is not 0.
    """

    __slots__ = (
        "answer", "answered_ms", "api_key", "asked_ms", "client", "connection", "error", "request", "sent_ms",
        "version",
    )  # fmt: skip

    def __init__(
        self, connection: Connection, client: Client, api_key: int, version: int, request: Any, asked_ms: int
    ) -> None:
        self.connection = connection
        self.client = client
        self.api_key = api_key
        self.version = version
        self.request = request
        self.asked_ms = asked_ms
        self.sent_ms = connection.sending(asked_ms)
        self.answer: Any = None
        self.answered_ms = 0
        self.error = 0

    def answer_with(self, answer: Any, now_ms: int) -> None:
        """Take the answer that the client gets now. None means that the client gets no answer, as it has asked."""
        self.answer, self.answered_ms = answer, now_ms
        self.error = 0 if answer is None else next((code for code in _codes(answer) if code), 0)
        self.connection.busy_ms = now_ms
        self.connection.answers += 1

    @property
    def api(self) -> str:
        """Kafka's name: "JoinGroup"."""
        return api(self.api_key).name


def _codes(answer: Any) -> Iterator[int]:
    waiting, looked_at = [answer], 0
    while waiting and looked_at < MAX_ROWS:
        row = waiting.pop(0)
        looked_at += 1
        for name in row.__slots__:
            value = getattr(row, name)
            if name in ("error_code", "partition_error_code"):
                yield value
            elif type(value) in (list, tuple) and value and isinstance(value[0], Message):
                waiting += value[: MAX_ROWS - looked_at]


class Known(NamedTuple):
    """An answer that a client got: on which connection, when, and with which error code."""

    connection: Connection
    at_ms: int
    error: int = 0


def known(call: Call, error: int = 0) -> Known:
    """The answer of this call, as the client knows it."""
    return Known(call.connection, call.answered_ms, error)


def certainty(call: Call, answer: Known) -> Certainty | None:
    """How sure it is that the client knew `answer` when it sent `call`. None means that the client may not have known.

    When the connection of the answer has ended, the answer may have been lost with it.
    """
    if call.sent_ms < answer.at_ms + KNOWN_MS:
        return None
    return Certainty.SURE if answer.connection.closed_ms is None else Certainty.PERHAPS
