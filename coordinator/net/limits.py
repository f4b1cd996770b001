"""What one server grants its connections: how many, and how long silent. `memory` has how many bytes of unfinished
requests, `unsent` of answers that are not read.

May not read or write a socket: it counts, and tells connections to pause, go on or close.
"""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Final, Protocol

from muster.coordinator.api.unsent import Unsent
from muster.coordinator.clock import Clock, Timer
from muster.coordinator.net.request_memory import RequestMemory
from muster.coordinator.net.settings import NetSettings

IDLE_STEPS: Final = 8
"""The idle time is told in this many steps, so that a request costs one assignment and no reading of the clock."""


class Member(Protocol):
    """A connection, as the limits know it."""

    host: str
    """The peer's numeric address."""
    alive: bool
    """Set at each sign of life; taken back by the limits when they have seen it."""

    @property
    def waits_for_us(self) -> bool:
        """A request of it is parked: its silence is ours."""

    @property
    def descriptor(self) -> int:
        """Of the socket that it reads; negative when it reads none now."""

    @property
    def has_more(self) -> bool:
        """Requests of it were read that wait for the one at hand."""

    def close_idle(self) -> None:
        """It was silent for `connections.max.idle.ms`."""

    def room_made(self) -> None:
        """It waited to be taken, and may ask again."""

    def close(self) -> None:
        """The server stops: send what is ready, then end."""

    def abort(self) -> None:
        """The server cannot wait any longer."""

    @property
    def unfinished_bytes(self) -> int:
        """See `memory.Holder`."""

    @property
    def unsent_bytes(self) -> int:
        """See `unsent.Reader`."""

    def memory_granted(self) -> None:
        """There is room for its unfinished request now."""

    def close_stalled(self) -> None:
        """Others need the memory that it holds, for a request or an answer."""


class Limits:
    """Kafka's max.connections, max.connections.per.ip and connections.max.idle.ms."""

    def __init__(
        self,
        settings: NetSettings,
        clock: Clock,
        max_files: Callable[[], int] | None = None,
        unsent: Unsent | None = None,
    ) -> None:
        """`max_files`: how many connections the process may have open now, for want of file descriptors; `unsent`:
        shared with those who make large answers.

        Raises ValueError for a `max.connections.per.ip.overrides` that cannot be read.
        """
        self._max_files = max_files
        self._entering: deque[Member] = deque()
        self._silent_steps: dict[Member, int] = {}
        self.set_most(settings)
        self.clock = clock
        self._idle_ms = settings.connections_max_idle_ms
        self._step_ms = max(1, -(-self._idle_ms // IDLE_STEPS))
        self._timer: Timer | None = None
        self._by_host: dict[str, int] = {}
        self.memory = RequestMemory(clock, settings.request_memory)
        self.unsent = unsent or Unsent(clock)
        self._max_entering = settings.socket_listen_backlog_size
        self._when_empty: Callable[[], object] | None = None

    def set_most(self, settings: NetSettings) -> None:
        """Allow so many connections from now on; those that there are stay, as on Kafka. Raises ValueError."""
        self._overrides = parse_overrides(settings.max_connections_per_ip_overrides)
        self._per_ip = settings.max_connections_per_ip
        self._most = settings.max_connections
        self._hand_over()

    @property
    def max_connections(self) -> int:
        """How many connections there may be now."""
        return self._most if self._max_files is None else min(self._most, self._max_files())

    def __len__(self) -> int:
        """How many connections there are."""
        return len(self._silent_steps)

    @property
    def members(self) -> tuple[Member, ...]:
        """The connections, oldest first."""
        return (*self._silent_steps, *self._entering)

    def refusal(self, host: str) -> str | None:
        """Why a connection from `host` is not taken; None: it is."""
        if len(self._silent_steps) >= self.max_connections:
            return f"there are {self.max_connections} connections already (max.connections, open files)"
        if self._has_too_many(host):
            limit = self._overrides.get(host, self._per_ip)
            return f"there are {limit} connections from {host} already (max.connections.per.ip)"
        return None

    def wait(self, member: Member) -> bool:
        """Let a connection that finds no room wait, as Kafka lets it wait in the backlog; it is told by `room_made`.

        False when the address has too many (Kafka closes such at once), or when as many wait as fit into a backlog.
        """
        full = len(self._silent_steps) >= self.max_connections
        if not full or self._has_too_many(member.host) or len(self._entering) >= self._max_entering:
            return False
        self._entering.append(member)
        return True

    def _has_too_many(self, host: str) -> bool:
        return self._by_host.get(host, 0) >= self._overrides.get(host, self._per_ip)

    def enter(self, member: Member) -> None:
        """A connection was taken."""
        self._silent_steps[member] = 0
        self._by_host[member.host] = self._by_host.get(member.host, 0) + 1
        member.alive = True
        if self._timer is None and self._idle_ms >= 0:
            self._arm()

    def leave(self, member: Member) -> None:
        """A connection has ended; harmless for one that was never taken."""
        self.memory.leave(member)
        self.unsent.release(member)
        if self._silent_steps.pop(member, None) is None:
            if member in self._entering:
                self._entering.remove(member)
            return
        left = self._by_host[member.host] - 1
        if left:
            self._by_host[member.host] = left
        else:
            del self._by_host[member.host]
        self._hand_over()
        if not self._silent_steps and self._when_empty is not None:
            self._when_empty()

    def _hand_over(self) -> None:
        """Offer what room there is to those that wait, in their order: one that is closing itself does not take it."""
        while self._entering and len(self._silent_steps) < self.max_connections:
            self._entering.popleft().room_made()

    def input_waits(self, listening: Iterable[int]) -> bool:
        """Whether anything is there to be read or handled that clients have sent; `listening`: descriptors of sockets
        that accept.
        """
        if any(member.has_more for member in self._silent_steps):
            return True
        return _any_readable(chain(listening, (member.descriptor for member in self._silent_steps)))

    def when_empty(self, callback: Callable[[], object]) -> None:
        """Call back as soon as there is no connection (at once when there is none)."""
        self._when_empty = callback
        if not self._silent_steps:
            callback()

    def stop(self) -> None:
        """No timer rings from now on."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._idle_ms = -1
        self.memory.stop()

    def _arm(self) -> None:
        self._timer = self.clock.call_at(self.clock.now().mono_ms + self._step_ms, self._step)

    def _step(self) -> None:
        self._timer = None
        for member, silent_steps in list(self._silent_steps.items()):
            if member.alive or member.waits_for_us:
                member.alive = False
                self._silent_steps[member] = 0
            elif (silent_steps + 1) * self._step_ms >= self._idle_ms:
                member.close_idle()
            else:
                self._silent_steps[member] = silent_steps + 1
        if self._silent_steps and self._idle_ms >= 0 and self._timer is None:
            self._arm()


def _any_readable(descriptors: Iterable[int]) -> bool:
    """Whether something lies in one of these sockets; negative ones are none."""
    if not hasattr(select, "poll"):  # not on Windows
        return False
    looked = select.poll()
    for descriptor in descriptors:
        if descriptor >= 0:
            looked.register(descriptor, select.POLLIN)
    return bool(looked.poll(0))


def parse_overrides(text: str) -> dict[str, int]:
    """max.connections.per.ip.overrides ("10.0.0.1:100,::1:5") as limits by address; ValueError names a bad piece."""
    limits: dict[str, int] = {}
    for piece in filter(None, (word.strip() for word in text.split(","))):
        host, colon, count = piece.rpartition(":")
        if not colon or not host.strip() or not count.strip().isdecimal():
            raise ValueError(f"max.connections.per.ip.overrides: {piece!r} is not ADDRESS:COUNT, like 10.0.0.1:100")
        limits[host.strip()] = int(count)
    return limits
