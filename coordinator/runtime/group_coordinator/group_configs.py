"""Hands the configuration of single groups (KIP-848) to their shards: at each change, and after a start."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from muster.coordinator.groups.common.group_configs import GroupConfigured, IntervalConfigured, OwnConfig
from muster.coordinator.properties.live import Live
from muster.coordinator.properties.resource_configs import effective_group
from muster.coordinator.runtime.group_coordinator.shard import GroupShard
from muster.coordinator.runtime.routing import Routing

log = structlog.get_logger("muster.groups")

ASSIGNMENT_INTERVAL = "group.consumer.assignment.interval.ms"
BOUNDS = ("group.consumer.min.assignment.interval.ms", "group.consumer.max.assignment.interval.ms")
_NAMES = ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "consumer.assignment.interval.ms")
"""These names become the fields of `OwnConfig`. Other group configs are for unsupported types of groups."""


class DynamicGroupConfigs:
    """Reports group configs to the shards of a node."""

    def __init__(self, routing: Routing[GroupShard], live: Live) -> None:
        self._routing, self._live = routing, live
        self._interval_ms = live.static.value(ASSIGNMENT_INTERVAL)
        self.broker_reconfigured()

    def configured(self, group_id: str, configs: Mapping[str, str]) -> None:
        """A group has these configs from now on."""
        values, outside = effective_group(configs, self._live.static.value)
        for name in outside:
            log.warning("a group is configured beyond what the broker allows now: the bound counts",
                        group=group_id, property=name, configured=configs[name], counts=values[name])  # fmt: skip
        own = OwnConfig(*map(values.get, _NAMES))
        self._routing.shard(group_id).configured(GroupConfigured(group_id, None if own == OwnConfig() else own))

    def broker_reconfigured(self) -> None:
        """Properties of the broker have changed."""
        interval_ms, least_ms, most_ms = map(self._live.value, (ASSIGNMENT_INTERVAL, *BOUNDS))
        assert isinstance(interval_ms, int)
        assert isinstance(least_ms, int)
        assert isinstance(most_ms, int)
        # The bounds may have been different when the value was set.
        interval_ms = min(max(interval_ms, least_ms), most_ms)
        if interval_ms != self._interval_ms:
            self._interval_ms = interval_ms
            for shard in self._routing.shards:
                shard.configured(IntervalConfigured(interval_ms))
