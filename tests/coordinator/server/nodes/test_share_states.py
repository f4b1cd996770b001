"""The states of share groups on three brokers of one process: each broker finds them, also after others died."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from muster.coordinator.server import Server
from muster.coordinator.share.in_flight import Row
from muster.coordinator.share_state.persister import InitializeState, LoadedState, ReadState, StateKey, WriteState
from muster.coordinator.topics.names import SHARE_STATE_TOPIC
from muster.protocol.hashing import group_partition
from muster.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.coordinator.server.nodes.test_three_nodes import Cluster, three

ROWS = [Row(0, 4, 2, 1)]
PARTITIONS = {"share_coordinator_state_topic_num_partitions": "6"}


async def ask(server: Server, node_id: int, method: str, request: Any) -> Any:
    """The answer of a node's persister."""
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    getattr(server.cluster.nodes[node_id].share_states, method)(request, answer.set_result)
    return await asyncio.wait_for(answer, 30)


def keys_of(cluster: Cluster) -> list[StateKey]:
    return [StateKey(f"g{n}", cluster.server.topics.by_name["t"].topic_id, n % 6) for n in range(12)]


async def coordinator(cluster: Cluster, key: StateKey, node_id: int) -> int:
    answer = await cluster.ask(node_id, FindCoordinatorRequest(key_type=2, coordinator_keys=[str(key)]))
    found: int = answer.coordinators[0].node_id
    return found


async def test_each_broker_reaches_all_states(tmp_path: Path) -> None:
    async with three(tmp_path, **PARTITIONS) as cluster:
        server, keys = cluster.server, keys_of(cluster)
        for number, key in enumerate(keys):
            node_id = 1 + number % 3
            assert (await ask(server, node_id, "initialize", InitializeState(key, 1, 0))).error_code == 0
            write = WriteState(key, 1, 0, 0, 5, ROWS)
            assert (await ask(server, 1 + (number + 1) % 3, "write", write)).error_code == 0
        leaders = await cluster.leaders(SHARE_STATE_TOPIC)
        assert {leader for leader, _ in leaders.values()} == {1, 2, 3}
        for key in keys:
            assert await coordinator(cluster, key, 1) == leaders[group_partition(str(key), 6)][0]
        server.cluster.kill_node(3)
        for key in keys:
            assert await ask(server, 1, "read", ReadState(key, 7)) == LoadedState(0, None, 1, 0, ROWS)
            assert await coordinator(cluster, key, 2) in (1, 2)
        await server.cluster.stop_node(2)
        for key in keys:
            assert (await ask(server, 1, "write", WriteState(key, 1, 7, 3, 1, ()))).error_code == 0
    async with three(tmp_path, **PARTITIONS) as cluster:
        for key in keys:
            read = await ask(cluster.server, 2, "read", ReadState(key, 8))
            assert read == LoadedState(0, None, 1, 3, [Row(3, 4, 2, 1)])
