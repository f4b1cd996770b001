"""One of three brokers stands still, as after SIGSTOP, and continues."""

from __future__ import annotations

import asyncio

import pytest

from muster.coordinator.server.nodes.common import NodeState, WrongNode
from muster.coordinator.server.nodes.node_clock import NodeClock
from muster.coordinator.system.clock import GRACE_MS, ManualClock
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.describe_cluster import DescribeClusterRequest
from muster.protocol.messages.elect_leaders import ElectLeadersRequest
from muster.protocol.messages.heartbeat import HeartbeatRequest
from tests.coordinator.server.nodes.test_three_nodes import comes_true, commit, committed, join, three
from tests.support.muster import Client, running

FOR_EVER = "3600000"


async def answers(task: asyncio.Task[object]) -> bool:
    """Whether an answer comes within many iterations of the loop."""
    for _ in range(100):
        await asyncio.sleep(0)
    return task.done()


async def test_other_brokers_lead_a_paused_brokers_partitions_until_it_continues() -> None:
    async with three() as cluster:
        server = cluster.server
        group = cluster.group_of(2)
        member = await join(cluster, 2, group)
        assert await commit(cluster, 2, group, member, 41) == 0
        before = await cluster.leaders()
        epoch = server.topics.state.brokers[2].epoch
        client = cluster.clients[2]
        server.cluster.pause_node(2)
        waiting = client.send(HeartbeatRequest(group, member[1], member[0]))
        answer = asyncio.create_task(client.receive(waiting))
        # for some time nobody notices
        assert await cluster.leaders() == before
        await comes_true(lambda: all(one.broker_id != 2 for one in server.topics.open.leaders["t"]))
        await comes_true(lambda: all(one.broker_id != 2 for one in server.topics.open.leaders[GROUP_OFFSETS_TOPIC]))
        there = await cluster.coordinator(group)
        assert there in (1, 3)
        await comes_true(lambda: server.cluster.nodes[there].routing.shard(group).active)
        assert (await cluster.ask(there, HeartbeatRequest(group, member[1], member[0]))).error_code == 0
        assert await commit(cluster, there, group, member, 42) == 0
        assert [row.broker_id for row in (await cluster.ask(1, DescribeClusterRequest())).brokers] == [1, 3]
        assert not await answers(answer)
        await server.cluster.resume_node(2)
        # its clients get the address of the new node, on the connections that they had
        assert (await answer).error_code == ErrorCode.NOT_COORDINATOR
        assert server.cluster.states[2] is NodeState.UP
        assert server.topics.state.brokers[2].epoch == epoch
        assert len((await client.ask(DescribeClusterRequest())).brokers) == 3
        assert (await cluster.ask(1, ElectLeadersRequest(0, None, 5_000))).error_code == 0
        assert {index: leader for index, (leader, _) in (await cluster.leaders()).items()} == {
            index: leader for index, (leader, _) in before.items()
        }
        assert await committed(cluster, 2, group) == 42


async def test_a_short_pause_affects_only_waiting_clients() -> None:
    async with three(broker_session_timeout_ms=FOR_EVER) as cluster:
        group = cluster.group_of(3)
        member = await join(cluster, 3, group)
        leaders, old = await cluster.leaders(), cluster.clients[3]
        cluster.server.cluster.pause_node(3)
        bound = cluster.server.cluster.nodes[3].bound[0]
        # the system makes a new connection; its request waits with the others
        new = Client(*await asyncio.open_connection("127.0.0.1", bound.port), "new")
        sent = [(one, one.send(HeartbeatRequest(group, member[1], member[0]))) for one in (old, new)]
        waiting = [asyncio.create_task(one.receive(asked)) for one, asked in sent]
        assert len((await cluster.ask(1, DescribeClusterRequest())).brokers) == 3
        assert not any([await answers(one) for one in waiting])
        await cluster.server.cluster.resume_node(3)
        assert [(await one).error_code for one in waiting] == [0, 0]
        assert await cluster.leaders() == leaders
        assert await commit(cluster, 3, group, member, 7) == 0
        new.writer.close()


async def test_a_paused_broker_can_be_stopped_killed_and_continued() -> None:
    async with three(broker_session_timeout_ms=FOR_EVER) as cluster:
        nodes = cluster.server.cluster
        with pytest.raises(WrongNode, match="node 1 is up: the action resume is not possible"):
            await nodes.resume_node(1)
        client = await cluster.connect(1)
        nodes.pause_node(1)
        for act in (nodes.stop_node, nodes.return_node):
            with pytest.raises(WrongNode, match="node 1 is paused"):
                await act(1)
        nodes.kill_node(1)
        assert await client.closed()
        await nodes.return_node(1)
        await cluster.connect(1)
        assert len((await cluster.ask(1, DescribeClusterRequest())).brokers) == 3
        # and the server stops while a broker stands still
        nodes.pause_node(2)


async def test_the_only_node_of_a_server_cannot_be_paused() -> None:
    async with running() as server:
        with pytest.raises(WrongNode, match="node 1 is the only one: it is paused by kill -STOP"):
            server.cluster.pause_node(1)
        assert server.cluster.states[1] is NodeState.UP


def test_timers_of_a_paused_broker_fire_after_it_continues() -> None:
    process = ManualClock(mono_ms=0)
    clock, rung = NodeClock(process), []
    for at_ms in (100, 200, 5_000):
        clock.call_at(at_ms, lambda at_ms=at_ms: rung.append((at_ms, clock.mono_ms())))
    forgotten = clock.call_at(150, lambda: rung.append((150, 0)))
    clock.pause()
    clock.pause()
    process.advance(300)
    forgotten.cancel()
    assert rung == []
    clock.resume()
    later = clock.call_at(350, lambda: rung.append((350, clock.mono_ms())))
    # for as long again as the pause lasted, the clients' bytes are read first
    process.advance(299)
    assert rung == []
    process.advance(1)
    assert sorted(rung) == [(100, 600), (200, 600), (350, 600)]
    later.cancel()
    rung.clear()
    process.advance(10_000)
    assert rung == [(5_000, 5_000)]
    clock.resume()
    clock.pause()
    process.advance(60_000)
    clock.call_at(0, lambda: rung.append((0, clock.mono_ms())))
    process.advance(0)
    clock.resume()
    process.advance(GRACE_MS - 1)
    assert rung == [(5_000, 5_000)]
    process.advance(1)
    assert len(rung) == 2
