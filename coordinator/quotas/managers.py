"""How much of a quota clients have used, and how long they must wait (Kafka's ClientQuotaManager and its subclasses).

A quota is for a user, a client id, or both. The entity of the quota decides which clients share it. The arithmetic is
Kafka's too: rates (Rate over a WindowedSum) and credits (TokenBucket). Times are ms of a monotonic clock. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from muster.coordinator.quotas import entities


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """Kafka's defaults: over how many windows a rate is measured, and how long each window is."""

    quota_window_num: int = 11
    quota_window_size_seconds: int = 1
    controller_quota_window_num: int = 11
    controller_quota_window_size_seconds: int = 1


_LONGEST_MS: Final = 2**31 - 1
"""The longest throttle time that an answer can have."""


class Windows(NamedTuple):
    """The property `quota.window.num`, and `quota.window.size.seconds` in ms."""

    number: int
    size_ms: int


class _Sample:
    __slots__ = ("began_ms", "last_ms", "total")

    def __init__(self, now_ms: int) -> None:
        self.begin(now_ms)

    def begin(self, now_ms: int) -> None:
        self.began_ms = self.last_ms = now_ms
        self.total = 0.0


class Rate:
    """The use per second, on average over the present window and the windows before it."""

    __slots__ = ("_current", "_samples", "last_ms", "windows")

    def __init__(self, windows: Windows, now_ms: int) -> None:
        self.windows = windows
        self._samples = [_Sample(now_ms)]
        self._current = 0
        self.last_ms = now_ms
        """The time of the last use."""

    def record(self, value: float, now_ms: int) -> None:
        """Add a use; a negative value corrects earlier uses."""
        self.last_ms = now_ms
        sample = self._samples[self._current]
        if now_ms - sample.began_ms >= self.windows.size_ms:
            sample = self._advance(now_ms)
        sample.total += value
        sample.last_ms = now_ms

    def _advance(self, now_ms: int) -> _Sample:
        # one sample more than windows: the oldest sample began before the windows and extends into them
        self._current = (self._current + 1) % (self.windows.number + 1)
        if self._current == len(self._samples):
            self._samples.append(_Sample(now_ms))
        else:
            self._samples[self._current].begin(now_ms)
        return self._samples[self._current]

    def measure(self, now_ms: int) -> float:
        """The use per second."""
        self._forget(now_ms)
        return sum([sample.total for sample in self._samples]) / (self._measured_ms(now_ms) / 1000)

    def _forget(self, now_ms: int) -> None:
        too_old_ms = self.windows.number * self.windows.size_ms
        for sample in self._samples:
            if now_ms - sample.last_ms >= too_old_ms:
                sample.begin(now_ms)

    def _measured_ms(self, now_ms: int) -> int:
        """The measured time: at least all windows but the present one."""
        size_ms, least = self.windows.size_ms, self.windows.number - 1
        elapsed_ms = now_ms - min([sample.began_ms for sample in self._samples])
        full = elapsed_ms // size_ms
        if full < least:
            elapsed_ms += (least - full) * size_ms
        return max(elapsed_ms, 1)

    def excess_ms(self, bound: float, now_ms: int) -> int:
        """How long nothing may be used until the rate falls to `bound`; 0 when the rate is not above `bound`."""
        rate = self.measure(now_ms)
        if rate <= bound:
            return 0
        if bound <= 0:
            return _LONGEST_MS
        return _rounded((rate - bound) / bound * self._measured_ms(now_ms))


class TokenBucket:
    """Credits that grow with time, up to the sum of all windows. A client without credits must wait."""

    __slots__ = ("_credits", "_updated_ms", "last_ms", "windows")

    def __init__(self, windows: Windows, now_ms: int) -> None:
        self.windows = windows
        self._credits = math.inf
        self._updated_ms = self.last_ms = now_ms

    def record(self, value: float, bound: float, now_ms: int) -> None:
        """Use `value` credits. `bound`: the number of new credits per second."""
        self.last_ms = now_ms
        self._credits = self._refilled(bound, now_ms) - value

    def excess_ms(self, bound: float, now_ms: int) -> int:
        """How long nothing may be used: until the credits are no longer negative."""
        self._credits = self._refilled(bound, now_ms)
        return _rounded(-self._credits / bound * 1000) if self._credits < 0 else 0

    def _refilled(self, bound: float, now_ms: int) -> float:
        most = self.windows.number * self.windows.size_ms / 1000 * bound
        come = bound * (now_ms - self._updated_ms) / 1000
        self._updated_ms = now_ms
        return min(most, self._credits + come)


def _rounded(time_ms: float) -> int:
    return int(min(math.floor(time_ms + 0.5), _LONGEST_MS))


MAX_SENSORS: Final = 20_000
"""The most clients whose use of one quota is remembered: a client may use a new id in each request."""
UNUSED_MS: Final = 3_600_000
"""How long clients that use nothing are remembered, as on Kafka."""

_NONE: Final = 0
_CLIENTS: Final = 1
_USERS: Final = 2
_PAIRS: Final = 4

_ANY: Final = None
"""The name for all users or client ids that have no quota of their own."""
_ABSENT: Final = ""
"""The name of a type that a quota does not depend on. (No quota is for an empty name.)"""

_Names = tuple[str | None, str | None]


class Sensor:
    """Counts the use of clients that share a quota. `bound`: the quota; None without a quota: the use is counted."""

    __slots__ = ("bound", "meter", "names", "version")

    def __init__(self, names: tuple[str, str], meter: Any) -> None:
        self.names = names
        self.meter = meter
        self.bound: float | None = None
        self.version = -1


class QuotaManager:
    """One kind of quota: `producer_byte_rate` and so on."""

    __slots__ = ("_kinds", "_quotas", "_sensors", "make", "version", "windows")

    def __init__(self, windows: Windows, make: Callable[[Windows, int], Any] = Rate) -> None:
        self.windows = windows
        self.make = make
        self.version = 0
        """The number of changes of quotas. After a change, sensors must be looked up again."""
        self._quotas: dict[_Names, float] = {}
        """The quotas, by user and client id."""
        self._kinds = _NONE
        self._sensors: dict[tuple[str, str], Sensor] = {}

    @property
    def is_enabled(self) -> bool:
        """Whether any quota was set since the start: from then on all clients are counted, as on Kafka."""
        return self._kinds != _NONE

    def set(self, entity: entities.Entity, value: float | None) -> None:
        """Set, change or remove (None) a quota."""
        parts = dict(entity)
        names = parts.get(entities.USER, _ABSENT), parts.get(entities.CLIENT_ID, _ABSENT)
        self._kinds |= _PAIRS if len(parts) == 2 else _USERS if entities.USER in parts else _CLIENTS
        if value is None:
            self._quotas.pop(names, None)
        else:
            self._quotas[names] = value
        self.version += 1

    def sensor(self, user: str, client_id: str, now_ms: int) -> Sensor:
        """Return the sensor that this client shares with other clients."""
        names = self._names(user, client_id)
        sensor = self._sensors.get(names)
        if sensor is None:
            if len(self._sensors) >= MAX_SENSORS:
                self._forget(now_ms)
            sensor = self._sensors[names] = Sensor(names, self.make(self.windows, now_ms))
        if sensor.version != self.version:
            sensor.version = self.version
            sensor.bound = self._bound(names)
        return sensor

    def _names(self, user: str, client_id: str) -> tuple[str, str]:
        kinds, quotas = self._kinds, self._quotas
        if kinds in (_NONE, _CLIENTS):
            return _ABSENT, client_id
        if kinds == _USERS:
            return user, _ABSENT
        if kinds == _PAIRS:
            return user, client_id
        for names, counted in (
            ((user, client_id), (user, client_id)),
            ((user, _ANY), (user, client_id)),
            ((user, _ABSENT), (user, _ABSENT)),
            ((_ANY, client_id), (user, client_id)),
            ((_ANY, _ANY), (user, client_id)),
            ((_ANY, _ABSENT), (user, _ABSENT)),
        ):
            if names in quotas:
                return counted
        return _ABSENT, client_id

    def _bound(self, names: tuple[str, str]) -> float | None:
        """The quota of clients that are counted under these names, in Kafka's order of precedence."""
        user, client_id = names
        if user and client_id:
            order: tuple[_Names, ...] = (names, (user, _ANY), (_ANY, client_id), (_ANY, _ANY))
        elif user:
            order = names, (_ANY, _ABSENT)
        elif client_id:
            order = names, (_ABSENT, _ANY)
        else:
            return None
        for one in order:
            found = self._quotas.get(one)
            if found is not None:
                return found if math.isfinite(found) else None
        return None

    def _forget(self, now_ms: int) -> None:
        """Forget clients that used nothing for an hour; if there are none, forget the least recently active half."""
        by_age = sorted(self._sensors.values(), key=lambda sensor: sensor.meter.last_ms)
        stale = sum(now_ms - sensor.meter.last_ms >= UNUSED_MS for sensor in by_age)
        for sensor in by_age[: stale or len(by_age) // 2]:
            del self._sensors[sensor.names]
        self.version += 1  # connections keep using the removed sensors until they look again


class ClientQuotas:
    """The quotas of users and client ids."""

    __slots__ = ("_managers", "consumer", "mutation", "producer", "request")

    def __init__(self, settings: QuotaSettings) -> None:
        windows = Windows(settings.quota_window_num, settings.quota_window_size_seconds * 1000)
        of_changes = Windows(settings.controller_quota_window_num, settings.controller_quota_window_size_seconds * 1000)
        self.producer = QuotaManager(windows)
        self.consumer = QuotaManager(windows)
        self.request = QuotaManager(windows)
        self.mutation = QuotaManager(of_changes, TokenBucket)
        self._managers = {
            entities.PRODUCER_BYTE_RATE: self.producer,
            entities.CONSUMER_BYTE_RATE: self.consumer,
            entities.REQUEST_PERCENTAGE: self.request,
            entities.CONTROLLER_MUTATION_RATE: self.mutation,
        }

    def update(self, changes: Iterable[tuple[entities.Entity, str, float | None]]) -> None:
        """Set, change or remove (None) quotas. Quotas of addresses are ignored here."""
        for entity, key, value in changes:
            manager = self._managers.get(key)
            if manager is not None:
                manager.set(entity, value)

    @property
    def are_enabled(self) -> bool:
        """Whether requests must be counted."""
        return any(manager.is_enabled for manager in self._managers.values())
