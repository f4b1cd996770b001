"""Builds the shards of the group coordinator over the topics of a node, for a server or for a simulation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from muster.coordinator.groups.common.group_configs import GroupConfigs
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.runtime.group_coordinator.settings import ShardSettings
from muster.coordinator.runtime.group_coordinator.shard import GroupShard, KnownProducers, Observer, none_of_them
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import JobQueue
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC
from muster.coordinator.topics.topics import Topics

if TYPE_CHECKING:
    from muster.assignors.assignor import Assignor

CHECKS_SPREAD_OVER: Final = 10
"""Each shard checks for expired offsets at a time of its own. All these times lie within a tenth of the interval."""


def group_shards(
    topics: Topics,
    clock: Clock,
    groups: GroupSettings,
    shards: ShardSettings,
    observe: Callable[[int], Observer],
    known_producers: KnownProducers = none_of_them,
    slices: JobQueue | None = None,
    assignors: Mapping[str, Assignor] | None = None,
) -> list[GroupShard]:
    """One shard for each partition of __consumer_offsets, in order. None of them is started.

    `observe(partition)` makes the observer of its groups. `known_producers`, `slices`, `assignors`: see `GroupShard`.
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
            slices=slices,
            configs=GroupConfigs(groups),
            assignors=assignors,
        )
        for index in range(count)
    ]
