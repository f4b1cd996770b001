"""The committed offsets of all groups of one core. Knows a group by name only; changed only by records (see state)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from muster.protocol.messages.group_records.offset_commit import OffsetCommitValue

Partitions = Mapping[int, OffsetCommitValue]
"""Partition -> the last committed value, as in its record."""

_NO_TOPICS: Final[Mapping[str, Partitions]] = MappingProxyType({})


class Offsets:
    """Group id -> topic -> partition -> the value last committed."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, OffsetCommitValue]]] = {}

    def put(self, group_id: str, topic: str, partition: int, value: OffsetCommitValue) -> None:
        """A commit replaces what was there."""
        try:
            self._groups[group_id][topic][partition] = value
        except KeyError:  # the first one of the group, or of the topic
            self._groups.setdefault(group_id, {})[topic] = {partition: value}

    def discard(self, group_id: str, topic: str, partition: int) -> None:
        """A tombstone; harmless when nothing was there."""
        topics = self._groups.get(group_id)
        partitions = topics.get(topic) if topics is not None else None
        if topics is None or partitions is None or partitions.pop(partition, None) is None:
            return
        if not partitions:
            del topics[topic]
            if not topics:
                del self._groups[group_id]

    def get(self, group_id: str, topic: str, partition: int) -> OffsetCommitValue | None:
        """The value last committed, or None."""
        value: OffsetCommitValue | None = self._groups.get(group_id, _NO_TOPICS).get(topic, {}).get(partition)
        return value

    def topics(self, group_id: str) -> Mapping[str, Partitions]:
        """All committed offsets of a group, in the order of the first commits."""
        return self._groups.get(group_id, _NO_TOPICS)

    def of_topic(self, topic: str) -> Iterator[tuple[str, Partitions]]:
        """(group id, offsets) of every group that has committed offsets of this topic."""
        for group_id, topics in self._groups.items():
            if topic in topics:
                yield group_id, topics[topic]

    def is_unstable(self, group_id: str, topic: str, partition: int) -> bool:  # noqa: ARG002  # the place for pending transactional commits (KIP-447)
        """True while a transaction that has committed an offset of this partition is open. None can be yet."""
        return False
