"""The verbs for nodes, with a consumer on each node; a server that dies and starts again; ids from a seed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from muster.coordinator.config import load
from muster.testcontrol.errors import CannotBeDone
from muster.testcontrol.machine import ControlledMachine
from muster.testcontrol.server_control import ServerControl
from muster.testcontrol.topics import NewRecord
from tests.e2e.aio import consuming
from tests.support.muster import QUICK


def control(
    nodes: int = 1, machine: ControlledMachine | None = None, data_dir: Path | None = None, listen: str = "127.0.0.1:0"
) -> ServerControl:
    properties = {**QUICK, "broker.session.timeout.ms": "200"}
    config = load(
        overrides=[f"{name}={value}" for name, value in properties.items()],
        listen=listen,
        in_memory=data_dir is None,
        data_dir=data_dir,
        topics=["orders:3"],
        nodes=str(nodes),
    )
    return ServerControl(config, machine=machine)


@pytest.fixture
async def three() -> AsyncIterator[ServerControl]:
    found = control(3)
    await found.server.start()
    yield found
    await found.server.stop()


def bootstrap(found: ServerControl) -> str:
    return ",".join(f"{bound.host}:{bound.port}" for bound in found.server.bound)


@pytest.mark.parametrize("verb", ["stop", "kill"])
async def test_the_coordinator_can_be_stopped_and_returned(three: ServerControl, verb: str) -> None:
    nodes = three.nodes
    async with consuming(bootstrap(three), "orders", group_id="g"):
        await three.groups.wait_stable("g", members=1, partitions="orders")
        was = nodes.coordinator_of("g")
        assert three.groups.describe("g").node == was
        gone = getattr(nodes, verb)(was)
        if gone is not None:
            await gone
        assert nodes.describe(was).state == {"stop": "stopped", "kill": "killed"}[verb]
        group = await three.groups.wait_until("g", lambda one: one.is_stable and one.node not in (was, -1))
        assert nodes.describe(was).connections == 0
        assert group.node == nodes.coordinator_of("g")
        await nodes.return_(was)
        assert nodes.describe(was).state == "up"
        with pytest.raises(CannotBeDone, match="the action return is not possible"):
            await nodes.return_(was)


async def test_a_paused_node_answers_nobody_until_it_continues(three: ServerControl) -> None:
    nodes = three.nodes
    async with consuming(bootstrap(three), "orders", group_id="g", request_timeout_ms=1000):
        await three.groups.wait_stable("g", members=1, partitions="orders")
        was = nodes.coordinator_of("g")
        nodes.pause(was)
        assert nodes.describe(was).state == "paused"
        with pytest.raises(CannotBeDone, match="is paused"):
            nodes.pause(was)
        # other nodes notice, and so does the consumer
        await three.groups.wait_until("g", lambda one: one.is_stable and one.node not in (was, -1))
        await nodes.resume(was)
        assert nodes.describe(was).state == "up"
        with pytest.raises(CannotBeDone, match="is up"):
            await nodes.resume(was)
        nodes.pause(was)
        await three.tidy()
        assert nodes.describe(was).state == "up"


async def test_actions_on_unknown_nodes_are_refused(three: ServerControl) -> None:
    assert three.nodes.ids() == [1, 2, 3]
    for do in (three.nodes.pause, three.nodes.kill, three.nodes.describe):
        with pytest.raises(CannotBeDone, match="there is no node 9"):
            do(9)
    for change in (three.nodes.stop, three.nodes.resume):
        with pytest.raises(CannotBeDone, match="there is no node 9"):
            await change(9)


@pytest.mark.parametrize("in_memory", [True, False], ids=["memory", "directory"])
async def test_a_killed_server_restarts_on_its_data(tmp_path: Path, in_memory: bool) -> None:
    machine = ControlledMachine()
    data_dir = None if in_memory else tmp_path / "data"
    first = control(machine=machine, data_dir=data_dir)
    await first.server.start()
    await first.topics.produce("orders", [NewRecord(b"kept", partition=1)])
    await first.groups.reset_offsets("g", 1, "orders")
    port = first.server.bound[0].port
    first.server.die()
    again = control(machine=machine, data_dir=data_dir, listen=f"127.0.0.1:{port}")
    await again.server.start()
    try:
        assert [one.text for one in again.topics.records("orders")] == ["kept"]
        assert again.groups.describe("g").offsets["orders"] == {0: 1, 1: 1, 2: 1}
    finally:
        await again.server.stop()


async def test_the_same_seed_draws_the_same_ids() -> None:
    seen: list[tuple[str, bytes]] = []
    for seed in (7, 7, 8):
        found = control(machine=ControlledMachine(seed))
        await found.server.start()
        async with consuming(bootstrap(found), "orders", group_id="g", client_id="c"):
            group = await found.groups.wait_stable("g", members=1)
        seen.append((group.members[0].member_id, found.server.topics.by_name["orders"].topic_id))
        await found.server.stop()
    assert seen[0] == seen[1] != seen[2]


@pytest.mark.parametrize("until_dead", [False, True])
async def test_the_only_node_can_be_paused_and_continued(until_dead: bool) -> None:
    """The pause may be longer than `broker.session.timeout.ms`, because no other node exists."""
    found = control(1)
    await found.server.start()
    try:
        await found.topics.produce("orders", [NewRecord(b"before", partition=0)])
        async with consuming(bootstrap(found), "orders", group_id="g") as consumer:
            await found.groups.wait_stable("g", members=1, partitions="orders")
            assert (await consumer.getone()).value == b"before"
            found.nodes.pause(1)
            assert found.nodes.describe(1).state == "paused"
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(consumer.commit(), 0.1)
            while until_dead and not found.server.topics.state.brokers[1].fenced:  # noqa: ASYNC110  # nothing reports it
                await asyncio.sleep(0.01)
            await found.nodes.resume(1)
            assert found.nodes.describe(1).state == "up"
            await consumer.commit()
            await found.topics.produce("orders", [NewRecord(b"after", partition=0)])
            assert (await consumer.getone()).value == b"after"
            group = await found.groups.wait_stable("g", members=1, partitions="orders")
            assert group.offsets["orders"][0] == 1
        found.nodes.pause(1)
        await found.tidy()
        assert found.nodes.describe(1).state == "up"
        found.nodes.pause(1)
    finally:
        await found.server.stop()
