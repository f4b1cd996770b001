"""Scenarios of a group and its members."""

from __future__ import annotations

from typing import Final

from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from muster.protocol.messages.heartbeat import HeartbeatResponse
from muster.testcontrol.errors import CannotBeDone
from muster.testcontrol.faults.actions import Action, Call, Delay, Flow, Go, LoseAnswer
from muster.testcontrol.faults.matching import Match, Request
from muster.testcontrol.faults.when import every, times
from muster.testcontrol.scenarios.stage import Kind, Parameter, Scenario

_HEARTBEATS: Final = ("Heartbeat", "ConsumerGroupHeartbeat")
_GROUP: Final = Parameter("group", str, "the group; * for any characters", "*")
_ONE_GROUP: Final = Parameter("group", str, "the group")
_MEMBER: Final = Parameter("member", str, "its member id, group.instance.id or client id")
_BEAT_MS: Final = 100
"""The heartbeat interval of a zombie of the consumer protocol."""


async def slow_coordinator(scenario: Scenario) -> None:
    """Delay every request of the group."""
    scenario.rule(Match(api="groups", group=scenario.text("group")), Delay(scenario.number("ms")))
    scenario.step(f"requests of group {scenario.text('group')} wait for {scenario.number('ms')} ms")


async def lost_commit_answers(scenario: Scenario) -> None:
    """Do commits, and lose their answers."""
    match = Match(api=("OffsetCommit", "TxnOffsetCommit"), group=scenario.text("group"))
    scenario.rule(match, LoseAnswer(), times(scenario.number("times")))
    scenario.step(f"the next {scenario.number('times')} answers to commits are lost")


async def flapping_member(scenario: Scenario) -> None:
    """End a member's session again and again; the member joins again each time."""
    group_id, groups = scenario.text("group"), scenario.parts.groups
    wanted = _member(scenario)

    def expire(request: Request) -> None:
        for member_id in request.members:
            try:
                groups.expire(group_id, member_id)
            except CannotBeDone as refusal:
                scenario.step(f"not this time: {refusal}")
            else:
                scenario.step(f"the session of {member_id} ended")

    match = Match(api=_HEARTBEATS, group=group_id, client_id=wanted.client_id, predicate=wanted.is_in)
    scenario.rule(match, Call(expire), every(scenario.number("every")))
    scenario.step(f"at each {scenario.number('every')}th heartbeat of {wanted.name} its session ends")


async def zombie(scenario: Scenario) -> None:
    """Cut a member off from its coordinator without its knowledge. Its session ends, and the member continues."""
    group_id, wanted = scenario.text("group"), _member(scenario)
    match = Match(api=_HEARTBEATS, group=group_id, client_id=wanted.client_id, predicate=wanted.is_in)
    scenario.rule(match, _AllIsWell())
    scenario.step(f"{wanted.name} is told that all is well, and its coordinator hears nothing of it")
    if scenario.number("expire"):
        scenario.parts.groups.expire(group_id, wanted.member_id)
        scenario.step("its session has ended: others get its partitions")


async def rebalance_storm(scenario: Scenario) -> None:
    """Cause one rebalance after the other."""
    group_id, groups = scenario.text("group"), scenario.parts.groups

    async def storm() -> None:
        for number in range(scenario.number("times")):
            if number:
                await scenario.wait(scenario.number("every_ms"))
            try:
                groups.rebalance(group_id)
            except CannotBeDone as refusal:
                scenario.step(f"not this time: {refusal}")
            else:
                scenario.step("a rebalance was forced")

    scenario.go_on(storm)


class _AllIsWell(Action):
    """A heartbeat is answered as if the member were in order; the coordinator does not receive it."""

    name = "all-is-well"

    def before(self, flow: Flow, go: Go) -> None:
        """See `Action`."""
        request = flow.request.message
        if not isinstance(request, ConsumerGroupHeartbeatRequest):
            flow.answer(HeartbeatResponse())
            return
        epoch = request.member_epoch
        flow.answer(
            ConsumerGroupHeartbeatResponse(
                member_id=request.member_id, member_epoch=epoch, heartbeat_interval_ms=_BEAT_MS
            )
        )

    def words(self) -> str:
        """See `Action`."""
        return "told that all is well, without asking the coordinator"

    def to_json(self) -> dict[str, object]:
        """See `Action`."""
        return {"do": self.name}


class _Wanted:
    """The wanted member, under any of its names, also after it has joined anew with the same name."""

    def __init__(self, name: str, member_id: str, instance_id: str | None, client_id: str) -> None:
        self.name = name
        self.member_id = member_id
        self.client_id = client_id
        self._instance_id = instance_id
        self._by_client = name == client_id

    def is_in(self, request: Request) -> bool:
        """Whether a request is from this member. The request is from its client."""
        if self._by_client or self.member_id in request.members:
            return True
        return self._instance_id is not None and self._instance_id in request.instances


def _member(scenario: Scenario) -> _Wanted:
    """The wanted member. Raises CannotBeDone."""
    group_id, name = scenario.text("group"), scenario.text("member")
    found = scenario.parts.groups.describe(group_id).member(name)
    if found is None:
        raise CannotBeDone(f"group {group_id} has no member {name}, or more than one of that name")
    return _Wanted(name, found.member_id, found.instance_id, found.client_id)


KINDS: Final = (
    Kind(
        "slow-coordinator",
        "every request of a group waits before its coordinator looks at it",
        slow_coordinator,
        (_GROUP, Parameter("ms", int, "for so long", 500)),
    ),
    Kind(
        "lost-commit-answers",
        "commits are done, and the connection is cut before their answer",
        lost_commit_answers,
        (_GROUP, Parameter("times", int, "so many of them", 1)),
    ),
    Kind(
        "flapping-member",
        "the session of a member ends again and again, and it joins again",
        flapping_member,
        (_ONE_GROUP, _MEMBER, Parameter("every", int, "at each so-manieth of its heartbeats", 5)),
    ),
    Kind(
        "zombie",
        "a member is cut off from its coordinator without knowing it, and goes on with partitions that others get",
        zombie,
        (_ONE_GROUP, _MEMBER, Parameter("expire", int, "1: its session ends at once; 0: when its time is over", 1)),
    ),
    Kind(
        "rebalance-storm",
        "rebalance after rebalance",
        rebalance_storm,
        (_ONE_GROUP, Parameter("times", int, "so many", 10), Parameter("every_ms", int, "one in so long", 1_000)),
    ),
)
