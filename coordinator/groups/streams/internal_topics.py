"""The internal topics of an application: their partition counts, and which of these topics are missing. Pure functions.

The application may set the count of a repartition topic. Else the topic has as many partitions as the largest source of
the subtopology that writes it. Topics of one copartition group get the same count. A changelog topic has one partition
for each task of its subtopology.

Kafka: InternalTopicManager, RepartitionTopics, CopartitionedTopicsEnforcer, ChangelogTopics.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from muster.assignors.java_order import sort_strings, string_order
from muster.coordinator.groups.common.image import TopicImage, TopicsImage
from muster.coordinator.groups.common.refusal import Refused
from muster.coordinator.groups.streams.topology import Topology, sources_of
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.group_records.streams_group_topology import Subtopology, TopicInfo

MISSING_SOURCE_TOPICS: Final = 1
INCORRECTLY_PARTITIONED_TOPICS: Final = 2
MISSING_INTERNAL_TOPICS: Final = 3
"""The status codes of topics in a heartbeat's answer."""
MAX_TASKS: Final = 20_000
"""The most tasks of an application. If one member has all of them, a heartbeat that moves them takes some 10 ms."""
MAX_NAMED: Final = 3
"""At most this many topics are named in a status."""


class InternalTopic(NamedTuple):
    """A topic that the application needs. `replication_factor` 0 is the broker's default."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


class ConfiguredSubtopology(NamedTuple):
    """A subtopology with its number of tasks, and with the partition counts of its internal topics."""

    tasks: int
    source_topics: tuple[str, ...]
    repartition_sources: Mapping[str, InternalTopic]
    repartition_sinks: tuple[str, ...]
    changelogs: Mapping[str, InternalTopic]


class Status(NamedTuple):
    """What keeps an application from its tasks: a status code of the heartbeat's answer, and a sentence."""

    code: int
    detail: str


class Configured(NamedTuple):
    """A topology with the partition counts of its topics."""

    topology_epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology]
    """The subtopologies by id, ascending. Empty if the topics are wrong."""
    missing: Mapping[str, InternalTopic]
    """The topics that have to be created, in Kafka's order."""
    status: Status | None
    """None when the topology is ready."""


class _WrongTopics(Exception):  # always caught, and turned into a status
    def __init__(self, code: int, detail: str) -> None:
        super().__init__(detail)
        self.status = Status(code, detail)


def configure(topology: Topology, image: TopicsImage) -> Configured:
    """Decide the partition counts of a topology's topics.

    Raises Refused with STREAMS_INVALID_TOPOLOGY when the counts cannot be decided, and with UNKNOWN_SERVER_ERROR for
    requests with which Kafka fails.
    """
    groups = [its for row in topology.subtopologies.values() for its in _copartition_groups(row)]
    try:
        _check_sources(topology, image)
        counts = _Counts(image.by_name)
        counts.set_all(_repartition_counts(topology, counts))
        for one in groups:
            counts.set_all(_copartitioned(topology, one, counts))
        counts.set_all(_changelog_counts(topology, counts))
        made = {
            name: _configured(topology.subtopologies[name], counts) for name in sort_strings(topology.subtopologies)
        }
        if sum([one.tasks for one in made.values()]) > MAX_TASKS:
            raise _invalid(f"The topology has more than {MAX_TASKS} tasks.")
        missing = _missing(made.values(), topology, image)
    except _WrongTopics as wrong:
        return Configured(topology.epoch, {}, {}, wrong.status)
    status = None
    if missing:
        status = Status(MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {_summary(missing)}")
    return Configured(topology.epoch, made, missing, status)


class _Counts:
    """The partition counts of topics: those of existing topics, else those that were decided."""

    def __init__(self, present: Mapping[str, TopicImage]) -> None:
        self._present = present
        self.decided: dict[str, int] = {}

    def set_all(self, counts: Mapping[str, int]) -> None:
        self.decided.update(counts)

    def of(self, name: str) -> int | None:
        topic = self._present.get(name)
        return self.decided.get(name) if topic is None else topic.partitions

    def known(self, name: str) -> int:
        topic = self._present.get(name)
        return self.decided[name] if topic is None else topic.partitions


def _failed() -> Refused:
    """The refusal of a request with which Kafka fails."""
    return Refused(ErrorCode.UNKNOWN_SERVER_ERROR, None)


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)


def _check_sources(topology: Topology, image: TopicsImage) -> None:
    rows = topology.subtopologies.values()
    missing = sort_strings({name for row in rows for name in row.source_topics if name not in image.by_name})
    if missing:
        raise _WrongTopics(MISSING_SOURCE_TOPICS, f"Source topics {_summary(missing)} are missing.")


def _copartition_groups(row: Subtopology) -> list[list[str]]:
    """The topics of each copartition group, in Kafka's order. The application names them by places in other lists."""
    sources, repartitions = row.source_topics, [topic.name for topic in row.repartition_source_topics]
    made = []
    for group in row.copartition_groups:
        places = [*group.source_topics, *group.repartition_source_topics]
        if min(places, default=0) < 0:
            raise _failed()
        try:
            names = [sources[one] for one in group.source_topics]
            made.append(string_order([*names, *[repartitions[one] for one in group.repartition_source_topics]]))
        except IndexError:
            raise _failed() from None
    return made


def _repartition_counts(topology: Topology, counts: _Counts) -> dict[str, int]:
    """The counts of repartition topics. A topic without a count gets it from the subtopologies that write it."""
    rows = topology.subtopologies.values()
    made = {topic.name: topic.partitions for row in rows for topic in row.repartition_source_topics if topic.partitions}
    is_needed = True
    while is_needed:
        is_needed = has_progress = False
        for row in rows:
            for sink in row.repartition_sink_topics:
                if sink in made:
                    continue
                found = [made[topic.name] for topic in row.repartition_source_topics if topic.name in made]
                found += [count for name in row.source_topics if (count := counts.of(name)) is not None]
                if found:
                    made[sink] = max(found)
                    has_progress = True
                else:
                    is_needed = True
        if is_needed and not has_progress:
            raise _invalid(
                "Failed to compute number of partitions for all repartition topics. There may be loops in the topology "
                "that cannot be resolved."
            )
    if any(topic.name not in made for row in rows for topic in row.repartition_source_topics):
        raise _invalid(
            "Failed to compute number of partitions for all repartition topics, because a repartition source topic is "
            "never used as a sink topic."
        )
    return made


def _copartitioned(topology: Topology, group: Collection[str], counts: _Counts) -> dict[str, int]:
    """The counts of the repartition topics of a copartition group."""
    repartitions = [topic for row in topology.subtopologies.values() for topic in row.repartition_source_topics]
    fixed = {topic.name for topic in repartitions if topic.partitions}
    mine = {name: counts.known(name) for name in group if name in {topic.name for topic in repartitions}}
    others = {name: counts.known(name) for name in group if name not in mine}
    if others:
        count = _same(others.values(), others)
    elif not mine:
        return {}
    elif fixed:
        # As on Kafka, the fixed topics of all groups are compared.
        count = _same([counts.known(name) for name in fixed], mine)
    else:
        count = max(mine.values())
    for name, its in mine.items():
        if name in fixed and its != count:
            raise _WrongTopics(
                INCORRECTLY_PARTITIONED_TOPICS,
                f"Number of partitions [{its}] of repartition topic [{name}] doesn't match number of partitions "
                f"[{count}] of the source topic.",
            )
    return dict.fromkeys(mine, count)


def _same(counts: Collection[int], named: Mapping[str, int]) -> int:
    if len(set(counts)) > 1:
        rows = ", ".join([f"{name}={named[name]}" for name in sort_strings(named)])
        raise _WrongTopics(
            INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{rows}}}]",
        )
    return next(iter(counts))


def _changelog_counts(topology: Topology, counts: _Counts) -> dict[str, int]:
    made = {}
    for row in topology.subtopologies.values():
        most = max([counts.known(name) for name in sources_of(row)], default=None)
        if most is None:
            raise _invalid(f"No source topics found for subtopology {row.subtopology_id}")
        made.update({topic.name: most for topic in row.state_changelog_topics})
    return made


def _configured(row: Subtopology, counts: _Counts) -> ConfiguredSubtopology:
    return ConfiguredSubtopology(
        max([counts.known(name) for name in sources_of(row)]),
        tuple(row.source_topics),
        _internal(row.repartition_source_topics, counts),
        tuple(row.repartition_sink_topics),
        _internal(row.state_changelog_topics, counts),
    )


def _internal(topics: Iterable[TopicInfo], counts: _Counts) -> dict[str, InternalTopic]:
    made: dict[str, InternalTopic] = {}
    for topic in topics:
        configs = {one.key: one.value for one in topic.topic_configs}
        partitions = topic.partitions or counts.decided.get(topic.name, 0)
        if len(configs) < len(topic.topic_configs) or partitions < 1 or topic.name in made:
            raise _failed()
        made[topic.name] = InternalTopic(topic.name, partitions, topic.replication_factor, configs)
    return made


def _missing(
    subtopologies: Iterable[ConfiguredSubtopology], topology: Topology, image: TopicsImage
) -> dict[str, InternalTopic]:
    """The internal topics that do not exist. Raises _WrongTopics if one exists with another partition count."""
    wanted = {}
    for row in subtopologies:
        for topics in (row.repartition_sources, row.changelogs):
            wanted.update({name: topics[name] for name in string_order(topics)})
    for name in topology.topics:
        present = image.by_name.get(name)
        expected = None if present is None else wanted.pop(name, None)
        if present is not None and expected is not None and present.partitions != expected.partitions:
            raise _WrongTopics(
                INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {expected.partitions}, found "
                f"{present.partitions}",
            )
    return {name: wanted[name] for name in string_order(wanted)}


def _summary(names: Collection[str]) -> str:
    named = ", ".join(list(names)[:MAX_NAMED])
    return named if len(names) <= MAX_NAMED else f"{named} and {len(names) - MAX_NAMED} additional topics"
