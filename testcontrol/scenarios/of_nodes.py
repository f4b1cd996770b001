"""Scenarios of brokers, and of the network to them."""

from __future__ import annotations

import asyncio
from typing import Final

from muster.coordinator.runtime.group_coordinator.background_work import Nobody
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics import leadership
from muster.coordinator.topics.leadership import Place
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC
from muster.protocol.messages.metadata_records.partition_change_record import PartitionChangeRecord
from muster.testcontrol.errors import CannotBeDone
from muster.testcontrol.faults.actions import Cut, Error
from muster.testcontrol.faults.matching import Match
from muster.testcontrol.faults.when import times, until_released
from muster.testcontrol.scenarios.stage import Kind, Parameter, Scenario


async def coordinator_moves(scenario: Scenario) -> None:
    """Move the group to another broker. A single broker answers for a while that it is not the coordinator."""
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
        await led_by(scenario, place, lambda: leadership.change(place, target, live))
        scenario.step(f"broker {target} coordinates group {group_id}; it was {was}")
        return
    when = times(scenario.number("times"))
    scenario.rule(Match(api=("membership", "offsets"), group=group_id), Error("NOT_COORDINATOR"), when)
    scenario.step(f"the next {scenario.number('times')} requests of group {group_id} are told to go elsewhere")


async def led_by(scenario: Scenario, place: Place, decide: object) -> None:
    """Have the cluster change a partition. Raises CannotBeDone."""
    server, done = scenario.parts.server, asyncio.Event()
    failed: list[Exception] = []
    job: Job[None] = server.cluster.changing(decide, place)  # type: ignore[arg-type]  # it takes none

    def guarded() -> Job[None]:
        try:
            yield from job
        except Exception as error:  # noqa: BLE001 - raised below
            failed.append(error)

    server.slices.run(guarded(), lambda _: done.set(), Nobody("the leader of a partition could not be changed"))
    await done.wait()
    if failed:
        raise CannotBeDone(f"the leader could not be changed: {failed[0]}")


async def rolling_restart(scenario: Scenario) -> None:
    """Stop one broker after the other in order, and start it again."""
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

    scenario.go_on(roll)


async def network_cut(scenario: Scenario) -> None:
    """Cut clients off from some brokers, which still reach each other."""
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
    scenario.step(f"whoever asks broker {' or '.join(given)} is cut off")


async def unclean_leader(scenario: Scenario) -> None:
    """Give a partition a leader without its newest records: these are lost."""
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
    await led_by(scenario, place, lambda: record)
    scenario.step(f"broker {leader} leads {name}-{index} from offset {log.end_offset} on: {lost} records are lost")


KINDS: Final = (
    Kind(
        "coordinator-moves",
        "another broker coordinates the group; a single broker says for a while that it does not",
        coordinator_moves,
        (Parameter("group", str, "the group"), Parameter("times", int, "with one broker: so many refusals", 3)),
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
            Parameter("records", int, "so many of the newest are lost (whole batches)", 1),
        ),
    ),
)
