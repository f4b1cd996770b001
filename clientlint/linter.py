"""Gives the stream of requests, answers and ended connections to all watchers, and keeps what they find. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from muster.clientlint.calls import Call, Client, Connection
from muster.clientlint.findings import Findings
from muster.clientlint.watcher import Broken, Kept, Watcher
from muster.clientlint.watchers import all_watchers
from muster.protocol.api import ApiKey

PASSING_MS: Final = 1_000
"""How often watchers look for what did not happen."""


class Linter:
    """See the module. `requests`: how many requests it has seen."""

    def __init__(self, watchers: Iterable[Watcher] | None = None) -> None:
        self.findings = Findings()
        self.requests = 0
        self.clients: Kept[Client, dict[str, int]] = Kept()
        """Each client with the versions of the APIs that it has used, by API name: the newest of each."""
        self._watchers = [*(all_watchers() if watchers is None else watchers)]
        self._of_api: dict[int, list[Watcher]] = {}
        self._connections = 0
        self._passed_ms = 0

    def watch(self, watcher: Watcher) -> None:
        """Add a watcher."""
        self._watchers.append(watcher)
        self._of_api.clear()

    def opened(self, node: str, now_ms: int) -> Connection:
        """A connection to this node, at its first request."""
        self._connections += 1
        return Connection(self._connections, node, now_ms)

    def asked(
        self, connection: Connection, client: Client, api_key: int, version: int, request: Any, now_ms: int
    ) -> Call:
        """Take a request that is about to be handled. The returned call is given to `answered` later, or never."""
        self.requests += 1
        call = Call(connection, client, api_key, version, request, now_ms)
        if api_key != ApiKey.API_VERSIONS:
            self.clients.make(client, dict)[call.api] = version
        for watcher in self._watching(api_key):
            self._keep(watcher.asked(call))
        self.passed(now_ms)
        return call

    def answered(self, call: Call, answer: Any, now_ms: int) -> None:
        """Take the answer that the client gets."""
        call.answer_with(answer, now_ms)
        for watcher in self._watching(call.api_key):
            self._keep(watcher.answered(call))
        # a large request must not live longer than its answer
        call.request = call.answer = None

    def closed(self, connection: Connection, now_ms: int) -> None:
        """Take the end of a connection."""
        connection.closed_ms = now_ms
        for watcher in self._watchers:
            watcher.closed(connection)

    def passed(self, now_ms: int) -> None:
        """Look for what did not happen, if the last look was long enough ago."""
        if now_ms - self._passed_ms >= PASSING_MS:
            self._passed_ms = now_ms
            for watcher in self._watchers:
                self._keep(watcher.passed(now_ms))

    def _watching(self, api_key: int) -> list[Watcher]:
        found = self._of_api.get(api_key)
        if found is None:
            found = [one for one in self._watchers if not one.apis or api_key in one.apis]
            self._of_api[api_key] = found
        return found

    def _keep(self, found: Iterable[Broken]) -> None:
        for one in found:
            self.findings.add(one)
