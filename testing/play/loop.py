"""The event loop of a play, on which the server and the clients of a test run.

Time on this loop passes only when nothing is left to do now. Then the time jumps to the next timer or event.

The loop has no sockets. A client that connects to the server's address gets its end of a virtual connection. No other
address can be reached. Timers with the same deadline run in an order that is drawn from the seed.
"""

from __future__ import annotations

import asyncio
import errno
import math
import random
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from muster.virtual.machine import VirtualLoop, VirtualProcess
from muster.virtual.wires import Wire
from muster.virtual.world import World

BEGAN_MS: Final = 1_000_000
"""The time of the loop when it begins."""
BEGAN_WALL_MS: Final = 1_767_225_600_000
"""The wall time at which each play begins, 2026-01-01 UTC, so that a history can be compared with its times."""
TOGETHER_S: Final = 1e-7
"""Timers that are less than this apart run in random order."""
LATENCY_US: Final = (100, 1_000)
"""Bytes need a random time to arrive, between these two limits."""
PEER_PORT: Final = 40_000
"""The first client has this port, the next client the next port."""


class TimeIsUp(AssertionError):
    """The story has not ended: the limit of virtual time has passed, or no timer and no event is left."""


class PlayWire(Wire):
    """A connection within a play."""

    def delay_us(self) -> int:
        return self.world.rng.randint(*LATENCY_US)


class ClientEnd(asyncio.Transport):
    """The client's end of a connection."""

    def __init__(self, process: VirtualProcess, protocol: Any, own: tuple[str, int], peer: tuple[str, int]) -> None:
        super().__init__({"sockname": own, "peername": peer})
        self._loop = process.loop
        self._protocol = protocol
        self._arrived: deque[bytes | None] = deque()
        """Data that has arrived and was not read yet. None stands for the end of the stream."""
        self._is_reading = True
        self._is_closing = False
        self._wire = PlayWire(process, self, 0, peer[1])
        self._wire.peer = own
        protocol.connection_made(self)

    # ---- the wire's calls

    def received(self, _: Wire, data: bytes | None) -> None:
        """Data of the server has arrived."""
        self._arrived.append(data)
        self._loop.call_soon(self._read)

    def hung_up(self, wire: Wire) -> None:
        """The server has closed the connection."""
        self.received(wire, None)

    def _read(self) -> None:
        while self._arrived and self.is_reading():
            data = self._arrived.popleft()
            if data is not None:
                self._protocol.data_received(data)
            elif not self._protocol.eof_received():
                self.close()

    # ---- the protocol's calls

    def write(self, data: Any) -> None:
        if not self._is_closing:
            self._wire.send(bytes(data))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        """Always False."""
        return False

    def get_write_buffer_size(self) -> int:
        """Always 0, because all data is sent immediately."""
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: the write buffer is always empty."""

    def is_reading(self) -> bool:
        return self._is_reading and not self._is_closing

    def pause_reading(self) -> None:
        """Keep arriving data until reading resumes."""
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._loop.call_soon(self._read)

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """Close the connection. The server still reads the data that was sent, and then the end of the stream."""
        self._end(cut=False)

    def abort(self) -> None:
        """Reset the connection. The server loses data that has not arrived."""
        self._end(cut=True)

    def _end(self, *, cut: bool) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._wire.finish(cut=cut)
            self._loop.call_soon(self._protocol.connection_lost, None)

    def get_protocol(self) -> Any:
        return self._protocol

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol


class PlayLoop(VirtualLoop):
    """See the module. `until_s`: the limit of the loop's time; `process`: the virtual process of the server."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(f"play {seed}")
        super().__init__(World(rng, ms=BEGAN_MS, wall_ms=BEGAN_WALL_MS - BEGAN_MS))
        self.until_s = math.inf
        self.process = VirtualProcess(self)
        self._peers = PEER_PORT
        self._posted = threading.Event()
        self._working = 0
        """How many calls of this loop other threads are executing now."""

    # ---- the time

    def call_at(  # type: ignore[override]  # the callback has no known type
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """See `asyncio`. Timers with the same deadline run in random order."""
        return super().call_at(when + self.world.random() * TOGETHER_S, callback, *args, context=context)

    def select(self, timeout: float | None) -> list[Any]:
        """Let time pass, unless `timeout` is 0, which means that something is left to do now."""
        if timeout == 0:
            return []
        if self._working:
            # time is frozen while another thread works for the play, so the duration of that work does not matter
            self._posted.wait()
            self._posted.clear()
            return []
        world, event_us = self.world, self.world.next_us
        timers: list[Any] = self._scheduled  # type: ignore[attr-defined]  # BaseEventLoop's own
        timer_us = math.ceil(timers[0].when() * 1_000_000) if timers else None
        times_us = [one for one in (timer_us, event_us) if one is not None]
        if not times_us:
            self.until_s = math.inf
            raise TimeIsUp("no timer and no event is left: the story would wait for ever")
        next_us = min(times_us)
        if next_us > self.until_s * 1_000_000:
            passed_s, self.until_s = self.until_s - BEGAN_MS / 1_000, math.inf
            raise TimeIsUp(f"it has not ended after {passed_s:g} s of virtual time")
        if next_us == event_us:
            world.step()
        world.us = max(world.us, next_us)
        return []

    def _write_to_self(self) -> None:
        self._posted.set()

    def run_in_executor(  # type: ignore[override]  # the function has no known type
        self, executor: Any, func: Any, *args: Any
    ) -> asyncio.Future[Any]:
        """See `asyncio`. Virtual time is frozen while the function runs."""
        self._working += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._worked)
        return future

    def _worked(self, _: object) -> None:
        self._working -= 1

    async def shutdown_default_executor(self, *limit: Any) -> None:
        """See `asyncio`. Virtual time is frozen while the threads of the executor end."""
        self._working += 1
        try:
            await super().shutdown_default_executor(*limit)
        finally:
            self._working -= 1

    # ---- the network

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> list[Any]:
        """Resolve a name. In a play, every name exists."""
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]

    async def create_connection(
        self, protocol_factory: Callable[[], Any], host: Any = None, port: Any = None, *, ssl: Any = None, **_: Any
    ) -> tuple[ClientEnd, Any]:
        """See `asyncio`. Raises ConnectionRefusedError for an address at which the play's server does not listen."""
        if ssl:
            raise NotImplementedError("there is no TLS in a play: connect with security_protocol PLAINTEXT")
        await asyncio.sleep(self.world.rng.randint(*LATENCY_US) / 1_000_000)
        if port not in self.process.listeners:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nothing in this play listens at {host}:{port}")
        self._peers += 1
        protocol = protocol_factory()
        return ClientEnd(self.process, protocol, ("127.0.0.1", self._peers), (str(host), port)), protocol
