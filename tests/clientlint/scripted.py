"""A scripted client: its requests, with the answers of a server, and the findings of a linter about them."""

from __future__ import annotations

from typing import Any

from muster.clientlint.calls import Call, Client
from muster.clientlint.findings import Finding
from muster.clientlint.linter import Linter
from muster.protocol.api import api_named
from muster.protocol.message import Message

CLIENT = Client("orders", "scripted", "1.0", "/10.0.0.1")


class Scripted:
    """One client on one connection. `at_ms`: its time, which `later` moves. A test may `reconnect`."""

    def __init__(self, linter: Linter | None = None, client: Client = CLIENT) -> None:
        self.linter = Linter() if linter is None else linter
        self.client = client
        self.at_ms = 1_000_000
        self.connection = self.linter.opened("b1:9092", self.at_ms)

    def later(self, ms: int) -> Scripted:
        """Let time pass."""
        self.at_ms += ms
        return self

    def send(self, request: Message, version: int | None = None) -> Call:
        """Send a request that is not answered yet."""
        served = api_named(type(request).__name__.removesuffix("Request"))
        version = served.max_version if version is None else version
        return self.linter.asked(self.connection, self.client, served.key, version, request, self.at_ms)

    def ask(self, request: Message, answer: Any, version: int | None = None, *, took_ms: int = 0) -> None:
        """Send a request, which is answered after `took_ms`."""
        call = self.send(request, version)
        self.at_ms += took_ms
        self.linter.answered(call, answer, self.at_ms)

    def reconnect(self, pause_ms: int = 0) -> None:
        """Close the connection, and open another one after a pause."""
        self.close()
        self.at_ms += pause_ms
        self.connection = self.linter.opened("b1:9092", self.at_ms)

    def close(self) -> None:
        """Close the connection."""
        self.linter.closed(self.connection, self.at_ms)

    @property
    def found(self) -> list[Finding]:
        """All findings."""
        self.linter.passed(self.at_ms)
        return [*self.linter.findings.all]

    @property
    def rules(self) -> list[str]:
        """The rules that were broken, with their certainty."""
        return [f"{one.rule.id} {one.certainty}" for one in self.found]
