"""One listener: a port, and the connections that it accepts. A listener knows sockets, but not the bytes on them. A
listener accepts many connections in one iteration of the event loop; uvloop's own server accepts one connection. So a
thousand members that connect together join together.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog

from muster.coordinator.api.context import Channel
from muster.coordinator.api.layers import CloseConnection, Requests, Sink
from muster.coordinator.net.authentication_gate import AuthenticationGate, RequestsWithSink
from muster.coordinator.net.connection import MAX_AUTHENTICATION_BYTES, Connection, Shared
from muster.coordinator.net.limits import Limits
from muster.coordinator.net.settings import NetSettings
from muster.coordinator.net.sockets import client_host, host_and_port, with_port
from muster.coordinator.security.authentication import NOT_REQUIRED, WITHOUT_AUTHENTICATION, Authentication
from muster.coordinator.system.clock import Timer
from muster.coordinator.system.host_names import CannotListen
from muster.coordinator.topics.cluster_image import Endpoint

if TYPE_CHECKING:
    from muster.coordinator.net.connection_rates import ConnectionRates
    from muster.coordinator.net.tls.context import ListenerTls
    from muster.coordinator.net.tls.handshake import PlainSocket
    from muster.coordinator.security.sasl.exchange import SaslListener

log = structlog.get_logger("muster.net")

WILDCARDS: Final = ("", "0.0.0.0", "::", "[::]")
_SYSTEM_CHOICE: Final = (-1, 102_400)
_DEFAULT_BACKLOG: Final = 50
_BACKLOG: Final = 1_024
ACCEPTED_AT_ONCE: Final = 100
"""The most connections that are accepted in one iteration of the event loop, in some 10 ms."""
MAX_REFUSED: Final = 1_000
"""The most connections that wait to be closed because their address has exceeded connection_creation_rate."""
PAUSE_MS: Final = 1_000
"""How long accepting pauses when files or memory for a connection are missing."""


class ListenerAddress(NamedTuple):
    """The address to listen at, and the address for clients. `advertised_*` None: each connection's local address."""

    name: str
    host: str
    port: int
    advertised_host: str | None = None
    advertised_port: int | None = None


class Security(NamedTuple):
    """Kafka's security protocol of a listener: whether it has TLS, and SASL when clients must authenticate."""

    tls: ListenerTls | None = None
    sasl: SaslListener | None = None

    @property
    def authenticates(self) -> bool:
        """Whether clients have to authenticate first."""
        return self.sasl is not None


PLAINTEXT: Final = Security()


class Listener:
    """Accepts the connections of one address."""

    def __init__(
        self,
        address: ListenerAddress,
        settings: NetSettings,
        limits: Limits,
        open_requests: Callable[[Channel, Sink], RequestsWithSink],
        security: Security = PLAINTEXT,
    ) -> None:
        """`limits`: shared by all listeners. `open_requests` makes the object that answers a connection's requests."""
        self.address = address
        self._settings = settings
        self._limits = limits
        self._open_requests = open_requests
        self._security = security
        self._handshakes: Any = None
        if security.tls is not None:
            from muster.coordinator.net.tls.handshake import Handshakes, PlainSocket

            self._handshakes, self._plain_socket = Handshakes(), PlainSocket
        self._shared = Shared(
            limits,
            settings.socket_request_max_bytes,
            self._channel,
            self._gate if security.authenticates else open_requests,
            self._set_options,
            self._identify if security.tls is not None and not security.authenticates else None,
            is_tls=security.tls is not None,
            max_authentication_bytes=MAX_AUTHENTICATION_BYTES
            if security.sasl is None
            else security.sasl.max_receive_bytes,
        )
        self._loop: asyncio.AbstractEventLoop
        self._socket: socket.socket | None = None
        self._pause: Timer | None = None
        self._held: socket.socket | None = None
        """The connection that waits until the rate allows it (max.connection.creation.rate)."""
        self._refused: dict[socket.socket, Timer] = {}
        self._opening: dict[asyncio.Task[None], PlainSocket | None] = {}
        self._is_paused = False
        self.port = address.port

    async def start(self) -> None:
        """Bind and accept. Afterwards `port` is the real port. Raises CannotListen."""
        host = self.address.host.removeprefix("[").removesuffix("]")
        try:
            bound = self._socket = _bind(host, self.address.port)
        except OSError as error:
            raise CannotListen(error, host, self.address.port, self.address.name) from error
        self.port = bound.getsockname()[1]
        wanted = self._settings.socket_listen_backlog_size
        bound.listen(_BACKLOG if wanted == _DEFAULT_BACKLOG else wanted)
        bound.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(bound, self._accept)

    def close(self) -> None:
        """Stop accepting. Open connections stay open, and TLS handshakes in progress fail."""
        if self._socket is None:
            return
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._socket = None
        if self._held is not None:
            self._held.close()
        for refused, timer in self._refused.items():
            timer.cancel()
            refused.close()
        self._refused.clear()
        for plain in self._opening.values():
            if plain is not None:
                plain.abort()

    def pause(self) -> None:
        """Pause accepting: new connections wait in the backlog."""
        self._is_paused = True
        if self._socket is not None:
            self._loop.remove_reader(self._socket)

    def resume(self) -> None:
        """Continue accepting."""
        self._is_paused = False
        if self._socket is not None and self._pause is None:
            self._loop.add_reader(self._socket, self._accept)

    async def settled(self) -> None:
        """After `close`: wait until every accepted connection is open or closed."""
        if self._opening:
            await asyncio.wait(self._opening)

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            if self._socket is None:
                return
            try:
                accepted, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.error("no connection can be accepted for now", error=str(error), in_ms=PAUSE_MS)
                self._loop.remove_reader(self._socket)
                clock = self._limits.clock
                self._pause = clock.call_at(clock.mono_ms() + PAUSE_MS, self._go_on)
                return
            accepted.setblocking(False)
            rates = self._limits.rates
            if rates is not None:
                wait_ms = rates.delay_ms(self.address.name)
                if wait_ms:
                    self._hold(accepted, wait_ms)
                    return
                if self._refuses(rates, accepted):
                    continue
            self._take(accepted)

    def _take(self, accepted: socket.socket) -> None:
        plain = self._plain_socket(accepted) if self._shared.is_tls else None
        task = self._loop.create_task(self._open(accepted, plain))
        self._opening[task] = plain
        task.add_done_callback(self._opening.pop)

    async def _open(self, accepted: socket.socket, plain: PlainSocket | None) -> None:
        if self._socket is None:
            accepted.close()
        elif plain is not None:
            assert self._security.tls is not None
            await plain.serve(self._connection(), self._security.tls, self._handshakes, self._limits.clock)
        else:
            # no code cancels this task: uvloop might close the transport without a call, and the connection would stay
            await self._loop.connect_accepted_socket(self._connection, accepted)

    def _go_on(self) -> None:
        self._pause = None
        if self._socket is None:
            return
        held, self._held = self._held, None
        rates = self._limits.rates
        if held is not None and (rates is None or not self._refuses(rates, held)):
            self._take(held)
        self._loop.add_reader(self._socket, self._accept)

    def _hold(self, accepted: socket.socket, wait_ms: int) -> None:
        """Let a connection wait, because connections arrive too fast. Later connections wait in the backlog."""
        assert self._socket is not None
        self._held = accepted
        self._loop.remove_reader(self._socket)
        clock = self._limits.clock
        self._pause = clock.call_at(clock.mono_ms() + wait_ms, self._go_on)

    def _refuses(self, rates: ConnectionRates, accepted: socket.socket) -> bool:
        """Whether the address exceeds its limit. If so, the connection is closed later: the client then reconnects."""
        try:
            host, _ = host_and_port(accepted.getpeername())
        except OSError:
            return False  # the peer has disconnected
        refused_ms = rates.refusal_ms(self.address.name, client_host(host)[1:])
        if not refused_ms:
            return False
        if len(self._refused) >= MAX_REFUSED:
            oldest = next(iter(self._refused))
            self._refused.pop(oldest).cancel()
            oldest.close()
        clock = self._limits.clock
        self._refused[accepted] = clock.call_at(clock.mono_ms() + refused_ms, lambda: self._close_refused(accepted))
        return True

    def _close_refused(self, accepted: socket.socket) -> None:
        del self._refused[accepted]
        accepted.close()

    def guard(self, guard: Callable[[Any, Callable[[], object]], Any]) -> None:
        """Let new connections use the transport that `guard` returns, see `Shared`."""
        self._shared = self._shared._replace(guard=guard)

    def set_sasl(self, sasl: SaslListener) -> None:
        """Let new connections use these settings of SASL. Open connections keep their settings."""
        self._security = self._security._replace(sasl=sasl)

    @property
    def descriptor(self) -> int:
        """The descriptor of the socket that accepts; negative while the listener does not accept."""
        is_reading = self._socket is not None and self._pause is None and not self._is_paused
        return self._socket.fileno() if is_reading and self._socket is not None else -1

    @property
    def bound_descriptor(self) -> int:
        """The descriptor of the bound socket; negative when no socket is bound."""
        return -1 if self._socket is None else self._socket.fileno()

    def _connection(self) -> Connection:
        return Connection(self._shared)

    def _gate(self, channel: Channel, connection: Connection) -> Requests:
        return AuthenticationGate(channel, connection, self._open_requests, self._limits.clock)

    def _channel(self, transport: Any) -> Channel:
        peer_host, peer_port = host_and_port(transport.get_extra_info("peername"))
        local_host, local_port = host_and_port(transport.get_extra_info("sockname"))
        address = self.address
        endpoint = Endpoint(address.advertised_host or local_host, address.advertised_port or local_port)
        peer = with_port(peer_host, peer_port)
        authentication = WITHOUT_AUTHENTICATION
        if self._security.authenticates:
            authentication = Authentication(sasl=self._security.sasl)
        elif self._security.tls is not None:
            authentication = Authentication(NOT_REQUIRED)
        return Channel(address.name, endpoint, peer, client_host(peer_host), authentication)

    def _identify(self, channel: Channel, transport: Any) -> None:
        """The TLS handshake is complete: set the client's principal from its certificate. Raises CloseConnection."""
        assert self._security.tls is not None
        from muster.coordinator.security.ssl_principal import NoName

        try:
            certificate = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
            channel.authentication.principal = self._security.tls.now.mapper.principal(certificate)
        except NoName as error:
            raise CloseConnection(f"the client cannot be named: {error}") from error

    def _set_options(self, transport: Any) -> None:
        # TCP_NODELAY is set by asyncio and uvloop themselves
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._settings.socket_send_buffer_bytes not in _SYSTEM_CHOICE:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._settings.socket_send_buffer_bytes)
        if self._settings.socket_receive_buffer_bytes not in _SYSTEM_CHOICE:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._settings.socket_receive_buffer_bytes)


def _bind(host: str, port: int) -> socket.socket:
    """A bound socket, which accepts IPv4 and IPv6 when `host` means all addresses."""
    if host in WILDCARDS and host != "0.0.0.0" and socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError as error:
            if error.errno not in _NO_IPV6:
                raise
            host = ""
    if host in WILDCARDS:
        return socket.create_server(("", port))
    # a name as text would import Python's encoding of international names, which takes 0.5 MB and 3 ms
    name = host.encode() if host.isascii() else host
    family, _, _, _, address = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    return socket.create_server(address[:2], family=family)


_NO_IPV6 = frozenset({97, 99})  # EAFNOSUPPORT, EADDRNOTAVAIL: no IPv6, or no IPv6 address
