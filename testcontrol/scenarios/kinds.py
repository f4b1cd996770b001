"""The scenarios, by name: failures of groups, of nodes and of the disk. Each `Kind` says what its function does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final

from muster.coordinator.system.jobs import to_its_end
from muster.coordinator.topics import leadership
from muster.coordinator.topics.leadership import Place
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC
from muster.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from muster.protocol.messages.heartbeat import HeartbeatResponse
from muster.protocol.messages.metadata_records.partition_change_record import PartitionChangeRecord
from muster.testcontrol.errors import CannotBeDone
from muster.testcontrol.faults.actions import Action, Call, Cut, Delay, Error, Flow, LoseAnswer, Proceed
from muster.testcontrol.faults.matching import Match, Request
from muster.testcontrol.faults.rule import every, times, until_released
from muster.testcontrol.machine import Disk
from muster.testcontrol.scenarios.scenario import Kind, Parameter, Scenario

_HEARTBEATS: Final = ("Heartbeat", "ConsumerGroupHeartbeat")
_GROUP: Final = Parameter("group", str, "the group; * for any characters", "*")
_ONE_GROUP: Final = Parameter("group", str, "the group")
_MEMBER: Final = Parameter("member", str, "its member id, group.instance.id or client id")
_BEAT_MS: Final = 100
"""The heartbeat interval of a zombie of the consumer protocol."""


async def slow_coordinator(scenario: Scenario) -> None:
    scenario.rule(Match(api="groups", group=scenario.text("group")), Delay(scenario.number("ms")))
    scenario.step(f"requests of group {scenario.text('group')} wait for {scenario.number('ms')} ms")


async def lost_commit_answers(scenario: Scenario) -> None:
    match = Match(api=("OffsetCommit", "TxnOffsetCommit"), group=scenario.text("group"))
    scenario.rule(match, LoseAnswer(), times(scenario.number("times")))
    scenario.step(f"the next {scenario.number('times')} answers to commits are lost")


async def flapping_member(scenario: Scenario) -> None:
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
    group_id, wanted = scenario.text("group"), _member(scenario)
    match = Match(api=_HEARTBEATS, group=group_id, client_id=wanted.client_id, predicate=wanted.is_in)
    scenario.rule(match, _AnswerWithoutError())
    scenario.step(f"{wanted.name} gets an answer without an error, and its coordinator gets no request")
    if scenario.number("expire"):
        scenario.parts.groups.expire(group_id, wanted.member_id)
        scenario.step("its session has ended: others get its partitions")


async def rebalance_storm(scenario: Scenario) -> None:
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

    scenario.run_in_background(storm)


@dataclass(frozen=True)
class _AnswerWithoutError(Action):
    """A heartbeat is answered as if the member were still in its group; the coordinator does not receive it."""

    name: ClassVar[str] = "all-is-well"

    def before(self, flow: Flow, proceed: Proceed) -> None:
        request = flow.request.message
        if not isinstance(request, ConsumerGroupHeartbeatRequest):
            flow.answer(HeartbeatResponse())
            return
        member_id, epoch = request.member_id, request.member_epoch
        flow.answer(
            ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=epoch, heartbeat_interval_ms=_BEAT_MS)
        )

    def words(self) -> str:
        return "answered without an error, and without the coordinator"


@dataclass(frozen=True)
class _Wanted:
    """The member that a scenario names, also after it has joined again with the same name."""

    name: str
    member_id: str
    instance_id: str | None
    client_id: str

    def is_in(self, request: Request) -> bool:
        """Whether a request, which is from the member's client, is from the member."""
        if self.name == self.client_id or self.member_id in request.members:
            return True
        return self.instance_id is not None and self.instance_id in request.instances


def _member(scenario: Scenario) -> _Wanted:
    group_id, name = scenario.text("group"), scenario.text("member")
    found = scenario.parts.groups.describe(group_id).member(name)
    if found is None:
        raise CannotBeDone(f"group {group_id} has no member {name}, or more than one of that name")
    return _Wanted(name, found.member_id, found.instance_id, found.client_id)


async def coordinator_moves(scenario: Scenario) -> None:
    parts, group_id = scenario.parts, scenario.text("group")
    topics = parts.server.topics
    if len(parts.nodes.ids()) > 1:
        place = Place(topics.state.topics[GROUP_OFFSETS_TOPIC], parts.server.routing.partition(group_id))
        was = place.state.leader
        others = [one for one in leadership.living(topics.state) if one != was]
        if not others:
            raise CannotBeDone("no other broker lives")
        target = next((one for one in others if one > was), others[0])
        live = leadership.living(topics.state)
        await _change_leader(scenario, place, lambda: leadership.change(place, target, live))
        scenario.step(f"broker {target} coordinates group {group_id}; it was {was}")
        return
    when = times(scenario.number("times"))
    scenario.rule(Match(api=("membership", "offsets"), group=group_id), Error("NOT_COORDINATOR"), when)
    scenario.step(f"the next {scenario.number('times')} requests of group {group_id} get NOT_COORDINATOR")


async def _change_leader(scenario: Scenario, place: Place, decide: Callable[[], PartitionChangeRecord | None]) -> None:
    """Have the cluster change a partition. Raises CannotBeDone."""
    server = scenario.parts.server
    try:
        await to_its_end(server.job_queue, server.cluster.changing(decide, place))
    except Exception as error:
        raise CannotBeDone(f"the leader could not be changed: {error}") from error


async def rolling_restart(scenario: Scenario) -> None:
    nodes = scenario.parts.nodes
    ids = nodes.ids()
    if len(ids) < 2:
        raise CannotBeDone("a rolling restart needs several brokers: start the server with more nodes")

    async def roll() -> None:
        for node_id in ids:
            await nodes.stop(node_id)
            scenario.step(f"broker {node_id} has stopped")
            await scenario.wait(scenario.number("pause_ms"))
            await nodes.return_(node_id)
            scenario.step(f"broker {node_id} has returned")

    scenario.run_in_background(roll)


async def network_cut(scenario: Scenario) -> None:
    given = scenario.text("nodes").replace(" ", "").split(",")
    known = scenario.parts.nodes.ids()
    if not all(one.isdigit() and int(one) in known for one in given):
        raise CannotBeDone(f"nodes is {scenario.text('nodes')!r}; some of {', '.join(map(str, known))} were expected")
    cut = tuple(map(int, given))
    scenario.rule(Match(node=cut), Cut("before"), until_released())
    for node in scenario.parts.server.nodes:
        if node.node_id in cut and node.limits is not None:
            # pending answers must not arrive either
            for connection in list(node.limits.connections):
                connection.abort()
    scenario.step(f"clients that ask broker {' or '.join(given)} are cut off")


async def unclean_leader(scenario: Scenario) -> None:
    topics, name, index = scenario.parts.server.topics, scenario.text("topic"), scenario.number("partition")
    partition = topics.open.partition(name, index)
    state = topics.state.topics.get(name)
    if partition is None or state is None:
        raise CannotBeDone(f"there is no partition {name}-{index}")
    log, place = partition.log, Place(state, index)
    kept = max(log.start_offset, log.end_offset - scenario.number("records"))
    lost = log.end_offset - kept
    log.truncate(kept)
    live, was = leadership.living(topics.state), place.state.leader
    leader = next((one for one in live if one != was), was)
    record = PartitionChangeRecord(partition_id=index, topic_id=state.topic_id, leader=leader)
    await _change_leader(scenario, place, lambda: record)
    scenario.step(f"broker {leader} leads {name}-{index} from offset {log.end_offset} on: {lost} records are lost")


async def _refuse_writes(error: int, words: str, scenario: Scenario) -> None:
    disk = scenario.parts.disk

    def mend() -> None:
        disk.error = None

    disk.error = error
    scenario.on_end(mend)
    scenario.step(words)


KINDS: Final = (
    Kind(
        "slow-coordinator",
        "every request of a group waits before its coordinator looks at it",
        slow_coordinator,
        (_GROUP, Parameter("ms", int, "how long, in ms", 500)),
    ),
    Kind(
        "lost-commit-answers",
        "commits are done, and the connection is cut before their answer",
        lost_commit_answers,
        (_GROUP, Parameter("times", int, "the number of lost answers", 1)),
    ),
    Kind(
        "flapping-member",
        "the session of a member ends again and again, and it joins again",
        flapping_member,
        (_ONE_GROUP, _MEMBER, Parameter("every", int, "the N in: at every N-th heartbeat of the member", 5)),
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
        (
            _ONE_GROUP,
            Parameter("times", int, "the number of rebalances", 10),
            Parameter("every_ms", int, "the time between two of them, in ms", 1_000),
        ),
    ),
    Kind(
        "coordinator-moves",
        "another broker coordinates the group; a single broker says for a while that it does not",
        coordinator_moves,
        (Parameter("group", str, "the group"), Parameter("times", int, "with one broker: the number of refusals", 3)),
    ),
    Kind(
        "rolling-restart",
        "one broker after the other stops in order and returns",
        rolling_restart,
        (Parameter("pause_ms", int, "how long each is away", 500),),
    ),
    Kind(
        "network-cut",
        "clients are cut off from some brokers, which go on among themselves",
        network_cut,
        (Parameter("nodes", str, "which: 1,2"),),
    ),
    Kind(
        "unclean-leader",
        "a partition gets a leader that has not all of its records",
        unclean_leader,
        (
            Parameter("topic", str, "the topic"),
            Parameter("partition", int, "the partition", 0),
            Parameter("records", int, "how many of the newest records are lost (whole batches)", 1),
        ),
    ),
    Kind(
        "disk-full",
        "nothing can be written until the scenario ends: no space left on device",
        partial(_refuse_writes, Disk.FULL, "the disk is full"),
    ),
    Kind(
        "read-only-disk",
        "nothing can be written until the scenario ends: read-only file system",
        partial(_refuse_writes, Disk.READ_ONLY, "the disk is read-only"),
    ),
)
"""All scenarios."""
