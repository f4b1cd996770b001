"""One connection: frames in, one request after the other, answers out in that order, back-pressure both ways.

Knows frames, sizes and order; what is in a frame is the business of `Requests` (api.dispatch). As on Kafka, the next
request of a connection is not looked at before the last one is answered.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Final

import structlog

from muster.coordinator.api.close_connection import CloseConnection
from muster.coordinator.api.context import Channel
from muster.coordinator.net.limits import Limits
from muster.coordinator.net.request_memory import SMALL_BYTES
from muster.coordinator.net.requests import Answer, Requests
from muster.protocol.frames import Frame, FrameSplitter, InvalidFrameSize

log = structlog.get_logger("muster.net")

LENGTH_BYTES: Final = 4
_length: Final = Struct(">i").unpack_from

INPUT_HIGH_BYTES: Final = 64 * 1024
"""Reading pauses when this much waits behind a parked request."""
OUTPUT_HIGH_BYTES: Final = 256 * 1024
"""No further request is looked at while this much of earlier answers is unsent."""


class _Often:
    """What each request touches of a connection: side by side in memory, for slots lie in the order of the classes.
    When thousands take turns, none of it is in the processor's cache.
    """

    __slots__ = ("_busy", "_calm", "_closing", "_most", "_pumping", "_requests", "_transport", "alive")


class Connection(_Often, asyncio.Protocol):
    """See the module. `open_requests(channel, connection)` makes the other side when the connection is made."""

    __slots__ = (
        "_being_read",
        "_call_soon",
        "_frames",
        "_frames_bytes",
        "_granted",
        "_limits",
        "_on_made",
        "_open",
        "_open_channel",
        "_open_requests",
        "_out",
        "_out_bytes",
        "_reading",
        "_splitter",
        "_starved",
        "_writing",
        "channel",
        "host",
    )

    def __init__(
        self,
        limits: Limits,
        max_request_bytes: int,
        open_channel: Callable[[Any], Channel],
        open_requests: Callable[[Channel, Connection], Requests],
        on_made: Callable[[Any], None] | None = None,
    ) -> None:
        """`open_channel(transport)`: who is at the other end; `on_made(transport)`: socket options."""
        self.host = ""
        self.alive = True
        self._limits = limits
        self._open_channel = open_channel
        self._open_requests = open_requests
        self._on_made = on_made
        self._splitter = FrameSplitter(max_request_bytes)
        self._most = max_request_bytes
        self._frames: deque[Frame] = deque()
        self._frames_bytes = 0
        self._granted = 0
        self._being_read = 0
        self._starved = False
        self._out: list[bytes | memoryview] = []
        self._out_bytes = 0
        self._pumping = False
        self._reading = True
        self._writing = True
        self._open = False
        self._closing = False
        # nothing is parked, queued, half read or unsent; and whether, apart from a parked request, anything is
        self._calm = False
        self._busy = False
        self._call_soon = asyncio.get_running_loop().call_soon
        self._transport: Any = None
        self._requests: Any = None

    # ---- the transport's calls ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection; when there are too many let it wait, or close it."""
        self._transport = transport
        self.channel = channel = self._open_channel(transport)
        self.host = channel.host[1:]
        if self._limits.refusal(self.host) is None:
            self._enter()
        else:
            # ends of other connections may be waiting in the same turn of the loop: they make room
            self._call_soon(self._enter_or_wait)

    def _enter(self) -> None:
        self._limits.enter(self)
        self._open = True
        self._transport.set_write_buffer_limits(high=OUTPUT_HIGH_BYTES)
        if self._on_made is not None:
            self._on_made(self._transport)
        self.channel.ended_by(self.fail)
        self._requests = self._open_requests(self.channel, self)
        self._calm = True

    def _enter_or_wait(self) -> None:
        if self._closing:
            return
        refusal = self._limits.refusal(self.host)
        if refusal is None:
            self._enter()
            self._pump()
        elif not self._limits.wait(self):
            log.warning("refused a connection", peer=self.channel.peer, why=refusal)
            self._abort()

    def data_received(self, data: bytes) -> None:
        """Handle what is whole, keep the rest."""
        self.alive = True
        size = len(data)
        if self._calm and size > LENGTH_BYTES and _length(data)[0] == size - LENGTH_BYTES <= self._most:
            # nearly always: nothing waits in either direction, and one chunk is one request
            requests = self._requests
            try:
                answer = requests.handle(data, LENGTH_BYTES, size)
            except CloseConnection as refused:
                self._refuse(refused)
                return
            if type(answer) is bytes and self._calm:
                self._transport.write(answer)
                return
            if answer is not None:
                self.answer(answer)
            elif requests.current is not None:
                self._calm = False
            return
        if self._closing:
            return
        self._busy = True
        try:
            frames = self._splitter.feed(data)
        except InvalidFrameSize as error:
            # requests that came before it are still answered as far as they can be at once
            self._take(error.frames)
            self._pump()
            self._refuse(CloseConnection(str(error)))
            return
        self._take(frames)
        if self._granted or self._splitter.awaited > SMALL_BYTES:
            self._account()
        self._pump()

    def eof_received(self) -> bool:
        """The peer has gone (no client of Kafka closes one direction only): what is parked is dropped, as by Kafka."""
        self._end()
        return False  # the transport sends what was written, then closes

    def pause_writing(self) -> None:
        """The peer reads too slowly: its further requests wait."""
        self._writing = False
        self._calm = False
        self._busy = True
        self._limits.unsent.hold(self)
        self._pause_or_resume()

    def resume_writing(self) -> None:
        """The peer has caught up."""
        self.alive = True
        self._writing = True
        self._limits.unsent.release(self)
        self._pump()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - a reset is nothing to tell
        """Both directions have ended."""
        self._end()
        self._frames.clear()
        self._splitter.clear()
        self._out.clear()
        self._limits.leave(self)
        if self._open:
            self._open = False
            self._requests.closed()
            self.channel.close()
        # no circle stays: the memory of a connection is free at once, and not when a collector finds it
        self._requests = None

    # ---- the limits' calls ----

    @property
    def waits_for_us(self) -> bool:
        """A request is parked: the next one waits for it, and silence is ours."""
        return self._requests is not None and self._requests.current is not None

    @property
    def descriptor(self) -> int:
        """Of the socket, as long as it is read."""
        if self._closing or not self._reading:
            return -1
        return int(self._transport.get_extra_info("socket").fileno())

    @property
    def has_more(self) -> bool:
        """Whole requests wait for the one at hand (and not for the peer to read)."""
        return bool(self._frames) and self._writing and not self._closing

    def close_idle(self) -> None:
        """Silent for connections.max.idle.ms."""
        log.debug("closed an idle connection", peer=self.channel.peer)
        self._abort()

    def room_made(self) -> None:
        """Another connection has ended: this one, which waited, may be taken."""
        self._enter_or_wait()

    @property
    def unfinished_bytes(self) -> int:
        """How much has come of a large request; negative while one is being read, which is no affair of the client."""
        return -1 if self._being_read else self._splitter.buffered

    @property
    def unsent_bytes(self) -> int:
        """What the peer has not taken."""
        return int(self._transport.get_write_buffer_size())

    def close_stalled(self) -> None:
        """The peer sends no more of a large request, or reads nothing of an answer, and others need the memory."""
        why = "it holds memory that others need: its request does not come, or its answer is not read"
        self._refuse(CloseConnection(why))
        self._abort()

    def memory_granted(self) -> None:
        """There may be room for the unfinished request now."""
        self._starved = False
        if not self._closing:
            self._account()
            self._settle()

    # ---- the requests' calls ----

    def answer(self, answer: Answer | None) -> None:
        """The answer to the request at hand (None: none is owed). The next request may come."""
        if self._pumping:
            self._collect(answer)
            return
        if self._closing:
            return
        if type(answer) is bytes:
            self._transport.write(answer)
        elif answer is not None:
            self._transport.writelines(answer)
        if self._calm:
            return
        if not self._busy:
            self._calm = True
        elif self._frames:
            # not from here: one parked answer could lead to the next request, that to other answers, without end
            self._call_soon(self._pump)
        else:
            self._settle()

    def was_read(self) -> None:
        """The bytes of the large request at hand are of no more use."""
        self._being_read = 0
        if self._granted and not self._closing:
            self._account()

    def fail(self, refused: CloseConnection) -> None:
        """The request at hand cannot be answered, and so the connection cannot go on."""
        self._refuse(refused)

    def close(self) -> None:
        """Send what is ready, then end."""
        if not self._closing:
            self._end()
            if self._out:
                self._write_out()
            self._transport.close()

    def abort(self) -> None:
        """End now; what is unsent is lost."""
        self._abort()

    # ---- inside ----

    def _take(self, frames: list[Frame]) -> None:
        for frame in frames:
            self._frames.append(frame)
            self._frames_bytes += frame[2] - frame[1]

    def _pump(self) -> None:
        """Handle the waiting requests until one is parked or too much is unsent, then write all that is ready."""
        if self._pumping:
            return
        self._pumping = True
        frames = self._frames
        while frames and self._open and self._writing and not self.waits_for_us and not self._closing:
            data, start, end = frames.popleft()
            self._frames_bytes -= end - start
            try:
                answer = self._requests.handle(data, start, end)
                if self._granted:
                    self._being_read = end - start if self._requests.is_reading else 0
                    self._account()
                if answer is not None:
                    self._collect(answer)
            except CloseConnection as refused:
                self._refuse(refused)
            if self._out_bytes > OUTPUT_HIGH_BYTES:
                self._write_out()
        self._pumping = False
        if self._out and not self._closing:
            self._write_out()
        self._settle()

    def _collect(self, answer: Answer | None) -> None:
        """Keep an answer until the requests that came with its own are looked at."""
        if answer is None:
            return
        parts: Sequence[bytes | memoryview] = (answer,) if isinstance(answer, bytes) else answer
        for part in parts:
            self._out.append(part)
            self._out_bytes += len(part)

    def _write_out(self) -> None:
        out, self._out, self._out_bytes = self._out, [], 0
        if len(out) == 1:
            self._transport.write(out[0])
        else:
            self._transport.writelines(out)

    def _settle(self) -> None:
        """Read on or pause; and when nothing waits any more, take the short way again."""
        self._pause_or_resume()
        self._busy = bool(
            self._frames or self._splitter.buffered or self._starved or not (self._reading and self._writing)
        )
        self._calm = not (self._busy or self.waits_for_us or self._closing)

    def _pause_or_resume(self) -> None:
        if self._closing:
            return
        held_up = self.waits_for_us or not (self._writing and self._open)
        full = self._frames_bytes + self._splitter.buffered >= INPUT_HIGH_BYTES
        reading = not (self._starved or (held_up and full))
        if reading != self._reading:
            self._reading = reading
            if reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _account(self) -> None:
        """queued.max.request.bytes: ask for the memory of large requests, pay back that of those that are done with."""
        if self._starved or self._closing:
            return
        waiting = sum(end - start for _, start, end in self._frames if end - start > SMALL_BYTES)
        awaited = self._splitter.awaited
        more = waiting + self._being_read + (awaited if awaited > SMALL_BYTES else 0) - self._granted
        if more < 0:
            self._granted += more
            self._limits.memory.give(self, -more)
        elif more > 0:
            if self._limits.memory.take(self, more):
                self._granted += more
            else:
                self._starved = True
                self._pause_or_resume()

    def _refuse(self, refused: CloseConnection) -> None:
        if not self._closing:
            log.warning("closed a connection", peer=self.channel.peer, why=refused.reason, **refused.facts)
            self.close()

    def _end(self) -> None:
        self._closing = True
        self._calm = False

    def _abort(self) -> None:
        self._end()
        self._transport.abort()
