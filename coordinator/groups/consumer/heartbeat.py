"""ConsumerGroupHeartbeat: a member joins, stays, changes its subscription, follows its target, or leaves.

Nearly all heartbeats are of members that have reached their targets, in groups without changes: `SteadyMember` answers
these.

"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from sys import intern
from typing import Final, NamedTuple

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.group import Group
from muster.coordinator.groups.common.records import tombstones
from muster.coordinator.groups.common.state import State, Step
from muster.coordinator.groups.consumer import checks, history, kafka_order, leave, reconcile, records, target, topics
from muster.coordinator.groups.consumer.assignments import NOTHING, CurrentAssignment, same_partitions
from muster.coordinator.groups.consumer.checks import Refused
from muster.coordinator.groups.consumer.commands import ConsumerHeartbeatCommand
from muster.coordinator.groups.consumer.group import ConsumerGroup, consumer_group
from muster.coordinator.groups.consumer.member import (
    LEAVING,
    NOBODY,
    REVOCATION,
    START,
    UNREVOKED_PARTITIONS,
    ConsumerMember,
    Description,
    start_timer,
    stop_timer,
    trigger_of,
)
from muster.coordinator.groups.consumer.reconcile import Target
from muster.coordinator.groups.consumer.records import FEW_TOPICS, LaterRows
from muster.coordinator.groups.consumer.topics import existing_names, existing_topics, group_hash, has_same_hash
from muster.coordinator.state_machine.deadlines import NEVER
from muster.coordinator.state_machine.interface import Client, Record
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)


def handle(
    step: Step, command: ConsumerHeartbeatCommand, request: ConsumerGroupHeartbeatRequest, group: Group | None
) -> None:
    """Answer a ConsumerGroupHeartbeat."""
    try:
        checks.check_request(request, command.version, step.state.settings)
        response: ConsumerGroupHeartbeatResponse | None
        if request.member_epoch <= LEAVING:
            response = leave.answer(step, request, group)
        else:
            response = _beat(step, command, request, group)
    except Refused as refused:
        response = ConsumerGroupHeartbeatResponse(0, refused.error, refused.message)
        step.refused(command, request.group_id, refused.error, request.member_id, request.instance_id)
    if response is not None:
        step.reply(command.respond, response)


def check_names(step: Step, names: Collection[str], besides: int = 0) -> None:
    """Refuse names that are too many for a subscription, or too long for a batch (`check_fits`).

    This is checked before anything is made of the names. `besides`: bytes of the record without the names. Raises
    Refused.
    """
    if len(names) > FEW_NAMES or sum(map(len, names)) > step.most_bytes:
        distinct = distinct_names(names)
        if distinct is None or 3 * (besides + sum(map(len, distinct)) + len(distinct)) > step.most_bytes:
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, None)


def distinct_names(names: Iterable[str]) -> dict[str, None] | None:
    """Each name once, in their order. None when a member may not subscribe to so many; then not all were read."""
    found: dict[str, None] = {}
    rest = iter(names)
    while piece := dict.fromkeys(islice(rest, MOST_NAMES)):
        found |= piece
        if len(found) > MOST_NAMES:
            return None
    return found


def ascending_names(names: Iterable[str]) -> list[str]:
    """Each name once, ascending, as in a member's description. At most one name more than allowed is returned."""
    return sorted(islice(distinct_names(names) or dict.fromkeys(names), MOST_NAMES + 1))


def check_bytes(step: Step, protocols: Iterable[tuple[str, bytes]]) -> int:
    """As `check_names`, for the metadata of a classic member, before the metadata is read. Returns the number of its
    bytes.
    """
    count = sum([len(metadata) for _, metadata in protocols])
    if 3 * count > step.most_bytes:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    return count


def check_fits(step: Step, made: Record) -> None:
    """The description of a member must fit into a batch with its other records. Raises Refused."""
    if records.is_more_than_fits(step, [made], 3):
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, None)


FEW_NAMES: Final = 10_000
"""Up to this many topics with usual names are encoded in some milliseconds."""
MOST_NAMES: Final = 20_000
"""Topics that a member may subscribe to by name. By the size of a record, names of 16 characters allow no more."""


class _Sender(NamedTuple):
    """The sender: a member, or None for a new one, and the static member that it replaces."""

    member_id: str
    member: ConsumerMember | None
    replaced: ConsumerMember | None

    @property
    def said(self) -> Description:
        """Its description before this request, or that of its predecessor."""
        one = self.member or self.replaced
        return NOBODY if one is None else one.said


def _beat(
    step: Step, command: ConsumerHeartbeatCommand, request: ConsumerGroupHeartbeatRequest, present: Group | None
) -> ConsumerGroupHeartbeatResponse | None:
    group = _group(present, request)
    sender = _sender(group, command, request, step.state.settings.group_consumer_max_size)
    before, is_alike = sender.said, group.is_alike
    check_names(step, request.subscribed_topic_names or ())
    said = describe(before, request, command.client)
    at = START if sender.member is None else sender.member.at
    owned = request.topic_partitions
    if said is not before:
        topics.check_pattern(group, before, said, command)
    reconcile.check_known_state(at, owned)
    if said is not before:
        check_fits(step, records.member_metadata(request.group_id, sender.member_id, said))
    # From here on nothing is refused.
    if present is not group:
        if present is not None:  # an empty classic group is replaced
            step.record_all(tombstones(present))
        step.event(events.GROUP_CREATED, request.group_id)
    if sender.replaced is not None:
        replace(step, group, sender.replaced, sender.member_id)
    if said is not before:
        records.record_member(step, request.group_id, sender.member_id, said)
    group = _there(step, request.group_id)
    member = group.members[sender.member_id]
    has_news = are_topics_others(step, group, before)
    is_pattern_new, is_known = topics.update_patterns(step, group, before, said, command.client)
    is_subscription_new = said.topics != before.topics
    is_new = sender.member is sender.replaced is None
    if is_new:
        history.joined(step, group, member)
    cause = events.NEW_MEMBER if is_new else events.SUBSCRIPTION_CHANGED
    epoch = group.epoch
    refresh(step, group, bump=is_subscription_new or is_known, has_news=has_news, cause=cause, member=member)
    if group.epoch != epoch:
        is_alike = group.counts_alike()
    newcomer = None if sender.member is not None else sender.member_id
    target.bring_up_to_date(step, group, said.assignor, newcomer, is_alike=is_alike)
    had = member.at.assigned
    state = step.state
    state.deadlines.set(member, step.now.mono_ms + state.configs.of(group.group_id).session_timeout_ms)
    if group.failed_epoch == group.epoch > group.assignment_epoch and member.at.epoch:
        # The assignor has failed. It was asked again just now, if it was time.
        return ConsumerGroupHeartbeatResponse(0, ErrorCode.UNKNOWN_SERVER_ERROR)
    follow(step, group, member, request, is_subscription_new=is_subscription_new or is_pattern_new)
    if not member.at.epoch:
        if not group.computing_epoch:  # The first targets do not fit into a batch.
            return leave.left_out(step, group, member)
        group.waiting.append(command)
        return None
    return response_to(step, request, member, had)


def response_to(
    step: Step, request: ConsumerGroupHeartbeatRequest, member: ConsumerMember, had: CurrentAssignment
) -> ConsumerGroupHeartbeatResponse:
    """The answer to a member of the group. It has the owned partitions if the member cannot know them."""
    at = member.at
    is_full = (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )
    assignment = None
    if not request.member_epoch or is_full or not same_partitions(had, at.assigned):
        assignment = Assignment(_rows(at.assigned))
    interval_ms = step.state.configs.of(request.group_id).heartbeat_interval_ms
    return ConsumerGroupHeartbeatResponse(0, 0, None, member.member_id, at.epoch, interval_ms, assignment)


def _rows(held: CurrentAssignment) -> Sequence[ConsumerGroupHeartbeatResponseTopicPartitions]:
    if len(held) > FEW_TOPICS:  # they are made where they are encoded
        return LaterRows(_row, held)
    return [ConsumerGroupHeartbeatResponseTopicPartitions(row[0], row[1]) for row in held]


def _row(topic_id: bytes, partitions: Sequence[int], _: object) -> ConsumerGroupHeartbeatResponseTopicPartitions:
    return ConsumerGroupHeartbeatResponseTopicPartitions(topic_id, partitions)


def _group(present: Group | None, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroup:
    """The group, or a new one without records. Raises Refused."""
    if isinstance(present, ConsumerGroup):
        return present
    is_joining = request.member_epoch == 0
    group_id = request.group_id
    if present is None:
        if not is_joining:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
    elif not is_joining or present.kind != "classic" or present.validate_delete():
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    return ConsumerGroup(intern(group_id))


def _there(step: Step, group_id: str) -> ConsumerGroup:
    group = step.state.groups[group_id]
    assert isinstance(group, ConsumerGroup)
    return group


def _sender(
    group: ConsumerGroup, command: ConsumerHeartbeatCommand, request: ConsumerGroupHeartbeatRequest, most: int
) -> _Sender:
    checks.check_size(group, request.member_id, most)
    member_id, instance_id, epoch = request.member_id or command.drawn_id, request.instance_id, request.member_epoch
    if epoch == 0:
        there = None if instance_id is None else group.static_member(instance_id)
        if there is None:
            return _Sender(member_id, group.members.get(member_id), None)
        if there.said.classic is None:
            checks.check_released(there, member_id, instance_id or "")
        return _Sender(member_id, None, there)
    if instance_id is None:
        member = checks.known_member(group, member_id)
    else:
        member = checks.known_static_member(group, member_id, instance_id)
    checks.check_epoch(member, epoch, request.topic_partitions)
    return _Sender(member_id, member, None)


def describe(before: Description, request: ConsumerGroupHeartbeatRequest, client: Client) -> Description:
    """The new description of the member, or `before` itself when nothing has changed. A field that
    is not sent stays.
    """
    names = request.subscribed_topic_names
    pattern, timeout_ms = request.subscribed_topic_regex, request.rebalance_timeout_ms
    if (
        names is None
        and timeout_ms == -1
        and pattern is request.rack_id is request.server_assignor is None
        and request.instance_id in (None, before.instance_id)
        and before.client_id == client.client_id
        and before.client_host == client.host
        and before.classic is None
    ):
        return before  # nearly every heartbeat has no changes
    said = Description(
        before.instance_id if request.instance_id is None else request.instance_id,
        before.rack_id if request.rack_id is None else request.rack_id,
        client.client_id,
        client.host,
        before.topics if names is None else tuple(sorted(set(names))),
        before.pattern if pattern is None else pattern,
        before.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        before.assignor if request.server_assignor is None else request.server_assignor,
        None,
    )
    return before if said == before else said


def replace(step: Step, group: ConsumerGroup, old: ConsumerMember, member_id: str) -> None:
    """A static member gets a new id. It begins anew with its old partitions."""
    group_id, share = group.group_id, group.targets.get(old.member_id, NOTHING)
    said, at = old.said, old.at._replace(epoch=0, previous_epoch=0)
    step.record_all(records.member_removed(group_id, old.member_id))
    step.record(records.member_metadata(group_id, member_id, said))
    step.record(records.target(group_id, member_id, share))
    step.record(records.current(group_id, member_id, at))
    history.replaced(step, group, old, group.members[member_id])


def are_topics_others(step: Step, group: ConsumerGroup, before: Description) -> bool:
    """Whether a topic of the group has changed, now or before this request changed the description `before`.

    It is also true when the topics were not compared yet. Call this before patterns are forgotten.
    """
    image, known = step.state.image, group.hashed_topics
    if group.hashed_version == image.version:
        return False
    if known is None:
        return True
    now, then = image.by_name, known
    for names in (group.names, () if before.topics in group.subscriptions else before.topics):
        for name in {*existing_names(names, now), *existing_names(names, then)}:
            if now.get(name) is not then.get(name) and not has_same_hash(now.get(name), then.get(name)):
                return True
    group.hashed_version, group.hashed_topics = image.version, image.by_name
    return False


def refresh(
    step: Step, group: ConsumerGroup, *, bump: bool, has_news: bool, cause: str, member: ConsumerMember
) -> None:
    """Give the group a new epoch, if its subscriptions have changed (with cause and member), or its topics have.

    As on Kafka the hash is compared only if its topics may have changed (`are_topics_others`). So a forgotten pattern
    leaves its part of the hash behind. A change of topics of other groups does not reveal that.
    """
    if not bump and not has_news:
        return
    version = step.state.image.version
    metadata_hash = group_hash(group, step.state.image, step.state.settings.broker_rack)
    if bump or metadata_hash != group.metadata_hash:
        before = group.state_before(int(cause == events.NEW_MEMBER))
        step.record(records.group_epoch(group.group_id, group.epoch + 1, metadata_hash))
        if bump:
            history.bumped(step, group, cause, trigger_of(member.member_id, member), state=before)
        else:
            history.bumped(step, group, events.TOPICS_CHANGED, before=group.hashed_topics, state=before)
    if group.has_partition_metadata:
        step.record(records.no_partition_metadata(group.group_id))
    group.hashed_version, group.hashed_topics = version, step.state.image.by_name


def follow(
    step: Step,
    group: ConsumerGroup,
    member: ConsumerMember,
    request: ConsumerGroupHeartbeatRequest,
    *,
    is_subscription_new: bool,
) -> None:
    """Move a member one step nearer to its target."""
    at, epoch = member.at, group.assignment_epoch
    if not at.epoch and group.lacks_targets() and member.said.classic is None:
        return  # the member waits for the first targets
    if not is_subscription_new and member.is_reconciled_to(epoch):
        return
    subscribed = existing_topics(group, step.state.image).ids_of(group, member.said)
    aim = Target(member.member_id, epoch, group.targets.get(member.member_id, NOTHING), subscribed)
    owned = request.topic_partitions
    after = reconcile.next_position(group, at, aim, owned, is_subscription_new=is_subscription_new)
    if after == at:
        return
    if reconcile.is_waiting(at, aim, owned):
        tables = kafka_order.without_topics(at.assigned), kafka_order.without_topics(at.revoking)
    else:
        tables = kafka_order.stepped(at.assigned, after.assigned), kafka_order.stepped(at.assigned, after.revoking)
    records.record_current(step, group, member, after, *tables)
    history.moved(step, group, member, at)
    if member.said.classic is None:
        watch(step, member)


def watch(step: Step, member: ConsumerMember) -> None:
    """Start a member's rebalance timeout for its pending revocation, or stop the timeout."""
    deadlines = step.state.deadlines
    if member.at.state == UNREVOKED_PARTITIONS:
        start_timer(deadlines, member, REVOCATION, step.now.mono_ms + member.said.rebalance_timeout_ms)
    else:
        stop_timer(deadlines, member, REVOCATION)


class SteadyMember:
    """One member in one position, for repeated heartbeats without changes: a part of `heartbeat.handle` without
    look-ups.

    A test compares both. The description and the position of a member are values that are replaced as wholes. While
    they are the same objects, nothing in them has changed. A member's session runs while it is in its group and its
    core is active.
    """

    __slots__ = ("_at", "_configs", "_epoch", "_group", "_member", "_said", "_session_ms", "_state", "response")

    def __init__(self, state: State, group: ConsumerGroup, member: ConsumerMember) -> None:
        self._state, self._group, self._member = state, group, member
        self._at, self._said, self._epoch = member.at, member.said, group.epoch
        self._configs = state.configs.version
        times = state.configs.of(group.group_id)
        self._session_ms = times.session_timeout_ms
        self.response = ConsumerGroupHeartbeatResponse(
            0, 0, None, member.member_id, member.at.epoch, times.heartbeat_interval_ms, None
        )
        """The answer to each such heartbeat."""

    def heartbeat(self, mono_ms: int) -> bool:
        """Whether the answer is `response`, and only the deadline changes. If True, the deadline is moved.

        If False, nothing was done.
        """
        member, group, state = self._member, self._group, self._state
        if (
            member.at is not self._at
            or member.said is not self._said
            or group.epoch != self._epoch
            or group.assignment_epoch != self._epoch
            or group.hashed_version != state.image.version
            or group.patterns
            or state.configs.version != self._configs
            or member.due_ms == NEVER
        ):
            return False
        due_ms = mono_ms + self._session_ms
        if due_ms < member.queued_ms:
            return False
        member.due_ms = due_ms
        return True


def prepare_heartbeat(state: State, request: ConsumerGroupHeartbeatRequest, client: Client) -> SteadyMember | None:
    """The sender of such heartbeats. None when no member can be prepared now. Call it before the
    heartbeat is handled.
    """
    group = consumer_group(state, request.group_id)
    member = None if group is None else group.members.get(request.member_id)
    if group is None or member is None:
        return None
    at, said = member.at, member.said
    is_steady = (
        request.member_epoch == at.epoch == group.epoch
        and at.epoch > 0
        and member.is_reconciled_to(group.assignment_epoch)
        and group.assignment_epoch == group.epoch
        and group.hashed_version == state.image.version
        and not group.patterns
    )
    says_nothing = (
        request.subscribed_topic_names is request.subscribed_topic_regex is None
        and request.rack_id is request.server_assignor is None
        and request.rebalance_timeout_ms == -1
        and request.instance_id in (None, said.instance_id)
        and (said.client_id, said.client_host) == (client.client_id, client.host)
        and said.classic is None
    )
    return SteadyMember(state, group, member) if is_steady and says_nothing else None
