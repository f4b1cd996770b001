"""Regular expressions by which members subscribe.

The topics of each are found elsewhere, and the result is a command. Kafka: maybeUpdateRegularExpressions,
handleRegularExpressionsResult.
"""

from __future__ import annotations

from typing import Final

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.step import Step
from muster.coordinator.groups.consumer import history, records
from muster.coordinator.groups.consumer.checks import Refused
from muster.coordinator.groups.consumer.commands import ConsumerHeartbeatCommand, TopicsFound, TopicsWanted
from muster.coordinator.groups.consumer.existing import group_hash
from muster.coordinator.groups.consumer.group import ConsumerGroup, Resolved, consumer_group
from muster.coordinator.groups.consumer.member import Description
from muster.coordinator.state_machine.interface import Client
from muster.protocol.errors import ErrorCode

AGAIN_MS: Final = 10_000
"""The minimum time between two searches for the patterns of a group."""
NEVER_SEARCHED: Final = -(2**63)


def check(group: ConsumerGroup, before: Description, said: Description, command: ConsumerHeartbeatCommand) -> None:
    """A pattern that is new to the group must be a valid expression. Raises Refused."""
    pattern = said.pattern
    if pattern and pattern != before.pattern and pattern not in group.patterns and command.pattern_error is not None:
        raise Refused(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {command.pattern_error}.",
        )


def update(
    step: Step, group: ConsumerGroup, before: Description, said: Description, client: Client
) -> tuple[bool, bool]:
    """Update the patterns after a member's description was recorded.

    A pattern without members is forgotten. When it is due, all patterns are searched for. Returns whether the member's
    pattern has changed, and whether its topics are known then.
    """
    resolved_before = len(group.resolved)
    searched = next(iter(group.resolved.values()), Resolved((), 0, NEVER_SEARCHED))
    old, new = before.pattern, said.pattern
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


def found(step: Step, command: TopicsFound) -> None:
    """The topics of a group's patterns are found: record them, with a new epoch when they have changed."""
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
        history.bumped(step, group, cause, before=topics_before, state=state)
