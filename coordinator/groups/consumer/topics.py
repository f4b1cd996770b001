"""The topics of a consumer group: which of them exist, and the topics that regular expressions match.

A group may name a million topics that do not exist. So existing topics are found once for each set of names and each
image. The topics of regular expressions are found in the background, and the result is a command
(maybeUpdateRegularExpressions, handleRegularExpressionsResult).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.groups.common.refusal import Refused
from muster.coordinator.groups.common.state import Step
from muster.coordinator.groups.common.topic_hashes import existing_names, hash_of_topics
from muster.coordinator.groups.consumer import history, records
from muster.coordinator.groups.consumer.commands import ConsumerHeartbeatCommand, TopicsFound, TopicsWanted
from muster.coordinator.groups.consumer.group import ConsumerGroup, consumer_group, topics_of
from muster.coordinator.groups.consumer.member import Description, Resolved
from muster.coordinator.state_machine.interface import Client
from muster.protocol.errors import ErrorCode

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
