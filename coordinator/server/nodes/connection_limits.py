"""The limits of a node's connections and of their rate, and the quotas of its clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from muster.coordinator.api.node import Node
from muster.coordinator.config import Config
from muster.coordinator.net.limits import Limits
from muster.coordinator.net.settings import NO_LIMIT, NetSettings
from muster.coordinator.properties.definition import InvalidProperty
from muster.coordinator.properties.live import Live

if TYPE_CHECKING:
    from muster.coordinator.quotas.entities import Entity
    from muster.coordinator.server.nodes.client_quotas import ClientQuotaMetadataManager


class ConnectionLimits:
    """`limits`: the limits of the open connections. None while the node does not accept connections."""

    def __init__(self, config: Config, live: Live, node: Node, throttled: Callable[[Any, Any], Any]) -> None:
        self.limits: Limits | None = None
        self._config = config
        self._live = live
        self._node = node
        self._throttled = throttled
        self._quotas: ClientQuotaMetadataManager | None = None

    def load(self, quotas: Mapping[Entity, Mapping[str, float]]) -> None:
        """Put the quotas into force that exist at a start."""
        if quotas:
            self._manager().load(quotas)

    def changed(self, records: Iterable[Any]) -> None:
        """ClientQuotaRecords were written: put them into force."""
        self._manager().changed(records)

    def _manager(self) -> ClientQuotaMetadataManager:
        if self._quotas is None:
            # imported here: most servers have no quotas
            from muster.coordinator.quotas.managers import QuotaSettings
            from muster.coordinator.server.nodes.client_quotas import ClientQuotaMetadataManager

            settings = self._config.settings(QuotaSettings)
            self._quotas = ClientQuotaMetadataManager(settings, self._node, self._throttled)
            self.apply_properties()
        return self._quotas

    def check(self, live: Live) -> None:
        """Check properties that are about to be set. Raises InvalidProperty."""
        for listener in self._config.listeners:
            for name in ("max.connections", "max.connection.creation.rate"):
                if live.own_of(listener.name, name) == 0:
                    what = f"org.apache.kafka.common.config.ConfigException: Invalid {name} 0"
                    raise InvalidProperty(
                        name, "0", f"Invalid value {what} for configuration Invalid dynamic configuration"
                    )

    def apply_properties(self) -> None:
        """Limit the connections by the present properties."""
        limits = self.limits
        if limits is None:
            return
        settings = self._config.settings(NetSettings, self._live.value)
        rate = settings.max_connection_creation_rate
        max_connections: dict[str, int] = {}
        rates: dict[str, int] = {}
        for listener in self._config.listeners:
            max_here = cast("int | None", self._live.own_of(listener.name, "max.connections"))
            if max_here is not None:
                max_connections[listener.name] = max_here
            rate_here = cast("int | None", self._live.own_of(listener.name, "max.connection.creation.rate"))
            rates[listener.name] = rate if rate_here is None else rate_here
        limits.set_limits(settings, max_connections)
        if self._quotas is not None:
            self._quotas.limit_connections(limits, rate, rates)
        elif any(each != NO_LIMIT for each in (rate, *rates.values())):
            self._manager()

    def resolve_host(self, host: str, done: Callable[[str | None], object]) -> None:
        """Resolve the address of a host, for limits of addresses."""
        from muster.coordinator.system.host_names import resolve

        self._node.job_queue.worker.run(partial(resolve, host), lambda address, _: done(address))
