"""Builds the shards of the group coordinator of a node, and gives them the configs of single groups (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from muster.coordinator.groups.common.settings import (
    GroupConfigs,
    GroupConfigured,
    GroupSettings,
    IntervalConfigured,
    OwnConfig,
)
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.properties.live import Live
from muster.coordinator.properties.resource_configs import effective_group
from muster.coordinator.runtime.group_coordinator.settings import ShardSettings
from muster.coordinator.runtime.group_coordinator.shard import GroupShard, KnownProducers, Observer, none_of_them
from muster.coordinator.runtime.routing import Routing
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import JobQueue
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC
from muster.coordinator.topics.topics import Topics

if TYPE_CHECKING:
    from muster.assignors.assignor import Assignor

CHECKS_SPREAD_OVER: Final = 10
"""The first checks for expired offsets of all shards are spread over the interval divided by this number."""


def group_shards(
    topics: Topics,
    clock: Clock,
    groups: GroupSettings,
    shards: ShardSettings,
    observe: Callable[[int], Observer],
    known_producers: KnownProducers = none_of_them,
    job_queue: JobQueue | None = None,
    assignors: Mapping[str, Assignor] | None = None,
) -> list[GroupShard]:
    """One shard for each partition of __consumer_offsets, in order. No shard is started.

    `observe(partition)` makes the observer of its groups. `GroupShard` explains the other parameters.
    """
    count = len(topics.by_name[GROUP_OFFSETS_TOPIC].partitions)
    interval_ms = groups.offsets_retention_check_interval_ms
    return [
        GroupShard(
            index,
            partial(
                GroupCore, groups, first_check_ms=interval_ms + interval_ms * index // (CHECKS_SPREAD_OVER * count)
            ),
            partial(topics.open.open_log, GROUP_OFFSETS_TOPIC, index),
            clock,
            topics.image,
            observer=observe(index),
            linger_ms=shards.group_coordinator_append_linger_ms,
            transaction_max_ms=shards.transaction_max_timeout_ms,
            known_producers=known_producers,
            job_queue=job_queue,
            configs=GroupConfigs(groups),
            assignors=assignors,
        )
        for index in range(count)
    ]


log = structlog.get_logger("muster.groups")

ASSIGNMENT_INTERVAL = "group.consumer.assignment.interval.ms"
BOUNDS = ("group.consumer.min.assignment.interval.ms", "group.consumer.max.assignment.interval.ms")
_NAMES = ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "consumer.assignment.interval.ms")
"""These configs become the fields of `OwnConfig`. Other group configs are for unsupported types of groups."""


class DynamicGroupConfigs:
    """Gives the shards of a node the group configs, at each change and after a start."""

    def __init__(self, routing: Routing[GroupShard], live: Live) -> None:
        self._routing, self._live = routing, live
        self._interval_ms = live.static.value(ASSIGNMENT_INTERVAL)
        self.broker_reconfigured()

    def configured(self, group_id: str, configs: Mapping[str, str]) -> None:
        """Give the shards the new configs of a group."""
        values, outside = effective_group(configs, self._live.static.value)
        for name in outside:
            log.warning("a config of a group is outside of the broker's bounds: the bound is used",
                        group=group_id, property=name, configured=configs[name], counts=values[name])  # fmt: skip
        own = OwnConfig(*map(values.get, _NAMES))
        self._routing.shard(group_id).configured(GroupConfigured(group_id, None if own == OwnConfig() else own))

    def broker_reconfigured(self) -> None:
        """Give the shards the changed properties of the broker."""
        interval_ms, least_ms, most_ms = map(self._live.value, (ASSIGNMENT_INTERVAL, *BOUNDS))
        assert isinstance(interval_ms, int)
        assert isinstance(least_ms, int)
        assert isinstance(most_ms, int)
        # The broker's bounds may have been different when the value was set.
        interval_ms = min(max(interval_ms, least_ms), most_ms)
        if interval_ms != self._interval_ms:
            self._interval_ms = interval_ms
            for shard in self._routing.shards:
                shard.configured(IntervalConfigured(interval_ms))
