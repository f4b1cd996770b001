"""Each scenario by its name, with real consumers and producers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import CommitFailedError, KafkaError

from muster.testcontrol.errors import CannotBeDone, NoSuchFault, WrongFault
from muster.testcontrol.scenarios.kinds import KINDS
from muster.testcontrol.server_control import ServerControl
from muster.testcontrol.topics import NewRecord
from tests.e2e.aio import consuming, producing
from tests.testcontrol.server import bootstrap, controlled

FIRST = TopicPartition("orders", 0)


@pytest.fixture
async def one() -> AsyncIterator[ServerControl]:
    async with controlled() as found:
        yield found


@pytest.fixture
async def three() -> AsyncIterator[ServerControl]:
    async with controlled(nodes=3, topics=["orders:3"]) as found:
        yield found


def committed(found: ServerControl, group_id: str = "g") -> Any:
    return found.groups.describe(group_id).offsets.get("orders", {}).get(0)


async def test_a_slow_coordinator_delays_answers_until_it_ends(one: ServerControl) -> None:
    async with consuming(bootstrap(one), "orders", group_id="g") as consumer:
        scenario = await one.scenarios.start("slow-coordinator", {"group": "g", "ms": 50})
        await consumer.commit({FIRST: 3})
        assert committed(one) == 3
        assert "OffsetCommit" in [hit["api"] for hit in one.faults.log.after()]
        assert not scenario.is_done
        one.scenarios.end(scenario.id)
    assert (scenario.is_done, one.faults.rules) == (True, [])


async def test_answers_to_commits_are_lost(one: ServerControl) -> None:
    async with consuming(bootstrap(one), "orders", group_id="g") as consumer:
        scenario = await one.scenarios.start("lost-commit-answers", {"group": "g", "times": 1})
        await consumer.commit({FIRST: 3})  # its client retries by itself
        assert (committed(one), scenario.is_done) == (3, True)
        assert [hit["did"] for hit in one.faults.log.after()] == ["the answer was lost, and the connection cut"]


async def test_a_flapping_member_leaves_and_joins_repeatedly(one: ServerControl) -> None:
    async with consuming(bootstrap(one), "orders", group_id="g", client_id="flaps"):
        before = (await one.groups.wait_stable("g", members=1)).generation
        scenario = await one.scenarios.start("flapping-member", {"group": "g", "member": "flaps", "every": 2})
        await one.groups.wait_until("g", lambda group: group.generation >= before + 3)
        assert sum("ended" in step for step in scenario.steps) >= 2
        one.scenarios.end_all()
        await one.groups.wait_stable("g", members=1)
        with pytest.raises(CannotBeDone, match="no member nobody"):
            await one.scenarios.start("flapping-member", {"group": "g", "member": "nobody"})


async def test_a_zombie_goes_on_and_its_commit_is_refused(one: ServerControl) -> None:
    at = bootstrap(one)
    async with consuming(at, "orders", group_id="g", client_id="zombie") as consumer:
        await one.groups.wait_stable("g", members=1)
        scenario = await one.scenarios.start("zombie", {"group": "g", "member": "zombie"})
        async with consuming(at, "orders", group_id="g", client_id="heir") as heir:
            group = await one.groups.wait_stable("g", members=1, partitions="orders")
            assert [member.client_id for member in group.members] == ["heir"]
            assert heir.assignment() == consumer.assignment()  # both believe that they own all partitions
            with pytest.raises((CommitFailedError, KafkaError)):
                await consumer.commit({FIRST: 3})
            assert committed(one) is None
        one.scenarios.end(scenario.id)


async def test_a_zombie_of_the_consumer_protocol_gets_successful_heartbeats(one: ServerControl) -> None:
    from muster.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
    from tests.support.muster import connected

    async with connected(one.server, "k848") as client:
        joined = await client.ask(
            ConsumerGroupHeartbeatRequest(
                "c", "m-1", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"], topic_partitions=[]
            ),
            1,
        )
        assert joined.error_code == 0
        await one.scenarios.start("zombie", {"group": "c", "member": "m-1"})
        assert one.groups.describe("c").members == ()
        reported = await client.ask(ConsumerGroupHeartbeatRequest("c", "m-1", joined.member_epoch), 1)
        assert (reported.error_code, reported.member_epoch, reported.member_id) == (0, joined.member_epoch, "m-1")


async def test_a_rebalance_storm_forces_repeated_rebalances(one: ServerControl) -> None:
    async with consuming(bootstrap(one), "orders", group_id="g"):
        before = (await one.groups.wait_stable("g", members=1)).generation
        scenario = await one.scenarios.start("rebalance-storm", {"group": "g", "times": 3, "every_ms": 200})
        await one.groups.wait_until("g", lambda group: group.generation >= before + 2)
        while not scenario.is_done:
            await scenario.wait(5)
        assert len(scenario.steps) == 3


async def test_a_coordinator_refuses_commits_with_not_coordinator(one: ServerControl) -> None:
    async with consuming(bootstrap(one), "orders", group_id="g") as consumer:
        scenario = await one.scenarios.start("coordinator-moves", {"group": "g", "times": 2})
        await consumer.commit({FIRST: 3})
        await one.groups.wait_until("g", lambda _: scenario.is_done)
        assert committed(one) == 3


async def test_a_coordinator_moves_without_a_rebalance(three: ServerControl) -> None:
    async with consuming(bootstrap(three), "orders", group_id="g") as consumer:
        before = await three.groups.wait_stable("g", members=1)
        scenario = await three.scenarios.start("coordinator-moves", {"group": "g"})
        after = three.nodes.coordinator_of("g")
        assert after != before.node
        assert scenario.steps == [f"broker {after} coordinates group g; it was {before.node}"]
        await consumer.commit({FIRST: 3})
        assert (committed(three), three.groups.describe("g").generation) == (3, before.generation)


async def test_a_rolling_restart_causes_no_rebalance(three: ServerControl) -> None:
    async with consuming(bootstrap(three), "orders", group_id="g") as consumer:
        before = await three.groups.wait_stable("g", members=1)
        scenario = await three.scenarios.start("rolling-restart", {"pause_ms": 20})
        while not scenario.is_done:
            await scenario.wait(5)
        assert scenario.steps == [f"broker {one} has {done}" for one in (1, 2, 3) for done in ("stopped", "returned")]
        await consumer.commit({FIRST: 3})
        group = await three.groups.wait_stable("g", members=1)
        assert (committed(three), group.generation) == (3, before.generation)


async def test_a_rolling_restart_needs_several_brokers(one: ServerControl) -> None:
    with pytest.raises(CannotBeDone, match="needs several brokers"):
        await one.scenarios.start("rolling-restart")
    assert one.scenarios.running == []


async def test_a_network_cut_separates_nodes_from_the_others(three: ServerControl) -> None:
    await three.topics.produce("orders", [NewRecord(b"a", partition=index) for index in range(3)])
    async with consuming(bootstrap(three), group_id=None) as consumer:
        consumer.assign([TopicPartition("orders", index) for index in range(3)])
        assert {(await consumer.getone()).partition for _ in range(3)} == {0, 1, 2}
        scenario = await three.scenarios.start("network-cut", {"nodes": "1, 2"})
        await three.topics.produce("orders", [NewRecord(b"b", partition=index) for index in range(3)])
        leaders = three.server.cluster.leaders["orders"]
        reached = [index for index in range(3) if leaders[index].broker_id == 3]
        seen = [(await consumer.getone()).partition for _ in reached]
        assert seen == reached
        three.scenarios.end(scenario.id)
        rest = {(await consumer.getone()).partition for _ in range(3 - len(reached))}
        assert rest == set(range(3)) - set(reached)
    with pytest.raises(CannotBeDone, match="some of 1, 2, 3"):
        await three.scenarios.start("network-cut", {"nodes": "1,9"})


@pytest.mark.parametrize("nodes", [1, 2])
async def test_an_unclean_leader_loses_records(nodes: int) -> None:
    async with controlled(nodes=nodes, topics=["orders:1"]) as found, producing(bootstrap(found)) as producer:
        for value in (b"a", b"b", b"c"):
            await producer.send_and_wait("orders", value)
        before = found.server.cluster.leaders["orders"][0]
        scenario = await found.scenarios.start("unclean-leader", {"topic": "orders", "records": 2})
        after = found.server.cluster.leaders["orders"][0]
        assert after.epoch == before.epoch + 1
        assert (after.broker_id == before.broker_id) == (nodes == 1)
        assert [row.value for row in found.topics.records("orders")] == [b"a"]
        assert scenario.steps[-1].endswith("from offset 1 on: 2 records are lost")
        assert (await producer.send_and_wait("orders", b"d")).offset == 1
        with pytest.raises(CannotBeDone, match="no partition none-0"):
            await found.scenarios.start("unclean-leader", {"topic": "none"})


@pytest.mark.parametrize("name", ["disk-full", "read-only-disk"])
@pytest.mark.parametrize("in_memory", [True, False])
async def test_a_full_disk_refuses_writes(name: str, in_memory: bool, tmp_path: Path) -> None:
    data_dir = None if in_memory else tmp_path / "data"
    async with (
        controlled(data_dir=data_dir, topics=["orders:1"]) as found,
        producing(bootstrap(found), request_timeout_ms=1_000) as producer,
    ):
        await producer.send_and_wait("orders", b"a")
        scenario = await found.scenarios.start(name)
        refused = asyncio.ensure_future(producer.send_and_wait("orders", b"b"))
        await asyncio.wait([refused], timeout=0.3)
        assert not refused.done() or isinstance(refused.exception(), KafkaError)
        assert found.topics.end_offsets("orders") == {0: 1}
        found.scenarios.end(scenario.id)
        await asyncio.wait([refused])
        if refused.exception() is None:
            assert refused.result().offset == 1


async def test_scenarios_are_listed_and_wrong_ones_refused(one: ServerControl) -> None:
    kinds = {kind["name"]: kind for kind in one.scenarios.kinds()}
    assert set(kinds) == {kind.name for kind in KINDS}
    assert len(kinds) == 11
    assert kinds["zombie"]["parameters"][0] == {
        "name": "group",
        "type": "string",
        "about": "the group",
        "required": True,
    }
    with pytest.raises(NoSuchFault, match="there is no scenario flood"):
        await one.scenarios.start("flood")
    with pytest.raises(WrongFault, match="needs topic"):
        await one.scenarios.start("unclean-leader")
    with pytest.raises(NoSuchFault):
        one.scenarios.end("s1")
