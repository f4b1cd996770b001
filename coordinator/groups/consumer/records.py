"""The records of a consumer group in `__consumer_offsets`, as in Kafka 4.4. `replay` applies the records to the state.

The bytes of a record with thousands of topics are made with a few instructions for each topic. Rows of such a record
become messages only when they are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from struct import Struct
from typing import Any, Final, TypeVar

from muster.coordinator.groups.common import kafka_order
from muster.coordinator.groups.common.kafka_order import Tables, TargetRows
from muster.coordinator.groups.common.state import PackedRecord, Step, is_too_large, tombstone
from muster.coordinator.groups.consumer.member import (
    CurrentAssignment,
    Description,
    Position,
    Resolved,
    Row,
)
from muster.coordinator.state_machine.interface import Record
from muster.protocol.message import Message
from muster.protocol.messages.group_records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from muster.protocol.messages.group_records.consumer_group_member_metadata import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from muster.protocol.messages.group_records.consumer_group_metadata import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from muster.protocol.messages.group_records.consumer_group_partition_metadata import ConsumerGroupPartitionMetadataKey
from muster.protocol.messages.group_records.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from muster.protocol.messages.group_records.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from muster.protocol.messages.group_records.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from muster.protocol.records import OFFSETS, pack_key_value
from muster.protocol.wire import put_many, uv

FEW_TOPICS: Final = 500
"""The general encoder encodes records with at most this many topics."""
NO_TAGS: Final = b"\0"
_EPOCHS_TAG: Final = b"\x01\0"
"""The beginning of the tags of a row with epochs: one tagged field, with tag 0."""

M = TypeVar("M", bound=Message)


class LaterRows(Sequence[M]):
    """The rows of a message. `make` makes a row of the row's values when the row is read."""

    __slots__ = ("_make", "_values")

    def __init__(self, make: Any, values: Sequence[Sequence[Any]]) -> None:
        self._make = make
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, index: Any) -> Any:
        found = self._values[index]
        return LaterRows(self._make, found) if isinstance(index, slice) else self._make(*found)

    def __iter__(self) -> Iterator[M]:
        make = self._make
        return (make(*one) for one in self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # as of a list


def packed(key: Message, value: Message, parts: Iterable[bytes]) -> PackedRecord:
    """The record whose value, of version 0, has the bytes of these parts."""
    record = PackedRecord(key, value, 0)
    record.row = pack_key_value(OFFSETS.encode_key(key), b"".join((b"\0\0", *parts)))
    return record


def rows_with_epochs(assignment: Sequence[Row]) -> list[bytes]:
    """The bytes of an array of TopicPartitions of a ConsumerGroupCurrentMemberAssignmentValue."""
    ends: dict[tuple[Any, Any], bytes] = {}
    parts = [uv(len(assignment) + 1)]
    for topic_id, partitions, epochs in assignment:
        key = partitions, epochs
        end = ends.get(key)
        if end is None:
            end = ends[key] = b"".join((_numbers(partitions), _tagged(epochs)))
        parts += (topic_id, end)
    return parts


def rows_without_epochs(member_target: Sequence[tuple[bytes, tuple[int, ...]]]) -> list[bytes]:
    """The bytes of an array of TopicPartition of a ConsumerGroupTargetAssignmentMemberValue."""
    ends: dict[tuple[int, ...], bytes] = {}
    parts = [uv(len(member_target) + 1)]
    for topic_id, partitions in member_target:
        end = ends.get(partitions)
        if end is None:
            end = ends[partitions] = _numbers(partitions) + NO_TAGS
        parts += (topic_id, end)
    return parts


def _numbers(numbers: Sequence[int]) -> bytes:
    return uv(len(numbers) + 1) + put_many("i", len(numbers))(*numbers)


def _tagged(epochs: Sequence[int]) -> bytes:
    if not epochs:
        return NO_TAGS
    body = _numbers(epochs)
    return b"".join((_EPOCHS_TAG, uv(len(body)), body))


_put_head: Final = Struct(">iib").pack
"""Packs the epoch, the previous epoch and the state of a member."""
_VERSION: Final = 0
"""The version of the values of all records in this module."""
A_TOPIC: Final = 22
"""The most bytes of a topic in a target, without partitions: the topic id, the number of partitions, empty tags."""
ONE_BYTE: Final = 127
"""A text with fewer bytes than this has one byte for its length."""
A_TOPIC_WITH_EPOCHS: Final = 34
"""The most bytes of a topic in a current assignment with the tag of epochs, without partitions and epochs."""

# ---- the records


def member_metadata(group_id: str, member_id: str, description: Description) -> Record:
    """The record of a member's description."""
    classic = description.classic
    value = ConsumerGroupMemberMetadataValue(
        description.instance_id,
        description.rack_id,
        description.client_id,
        description.client_host,
        list(description.topics),
        description.pattern,
        description.rebalance_timeout_ms,
        description.assignor,
        None
        if classic is None
        else ClassicMemberMetadata(classic.session_timeout_ms, [ClassicProtocol(*one) for one in classic.protocols]),
    )
    return Record(ConsumerGroupMemberMetadataKey(group_id, member_id), value, _VERSION)


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """The record of a group's epoch, with the hash of the group's topics at that time."""
    return Record(ConsumerGroupMetadataKey(group_id), ConsumerGroupMetadataValue(epoch, metadata_hash), _VERSION)


def target(group_id: str, member_id: str, rows: TargetRows) -> Record:
    """The record of a member's target, with these rows in this order."""
    key = ConsumerGroupTargetAssignmentMemberKey(group_id, member_id)
    if len(rows) > FEW_TOPICS:
        later: LaterRows[TopicPartition] = LaterRows(TopicPartition, rows)
        parts = rows_without_epochs(rows)
        return packed(key, ConsumerGroupTargetAssignmentMemberValue(later), [*parts, NO_TAGS])
    made = [TopicPartition(*row) for row in rows]
    return Record(key, ConsumerGroupTargetAssignmentMemberValue(made), _VERSION)


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """The record of the epoch to which the targets of all members belong."""
    value = ConsumerGroupTargetAssignmentMetadataValue(epoch, timestamp_ms)
    return Record(ConsumerGroupTargetAssignmentMetadataKey(group_id), value, _VERSION)


def current(
    group_id: str,
    member_id: str,
    position: Position,
    assigned: Tables = kafka_order.NEW,
    revoking: Tables = kafka_order.NEW,
) -> Record:
    """The record of a member's position. `assigned` and `revoking`: the tables in which Kafka has the partitions."""
    has, gives_up = _rows(position.assigned, assigned), _rows(position.revoking, revoking)
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id)
    if len(has) + len(gives_up) > FEW_TOPICS:
        later: list[LaterRows[TopicPartitions]] = [LaterRows(TopicPartitions, rows) for rows in (has, gives_up)]
        head = _put_head(position.epoch, position.previous_epoch, position.state)
        parts = [head, *rows_with_epochs(has), *rows_with_epochs(gives_up), NO_TAGS]
        return packed(
            key,
            ConsumerGroupCurrentMemberAssignmentValue(position.epoch, position.previous_epoch, position.state, *later),
            parts,
        )
    value = ConsumerGroupCurrentMemberAssignmentValue(
        position.epoch,
        position.previous_epoch,
        position.state,
        [TopicPartitions(*row) for row in has],
        [TopicPartitions(*row) for row in gives_up],
    )
    return Record(key, value, _VERSION)


def _rows(assignment: CurrentAssignment, tables: Tables) -> list[Row]:
    sizes, others = tables.of_partitions, tables.of_others
    rows = [assignment[row] for row in kafka_order.topics([one[0] for one in assignment], tables)]
    for number, (topic_id, partitions, epochs) in enumerate(rows):
        if len(partitions) > 1:
            capacity = sizes.get(topic_id, others)
            if not kafka_order.is_ascending(partitions, capacity):
                order = kafka_order.partitions_since(partitions, epochs, capacity, tables.of_target.get(topic_id, ()))
                rows[number] = topic_id, _picked(partitions, order), _picked(epochs, order)
    return rows


def _picked(numbers: tuple[int, ...], order: Sequence[int]) -> tuple[int, ...]:
    return tuple([numbers[one] for one in order])


def regular_expression(group_id: str, pattern: str, resolved: Resolved) -> Record:
    """The record of the topics that a pattern matched."""
    value = ConsumerGroupRegularExpressionValue(list(resolved.topics), resolved.version, resolved.timestamp_ms)
    return Record(ConsumerGroupRegularExpressionKey(group_id, pattern), value, _VERSION)


def pattern_forgotten(group_id: str, pattern: str) -> Record:
    """The tombstone of a pattern that no member has any more."""
    return tombstone(ConsumerGroupRegularExpressionKey(group_id, pattern))


def no_partition_metadata(group_id: str) -> Record:
    """The tombstone of the record of partition counts, which Kafka wrote before 4.1, and later replaced by the hash."""
    return tombstone(ConsumerGroupPartitionMetadataKey(group_id))


def member_removed(group_id: str, member_id: str) -> list[Record]:
    """The tombstones of a member, in an order in which each first part of them is consistent."""
    return [
        tombstone(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id)),
        tombstone(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id)),
        tombstone(ConsumerGroupMemberMetadataKey(group_id, member_id)),
    ]


def record_keys(group_id: str, member_ids: Sequence[str], patterns: Collection[str]) -> list[Message]:
    """The keys in the order in which Kafka deletes them. `patterns`: the resolved patterns."""
    keys: list[Message] = [ConsumerGroupCurrentMemberAssignmentKey(group_id, one) for one in member_ids]
    keys += [ConsumerGroupTargetAssignmentMemberKey(group_id, one) for one in member_ids]
    keys.append(ConsumerGroupTargetAssignmentMetadataKey(group_id))
    keys += [ConsumerGroupMemberMetadataKey(group_id, one) for one in member_ids]
    in_order = kafka_order.timeline(patterns, kafka_order.slots_for(len(patterns)))
    keys += [ConsumerGroupRegularExpressionKey(group_id, one) for one in in_order]
    # As on Kafka, this key is included even when no such record exists.
    keys += [ConsumerGroupPartitionMetadataKey(group_id), ConsumerGroupMetadataKey(group_id)]
    return keys


def is_more_than_fits(step: Step, made: list[Record], times: int = 1) -> bool:
    """Whether the step's records, and the records `made` repeated `times` times, may not fit into one batch."""
    most = sum([_most_bytes(one) for one in made])
    return is_too_large(step, step.records, -(-most // 4), made, times)


def _most_bytes(record: Record) -> int:
    """An upper bound for a record's bytes. To count exactly, 10,000 topics would have to be packed, in 15 ms."""
    if type(record) is PackedRecord:
        return len(record.row)
    key, value = record.key, record.value
    count = _most_of_texts((getattr(key, "group_id", ""), getattr(key, "member_id", "")))
    if isinstance(value, ConsumerGroupMemberMetadataValue):
        count += _most_of_texts((value.client_id, value.client_host, value.instance_id or "", value.rack_id or ""))
        count += _most_of_texts((value.subscribed_topic_regex or "", value.server_assignor or ""))
        count += _most_of_texts(value.subscribed_topic_names)
        classic = value.classic_member_metadata
        if isinstance(classic, ClassicMemberMetadata):
            count += sum([4 * len(one.name) + len(one.metadata) + 32 for one in classic.supported_protocols])
    elif isinstance(value, ConsumerGroupTargetAssignmentMemberValue):
        count += sum([A_TOPIC + 4 * len(row.partitions) for row in value.topic_partitions])
    elif isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
        for rows in (value.assigned_partitions, value.partitions_pending_revocation):
            count += sum([A_TOPIC_WITH_EPOCHS + 8 * len(row.partitions) for row in rows])
    elif isinstance(value, ConsumerGroupRegularExpressionValue):
        count += _most_of_texts((getattr(key, "regular_expression", ""),)) + _most_of_texts(value.topics)
    return count


def _most_of_texts(texts: Collection[str]) -> int:
    """An upper bound for the bytes of these texts with their lengths. Outside ASCII a character may have four bytes."""
    count, longest = sum(map(len, texts)), max(map(len, texts), default=0)
    if all(map(str.isascii, texts)):
        return count + (1 if longest < ONE_BYTE else 3) * len(texts)
    return 4 * count + 3 * len(texts)
