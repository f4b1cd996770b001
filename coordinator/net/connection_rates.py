"""How many new connections per second the server, a listener and an address may have (KIP-612).

The limits are max.connection.creation.rate and connection_creation_rate, counted as by Kafka's ConnectionQuotas.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from muster.coordinator.net.settings import NO_LIMIT
from muster.coordinator.quotas.managers import Rate, Windows
from muster.coordinator.system.clock import Clock

MAX_ADDRESSES: Final = 20_000
"""The most addresses whose connections are counted."""


class _Limited:
    __slots__ = ("max_rate", "rate")

    def __init__(self, windows: Windows, max_rate: int, now_ms: int) -> None:
        self.rate = Rate(windows, now_ms)
        self.max_rate = max_rate

    def record(self, now_ms: int) -> int:
        """Count another connection. Returns the time until the next connection is allowed, at most one window."""
        self.rate.record(1, now_ms)
        if self.max_rate == NO_LIMIT:
            return 0
        return min(self.rate.excess_ms(self.max_rate, now_ms), self.rate.windows.size_ms)


class ConnectionRates:
    """See the module. A server has this object from its first limit on."""

    __slots__ = ("_addresses", "_any_address", "_clock", "_counted", "_listeners", "_server", "_windows")

    def __init__(self, windows: Windows, clock: Clock) -> None:
        self._windows = windows
        self._clock = clock
        self._server = _Limited(windows, NO_LIMIT, clock.mono_ms())
        self._listeners: dict[str, _Limited] = {}
        self._addresses: dict[str, int] = {}
        self._any_address = NO_LIMIT
        self._counted: dict[str, _Limited] = {}

    def limit(self, max_rate: int, listeners: Mapping[str, int]) -> None:
        """Set the limit of connections per second of the server, and of these listeners."""
        self._server.max_rate = max_rate
        for name, of_listener in listeners.items():
            self._of_listener(name).max_rate = of_listener

    def limit_address(self, address: str | None, max_rate: float | None) -> None:
        """Set the limit of an address. None: all addresses without an own limit. `max_rate` None removes the limit."""
        # NaN becomes 0, as Java casts it: no connection is allowed
        limit = NO_LIMIT if max_rate is None else 0 if math.isnan(max_rate) else int(max_rate)
        if address is None:
            self._any_address = limit
        elif max_rate is None:
            self._addresses.pop(address, None)
        else:
            self._addresses[address] = limit

    def _of_listener(self, name: str) -> _Limited:
        found = self._listeners.get(name)
        if found is None:
            found = self._listeners[name] = _Limited(self._windows, NO_LIMIT, self._clock.mono_ms())
        return found

    def delay_ms(self, listener: str) -> int:
        """Count a new connection of a listener. Returns how long this connection and all later connections wait."""
        now_ms = self._clock.mono_ms()
        return max(self._server.record(now_ms), self._of_listener(listener).record(now_ms))

    def refusal_ms(self, listener: str, address: str) -> int:
        """Count a connection that is about to be served. Returns after how many ms to refuse the connection, or 0."""
        max_rate = self._addresses.get(address, self._any_address)
        if max_rate == NO_LIMIT:
            return 0
        now_ms = self._clock.mono_ms()
        counted = self._counted.pop(address, None)
        if counted is None:
            if len(self._counted) >= MAX_ADDRESSES:
                del self._counted[next(iter(self._counted))]
            counted = _Limited(self._windows, max_rate, now_ms)
        self._counted[address] = counted  # the address whose last connection is oldest stands first
        counted.max_rate = max_rate
        refused_ms = counted.record(now_ms)
        if refused_ms:
            for limited in (counted, self._server, self._of_listener(listener)):
                limited.rate.record(-1, now_ms)
        return refused_ms
