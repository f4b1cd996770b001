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
    OwnStreams,
)
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.properties.definition import Value
from muster.coordinator.properties.live import Live
from muster.coordinator.properties.resource_configs import effective_group, group_value
from muster.coordinator.runtime.figures import ShardFigures
from muster.coordinator.runtime.group_coordinator.settings import ShardSettings
from muster.coordinator.runtime.group_coordinator.shard import GroupShard, KnownProducers, Observer, none_of_them
from muster.coordinator.runtime.routing import Routing
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import JobQueue
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC
from muster.coordinator.topics.topics import Topics

if TYPE_CHECKING:
    from muster.assignors.assignor import Assignor
    from muster.coordinator.share_state.persister import Persister

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
    persister: Callable[[], Persister] | None = None,
    figures: ShardFigures | None = None,
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
            persister=persister,
            figures=figures,
        )
        for index in range(count)
    ]


log = structlog.get_logger("muster.groups")

KINDS: Final = ("consumer", "share", "streams")
"""The types of groups that have configs of their own."""
_TIMES: Final = ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
"""The configs that become the fields of `OwnConfig`, behind the type of the group."""


class DynamicGroupConfigs:
    """Gives the shards of a node the group configs, at each change and after a start."""

    def __init__(self, routing: Routing[GroupShard], live: Live) -> None:
        self._routing, self._live = routing, live
        self._intervals = IntervalConfigured(*_intervals(live.static.value))
        self.broker_reconfigured()

    def configured(self, group_id: str, configs: Mapping[str, str]) -> None:
        """Give the shards the new configs of a group."""
        values, outside = effective_group(configs, self._live.static.value)
        for name in outside:
            log.warning("a config of a group is outside of the broker's bounds: the bound is used",
                        group=group_id, property=name, configured=configs[name], counts=values[name])  # fmt: skip
        own = OwnConfig(*[values.get(f"consumer.{name}") for name in _TIMES])
        share = OwnConfig(*[values.get(f"share.{name}") for name in _TIMES])
        streams = _streams(configs, values)
        change = GroupConfigured(
            group_id,
            None if own == OwnConfig() else own,
            None if share == OwnConfig() else share,
            None if streams == OwnStreams() else streams,
        )
        self._routing.shard(group_id).configured(change)

    def broker_reconfigured(self) -> None:
        """Give the shards the changed properties of the broker."""
        # The broker's bounds may have been different when the values were set.
        intervals = IntervalConfigured(*_intervals(self._live.value))
        if intervals != self._intervals:
            self._intervals = intervals
            for shard in self._routing.shards:
                shard.configured(intervals)


def _streams(configs: Mapping[str, str], values: Mapping[str, int]) -> OwnStreams:
    """The configs of a streams group. `values`: those with bounds."""
    delay_ms = group_value(configs, "streams.initial.rebalance.delay.ms")
    tags = group_value(configs, "streams.rack.aware.assignment.tags")
    lag = group_value(configs, "streams.acceptable.recovery.lag")
    return OwnStreams(
        values.get("streams.session.timeout.ms"),
        values.get("streams.heartbeat.interval.ms"),
        values.get("streams.assignment.interval.ms"),
        delay_ms if isinstance(delay_ms, int) else None,
        values.get("streams.num.standby.replicas"),
        tuple(tags) if isinstance(tags, (list, tuple)) else None,
        values.get("streams.task.offset.interval.ms"),
        lag if isinstance(lag, int) else None,
    )


def _intervals(value: Callable[[str], Value]) -> list[int]:
    """The broker's interval between assignments for each type of group, limited to the broker's bounds."""
    made = []
    for kind in KINDS:
        words = ("min.", "", "max.")
        least_ms, interval_ms, most_ms = [value(f"group.{kind}.{word}assignment.interval.ms") for word in words]
        assert isinstance(interval_ms, int)
        assert isinstance(least_ms, int)
        assert isinstance(most_ms, int)
        made.append(min(max(interval_ms, least_ms), most_ms))
    return made
