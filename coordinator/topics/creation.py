"""Decides on new topics and new partitions: returns the metadata records of the change, or refuses it. Pure.

Rules, error codes and sentences are those of Kafka's ReplicationControlManager. A partition's replicas are one log.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from muster.coordinator.topics import names
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.metadata_state import NO_LEADER, TOPIC_RESOURCE, MetadataState
from muster.coordinator.topics.replica_placer import Draw, replicas
from muster.coordinator.topics.settings import TopicSettings
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.metadata_records.config_record import ConfigRecord
from muster.protocol.messages.metadata_records.partition_record import PartitionRecord
from muster.protocol.messages.metadata_records.topic_record import TopicRecord

MAX_PARTITIONS_PER_REQUEST = 10_000
"""The most partitions that one request creates: Kafka's MAX_PARTITIONS_PER_BATCH."""
USE_DEFAULT = -1


def _first(_: int) -> int:
    return 0


@dataclass(eq=False)
class Home:
    """The places of replicas: brokers, which share one directory. `node_id`: the broker that adopts partitions."""

    node_id: int
    directory_id: bytes
    racks: Mapping[int, str | None]
    """The rack of each registered broker."""
    fenced: Collection[int] = ()
    draw: Draw = _first

    def place(self, partitions: int, factor: int) -> list[list[int]]:
        """Return the brokers of each new partition, the leader first. Raises `ApiError`."""
        return replicas(self.racks, self.fenced, partitions, factor, self.draw)


@dataclass(eq=False)
class NewTopic:
    """A topic to create, with assignments and configs as requested. A number of -1 asks for the default."""

    name: str
    topic_id: bytes
    partitions: int = USE_DEFAULT
    replication_factor: int = USE_DEFAULT
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)


def check_name(state: MetadataState, name: str) -> None:
    """Raises `ApiError`: INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS."""
    fault = names.name_fault(name)
    if fault is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {fault}")
    other = state.colliding_topic(name)
    if other is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")
    if name in state.topics:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")


def count_partitions(topic: NewTopic, default_partitions: int) -> int:
    """Return how many partitions `topic` gets when the request assigns no brokers.

    Raises `ApiError`: INVALID_REQUEST, INVALID_REPLICATION_FACTOR, INVALID_PARTITIONS.
    """
    if topic.assignments:
        for what, number in (("replication factor", topic.replication_factor), ("numPartitions", topic.partitions)):
            if number != USE_DEFAULT:
                sentence = f"A manual partition assignment was specified, but {what} was not set to -1."
                raise ApiError(ErrorCode.INVALID_REQUEST, sentence)
        return len(topic.assignments)
    if topic.replication_factor < USE_DEFAULT or topic.replication_factor == 0:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.partitions < USE_DEFAULT or topic.partitions == 0:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    return default_partitions if topic.partitions == USE_DEFAULT else topic.partitions


def check_brokers(brokers: Sequence[int], replication_factor: int | None, home: Home) -> None:
    """Check the brokers of one partition's replicas. Raises `ApiError`: INVALID_REPLICA_ASSIGNMENT."""
    if not brokers:
        raise _bad_assignment("The manual partition assignment includes an empty replica list.")
    previous: int | None = None
    for broker in sorted(brokers):
        if broker == previous:
            raise _bad_assignment(f"The manual partition assignment includes the broker {broker} more than once.")
        if broker not in home.racks:
            raise _bad_assignment(
                f"The manual partition assignment includes broker {broker}, but no such broker is registered."
            )
        previous = broker
    if replication_factor is not None and len(brokers) != replication_factor:
        raise _bad_assignment(
            f"The manual partition assignment includes a partition with {len(brokers)} replica(s), but this is not "
            f"consistent with previous partitions, which have {replication_factor} replica(s)."
        )


def _bad_assignment(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _check_assignments(topic: NewTopic, home: Home) -> None:
    seen: set[int] = set()
    checked: set[tuple[int, ...]] = set()
    factor: int | None = None
    for partition, brokers in topic.assignments:
        if partition in seen:
            raise _bad_assignment(f"Found multiple manual partition assignments for partition {partition}")
        place = tuple(brokers)
        if place not in checked:
            check_brokers(brokers, factor, home)
            checked.add(place)
        seen.add(partition)
        factor = len(brokers)
    if seen != {*range(len(seen))}:
        raise _bad_assignment("partitions should be a consecutive 0-based integer sequence")


def decide_creation(
    topic: NewTopic, home: Home, default_partitions: int, default_replication_factor: int
) -> list[Message]:
    """Return the records of a new topic whose name and configs were checked before. Raises `ApiError`."""
    partitions = count_partitions(topic, default_partitions)
    _check_assignments(topic, home)
    if topic.assignments:
        places = [list(brokers) for _, brokers in sorted(topic.assignments)]
    else:
        factor = topic.replication_factor
        places = home.place(partitions, default_replication_factor if factor == USE_DEFAULT else factor)
    records: list[Message] = [TopicRecord(name=topic.name, topic_id=topic.topic_id)]
    records += [
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=name, value=value)
        for name, value in topic.configs.items()
    ]
    records += _partition_records(topic.topic_id, 0, home, places)
    return records


def _partition_records(topic_id: bytes, first: int, home: Home, places: Sequence[Sequence[int]]) -> list[Message]:
    """Return the records of new partitions from the index `first` on. Records with equal replicas share their lists."""
    models: dict[tuple[int, ...], PartitionRecord] = {}
    records: list[Message] = []
    for index, place in enumerate(places, first):
        key = tuple(place)
        if key not in models:
            models[key] = partition_record(topic_id, index, home, place)
        one = models[key]
        records.append(
            PartitionRecord(index, topic_id, one.replicas, one.isr, (), (), one.leader, 0, 0, 0, one.directories)
        )
    return records


def partition_record(topic_id: bytes, index: int, home: Home, brokers: Sequence[int] = ()) -> PartitionRecord:
    """Return the record of a new partition on these brokers, or on this node. The first unfenced broker leads."""
    replicas = list(brokers) or [home.node_id]
    isr = [broker for broker in replicas if broker not in home.fenced]
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=replicas,
        isr=isr,
        leader=isr[0] if isr else NO_LEADER,
        leader_epoch=0,
        partition_epoch=0,
        directories=[home.directory_id] * len(replicas),
    )


def decide_growth(
    state: MetadataState, name: str, count: int, assignments: Sequence[Sequence[int]] | None, home: Home
) -> list[Message]:
    """Return the records that give a topic `count` partitions, on `assignments` or any brokers. Raises `ApiError`."""
    topic = state.topics.get(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    present = len(topic.partitions)
    if count == present:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if count < present:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {name} currently has {present} partition(s); {count} would not be an increase.",
        )
    more = count - present
    if more > MAX_PARTITIONS_PER_REQUEST:
        raise ApiError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    if assignments is not None and len(assignments) != more:
        raise _bad_assignment(
            f"Attempted to add {more} additional partition(s), but only {len(assignments)} assignment(s) were "
            "specified."
        )
    factor = len(topic.partitions[0].replicas) if present else 1
    for brokers in assignments or ():
        check_brokers(brokers, factor, home)
    places = home.place(more, min(factor, len(home.racks))) if assignments is None else assignments
    return _partition_records(topic.topic_id, present, home, places)


EVENTS_SEGMENT_BYTES = 16 * 1024 * 1024
"""The segment size of __group_events and __transaction_events: small, so that `retention.bytes` is nearly exact."""
EVENTS_FLUSH_MS = 1_000


def internal_topic(
    name: str, topic_id: bytes, settings: TopicSettings, source_partitions: int | None
) -> NewTopic | None:
    """Return the internal topic of that name, or None. `source_partitions`: the partitions of a history's source."""
    if name == names.GROUP_OFFSETS_TOPIC:
        partitions, segment_bytes = settings.offsets_topic_num_partitions, settings.offsets_topic_segment_bytes
        configs = {"compression.type": "producer", "cleanup.policy": "compact", "segment.bytes": str(segment_bytes)}
    elif name == names.GROUP_EVENTS_TOPIC:
        # the topic gets as many partitions as the offsets topic really has, whatever the setting is now
        partitions = source_partitions or settings.offsets_topic_num_partitions
        configs = _history(settings.muster_group_events_retention_ms, settings.muster_group_events_retention_bytes)
    elif name == names.TRANSACTION_EVENTS_TOPIC:
        partitions = source_partitions or settings.transaction_state_log_num_partitions
        configs = _history(
            settings.muster_transaction_events_retention_ms, settings.muster_transaction_events_retention_bytes
        )
    elif name == names.TRANSACTION_STATE_TOPIC:
        partitions = settings.transaction_state_log_num_partitions
        configs = {
            "compression.type": "uncompressed",
            "cleanup.policy": "compact",
            "segment.bytes": str(settings.transaction_state_log_segment_bytes),
            "min.insync.replicas": "1",
            "unclean.leader.election.enable": "false",
        }
    elif name == names.SHARE_STATE_TOPIC:
        partitions = settings.share_coordinator_state_topic_num_partitions
        configs = {
            "compression.type": "producer",
            "cleanup.policy": "delete",
            "segment.bytes": str(settings.share_coordinator_state_topic_segment_bytes),
            "min.insync.replicas": "1",
            "retention.ms": "-1",
        }
    else:
        return None
    return NewTopic(name, topic_id, partitions, 1, configs=configs)


def _history(retention_ms: int, retention_bytes: int) -> dict[str, str]:
    return {
        "compression.type": "producer",
        "cleanup.policy": "delete",
        "retention.ms": str(retention_ms),
        "retention.bytes": str(retention_bytes),
        "segment.bytes": str(EVENTS_SEGMENT_BYTES),
        "flush.ms": str(EVENTS_FLUSH_MS),
    }
