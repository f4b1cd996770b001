"""How fast connections may come: max.connection.creation.rate of the server and of each listener, and
connection_creation_rate of addresses (KIP-612). Counts as Kafka's ConnectionQuotas; knows no socket.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from muster.coordinator.net.settings import NO_LIMIT
from muster.coordinator.quotas.rate import Rate, Windows
from muster.coordinator.system.clock import Clock

MOST_ADDRESSES: Final = 20_000
"""Addresses with a quota whose connections are counted."""


class _Limited:
    """One rate and its limit."""

    __slots__ = ("most", "rate")

    def __init__(self, windows: Windows, most: int, now_ms: int) -> None:
        self.rate = Rate(windows, now_ms)
        self.most = most

    def record(self, now_ms: int) -> int:
        """Another connection: after how long the next may come, at most a window."""
        self.rate.record(1, now_ms)
        if self.most == NO_LIMIT:
            return 0
        return min(self.rate.excess_ms(self.most, now_ms), self.rate.windows.size_ms)

    def take_back(self, now_ms: int) -> None:
        """The connection does not come."""
        self.rate.record(-1, now_ms)


class ConnectionRates:
    """See the module. Of a server that has such a limit, or had one."""

    __slots__ = ("_addresses", "_any_address", "_clock", "_counted", "_listeners", "_server", "_windows")

    def __init__(self, windows: Windows, clock: Clock) -> None:
        self._windows = windows
        self._clock = clock
        self._server = _Limited(windows, NO_LIMIT, clock.mono_ms())
        self._listeners: dict[str, _Limited] = {}
        self._addresses: dict[str, int] = {}
        self._any_address = NO_LIMIT
        self._counted: dict[str, _Limited] = {}

    def limit(self, most: int, listeners: Mapping[str, int]) -> None:
        """So many connections in a second, of the server and of these listeners."""
        self._server.most = most
        for name, of_listener in listeners.items():
            self._of_listener(name).most = of_listener

    def limit_address(self, address: str | None, most: float | None) -> None:
        """So many from an address, or from each (None) that has no limit of its own; `most` None: no limit any more."""
        # no number is 0, as Java casts it: none may come
        limit = NO_LIMIT if most is None else 0 if math.isnan(most) else int(most)
        if address is None:
            self._any_address = limit
        elif most is None:
            self._addresses.pop(address, None)
        else:
            self._addresses[address] = limit

    def _of_listener(self, name: str) -> _Limited:
        found = self._listeners.get(name)
        if found is None:
            found = self._listeners[name] = _Limited(self._windows, NO_LIMIT, self._clock.mono_ms())
        return found

    def delay_ms(self, listener: str) -> int:
        """Another connection has come to a listener: for how long it waits, and with it all that come behind it."""
        now_ms = self._clock.mono_ms()
        return max(self._server.record(now_ms), self._of_listener(listener).record(now_ms))

    def refusal_ms(self, listener: str, address: str) -> int:
        """It may be served now. 0: it is. Else its address has had too many: it is closed, after so long."""
        most = self._addresses.get(address, self._any_address)
        if most == NO_LIMIT:
            return 0
        now_ms = self._clock.mono_ms()
        counted = self._counted.pop(address, None)
        if counted is None:
            if len(self._counted) >= MOST_ADDRESSES:
                del self._counted[next(iter(self._counted))]
            counted = _Limited(self._windows, most, now_ms)
        self._counted[address] = counted  # the one that came longest ago is the first
        counted.most = most
        refused_ms = counted.record(now_ms)
        if refused_ms:
            for limited in (counted, self._server, self._of_listener(listener)):
                limited.take_back(now_ms)
        return refused_ms
