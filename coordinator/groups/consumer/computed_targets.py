"""The core's work for consumer groups after a load, at its end, and when targets were computed outside of it."""

from __future__ import annotations

from typing import Final, cast

from muster.coordinator.groups.common.state import Step
from muster.coordinator.groups.consumer import history, leave, target
from muster.coordinator.groups.consumer.commands import AnswersDue, AssignmentComputed
from muster.coordinator.groups.consumer.group import NO_ASSIGNMENT, ConsumerGroup, consumer_group
from muster.coordinator.groups.consumer.heartbeat import response_to
from muster.coordinator.groups.consumer.member import ConsumerMember
from muster.coordinator.groups.consumer.prepared_target import PreparedTarget
from muster.coordinator.groups.consumer.reconcile import maybe_reconcile, update_revocation_timer
from muster.coordinator.state_machine.interface import Command, Reply
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def loaded(step: Step, group: ConsumerGroup) -> None:
    """Give each member a fresh session after the load. The timeout is the group's, even for classic members."""
    due_ms = step.now.mono_ms + step.state.configs.of(group.group_id).session_timeout_ms
    for member in group.members.values():
        step.state.deadlines.set(member, due_ms)
        update_revocation_timer(step, member)


def unload(group: ConsumerGroup, error_code: int) -> list[Reply]:
    """The replies to waiting members when the core is given up."""
    replies: list[Reply] = [
        (command.respond, ConsumerGroupHeartbeatResponse(0, error_code)) for command in group.waiting
    ]
    group.waiting.clear()
    return replies


TOPICS_AT_ONCE: Final = 1_000
"""The most topics of targets and answers in one iteration of the event loop, which takes some 10 ms."""
NAMES_AS_A_TOPIC: Final = 20
"""This many names in a subscription count as one topic, because an answer needs a look-up of each name."""


def computed(step: Step, command: AssignmentComputed) -> None:
    """Put computed targets in force, and answer the members that waited for them."""
    wanted = command.wanted
    prepared_target: PreparedTarget | None = command.prepared_target
    group, topics = _waited_for(step, wanted.group_id, wanted.waiting), 0
    if group is not None and group.computing_epoch == wanted.epoch:
        group.computing_epoch = NO_ASSIGNMENT
        group.failed_epoch = wanted.epoch if prepared_target is None else NO_ASSIGNMENT
        if prepared_target is None:
            history.target_failed(step, group, wanted.epoch, wanted.assignor)
        elif group.assignment_epoch > wanted.epoch or target.is_too_early(step, group, wanted):
            # The group was empty meanwhile, or has too many newcomers.
            target.bring_up_to_date(step, group, since_ms=wanted.since_ms)
            if group.computing_epoch:
                return  # the members wait for the next targets
        else:
            topics = target.apply(step, group, wanted, prepared_target)
            # The group may have changed during the computation.
            target.bring_up_to_date(step, group)
    _answer_some(step, AnswersDue(wanted.group_id, wanted.waiting, len(wanted.waiting)), TOPICS_AT_ONCE - topics)


def answer(step: Step, due: AnswersDue) -> None:
    """Answer waiting members, at least one, until the answers have `TOPICS_AT_ONCE` topics."""
    _answer_some(step, due, TOPICS_AT_ONCE)


def _waited_for(step: Step, group_id: str, waiting: list[Command]) -> ConsumerGroup | None:
    group = consumer_group(step.state, group_id)
    return group if group is not None and group.waiting is waiting else None


def _answer_some(step: Step, due: AnswersDue, topics: int) -> None:
    waiting, left_out = due.waiting, []
    later = None if step.state.helpers is None else step.state.helpers.later
    group, count = _waited_for(step, due.group_id, waiting), min(due.count, len(waiting))
    for number, one in enumerate(waiting[:count]):
        if later is not None and topics <= 0:
            del waiting[:number]
            step.reply(later, AnswersDue(due.group_id, waiting, count - number))
            break
        request = cast("ConsumerGroupHeartbeatRequest", one.request)
        member_id = request.member_id or getattr(one, "drawn_id", "")
        member = None if group is None else group.members.get(member_id)
        step.reply(one.respond, _answer(step, request, group, member))
        if member is not None:
            topics -= len(member.position.assigned) + 1 + len(member.description.topics) // NAMES_AS_A_TOPIC
            if not member.position.epoch and not member.position.assigned:
                left_out.append(member)
    else:
        del waiting[:count]
    if group is not None and left_out:
        leave.forget(step, group, left_out)


def _answer(
    step: Step, request: ConsumerGroupHeartbeatRequest, group: ConsumerGroup | None, member: ConsumerMember | None
) -> Message:
    if group is None or member is None:
        message = f"Member {request.member_id} is not a member of group {request.group_id}."
        return ConsumerGroupHeartbeatResponse(0, ErrorCode.UNKNOWN_MEMBER_ID, message)
    had = member.position.assigned
    maybe_reconcile(step, group, member, request, is_subscription_new=False)
    if not member.position.epoch:
        return leave.no_targets()
    return response_to(step, request, member, had)
