"""The rules of one connection, without asyncio, socket or clock: its states, what may happen in each, and its limits.

Bytes and events go in; requests, bytes to send and whether to read on come out. As on Kafka, a connection handles one
request after the other: the next one is not looked at before the last one is answered, so answers leave in the order of
their requests. `connection.Connection` does on a transport what is decided here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from muster.coordinator.api.sink import Answer
from muster.protocol.frames import Frame, FrameSplitter, InvalidFrameSize

INPUT_HIGH_BYTES: Final = 64 * 1024
"""Reading pauses when this much waits behind a request that is being answered."""
OUTPUT_HIGH_BYTES: Final = 256 * 1024
"""No further request is handled while this much of earlier answers is unsent."""
SMALL_BYTES: Final = 64 * 1024
"""Requests of no more bytes need no grant of memory: a heartbeat never waits for one."""

WAITING: Final = "waiting"
"""There are max.connections already: it is read a little, and nothing is handled, until another one ends."""
HANDSHAKING: Final = "handshaking"
"""It counts as a connection; TLS is being established."""
AUTHENTICATING: Final = "authenticating"
"""The next request of the authentication may be handled; nothing else passes."""
VERIFYING: Final = "verifying"
"""Such a request is being answered."""
READY: Final = "ready"
"""The next request may be handled."""
ANSWERING: Final = "answering"
"""A request is being answered."""
MUTED: Final = "muted"
"""The last request was answered, and said how long the client has to wait (quotas): until then nothing is handled, and
nothing is read."""
CLOSING: Final = "closing"
"""Nothing is handled any more; what was written is still sent."""
CLOSED: Final = "closed"
STATES: Final = (WAITING, HANDSHAKING, AUTHENTICATING, VERIFYING, READY, ANSWERING, MUTED, CLOSING, CLOSED)

HANDSHAKE: Final = "admitted, TLS first"
AUTHENTICATION: Final = "admitted, authentication first"
OPENED: Final = "admitted or authenticated"
REQUEST: Final = "a request is handled"
ANSWERED: Final = "it is answered"
MUTE: Final = "its client has to wait"
UNMUTE: Final = "the time is over"
CLOSE: Final = "one side closes"
LOST: Final = "the transport has ended"

TRANSITIONS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        HANDSHAKE: {WAITING: HANDSHAKING},
        AUTHENTICATION: {WAITING: AUTHENTICATING, HANDSHAKING: AUTHENTICATING},
        OPENED: {WAITING: READY, HANDSHAKING: READY, AUTHENTICATING: READY},
        REQUEST: {AUTHENTICATING: VERIFYING, READY: ANSWERING},
        # what is answered after the end goes nowhere
        ANSWERED: {VERIFYING: AUTHENTICATING, ANSWERING: READY, CLOSING: CLOSING, CLOSED: CLOSED},
        MUTE: {READY: MUTED},
        UNMUTE: {MUTED: READY},
        CLOSE: dict.fromkeys(STATES[:-1], CLOSING),
        LOST: dict.fromkeys(STATES[:-1], CLOSED),
    }
)
"""Event -> state -> the state after it; whatever is not here cannot happen."""
_NONE_WAIT: Final[deque[Frame]] = deque()
"""Of all connections whose requests never wait: an empty deque of its own would take each of them 0.6 KB."""
_AFTER_REQUEST: Final = TRANSITIONS[REQUEST]
_AFTER_ANSWER: Final = TRANSITIONS[ANSWERED]

PEER: Final = 1
"""The peer does not read as fast as it is answered."""
MEMORY: Final = 2
"""A large request has begun to come, and there is no memory for more of it yet."""
INPUT: Final = 4
"""Requests, or a part of one, wait for the one at hand or for their end."""
NODE: Final = 8
"""The node stands still: nothing is read, handled or sent until it goes on."""
REST: Final = 16
"""The rest of a large answer is written in the next turns of the loop."""
_OUTPUT: Final = PEER | REST


class IllegalTransition(RuntimeError):
    """A mistake of the program: `event` cannot happen to a connection in `state`. Nothing has changed."""

    def __init__(self, state: str, event: str) -> None:
        super().__init__(f"a connection is {state}: {event!r} cannot happen")


class ConnectionCore:
    """See the module. `state` is one of `STATES`; `waits_for` a sum of `PEER`, `MEMORY`, `INPUT`, `NODE` and `REST`, 0
    when nothing waits in either direction. `counted_bytes`: of its large requests, see `large_requests`;
    `output_bytes`: not sent yet.

    A shell may take the short way when the connection is `READY`, waits for nothing, and one chunk is one request: set
    `state` to `ANSWERING`, handle it, set it back and send the answer. That is what the calls below would do.
    """

    __slots__ = (
        "_being_read_bytes",
        "_output",
        "_requests",
        "_requests_bytes",
        "_splitter",
        "counted_bytes",
        "max_request_bytes",
        "output_bytes",
        "state",
        "waits_for",
    )

    def __init__(self, max_request_bytes: int) -> None:
        self.state: str = WAITING
        self.waits_for = 0
        self.max_request_bytes = max_request_bytes
        self.counted_bytes = 0
        self.output_bytes = 0
        self._being_read_bytes = 0
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
        """Nothing is handled any more."""
        return self.state is CLOSING or self.state is CLOSED

    @property
    def is_answering(self) -> bool:
        """A request is at hand, or the client has to wait: it has a reason to be silent."""
        return self.state is ANSWERING or self.state is VERIFYING or self.state is MUTED

    # ---- its beginning and its end

    def begin_authentication(self, max_request_bytes: int) -> None:
        """Until `open`, only requests of so many bytes are taken."""
        self.happens(AUTHENTICATION)
        self._splitter.limit = max_request_bytes

    def open(self) -> None:
        """Every request may be handled."""
        self.happens(OPENED)
        self._splitter.limit = self.max_request_bytes

    def close(self) -> None:
        """One side ends the connection; what is in `data_to_send` may still be sent."""
        if not self.has_ended:
            self.happens(CLOSE)

    def abort(self) -> None:
        """End the connection; what is unsent is lost."""
        self.close()
        self.data_to_send()

    def lost(self) -> None:
        """The transport has ended."""
        self.happens(LOST)
        self.waits_for = 0
        self._requests = _NONE_WAIT
        self._splitter.clear()
        self.data_to_send()

    # ---- requests in

    def receive_data(self, data: bytes) -> None:
        """Take the next bytes of the stream.

        Raises InvalidFrameSize when nothing behind them can be read; the requests before that place are kept.
        """
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
        """The next request: handle it, and call `answered`.

        None: none has come, the last one is not answered yet, or the peer must read its answers first.
        """
        state = _AFTER_REQUEST.get(self.state)
        if state is None or not self._requests or self.waits_for & (_OUTPUT | NODE):
            return None
        self.state = state
        request = self._requests.popleft()
        self._requests_bytes -= request[2] - request[1]
        return request

    @property
    def has_requests(self) -> bool:
        """Whole requests wait for the one at hand, and for nothing else."""
        return bool(self._requests) and not self.waits_for & (_OUTPUT | NODE) and not self.has_ended

    @property
    def wants_input(self) -> bool:
        """Whether more should be read from the peer now."""
        return not self.waits_for & MEMORY and self.reads_on

    @property
    def reads_on(self) -> bool:
        """Whether more should be read as soon as there is memory for it."""
        if self.waits_for & NODE or self.state is MUTED:
            return False
        if self.state in _AFTER_REQUEST and not self.waits_for & _OUTPUT:
            return True
        return self._requests_bytes + self._splitter.buffered < INPUT_HIGH_BYTES

    def settle(self) -> None:
        """All requests that may be handled now are: see whether input still waits."""
        if not self._requests and not self._splitter.buffered:
            self._requests = _NONE_WAIT
            self.waits_for &= ~INPUT

    # ---- answers out

    def answered(self, answer: Answer | None) -> None:
        """The request at hand is answered (None: no answer is owed)."""
        state = _AFTER_ANSWER.get(self.state)
        if state is None:
            raise IllegalTransition(self.state, ANSWERED)
        self.state = state
        if answer is not None and state in _AFTER_REQUEST:
            self.keep(answer)

    def keep(self, answer: Answer) -> None:
        """Send this, or some bytes of it, after what is to be sent already."""
        if isinstance(answer, bytes):
            self._output.append(answer)
            self.output_bytes += len(answer)
        else:
            self._output.extend(answer)
            self.output_bytes += sum(map(len, answer))

    def data_to_send(self, most_bytes: int | None = None) -> list[bytes | memoryview]:
        """What is to be sent now, in this order; each byte is given out once. Beyond `most_bytes` the rest is kept."""
        if self.waits_for & NODE and not self.has_ended:
            return []
        output, left = self._output, most_bytes
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

    def stand_still(self) -> None:
        """The node does nothing for now."""
        self.waits_for |= NODE

    def go_on(self) -> None:
        """The node goes on."""
        self.waits_for &= ~NODE

    def peer_reads_slowly(self) -> None:
        """Much of what was sent is not taken yet: no further request is handled."""
        self.waits_for |= PEER

    def peer_caught_up(self) -> None:
        """What was sent is taken."""
        self.waits_for &= ~PEER

    # ---- memory for large requests (queued.max.request.bytes)

    @property
    def needs_memory(self) -> bool:
        """Whether `large_requests` has anything to say."""
        return self.counted_bytes > 0 or self._splitter.awaited > SMALL_BYTES

    def large_requests(self) -> tuple[int, int, int]:
        """Bytes of large requests: (of those that have come whole and are still needed, of the one that is coming, what
        is missing of it).
        """
        whole = sum([end - start for _, start, end in self._requests if end - start > SMALL_BYTES])
        splitter = self._splitter
        awaited, came = splitter.awaited, 0
        if awaited > SMALL_BYTES:
            came = splitter.buffered
            awaited -= came
        else:
            awaited = 0
        return whole + self._being_read_bytes, came, awaited

    def counted(self, size: int, *, may_read_on: bool) -> None:
        """So many bytes of its large requests are counted. If it may not read on, it waits for `memory_granted`."""
        self.counted_bytes = size
        if may_read_on:
            self.waits_for &= ~MEMORY
        else:
            self.waits_for |= MEMORY

    def memory_granted(self) -> None:
        """It may read on."""
        self.waits_for &= ~MEMORY

    def being_read(self, size: int) -> None:
        """The request at hand, of so many bytes, is still being read, in another thread; 0: it was."""
        self._being_read_bytes = size if size > SMALL_BYTES else 0

    @property
    def is_being_read(self) -> bool:
        """A large request is still being read, in another thread."""
        return self._being_read_bytes > 0
