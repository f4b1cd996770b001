"""One connection on an asyncio transport. A `ConnectionCore` decides, and `Requests` handle the frames.

The module is long because `Connection` gets the calls of the transport, of the limits and of the requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import structlog

from muster.coordinator.api.context import Channel
from muster.coordinator.api.layers import Answer, CloseConnection, Requests, Wrap
from muster.coordinator.net import file_parts
from muster.coordinator.net.connection_core import (
    HANDSHAKE,
    LENGTH_BYTES,
    MEMORY,
    MUTE,
    MUTED,
    NODE,
    OTHERS,
    OUTPUT_HIGH_BYTES,
    PEER,
    READY,
    REST,
    UNMUTE,
    WAITING,
    ConnectionCore,
)
from muster.coordinator.net.file_parts import Parts
from muster.coordinator.net.limits import Limits
from muster.coordinator.net.sockets import undelivered_bytes
from muster.protocol.frames import InvalidFrameSize

log = structlog.get_logger("muster.net")

MAX_AUTHENTICATION_BYTES: Final = 524_288
"""The largest request of an authentication, in bytes: Kafka's default of sasl.server.max.receive.size."""
WRITTEN_AT_ONCE: Final = (1 << 20) + (64 << 10)
"""The most bytes of large answers that the transport gets in one iteration of the event loop. An answer with 1 MB of
records, the default of max.partition.fetch.bytes, is sent as a whole.
"""
REQUESTS_AT_ONCE: Final = 100
"""The most requests of one connection before other connections are served: some 10 ms of small requests."""
REQUESTS_EACH: Final = 10
"""The clock is asked after the first request, and then after each of this many requests."""
_TLS_HANDSHAKE: Final = b"\x16\x03"
_SPEAKS_TLS: Final = "the client speaks TLS, but this listener does not: the client needs another security.protocol"
_STALLED: Final = "other connections need its memory: its request does not arrive, or its answer is not read"


class Shared(NamedTuple):
    """The objects that all connections of one listener share."""

    limits: Limits
    max_request_bytes: int
    open_channel: Callable[[Any], Channel]
    """Makes the channel of a transport, which has the peer's address."""
    open_requests: Callable[[Channel, Connection], Requests]
    set_options: Callable[[Any], object]
    identify: Callable[[Channel, Any], object] | None = None
    """Sets the client of a transport with TLS, when its certificate identifies it. Raises `CloseConnection`."""
    is_tls: bool = False
    max_authentication_bytes: int = MAX_AUTHENTICATION_BYTES
    guard: Callable[[Any, Callable[[], object]], Any] | None = None
    """Returns a transport to use instead of its argument. The new transport may end the connection when it writes."""


class Connection(asyncio.Protocol):
    """See the module. `alive` is set at each sign of life. `host` is the peer's numeric address."""

    __slots__ = (
        "_is_pumping", "_is_reading", "_limits", "_requests", "_shared", "_transport", "_writes_rest", "alive",
        "channel", "core", "host",
    )  # fmt: skip

    def __init__(self, shared: Shared) -> None:
        self.core = ConnectionCore(shared.max_request_bytes)
        self._shared = shared
        self._limits = shared.limits
        self._transport: Any = None
        self._requests: Any = None
        self._writes_rest = False
        self._is_pumping = False
        self._is_reading = True
        self.alive = True
        self.host = ""

    # ---- the transport's calls ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the connection, let it wait, or close it. With TLS this is called again after the handshake."""
        guard = self._shared.guard
        self._transport = transport if guard is None else guard(transport, self.abort)
        if self.core.state is not WAITING:
            self._begin()
            return
        self.channel = channel = self._shared.open_channel(transport)
        self.host = channel.host[1:]
        if self._limits.refusal(self.host, channel.listener) is None:
            self._admit()
        else:
            # other connections may end in the same iteration of the event loop and make space
            asyncio.get_running_loop().call_soon(self.admit_or_wait)

    def admit_or_wait(self) -> None:
        """Another connection may have ended. Admit this waiting connection, let it wait on, or refuse it."""
        if self.core.state is not WAITING:
            return
        refusal = self._limits.refusal(self.host, self.channel.listener)
        if refusal is None:
            self._admit()
        elif not self._limits.wait(self):
            log.warning("refused a connection", peer=self.channel.peer, why=refusal)
            self.abort()

    def _admit(self) -> None:
        self._limits.enter(self)
        if self._shared.is_tls:
            self.core.happens(HANDSHAKE)
            self._transport.establish_tls()
        else:
            self._begin()

    def _begin(self) -> None:
        core, channel = self.core, self.channel
        if core.has_ended:
            self._transport.abort()  # the connection was ended during its TLS handshake
            return
        self._transport.set_write_buffer_limits(high=OUTPUT_HIGH_BYTES)
        self._shared.set_options(self._transport)
        channel.ended_by(self.fail)
        is_plain = not self._shared.is_tls and self._shared.guard is None
        channel.takes_file_parts = is_plain and self.socket_descriptor >= 0
        if self._shared.identify is not None:
            try:
                self._shared.identify(channel, self._transport)
            except CloseConnection as reason:
                self.fail(reason)
                return
        self._requests = self._shared.open_requests(channel, self)
        if self._limits.is_paused:
            core.wait_for(NODE)
        if channel.authentication.is_complete:
            core.open()
        else:
            core.begin_authentication(self._shared.max_authentication_bytes)
        self._pump()

    def data_received(self, data: bytes) -> None:
        """Handle whole requests and keep the rest."""
        self.alive = True
        core = self.core
        if not core.begin(data):
            self._receive(data)
            return
        try:
            answer = self._requests.handle(data, LENGTH_BYTES, len(data))
        except CloseConnection as reason:
            self.fail(reason)
            return
        if type(answer) is bytes and core.end():
            self._transport.write(answer)
        elif answer is not None:
            self.answer(answer)

    def _receive(self, data: bytes) -> None:
        core = self.core
        try:
            core.receive_data(data)
        except InvalidFrameSize as error:
            # requests before the faulty request are still answered, if their answers are ready at once
            self._pump()
            self.fail(CloseConnection(_SPEAKS_TLS if data.startswith(_TLS_HANDSHAKE) else str(error)))
            return
        if core.needs_memory:
            self._charge_memory()
        self._pump()

    def eof_received(self) -> bool:
        if not self.core.has_ended:
            self.core.close()
            self._write_all()
        return False  # the transport sends what was written, and then closes

    def pause_writing(self) -> None:
        self.core.wait_for(PEER)
        self._limits.unsent.hold(self)
        self._settle()

    def resume_writing(self) -> None:
        self.alive = True
        self.core.wait_no_more(PEER)
        self._pump()
        if not self.core.waits_for & (REST | PEER):
            self._limits.unsent.release(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # a reset is not logged
        self.core.lost()
        self._limits.leave(self)
        if self._requests is not None:
            self._requests.closed()
            self.channel.close()
        # no reference cycle remains: the memory is freed at once, without the garbage collector
        self._requests = None
        _take_out_of_cycle(self._transport)

    # ---- the limits' calls ----

    @property
    def descriptor(self) -> int:
        """The descriptor of the socket while the socket is read, else negative."""
        if self.core.has_ended or not self._is_reading:
            return -1
        return self.socket_descriptor

    @property
    def socket_descriptor(self) -> int:
        sock = None if self._transport is None else self._transport.get_extra_info("socket")
        # a closed TLS transport has lost its socket, but reports its end in a later iteration of the event loop
        return -1 if sock is None else int(sock.fileno())

    def close_idle(self) -> None:
        log.debug("closed an idle connection", peer=self.channel.peer)
        self.abort()

    @property
    def unsent_bytes(self) -> int:
        return int(self._transport.get_write_buffer_size()) + self.core.output_bytes

    @property
    def unread_bytes(self) -> int:
        return self.unsent_bytes + undelivered_bytes(self.socket_descriptor)

    def close_stalled(self) -> None:
        if not self.core.has_ended:
            log.warning("closed a connection", peer=self.channel.peer, why=_STALLED)
        self.abort()  # unsent bytes are dropped, because the system would take long to send them

    def pause(self) -> None:
        self.core.wait_for(NODE)
        self._settle()

    def resume(self) -> None:
        """Continue with the node, in a separate iteration of the event loop for this connection."""
        self.core.wait_no_more(NODE)
        asyncio.get_running_loop().call_soon(self._pump)

    def unmute(self) -> None:
        if self.core.state is MUTED:
            self.core.happens(UNMUTE)
            self._pump()

    def wrap(self, wrap: Wrap) -> None:
        if self._requests is not None:
            self._requests = self._requests.wrapped(wrap)

    def memory_granted(self) -> None:
        self.core.wait_no_more(MEMORY)
        self._settle()

    # ---- the requests' calls ----

    def answer(self, answer: Answer | None) -> None:
        """Send the answer to the present request (without one, send nothing). Then the next request may be handled."""
        core = self.core
        # `data_received` has the same steps, for an answer that is ready at once
        if isinstance(answer, bytes):
            if core.end():
                self._transport.write(answer)
                return
        elif answer is None:
            if core.end():
                return
        elif sum(map(len, answer)) <= WRITTEN_AT_ONCE and core.end():
            if self.channel.takes_file_parts and file_parts.are_in(answer):
                answer = self._sent(answer)
            if answer:
                self._transport.writelines(answer)
            return
        else:
            answer = self._copied(answer)
        core.answered(answer)
        if self._is_pumping:
            return
        self._write_out()
        if core.has_requests:
            # The next request begins in another call: it could release further parked answers, and so start more
            # requests.
            asyncio.get_running_loop().call_soon(self._pump)
        else:
            self._settle()

    def part(self, data: bytes) -> None:
        """Send some bytes of an answer before the rest of the answer."""
        if not self.core.has_ended:
            self.core.keep(data)
            self._write_out()

    def request_decoded(self) -> None:
        """Release the bytes of the present large request, which are no longer needed."""
        self.core.decoding(0)
        if self.core.counted_bytes:
            self._charge_memory()
            self._settle()

    def authenticated(self, requests: Requests) -> None:
        """Note that the client has authenticated. From now on `requests` handles what the client sends."""
        if not self.core.has_ended:
            self.core.open()
            self._requests = requests

    def handled_by(self, requests: Requests) -> Requests | None:
        """Let `requests` handle requests from now on. Returns the former handler of requests, or None."""
        if self.core.has_ended:
            return None
        before: Requests | None = self._requests
        self._requests = requests
        return before

    def mute(self, throttle_ms: int) -> None:
        """Handle no request for `throttle_ms`: the client has exceeded a quota."""
        core = self.core
        if core.state is not READY:
            return  # the connection has ended
        core.happens(MUTE)
        self._limits.mute(self, throttle_ms)
        self._settle()

    def fail(self, reason: CloseConnection) -> None:
        """End the connection: the present request cannot be answered."""
        if not self.core.has_ended:
            log.warning("closed a connection", peer=self.channel.peer, why=reason.reason, **reason.facts)
            self.close()

    def close(self) -> None:
        """Send the answers that are ready, then end the connection."""
        if not self.core.has_ended:
            self.core.close()
            self._write_all()
            self._transport.close()

    def abort(self) -> None:
        self.core.abort()
        self._transport.abort()

    # ---- inside ----

    def _pump(self) -> None:
        """Handle waiting requests until one is parked or too many bytes are unsent. Then write the ready answers."""
        if self._is_pumping:
            return
        self._is_pumping = True
        core = self.core
        left = REQUESTS_AT_ONCE
        while (request := core.next_request()) is not None:
            data, start, end = request
            try:
                answer = self._requests.handle(data, start, end)
            except CloseConnection as reason:
                self.fail(reason)
                break
            if core.counted_bytes:
                core.decoding(end - start if self._requests.is_reading else 0)
                self._charge_memory()
            if answer is not None:
                core.answered(answer if isinstance(answer, bytes) else self._copied(answer))
            if core.output_bytes > OUTPUT_HIGH_BYTES:
                self._write_out()
            left -= 1
            if core.has_requests:
                share, asks = self._limits.share, not (left + 1) % REQUESTS_EACH
                if not left or share.is_used or (asks and share.is_over()):
                    core.wait_for(OTHERS)
                    asyncio.get_running_loop().call_soon(self._serve_again)
        self._is_pumping = False
        had_rest = core.waits_for & REST
        self._write_out()
        if had_rest and core.has_requests:
            # the last piece of an answer was written just now: the next request may begin
            asyncio.get_running_loop().call_soon(self._pump)
        else:
            self._settle()

    def _serve_again(self) -> None:
        self.core.wait_no_more(OTHERS)
        if not self.core.has_ended:
            self._pump()

    def _write_out(self) -> None:
        """Write the ready answers, and the rest of a large answer in later iterations of the event loop."""
        core = self.core
        self._write(core.data_to_send(WRITTEN_AT_ONCE))
        if core.waits_for & (REST | PEER | NODE) == REST and not self._writes_rest:
            self._writes_rest = True
            asyncio.get_running_loop().call_soon(self._write_rest)

    def _write_rest(self) -> None:
        self._writes_rest = False
        core = self.core
        if core.waits_for & (REST | PEER) == REST and not core.has_ended:
            self._pump()
            if not core.waits_for & (REST | PEER):
                self._limits.unsent.release(self)

    def _write_all(self) -> None:
        self._write(self.core.data_to_send())

    def _write(self, output: list[bytes | memoryview]) -> None:
        if len(output) == 1:
            self._transport.write(output[0])
        elif output:
            self._transport.writelines(output)

    def _sent(self, parts: Parts) -> Parts | None:
        """Send parts of files, as far as the socket takes them. Returns the rest for the transport."""
        if self._transport.get_write_buffer_size():
            return self._copied(parts)
        try:
            return file_parts.written(self.socket_descriptor, parts)
        except ConnectionError:
            self.abort()
        except OSError as error:
            self._cannot_send(error)
        return None

    def _copied(self, parts: Parts) -> Parts | None:
        """An answer with copies of parts of files. None: they cannot be read, so the connection was ended."""
        if not self.channel.takes_file_parts or not file_parts.are_in(parts):
            return parts
        try:
            return file_parts.copied(parts)
        except OSError as error:
            self._cannot_send(error)
            return None

    def _cannot_send(self, error: OSError) -> None:
        self.fail(CloseConnection("its answer could not be read", error=str(error)))

    def _settle(self) -> None:
        """Continue or pause reading. When nothing waits, whole requests skip the queue again."""
        core = self.core
        if self._is_pumping or core.has_ended:
            return
        core.settle()
        wanted = core.wants_input
        if wanted != self._is_reading:
            self._is_reading = wanted
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()
                if not core.counted_bytes:
                    self._charge_memory()  # small requests wait behind the present request

    def _charge_memory(self) -> None:
        """Count the received bytes of requests, and the bytes that are no longer needed (queued.max.request.bytes)."""
        core = self.core
        if core.has_ended:
            return
        whole, received, missing = core.bytes_to_count()
        may_read_on = self._limits.memory.charge(self, whole, received, missing)
        core.counted(whole + received, may_read_on=may_read_on)


def _take_out_of_cycle(transport: Any) -> None:
    """Break the reference cycle of an asyncio transport (uvloop's has none)."""
    fields = getattr(transport, "__dict__", None)
    if fields is not None:
        for name in [name for name, value in fields.items() if getattr(value, "__self__", None) is transport]:
            del fields[name]
