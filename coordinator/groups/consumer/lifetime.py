"""What happens to consumer groups besides requests and deadlines: they are loaded, given up, and get the targets that
were computed elsewhere.
"""

from __future__ import annotations

from typing import Final, cast

from muster.coordinator.groups.common.step import Step
from muster.coordinator.groups.consumer import history, leave, target
from muster.coordinator.groups.consumer.commands import AnswersDue, AssignmentComputed
from muster.coordinator.groups.consumer.group import NO_ASSIGNMENT, ConsumerGroup, consumer_group
from muster.coordinator.groups.consumer.heartbeat import follow, response_to, watch
from muster.coordinator.groups.consumer.member import ConsumerMember
from muster.coordinator.state_machine.interface import Command, Reply
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def loaded(step: Step, group: ConsumerGroup) -> None:
    """All records are replayed: each member has a fresh session, and its time to give up partitions anew; as on Kafka
    both are the group's also for classic members, until they send something.
    """
    due_ms = step.now.mono_ms + step.state.configs.of(group.group_id).session_timeout_ms
    for member in group.members.values():
        step.state.deadlines.set(member, due_ms)
        watch(step, member)


def unload(group: ConsumerGroup, error_code: int) -> list[Reply]:
    """The replies that it still owes."""
    replies: list[Reply] = [
        (command.respond, ConsumerGroupHeartbeatResponse(0, error_code)) for command in group.waiting
    ]
    group.waiting.clear()
    return replies


TOPICS_AT_ONCE: Final = 1_000
"""Topics in targets that are put in force, and in what members are told then, in one turn of the event loop: 10 ms.
Further members are answered in the next turns.
"""
NAMES_AS_A_TOPIC: Final = 20
"""Names that a member subscribes to, which are looked up for its answer, and count for one of these."""


def computed(step: Step, command: AssignmentComputed) -> None:
    """The targets are there: they are in force, and who has waited for them is answered."""
    wanted = command.wanted
    group, topics = _waited_for(step, wanted.group_id, wanted.waiting), 0
    if group is not None and group.computing_epoch == wanted.epoch:
        group.computing_epoch = NO_ASSIGNMENT
        group.failed_epoch = wanted.epoch if command.assignment is None else NO_ASSIGNMENT
        if command.assignment is None:
            history.failed(step, group, wanted.epoch, wanted.assignor)
        elif target.is_too_early(step, group, wanted):
            target.bring_up_to_date(step, group, since_ms=wanted.since_ms)
            if group.computing_epoch:
                return  # they wait for the next ones
        else:
            topics = target.apply(step, group, wanted, command.assignment, prepared_target=command.prepared_target)
            # the group may have gone on meanwhile
            target.bring_up_to_date(step, group)
    _answer_some(step, AnswersDue(wanted.group_id, wanted.waiting, len(wanted.waiting)), TOPICS_AT_ONCE - topics)


def answer(step: Step, due: AnswersDue) -> None:
    """Answer members that wait: at least one of them."""
    _answer_some(step, due, TOPICS_AT_ONCE)


def _waited_for(step: Step, group_id: str, waiting: list[Command]) -> ConsumerGroup | None:
    """The group for which they wait; None when it is gone."""
    group = consumer_group(step.state, group_id)
    return group if group is not None and group.waiting is waiting else None


def _answer_some(step: Step, due: AnswersDue, topics: int) -> None:
    """Answer those that came first, with so many topics in all; let the others be answered later."""
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
            topics -= len(member.at.assigned) + 1 + len(member.said.topics) // NAMES_AS_A_TOPIC
            if not member.at.epoch and not member.at.assigned:
                left_out.append(member)
    else:
        del waiting[:count]
    if group is not None and left_out:
        leave.forget(step, group, left_out)


def _answer(
    step: Step,
    request: ConsumerGroupHeartbeatRequest,
    group: ConsumerGroup | None,
    member: ConsumerMember | None,
) -> Message:
    if group is None or member is None:
        message = f"Member {request.member_id} is not a member of group {request.group_id}."
        return ConsumerGroupHeartbeatResponse(0, ErrorCode.UNKNOWN_MEMBER_ID, message)
    had = member.at.assigned
    follow(step, group, member, request, is_subscription_new=False)
    if not member.at.epoch:
        return leave.no_targets()
    return response_to(step, request, member, had)
