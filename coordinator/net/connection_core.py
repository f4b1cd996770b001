"""The rules of one connection: its states, what may happen in each state, and its limits. The module has no asyncio,
socket or clock.

The input is bytes and events. The output is requests, bytes to send, and whether to continue reading. As on Kafka, a
request begins after the answer of the request before it. `connection.Connection` applies these rules to a transport.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from struct import Struct
from types import MappingProxyType
from typing import Final

from muster.coordinator.api.layers import Answer
from muster.protocol.frames import Frame, FrameSplitter, InvalidFrameSize

INPUT_HIGH_BYTES: Final = 64 * 1024
"""How many bytes may wait behind a request that is being answered. With more bytes, reading pauses."""
LENGTH_BYTES: Final = 4
_length: Final = Struct(">i").unpack_from
OUTPUT_HIGH_BYTES: Final = 256 * 1024
"""How many bytes of answers may be unsent. With more bytes, no further request is handled."""
SMALL_BYTES: Final = 64 * 1024
"""A larger request needs a grant of memory from its first byte on."""
UNCOUNTED_BYTES: Final = 16 * 1024
"""An unfinished request also needs a grant when more bytes of it have arrived: a heartbeat is always smaller."""

WAITING: Final = "waiting"
"""The server already has max.connections. Few bytes are read, and nothing is handled until another connection ends."""
HANDSHAKING: Final = "handshaking"
"""The connection counts for the limits; its TLS handshake is in progress."""
AUTHENTICATING: Final = "authenticating"
"""The next request of the authentication may be handled; no other request passes."""
VERIFYING: Final = "verifying"
"""A request of the authentication is being answered."""
READY: Final = "ready"
"""The next request may be handled."""
ANSWERING: Final = "answering"
MUTED: Final = "muted"
"""The last answer had a throttle time (quotas). Until that time is over, nothing is read and nothing is handled."""
CLOSING: Final = "closing"
"""No further request is handled. Bytes that were written are still sent."""
CLOSED: Final = "closed"
STATES: Final = (WAITING, HANDSHAKING, AUTHENTICATING, VERIFYING, READY, ANSWERING, MUTED, CLOSING, CLOSED)

HANDSHAKE: Final = "admitted, TLS first"
AUTHENTICATION: Final = "admitted, authentication first"
OPENED: Final = "admitted or authenticated"
REQUEST: Final = "a request is handled"
ANSWERED: Final = "the request is answered"
MUTE: Final = "the client has to wait"
UNMUTE: Final = "the throttle time is over"
CLOSE: Final = "one side closes"
LOST: Final = "the transport has ended"

TRANSITIONS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        HANDSHAKE: {WAITING: HANDSHAKING},
        AUTHENTICATION: {WAITING: AUTHENTICATING, HANDSHAKING: AUTHENTICATING},
        OPENED: {WAITING: READY, HANDSHAKING: READY, AUTHENTICATING: READY},
        REQUEST: {AUTHENTICATING: VERIFYING, READY: ANSWERING},
        # answers after the end of the connection are dropped
        ANSWERED: {VERIFYING: AUTHENTICATING, ANSWERING: READY, CLOSING: CLOSING, CLOSED: CLOSED},
        MUTE: {READY: MUTED},
        UNMUTE: {MUTED: READY},
        CLOSE: dict.fromkeys(STATES[:-1], CLOSING),
        LOST: dict.fromkeys(STATES[:-1], CLOSED),
    }
)
"""Event -> state -> the next state. An event that is missing here cannot happen."""
_NONE_WAIT: Final[deque[Frame]] = deque()
"""All connections whose requests never wait share this deque: an empty deque for each would take 0.6 KB."""
_AFTER_REQUEST: Final = TRANSITIONS[REQUEST]
_AFTER_ANSWER: Final = TRANSITIONS[ANSWERED]

PEER: Final = 1
"""The peer reads more slowly than the node answers."""
MEMORY: Final = 2
"""A large request has begun to arrive, and the memory for its further bytes is not available yet."""
INPUT: Final = 4
"""Requests wait for the present request, or the first bytes of a request wait for its other bytes."""
NODE: Final = 8
"""The node is paused: nothing is read, handled or sent until it continues."""
REST: Final = 16
"""The rest of a large answer is written in the next iterations of the event loop."""
OTHERS: Final = 32
"""The connection has used its share of this iteration of the event loop: other connections are served next."""
_NO_REQUEST: Final = PEER | REST | OTHERS
"""Reasons for which no further request is handled."""


class IllegalTransition(RuntimeError):
    """A bug: `event` cannot happen to a connection in `state`. Nothing has changed."""

    def __init__(self, state: str, event: str) -> None:
        super().__init__(f"a connection is {state}: {event!r} cannot happen")


class ConnectionCore:
    """See the module. `waits_for` is a sum of `PEER`, `MEMORY`, `INPUT`, `NODE`, `REST` and `OTHERS`, or 0.

    Only this class writes its fields. For a chunk that is one request, `begin` and `end` replace the other methods.
    """

    __slots__ = (
        "_decoding_bytes", "_output", "_requests", "_requests_bytes", "_splitter", "counted_bytes",
        "max_request_bytes", "output_bytes", "state", "waits_for",
    )  # fmt: skip

    def __init__(self, max_request_bytes: int) -> None:
        self.state: str = WAITING
        self.waits_for = 0
        self.max_request_bytes = max_request_bytes
        self.counted_bytes = 0
        self.output_bytes = 0
        self._decoding_bytes = 0
        self._splitter = FrameSplitter(max_request_bytes)
        self._requests = _NONE_WAIT
        self._requests_bytes = 0
        self._output: list[bytes | memoryview] = []

    def happens(self, event: str) -> None:
        """Change the state as `TRANSITIONS` says. Raises IllegalTransition."""
        state = TRANSITIONS[event].get(self.state)
        if state is None:
            raise IllegalTransition(self.state, event)
        self.state = state

    @property
    def has_ended(self) -> bool:
        """Whether no request is handled any more."""
        return self.state is CLOSING or self.state is CLOSED

    @property
    def is_answering(self) -> bool:
        """Whether a request is being answered, or the client has to wait. Then the client has a reason to be silent."""
        return self.state is ANSWERING or self.state is VERIFYING or self.state is MUTED

    # ---- the start and the end of the connection

    def begin_authentication(self, max_request_bytes: int) -> None:
        """Until `open`, a request may have at most `max_request_bytes`."""
        self.happens(AUTHENTICATION)
        self._splitter.limit = max_request_bytes

    def open(self) -> None:
        """Every request may be handled."""
        self.happens(OPENED)
        self._splitter.limit = self.max_request_bytes

    def close(self) -> None:
        """Note that one side ends the connection. The bytes in `data_to_send` may still be sent."""
        if not self.has_ended:
            self.happens(CLOSE)

    def abort(self) -> None:
        """End the connection. Unsent bytes are lost."""
        self.close()
        self.data_to_send()

    def lost(self) -> None:
        """Note that the transport has ended."""
        self.happens(LOST)
        self.waits_for = 0
        self._requests = _NONE_WAIT
        self._splitter.clear()
        self.data_to_send()

    # ---- requests in

    def begin(self, data: bytes) -> bool:
        """Begin the request that is this whole chunk, if nothing waits. False: nothing changed; call `receive_data`."""
        size = len(data) - LENGTH_BYTES
        if size <= 0 or size > self.max_request_bytes or self.waits_for:
            return False
        if self.state is READY and _length(data)[0] == size:
            self.state = ANSWERING
            return True
        return False

    def receive_data(self, data: bytes) -> None:
        """Receive the next bytes. Raises InvalidFrameSize if bytes cannot be parsed; requests before them are kept."""
        if self.has_ended:
            return
        self.waits_for |= INPUT
        try:
            self._keep(self._splitter.feed(data))
        except InvalidFrameSize as error:
            self._keep(error.frames)
            raise

    def _keep(self, requests: list[Frame]) -> None:
        if self._requests:
            self._requests.extend(requests)
        elif requests:
            self._requests = deque(requests)
        self._requests_bytes += sum([end - start for _, start, end in requests])

    def next_request(self) -> Frame | None:
        """The next request: handle it, and call `answered`. None when no request may be handled now."""
        state = _AFTER_REQUEST.get(self.state)
        if state is None or not self._requests or self.waits_for & (_NO_REQUEST | NODE):
            return None
        self.state = state
        request = self._requests.popleft()
        self._requests_bytes -= request[2] - request[1]
        return request

    @property
    def has_requests(self) -> bool:
        """Whether whole requests wait, and only for the present request."""
        return bool(self._requests) and not self.waits_for & (_NO_REQUEST | NODE) and not self.has_ended

    @property
    def wants_input(self) -> bool:
        """Whether more bytes should be read from the peer now."""
        return not self.waits_for & MEMORY and self.reads_on

    @property
    def reads_on(self) -> bool:
        """Whether more bytes should be read as soon as memory for them is available."""
        if self.waits_for & NODE or self.state is MUTED:
            return False
        if self.state in _AFTER_REQUEST and not self.waits_for & _NO_REQUEST:
            return True
        return self._requests_bytes + self._splitter.buffered < INPUT_HIGH_BYTES

    def settle(self) -> None:
        """All requests that may be handled now are handled. Update whether input still waits."""
        if not self._requests and not self._splitter.buffered:
            self._requests = _NONE_WAIT
            self.waits_for &= ~INPUT

    # ---- answers out

    def end(self) -> bool:
        """Note that the present request is answered, if its answer may be written at once. False: nothing changed."""
        if self.state is ANSWERING and not self.waits_for:
            self.state = READY
            return True
        return False

    def answered(self, answer: Answer | None) -> None:
        """Note that the present request is answered. Nothing is sent when `answer` is None."""
        state = _AFTER_ANSWER.get(self.state)
        if state is None:
            raise IllegalTransition(self.state, ANSWERED)
        self.state = state
        if answer is not None and state in _AFTER_REQUEST:
            self.keep(answer)

    def keep(self, answer: Answer) -> None:
        """Send the answer, or a part of it, after the bytes that wait already."""
        if isinstance(answer, bytes):
            self._output.append(answer)
            self.output_bytes += len(answer)
        else:
            self._output.extend(answer)
            self.output_bytes += sum(map(len, answer))

    def data_to_send(self, max_bytes: int | None = None) -> list[bytes | memoryview]:
        """The bytes to send now, in order. Each byte is returned once. Bytes beyond `max_bytes` are kept."""
        if self.waits_for & NODE and not self.has_ended:
            return []
        output, left = self._output, max_bytes
        self._output = []
        if left is None or self.output_bytes <= left:
            self.output_bytes = 0
            self.waits_for &= ~REST
            return output
        self.output_bytes -= left
        self.waits_for |= REST
        at = 0
        while len(output[at]) <= left:
            left -= len(output[at])
            at += 1
        divided = memoryview(output[at])
        self._output = [divided[left:], *output[at + 1 :]]
        return [*output[:at], divided[:left]] if left else output[:at]

    def wait_for(self, reason: int) -> None:
        """Let the connection wait for `reason`: `NODE`, `PEER` or `OTHERS`."""
        self.waits_for |= reason

    def wait_no_more(self, reason: int) -> None:
        """Let the connection no longer wait for `reason`: `NODE`, `PEER`, `MEMORY` or `OTHERS`."""
        self.waits_for &= ~reason

    # ---- memory for large requests (queued.max.request.bytes)

    @property
    def needs_memory(self) -> bool:
        """Whether the arriving request needs a grant of memory, or counted bytes may have been freed."""
        splitter = self._splitter
        return self.counted_bytes > 0 or splitter.awaited > SMALL_BYTES or splitter.buffered > UNCOUNTED_BYTES

    def bytes_to_count(self) -> tuple[int, int, int]:
        """The bytes of complete requests (0 if they are few); received and missing bytes of the arriving request."""
        whole = self._requests_bytes if self._requests_bytes > SMALL_BYTES else 0
        awaited, received = self._splitter.awaited, self._splitter.buffered
        if awaited > SMALL_BYTES or received > UNCOUNTED_BYTES:
            return whole + self._decoding_bytes, received, awaited - received
        return whole + self._decoding_bytes, 0, 0

    def counted(self, size: int, *, may_read_on: bool) -> None:
        """Note that the memory limit has counted `size` bytes. A connection that may not read on waits for `MEMORY`."""
        self.counted_bytes = size
        if may_read_on:
            self.waits_for &= ~MEMORY
        else:
            self.waits_for |= MEMORY

    def decoding(self, size: int) -> None:
        """Note that a thread decodes the present request, which has `size` bytes; 0: the thread has ended."""
        self._decoding_bytes = size if size > SMALL_BYTES else 0

    @property
    def is_decoding(self) -> bool:
        """Whether a large request is being decoded in another thread."""
        return self._decoding_bytes > 0
