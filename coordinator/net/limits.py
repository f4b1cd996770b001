"""The limits of connections: how many a server may have, and how long each may be silent.

This module counts and calls connections, and uses no socket. `request_memory` and `api.unsent` limit bytes.
"""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

import structlog

from muster.coordinator.api.context import Channel
from muster.coordinator.api.unsent import Reader, Unsent
from muster.coordinator.net.request_memory import Holder, RequestMemory
from muster.coordinator.net.settings import NetSettings
from muster.coordinator.net.sockets import numeric
from muster.coordinator.system.clock import Clock, Timer

if TYPE_CHECKING:
    from muster.coordinator.net.connection_rates import ConnectionRates

log = structlog.get_logger("muster.net")

NO_LISTENERS: Final[Mapping[str, int]] = MappingProxyType({})

IDLE_STEPS: Final = 8
"""Idle time is counted in 8 steps. So a request costs one assignment, and does not read the clock."""


SHARE_MS: Final = 10
"""How long the waiting requests of all connections together are handled in one iteration of the event loop."""


class Share:
    """The time of one iteration of the event loop for requests that wait behind others of their connection."""

    __slots__ = ("_clock", "_end_ms", "is_used")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock.machine
        self._end_ms: int | None = None
        self.is_used = False
        """Whether the share is used up. Then each connection handles one request in the iteration."""

    def is_over(self) -> bool:
        """Ask the clock whether the time is over. The first call in an iteration begins the share."""
        now_ms = self._clock.mono_ms()
        if self._end_ms is None:
            self._end_ms = now_ms + SHARE_MS
            self._clock.call_soon(self._begin_anew)
        self.is_used = now_ms >= self._end_ms
        return self.is_used

    def _begin_anew(self) -> None:
        self._end_ms, self.is_used = None, False


class LimitedConnection(Holder, Reader, Protocol):
    """A connection, as the limits see it. A connection sets `alive` at each sign of life; the limits reset `alive`."""

    host: str
    alive: bool
    channel: Channel

    def wrap(self, wrap: Callable[[Any, Any], Any]) -> None:
        """From now on the result of `wrap` handles requests before the API does."""

    @property
    def descriptor(self) -> int:
        """The descriptor of the socket while it is read, otherwise negative."""

    @property
    def socket_descriptor(self) -> int:
        """The descriptor of the socket, whether the socket is read or not; negative when the socket is closed."""

    def close_idle(self) -> None:
        """Close the connection, which was silent for `connections.max.idle.ms`."""

    def admit_or_wait(self) -> None:
        """Check again whether this waiting connection can be admitted."""

    def pause(self) -> None:
        """Stop reading and handling, because the node is paused."""

    def resume(self) -> None:
        """Read and handle again, because the node continues."""

    def unmute(self) -> None:
        """Handle requests again: the client's throttle time is over."""

    def close(self) -> None:
        """The server stops: send the answers that are ready, then end the connection."""

    def abort(self) -> None:
        """The server cannot wait any longer: end the connection now."""


ResolveHost = Callable[[str, Callable[[str | None], object]], object]


class Limits:
    """Kafka's max.connections, max.connections.per.ip and connections.max.idle.ms."""

    def __init__(
        self,
        settings: NetSettings,
        clock: Clock,
        max_files: Callable[[], int] | None = None,
        unsent: Unsent | None = None,
        resolve_host: ResolveHost | None = None,
    ) -> None:
        """`max_files`: for how many connections the process has descriptors. `resolve_host` finds a host's address.

        Raises ValueError for a malformed `max.connections.per.ip.overrides`.
        """
        self._max_files = max_files
        self._waiting: deque[LimitedConnection] = deque()
        self._muted: dict[LimitedConnection, Timer] | None = None
        """Connections that a quota has muted. None means that no connection was muted yet."""
        self._idle_steps: dict[LimitedConnection, int] = {}
        self._by_listener: dict[str, int] = {}
        """How many connections each listener with its own limit has."""
        self._by_host: dict[str, int] = {}
        self.rates: ConnectionRates | None = None
        """The limits of the rate of new connections. None means no limit."""
        self._resolve_host = resolve_host
        self._max_by_listener = NO_LISTENERS
        self.set_limits(settings)
        self.clock = clock
        self._idle_ms = settings.connections_max_idle_ms
        self._step_ms = max(1, -(-self._idle_ms // IDLE_STEPS))
        self._timer: Timer | None = None
        self.memory = RequestMemory(clock, settings.request_memory)
        self.share = Share(clock)
        self.unsent = unsent or Unsent(clock)
        self._max_waiting = settings.socket_listen_backlog_size
        self._when_empty: Callable[[], object] | None = None
        self.is_paused = False
        """Whether the node is paused: then new connections are paused too."""

    def set_limits(self, settings: NetSettings, listeners: Mapping[str, int] = NO_LISTENERS) -> None:
        """Set the limits. Beyond these limits, connections with the longest silence are closed. Raises ValueError."""
        overrides: dict[str, int] = {}
        self._overrides = overrides
        for host, limit in parse_overrides(settings.max_connections_per_ip_overrides).items():
            address = numeric(host)
            if address is not None:
                overrides[address] = limit
            elif self._resolve_host is not None:
                self._resolve_host(host, partial(_override, overrides, limit))
        self._per_ip = settings.max_connections_per_ip
        self._max_connections = settings.max_connections
        if listeners or self._by_listener:
            self._count_listeners(listeners)
        self._max_by_listener = listeners
        for connection in self._longest_silent(len(self._idle_steps) - self._max_connections):
            log.info("closed a connection: there are more than max.connections", peer=connection.channel.peer)
            connection.abort()
        self._admit_waiting()

    def _count_listeners(self, listeners: Mapping[str, int]) -> None:
        counts = dict.fromkeys(listeners, 0)
        for connection in self._idle_steps:
            if connection.channel.listener in counts:
                counts[connection.channel.listener] += 1
        self._by_listener = counts

    def _longest_silent(self, number: int) -> Iterable[LimitedConnection]:
        if number <= 0:
            return ()
        steps = self._idle_steps
        return sorted(steps, key=lambda one: (one.core.is_answering, one.alive, -steps[one]))[:number]

    @property
    def max_connections(self) -> int:
        """How many connections may be open now."""
        return self._max_connections if self._max_files is None else min(self._max_connections, self._max_files())

    def __len__(self) -> int:
        """How many admitted connections are open."""
        return len(self._idle_steps)

    @property
    def connections(self) -> tuple[LimitedConnection, ...]:
        """All admitted connections, oldest first, and then the waiting connections."""
        return (*self._idle_steps, *self._waiting)

    def refusal(self, host: str, listener: str = "") -> str | None:
        """Why a connection from `host` to a listener cannot be admitted now. None means that admission is possible."""
        if len(self._idle_steps) >= self.max_connections:
            return f"there are {self.max_connections} connections already (max.connections, open files)"
        if self._is_full(listener):
            return f"there are {self._max_by_listener[listener]} connections of its listener already (max.connections)"
        if self._has_too_many(host):
            limit = self._overrides.get(host, self._per_ip)
            return f"there are {limit} connections from {host} already (max.connections.per.ip)"
        return None

    def wait(self, connection: LimitedConnection) -> bool:
        """Let a connection wait, as in Kafka's backlog, until a call of `admit_or_wait`. False: end the connection."""
        full = len(self._idle_steps) >= self.max_connections or self._is_full(connection.channel.listener)
        if not full or self._has_too_many(connection.host) or len(self._waiting) >= self._max_waiting:
            return False
        self._waiting.append(connection)
        return True

    def set_paused(self, *, paused: bool) -> None:
        """Pause all connections, or let them continue."""
        self.is_paused = paused
        for connection in self.connections:
            if paused:
                connection.pause()
            else:
                connection.resume()

    def _is_full(self, listener: str) -> bool:
        count = self._by_listener.get(listener)
        return count is not None and count >= self._max_by_listener[listener]

    def _has_too_many(self, host: str) -> bool:
        return self._by_host.get(host, 0) >= self._overrides.get(host, self._per_ip)

    def enter(self, connection: LimitedConnection) -> None:
        """Admit a connection."""
        self._idle_steps[connection] = 0
        self._by_host[connection.host] = self._by_host.get(connection.host, 0) + 1
        if self._by_listener and connection.channel.listener in self._by_listener:
            self._by_listener[connection.channel.listener] += 1
        connection.alive = True
        if self._timer is None and self._idle_ms >= 0:
            self._arm()

    def leave(self, connection: LimitedConnection) -> None:
        """Note that a connection has ended. The call has no effect for a connection that was never admitted."""
        self.memory.leave(connection)
        if self._muted:
            muted = self._muted.pop(connection, None)
            if muted is not None:
                muted.cancel()
        self.unsent.release(connection)
        if self._idle_steps.pop(connection, None) is None:
            if connection in self._waiting:
                self._waiting.remove(connection)
            return
        if self._by_listener and connection.channel.listener in self._by_listener:
            self._by_listener[connection.channel.listener] -= 1
        left = self._by_host[connection.host] - 1
        if left:
            self._by_host[connection.host] = left
        else:
            del self._by_host[connection.host]
        self._admit_waiting()
        if not self._idle_steps and self._when_empty is not None:
            self._when_empty()

    def _admit_waiting(self) -> None:
        # each connection is tried once: if its listener is full, it waits on, behind the other connections
        for _ in range(len(self._waiting)):
            if not self._waiting or len(self._idle_steps) >= self.max_connections:
                return
            self._waiting.popleft().admit_or_wait()

    def mute(self, connection: LimitedConnection, throttle_ms: int) -> None:
        """Call `unmute` of a connection after `throttle_ms`, unless it has ended."""
        muted = self._muted
        if muted is None:
            muted = self._muted = {}

        def unmute() -> None:
            muted.pop(connection, None)
            connection.unmute()

        muted[connection] = self.clock.call_at(self.clock.mono_ms() + throttle_ms, unmute)

    def input_waits(self, listening: Iterable[int]) -> bool:
        """Whether clients have sent bytes that are not handled yet. `listening`: the sockets that accept."""
        if any(connection.core.has_requests for connection in self._idle_steps):
            return True
        return _any_readable(chain(listening, (connection.descriptor for connection in self._idle_steps)))

    def when_empty(self, callback: Callable[[], object]) -> None:
        """Call `callback` as soon as no admitted connection is open, perhaps at once."""
        self._when_empty = callback
        if not self._idle_steps:
            callback()

    def stop(self) -> None:
        """Stop all timers."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._idle_ms = -1
        self.memory.stop()
        self.unsent.stop()

    def _arm(self) -> None:
        self._timer = self.clock.call_at(self.clock.now().mono_ms + self._step_ms, self._step)

    def _step(self) -> None:
        self._timer = None
        for connection, idle_steps in list(self._idle_steps.items()):
            if connection.alive or connection.core.is_answering:
                connection.alive = False
                self._idle_steps[connection] = 0
            elif (idle_steps + 1) * self._step_ms >= self._idle_ms:
                connection.close_idle()
            else:
                self._idle_steps[connection] = idle_steps + 1
        if self._idle_steps and self._idle_ms >= 0 and self._timer is None:
            self._arm()


def _any_readable(descriptors: Iterable[int]) -> bool:
    """Whether one of these sockets has bytes to read. Negative descriptors are skipped."""
    if not hasattr(select, "poll"):  # Windows does not have `poll`
        return False
    looked = select.poll()
    for descriptor in descriptors:
        if descriptor >= 0:
            looked.register(descriptor, select.POLLIN)
    return bool(looked.poll(0))


def _override(overrides: dict[str, int], limit: int, address: str | None) -> None:
    found = None if address is None else numeric(address)
    if found is not None:
        overrides[found] = limit


def parse_overrides(text: str) -> dict[str, int]:
    """max.connections.per.ip.overrides ("10.0.0.1:100,::1:5") as limits by address. Raises ValueError."""
    limits: dict[str, int] = {}
    for piece in filter(None, (word.strip() for word in text.split(","))):
        host, colon, count = piece.rpartition(":")
        if not colon or not host.strip() or not count.strip().isdecimal():
            raise ValueError(f"max.connections.per.ip.overrides: {piece!r} is not ADDRESS:COUNT, like 10.0.0.1:100")
        limits[host.strip()] = int(count)
    return limits
