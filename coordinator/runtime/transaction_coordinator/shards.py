"""Builds the shards of the transaction coordinator over the topics of a node.

It is imported when the first shard is needed: most servers have no transactions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from muster.coordinator.runtime.leaderships import ByPartition
from muster.coordinator.runtime.transaction_coordinator.marker_writer import GroupShard, MarkerWriter
from muster.coordinator.runtime.transaction_coordinator.other_nodes import Peers
from muster.coordinator.runtime.transaction_coordinator.shard import Observer, SendMarkers, TransactionShard
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import JobQueue
from muster.coordinator.topics.names import TRANSACTION_STATE_TOPIC
from muster.coordinator.topics.topics import Topics
from muster.coordinator.transactions.core import TransactionCore
from muster.coordinator.transactions.settings import TransactionSettings


def transaction_shards(
    topics: Topics,
    clock: Clock,
    slices: JobQueue,
    groups: ByPartition[GroupShard],
    settings: TransactionSettings,
    observe: Callable[[int], Observer | None],
    next_producer_id: Callable[[], int],
    linger_ms: int,
    peers: Peers | None = None,
) -> list[TransactionShard]:
    """One shard for each partition of __transaction_state, in order. None of them is started.

    `observe(partition)` makes the observer of its transactions. `groups`, `peers`: see `MarkerWriter`.
    `next_producer_id`: see `TransactionCore`.
    """
    count = len(topics.by_name[TRANSACTION_STATE_TOPIC].partitions)
    writer = MarkerWriter(topics.open, groups, clock, peers)

    def make_core(send_markers: SendMarkers) -> TransactionCore:
        return TransactionCore(settings, send_markers, next_producer_id=next_producer_id)

    return [
        TransactionShard(
            index,
            make_core,
            partial(topics.open.open_log, TRANSACTION_STATE_TOPIC, index),
            writer,
            slices,
            clock,
            observer=observe(index),
            linger_ms=linger_ms,
        )
        for index in range(count)
    ]
