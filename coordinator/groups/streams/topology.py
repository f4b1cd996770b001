"""The topology of an application, as its members send it: subtopologies with their topics. Kafka: StreamsTopology."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from muster.assignors.java_order import string_order
from muster.coordinator.groups.common.refusal import Refused
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.group_records.streams_group_topology import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)
from muster.protocol.messages.streams_group_heartbeat import Topology as SentTopology

NO_TOPOLOGY: Final = -1
"""The topology epoch of a group or member without a topology."""


class Topology:
    """One topology. `subtopologies` are by id, in the order in which Kafka iterates over them.

    `of_source` is the id of the subtopology that reads a topic. `topics` are the topics that have to exist, in Kafka's
    order.
    """

    __slots__ = ("epoch", "of_source", "subtopologies", "topics")

    def __init__(self, epoch: int, subtopologies: Iterable[Subtopology]) -> None:
        """Raises Refused, as Kafka fails, when two subtopologies have one id."""
        rows = list(subtopologies)
        by_id = {row.subtopology_id: row for row in rows}
        if len(by_id) < len(rows):
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, None)
        self.epoch = epoch
        self.subtopologies: Mapping[str, Subtopology] = {name: by_id[name] for name in string_order(by_id)}
        self.of_source = {topic: row.subtopology_id for row in self.subtopologies.values() for topic in sources_of(row)}
        names = [name for row in self.subtopologies.values() for name in needed_by(row)]
        self.topics: tuple[str, ...] = tuple(string_order(names))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Topology):
            return NotImplemented
        return self.epoch == other.epoch and self.subtopologies == other.subtopologies

    __hash__ = None  # type: ignore[assignment]  # Python's way to say "unhashable"


def sources_of(row: Subtopology) -> list[str]:
    """The topics that a subtopology reads: its source topics, then its repartition topics."""
    return [*row.source_topics, *[topic.name for topic in row.repartition_source_topics]]


def needed_by(row: Subtopology) -> list[str]:
    """The topics that have to exist for a subtopology: those that it reads, then its changelogs."""
    return [*sources_of(row), *[topic.name for topic in row.state_changelog_topics]]


def value_of(sent: SentTopology) -> StreamsGroupTopologyValue:
    """The record of a topology that a member sent."""
    rows = [
        Subtopology(
            row.subtopology_id,
            row.source_topics,
            row.source_topic_regex,
            _topics(row.state_changelog_topics),
            row.repartition_sink_topics,
            _topics(row.repartition_source_topics),
            [
                CopartitionGroup(one.source_topics, one.source_topic_regex, one.repartition_source_topics)
                for one in row.copartition_groups
            ],
        )
        for row in sent.subtopologies
    ]
    return StreamsGroupTopologyValue(sent.epoch, rows)


def _topics(rows: Iterable[Any]) -> list[TopicInfo]:
    return [
        TopicInfo(
            row.name,
            row.partitions,
            row.replication_factor,
            [TopicConfig(one.key, one.value) for one in row.topic_configs],
        )
        for row in rows
    ]
