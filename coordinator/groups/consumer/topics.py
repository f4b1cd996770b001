"""The topics of a consumer group: which of them exist, their hash, and the topics that regular expressions match.

Kafka 4 keeps the hash of the topics in the record of the group's epoch (Utils.computeTopicHash, computeGroupHash). A
group may name a million topics that do not exist. So existing topics are found once for each set of names and each
image. The topics of regular expressions are found in the background, and the result is a command
(maybeUpdateRegularExpressions, handleRegularExpressionsResult).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from struct import Struct, pack
from typing import Final

from xxhash import xxh3_64, xxh3_64_intdigest

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.image import TopicImage, TopicsImage
from muster.coordinator.groups.common.state import Step
from muster.coordinator.groups.consumer import history, records
from muster.coordinator.groups.consumer.checks import Refused
from muster.coordinator.groups.consumer.commands import ConsumerHeartbeatCommand, TopicsFound, TopicsWanted
from muster.coordinator.groups.consumer.group import ConsumerGroup, consumer_group, topics_of
from muster.coordinator.groups.consumer.member import Description, Resolved
from muster.coordinator.state_machine.interface import Client
from muster.protocol.errors import ErrorCode

NO_HASH: Final = 0
MAX_WITH_RACKS: Final = 100_000
"""The racks of a topic with more partitions than this are not hashed. At this limit, the hash takes some 12 ms."""
_VERSION: Final = b"\0"
_SIGN: Final = 1 << 63
_TWO: Final = Struct("<ii")
FEW_PARTITIONS: Final = 64
"""The encoded numbers of at most this many partitions are cached for all topics."""
TOPICS_KEPT: Final = 4_096
"""The hash of a group with at most this many topics is cached, for 64 groups."""


def hash_of_topics(names: Iterable[str], image: TopicsImage, rack: str | None = None) -> int:
    """The hash of the existing topics among `names`. `rack`: the rack of this node, which is that of all replicas."""
    by_name = image.by_name
    there = sorted([name for name in names if name in by_name])  # as in Java, because names of topics are ASCII
    if not there:
        return NO_HASH
    known = [by_name[name].metadata_hash for name in there]
    if None in known:
        known = [hash_of_topic(by_name[name], rack) for name in there]
    hashes = pack(f"<{len(there)}q", *known)
    return _of_hashes(hashes) if len(there) <= TOPICS_KEPT else _signed(xxh3_64_intdigest(hashes))


@lru_cache(64)
def _of_hashes(hashes: bytes) -> int:
    # The hash is cached, because all members that join a group need the same hash.
    return _signed(xxh3_64_intdigest(hashes))


def hash_of_topic(topic: TopicImage, rack: str | None) -> int:
    """The hash of one topic, which is cached in the topic."""
    # A changed topic is a new object, and the rack never changes. So the hash is computed once for all groups.
    if topic.metadata_hash is None:
        topic.metadata_hash = topic_hash(topic, rack)
    return topic.metadata_hash


def topic_hash(topic: TopicImage, rack: str | None = None) -> int:
    """The hash of one topic."""
    topic_id, name, count = topic.topic_id, topic.name, topic.partitions
    units = name.encode("utf-16-le", "surrogatepass")
    # The bytes of each half of the id are reversed.
    head = _VERSION + topic_id[7::-1] + topic_id[:7:-1] + units + _TWO.pack(len(units) // 2, count)
    if rack is None or count > MAX_WITH_RACKS:
        numbers = _numbers(count) if count <= FEW_PARTITIONS else pack(f"<{count}i", *range(count))
        return _signed(xxh3_64_intdigest(head + numbers))
    # The rack's length is written before the text, and again after the text.
    behind = pack("<i", len(rack.encode("utf-16-le", "surrogatepass")) // 2) + _text(rack)
    hasher = xxh3_64(head)
    for one in range(count):
        hasher.update(pack("<i", one) + behind)
    return _signed(hasher.intdigest())


def has_same_hash(one: TopicImage | None, other: TopicImage | None) -> bool:
    """Whether two topics have the same hash, or neither topic exists."""
    if one is None or other is None:
        return one is other
    return (one.topic_id, one.partitions, one.name) == (other.topic_id, other.partitions, other.name)


@lru_cache(FEW_PARTITIONS + 1)
def _numbers(count: int) -> bytes:
    # The result is cached, because many topics of a group have the same number of partitions.
    return pack(f"<{count}i", *range(count))


def _text(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + pack("<i", len(units) // 2)


def _signed(value: int) -> int:
    return value - 2 * _SIGN if value & _SIGN else value


FEW_NAMES: Final = 100
"""The topic ids of a subscription are cached if it has more than this many names."""
SUBSCRIPTIONS_KEPT: Final = 8
"""Topic ids are cached for this many subscriptions of a group, because few are in use at a time."""


class ExistingTopics:
    """The existing topics of a group in one image. The names ascend; `partitions` is the total number of partitions."""

    __slots__ = ("_ids", "_image", "metadata_hash", "names", "names_version", "partitions")

    def __init__(self, group: ConsumerGroup, image: TopicsImage) -> None:
        by_name = image.by_name
        self._image = image
        self._ids: dict[tuple[int, str | None], tuple[Description, Collection[bytes]]] = {}
        self.names_version = group.names_version
        self.names = tuple(sorted(existing_names(group.names, by_name)))
        self.partitions = sum([by_name[name].partitions for name in self.names])
        self.metadata_hash: int | None = None

    def is_of(self, group: ConsumerGroup, image: TopicsImage) -> bool:
        """Whether the names of the group, and the image, are still those of this object."""
        return self._image is image and self.names_version == group.names_version

    def ids_of(self, group: ConsumerGroup, description: Description) -> Collection[bytes]:
        """The ids of the existing topics that a member with this description subscribes to."""
        by_name = self._image.by_name
        if len(description.topics) <= FEW_NAMES and not description.pattern:
            return {by_name[name].topic_id for name in description.topics if name in by_name}
        key = id(description.topics), description.pattern
        known = self._ids.get(key)
        if known is None:
            if len(self._ids) == SUBSCRIPTIONS_KEPT:
                self._ids.clear()
            ids = {by_name[name].topic_id for name in topics_of(description, group.resolved) if name in by_name}
            # the cached description keeps its tuple of names alive, so no other tuple gets the same id()
            known = self._ids[key] = description, ids
        return known[1]


def existing_names(names: Collection[str], by_name: Mapping[str, TopicImage]) -> list[str]:
    """The names of existing topics, found by a loop over the smaller collection."""
    if len(names) <= len(by_name):
        return [name for name in names if name in by_name]
    return [name for name in by_name if name in names]


def existing_topics(group: ConsumerGroup, image: TopicsImage) -> ExistingTopics:
    """The existing topics of a group."""
    found: ExistingTopics | None = group.existing
    if found is None or not found.is_of(group, image):
        found = group.existing = ExistingTopics(group, image)
    return found


def group_hash(group: ConsumerGroup, image: TopicsImage, rack: str | None) -> int:
    """The hash of the topics of a group, as in the record of the group's epoch."""
    found = existing_topics(group, image)
    if found.metadata_hash is None:
        found.metadata_hash = hash_of_topics(found.names, image, rack)
    return found.metadata_hash


AGAIN_MS: Final = 10_000
"""The minimum time between two searches for the patterns of a group."""
NEVER_SEARCHED: Final = -(2**63)


def check_pattern(
    group: ConsumerGroup, before: Description, description: Description, command: ConsumerHeartbeatCommand
) -> None:
    """Raise Refused for a pattern that is new to the group and not a valid expression."""
    if description.pattern != before.pattern and description.pattern not in group.patterns:
        check_new_pattern(description.pattern, command)


def check_new_pattern(pattern: str | None, command: ConsumerHeartbeatCommand) -> None:
    """Raise Refused for a pattern that is not a valid expression."""
    if pattern and command.pattern_error is not None:
        raise Refused(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {command.pattern_error}.",
        )


def update_patterns(
    step: Step, group: ConsumerGroup, before: Description, description: Description, client: Client
) -> tuple[bool, bool]:
    """After a member's description was recorded, forget a pattern without members, and search topics if a search is
    due. Returns whether the member's pattern has changed, and whether the pattern's topics are known.
    """
    resolved_before = len(group.resolved)
    searched = next(iter(group.resolved.values()), Resolved((), 0, NEVER_SEARCHED))
    old, new = before.pattern, description.pattern
    is_new_here = is_known = False
    if old != new:
        if old and old not in group.patterns:
            step.record(records.pattern_forgotten(group.group_id, old))
        if not new:
            is_known = bool(old)
        elif group.patterns[new] == 1:
            is_new_here = True
        else:
            is_known = new in group.resolved
    if group.patterns and not group.is_searching and step.now.wall_ms > searched.timestamp_ms + AGAIN_MS:
        refresh_ms = step.state.settings.group_consumer_regex_refresh_interval_ms
        if (
            is_new_here
            or len(group.patterns) != resolved_before
            or searched.version < step.state.image.version
            or step.now.wall_ms > searched.timestamp_ms + refresh_ms
        ):
            _search(step, group, client)
    return old != new, is_known


def _search(step: Step, group: ConsumerGroup, client: Client) -> None:
    helpers = step.state.helpers
    if helpers is None:
        return
    group.is_searching = True
    wanted = TopicsWanted(group.group_id, client, tuple(group.patterns), step.state.image)
    step.reply(helpers.search, wanted)


def apply_resolved_patterns(step: Step, command: TopicsFound) -> None:
    """Record the topics that a group's patterns matched, and a new epoch if these topics have changed."""
    group = consumer_group(step.state, command.wanted.group_id)
    if group is None:
        return
    group.is_searching = False
    if command.topics is None:
        return
    changed = False
    for pattern, names in command.topics.items():
        if pattern not in group.patterns:
            continue
        topics = tuple(sorted(names))
        before = group.resolved.get(pattern)
        resolved = Resolved(topics, command.wanted.image.version, step.now.wall_ms)
        made = records.regular_expression(group.group_id, pattern, resolved)
        if records.is_more_than_fits(step, [made]):
            continue
        had = () if before is None else before.topics
        changed |= topics != had and set(topics) != set(had)
        step.record(made)
    metadata_hash = group_hash(group, step.state.image, step.state.settings.broker_rack)
    if changed or metadata_hash != group.metadata_hash:
        state, topics_before = group.state, group.hashed_topics
        step.record(records.group_epoch(group.group_id, group.epoch + 1, metadata_hash))
        group.hashed_version, group.hashed_topics = step.state.image.version, step.state.image.by_name
        cause = events.PATTERN_RESOLVED if changed else events.TOPICS_CHANGED
        history.epoch_bumped(step, group, cause, before=topics_before, state=state)
