"""The place of the linter on a server: an interceptor, outside all others, so that it sees what clients get.

A server without the linter has no such interceptor, and asks nothing at its requests. A connection is known from its
first request on.
"""

from __future__ import annotations

from typing import Any

from muster.clientlint.calls import Call, Client, Connection
from muster.clientlint.linter import Linter
from muster.clientlint.watcher import Kept
from muster.coordinator.api.context import Channel, RequestContext
from muster.coordinator.api.exchange import Exchange, Intercept, Run
from muster.coordinator.api.layers import Answer, CloseConnection
from muster.coordinator.server import Server
from muster.protocol.api import ApiKey
from muster.protocol.message import Message


class WatchedExchange:
    """An exchange whose answers the linter sees. Faults behind it may use all of `Exchange`."""

    __slots__ = ("_call", "_exchange", "_hook", "_was_seen", "route")

    def __init__(self, hook: LintHook, call: Call, exchange: Exchange) -> None:
        self._hook = hook
        self._call = call
        self._exchange = exchange
        self._was_seen = False
        self.route = exchange.route

    def __call__(self, response: Message | None) -> None:
        """See `Exchange`."""
        self._see(response)
        self._exchange(response)

    @property
    def is_awaited(self) -> bool:
        """See `Exchange`."""
        return self._exchange.is_awaited

    def frame(self, response: Message) -> Answer | None:
        """See `Exchange`. A fault asks for the frame of the answer, to send it in pieces, or a part of it."""
        return self._exchange.frame(response)

    def part(self, data: bytes) -> None:
        """See `Exchange`."""
        self._exchange.part(data)

    def send(self, frame: Answer) -> None:
        """See `Exchange`. The client gets an answer whose content the linter does not know: it counts as lost."""
        self._exchange.send(frame)

    def cut(self, reason: CloseConnection) -> None:
        """See `Exchange`."""
        self._exchange.cut(reason)

    def in_version(self, version: int) -> Exchange:
        """See `Exchange`. Older brokers, which tests play, answer so; the linter does not see these answers."""
        return self._exchange.in_version(version)

    def _see(self, response: Message | None) -> None:
        if not self._was_seen and self._exchange.is_awaited:
            self._was_seen = True
            self._hook.answered(self._call, response)


class LintHook:
    """See the module."""

    def __init__(self, linter: Linter, server: Server) -> None:
        """`server`: it must have started before the first request arrives."""
        self.intercept = Intercept(self._request)
        self._linter = linter
        self._server = server
        self._connections: dict[Channel, Connection] = {}
        self._software: Kept[tuple[str, str], tuple[str, str]] = Kept()
        """By client id and host: the software that a client has named on any of its connections."""

    def _request(self, context: RequestContext, request: Message, exchange: Any, run: Run) -> None:
        connection = self._connections.get(context.channel) or self._opened(context)
        channel = context.channel
        client = Client(context.client.client_id, *self._software_of(context, request), channel.host)
        call = self._linter.asked(
            connection, client, context.api_key, context.api_version, request, self._server.clock.mono_ms()
        )
        run(WatchedExchange(self, call, exchange))

    def _software_of(self, context: RequestContext, request: Any) -> tuple[str, str]:
        channel = context.channel
        named = channel.software_name, channel.software_version
        if context.api_key == ApiKey.API_VERSIONS and request.client_software_name:
            # the handler of this request has not run yet
            named = request.client_software_name, request.client_software_version
        key = context.client.client_id, channel.host
        if not named[0]:
            return self._software.find(key) or named
        if self._software.find(key) != named:
            self._software.put(key, named)
        return named

    def answered(self, call: Call, response: Message | None) -> None:
        """Take the answer of a call."""
        self._linter.answered(call, response, self._server.clock.mono_ms())

    def _opened(self, context: RequestContext) -> Connection:
        channel = context.channel
        connection = self._linter.opened(str(channel.endpoint), self._server.clock.mono_ms())
        self._connections[channel] = connection
        channel.on_close(lambda: self._closed(channel))
        return connection

    def _closed(self, channel: Channel) -> None:
        self._linter.closed(self._connections.pop(channel), self._server.clock.mono_ms())
