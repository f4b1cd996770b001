"""Metrics of groups and topics under the names that dashboards of Kafka already read.

* kafka_exporter's `kafka_consumergroup_…`, `kafka_topic_partition_…` and `kafka_brokers`, with its labels.
* `kafka_consumergroup_group_state` of klag-exporter: the state as a number.
* Kafka's own `group-coordinator-metrics`, named as Prometheus' JMX exporter names them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from muster.coordinator.server.exposition import GAUGE, Lines, Metric, escaped
from muster.coordinator.system.jobs import Job

PARTITIONS_AT_ONCE: Final = 250
"""How many partitions are read in one step."""
STATES: Final = (
    "Unknown", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling",
)  # fmt: skip
"""The states of groups, at the places that are their numbers."""
KAFKA_STATES: Final = {
    "classic": ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty"),
    "consumer": ("Empty", "Assigning", "Reconciling", "Stable", "Dead"),
    "share": ("Empty", "Stable", "Dead"),
    "streams": ("Empty", "NotReady", "Assigning", "Reconciling", "Stable", "Dead"),
}
"""The states that Kafka's metrics have for each type of groups."""
_OF_PARTITIONS: Final = {
    "kafka_topic_partition_current_offset": "Current Offset of a Broker at Topic/Partition",
    "kafka_topic_partition_oldest_offset": "Oldest Offset of a Broker at Topic/Partition",
    "kafka_topic_partition_leader": "Leader Broker ID of this Topic/Partition",
    "kafka_topic_partition_replicas": "Number of Replicas for this Topic/Partition",
    "kafka_topic_partition_in_sync_replica": "Number of In-Sync Replicas for this Topic/Partition",
    "kafka_topic_partition_under_replicated_partition": "1 if Topic/Partition is under Replicated",
}
_OF_GROUPS: Final = {
    "kafka_consumergroup_current_offset": "Current Offset of a ConsumerGroup at Topic/Partition",
    "kafka_consumergroup_lag": "Current Approximate Lag of a ConsumerGroup at Topic/Partition",
    "kafka_consumergroup_current_offset_sum": "Current Offset of a ConsumerGroup at Topic for all partitions",
    "kafka_consumergroup_lag_sum": "Current Approximate Lag of a ConsumerGroup at Topic for all partitions",
    "kafka_consumergroup_members": "Amount of members in a consumer group",
}


class PartitionRow(NamedTuple):
    """A partition. `start` and `end` None: they are not known here. `leader` -1: there is none."""

    partition: int
    start: int | None
    end: int | None
    leader: int
    replicas: int
    in_sync: int


class TopicRow(NamedTuple):
    """A topic with its partitions, which are read step by step. `size`: their number."""

    topic: str
    size: int
    partitions: Iterable[PartitionRow]


class GroupRow(NamedTuple):
    """A group. `offsets`: its offsets by topic, which are read step by step. Each has an index, the offset and the lag.

    Lag None: it is the number of records after the offset.
    """

    group: str
    kind: str
    state: str
    members: int
    offsets: Iterable[tuple[str, Iterable[tuple[int, int, int | None]]]]


NoteLag = Callable[[str, str, int, int, int], object]
"""Gets a group, a topic, and a partition with unread records: index, committed offset, and lag."""


def kafka_metrics(
    cluster_id: str,
    brokers: int,
    topics: Iterable[TopicRow],
    groups: Iterable[GroupRow],
    note_lag: NoteLag = lambda *_: None,
    elsewhere: Mapping[str, Mapping[int, tuple[int, int]]] = MappingProxyType({}),
) -> Job[list[Metric | Lines]]:
    """The metrics. `topics` and `groups` are read step by step: a row is as its group is at this moment.

    `note_lag` is called for each partition with unread records of each group. `elsewhere`: start and end of partitions
    whose row has no end, for the lag.
    """
    ends: dict[str, dict[int, int]] = {}
    of_topics = yield from _topics(topics, ends)
    for topic, places in elsewhere.items():
        ends[topic] = {index: end for index, (_, end) in places.items()} | ends.get(topic, {})
        yield None
    of_groups = yield from _groups(cluster_id, groups, ends, note_lag)
    return [Metric("kafka_brokers", GAUGE, "Number of Brokers in the Kafka Cluster.", {(): brokers}),
            *of_topics, *of_groups]  # fmt: skip


def _topics(topics: Iterable[TopicRow], ends: dict[str, dict[int, int]]) -> Job[list[Metric | Lines]]:
    counts: dict[tuple[str], int] = {}
    current, oldest, leaders, replicas, in_sync, under = columns = [list[str]() for _ in _OF_PARTITIONS]
    seen = 0
    for topic, size, rows in topics:
        counts[(topic,)] = size
        end_of = ends[topic] = {}
        for row in rows:
            labels = f'{{partition="{row.partition}",topic="{escaped(topic)}"}}'
            if row.end is not None:
                end_of[row.partition] = row.end
                current.append(f"kafka_topic_partition_current_offset{labels} {row.end}\n")
                oldest.append(f"kafka_topic_partition_oldest_offset{labels} {row.start}\n")
            leaders.append(f"kafka_topic_partition_leader{labels} {row.leader}\n")
            replicas.append(f"kafka_topic_partition_replicas{labels} {row.replicas}\n")
            in_sync.append(f"kafka_topic_partition_in_sync_replica{labels} {row.in_sync}\n")
            is_under = int(row.in_sync < row.replicas)
            under.append(f"kafka_topic_partition_under_replicated_partition{labels} {is_under}\n")
            seen += 1
            if not seen % PARTITIONS_AT_ONCE:
                yield None
    found: list[Metric | Lines] = [
        Metric("kafka_topic_partitions", GAUGE, "Number of partitions for this Topic", counts, ("topic",))
    ]
    for (name, about), lines in zip(_OF_PARTITIONS.items(), columns, strict=True):
        found.append(Lines(name, GAUGE, about, lines))
    return found


def _groups(
    cluster_id: str, groups: Iterable[GroupRow], ends: Mapping[str, Mapping[int, int]], note_lag: NoteLag
) -> Job[list[Metric | Lines]]:
    offsets, lags, offset_sums, lag_sums, members = columns = [list[str]() for _ in _OF_GROUPS]
    states: list[str] = []
    kinds = Counter({(kind,): 0 for kind in KAFKA_STATES})
    in_states = {kind: Counter({(state,): 0 for state in states}) for kind, states in KAFKA_STATES.items()}
    cluster, seen = escaped(cluster_id), 0
    for row in groups:
        group = escaped(row.group)
        kinds[(row.kind,)] += 1
        if row.kind in in_states:
            in_states[row.kind][(row.state,)] += 1
        number = STATES.index(row.state) if row.state in STATES else 0
        states.append(f'kafka_consumergroup_group_state{{cluster_name="{cluster}",group="{group}"}} {number}\n')
        members.append(f'kafka_consumergroup_members{{consumergroup="{group}"}} {row.members}\n')
        for topic, committed in row.offsets:
            end_of, name = ends.get(topic, {}), escaped(topic)
            head, tail = f'{{consumergroup="{group}",partition="', f'",topic="{name}"}}'
            offset_sum = lag_sum = 0
            for index, offset, lag in committed:
                offsets.append(f"kafka_consumergroup_current_offset{head}{index}{tail} {offset}\n")
                offset_sum += offset
                if lag is None and index in end_of:
                    lag = max(end_of[index] - offset, 0)
                if lag is not None:
                    lags.append(f"kafka_consumergroup_lag{head}{index}{tail} {lag}\n")
                    lag_sum += lag
                    if lag:
                        note_lag(row.group, topic, index, offset, lag)
                seen += 1
                if not seen % PARTITIONS_AT_ONCE:
                    yield None
            whole = f'{{consumergroup="{group}",topic="{name}"}}'
            offset_sums.append(f"kafka_consumergroup_current_offset_sum{whole} {offset_sum}\n")
            lag_sums.append(f"kafka_consumergroup_lag_sum{whole} {lag_sum}\n")
        seen += 1
        if not seen % PARTITIONS_AT_ONCE:
            yield None
    found: list[Metric | Lines] = [
        Lines(name, GAUGE, about, lines) for (name, about), lines in zip(_OF_GROUPS.items(), columns, strict=True)
    ]
    about = "The state: " + ", ".join(f"{number} {name}" for number, name in enumerate(STATES)) + "."
    found.append(Lines("kafka_consumergroup_group_state", GAUGE, about, states))
    prefix = "kafka_server_group_coordinator_metrics"
    found.append(Metric(f"{prefix}_group_count", GAUGE, "Groups by type.", kinds, ("protocol",)))
    for kind, counts in in_states.items():
        about = f"Groups of the type {kind} by state."
        found.append(Metric(f"{prefix}_{kind}_group_count", GAUGE, about, counts, ("state",)))
    return found
