"""Puts quotas into force: of users and client ids for requests, of addresses and listeners for connections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import structlog

from muster.coordinator.api.node import Node
from muster.coordinator.api.throttled import meter
from muster.coordinator.net.connection_rates import ConnectionRates
from muster.coordinator.net.limits import Limits
from muster.coordinator.net.settings import NO_LIMIT
from muster.coordinator.net.sockets import numeric
from muster.coordinator.quotas.entities import CONNECTION_CREATION_RATE, IP, Entity, entity_of
from muster.coordinator.quotas.managers import ClientQuotas, QuotaSettings, Windows
from muster.coordinator.system.host_names import resolve

log = structlog.get_logger("muster.net")

Change = tuple[Entity, str, float | None]


class ClientQuotaMetadataManager:
    """See the module. `rates`: the limits of new connections. None means that no limit exists."""

    def __init__(self, settings: QuotaSettings, node: Node, throttled: Callable[[Any, Any], Any]) -> None:
        self._node = node
        self._throttled = throttled
        self._windows = Windows(settings.quota_window_num, settings.quota_window_size_seconds * 1000)
        self._clients = ClientQuotas(settings)
        self._limits: Limits | None = None
        self.rates: ConnectionRates | None = None

    def load(self, quotas: Mapping[Entity, Mapping[str, float]]) -> None:
        """Put the quotas into force that exist at a start."""
        self._update([(entity, key, value) for entity, values in quotas.items() for key, value in values.items()])

    def changed(self, records: Iterable[Any]) -> None:
        """ClientQuotaRecords were written: put them into force."""
        self._update(
            [
                (
                    entity_of({part.entity_type: part.entity_name for part in record.entity}),
                    record.key,
                    None if record.remove else record.value,
                )
                for record in records
            ]
        )

    def limit_connections(self, limits: Limits, max_rate: int, listeners: Mapping[str, int]) -> None:
        """Set how many new connections per second the node and these listeners may have."""
        self._limits = limits
        if self.rates is None and (max_rate != NO_LIMIT or any(each != NO_LIMIT for each in listeners.values())):
            self.rates = ConnectionRates(self._windows, self._node.clock.machine)
        if self.rates is not None:
            self.rates.limit(max_rate, listeners)
        limits.rates = self.rates

    def _update(self, changes: Iterable[Change]) -> None:
        of_clients: list[Change] = []
        for change in changes:
            entity, key, value = change
            if entity[0][0] != IP:
                of_clients.append(change)
            elif key == CONNECTION_CREATION_RATE:
                self._limit_address(entity[0][1], value)
        self._clients.update(of_clients)
        if self._node.quotas is None and self._clients.are_enabled:
            self._node.quotas = self._clients
            self._node.job_queue.meter = meter
            for connection in () if self._limits is None else self._limits.connections:
                connection.wrap(self._throttled)

    def _limit_address(self, host: str | None, value: float | None) -> None:
        if self.rates is None:
            self.rates = ConnectionRates(self._windows, self._node.clock.machine)
            if self._limits is not None:
                self._limits.rates = self.rates
        address = None if host is None else numeric(host)
        if host is None or address is not None:
            self.rates.limit_address(address, value)
        else:
            self._node.job_queue.worker.run(partial(resolve, host), partial(self._limit_host, self.rates, host, value))

    def _limit_host(
        self, rates: ConnectionRates, host: str, value: float | None, address: str | None, _: Exception | None
    ) -> None:
        found = None if address is None else numeric(address)
        if found is None:
            log.warning("a host with a quota cannot be resolved: the quota counts for nobody", host=host)
        else:
            rates.limit_address(found, value)
