"""Real clients on a cluster of three brokers in one process, while brokers stop, die, stand still and return."""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from muster.coordinator.server import Server
from muster.coordinator.server.nodes.common import NodeState
from tests.e2e.workers import PARTITIONS, PATIENCE_S, WORKERS, Progress, at_work, quieten, tell
from tests.support.muster import running

SESSION_MS = 300


@asynccontextmanager
async def cluster(data_dir: Path) -> AsyncIterator[Server]:
    properties = {
        "muster.nodes": "3",
        "broker.session.timeout.ms": str(SESSION_MS),
        "offsets.topic.num.partitions": "6",
        "muster.offsets.durability": "os",
    }
    async with running(properties, data_dir=data_dir, topics=[f"{name}:{PARTITIONS}" for name in WORKERS]) as server:
        yield server


async def play(server: Server, names: list[str], changes: int, seed: int) -> dict[str, Progress]:
    """Let the clients work while nodes stop, die, pause and return at random. Each client has finished when this
    returns.
    """
    draw = random.Random(seed)
    bootstrap = ",".join(f"127.0.0.1:{bound.port}" for bound in server.bound)
    nodes = server.cluster
    async with at_work({name: WORKERS[name] for name in names}, bootstrap, PATIENCE_S, names) as work:
        for _ in range(changes):
            up = [one for one, state in nodes.states.items() if state is NodeState.UP]
            down = [one for one, state in nodes.states.items() if state in (NodeState.STOPPED, NodeState.KILLED)]
            if down:
                # a client that knows only one broker finds no other when that broker dies, as on Kafka (KIP-899)
                await nodes.return_node(draw.choice(down))
            else:
                one, what = draw.choice(up), draw.choice(("stop", "kill", "pause"))
                if what == "stop":
                    await nodes.stop_node(one)
                elif what == "kill":
                    nodes.kill_node(one)
                else:  # for so long that other brokers may lead by then, or not
                    nodes.pause_node(one)
                    await asyncio.sleep(draw.random() * 2 * SESSION_MS / 1000)
                    await nodes.resume_node(one)
            await work.progressed()
    return work.progress


async def check(server: Server, workers: dict[str, Progress]) -> None:
    """Check that each acknowledged record is there once, and the offsets are those that were acknowledged last."""
    for name, progress in workers.items():
        topic = server.topics.by_name[name]
        found: list[int] = []
        for partition in topic.partitions:
            assert partition is not None
            found += [int(value) for value in values(partition.log)]
        assert sorted(found) == sorted(set(found)), f"{name}: written twice"
        assert set(progress.written) <= set(found), f"{name}: lost"
        leader = server.topics.open.leaders["__consumer_offsets"][server.routing.partition(name)].broker_id
        core = server.cluster.nodes[leader].routing.shard(name).runtime.core
        assert core is not None
        offsets = core.state.offsets
        kept = {index: offsets.get(name, name, index).offset for index in progress.committed}
        assert kept == progress.committed, name


def values(log: Any) -> list[bytes]:
    """The values of a log's records."""
    from muster.coordinator.log import batches

    return [
        record.value
        for chunk in log.replay()
        for header, records in batches.read(chunk)
        if not header.is_control
        for record in records
    ]


async def _main(changes: int, seed: int) -> None:
    quieten()
    with tempfile.TemporaryDirectory() as directory:
        async with cluster(Path(directory)) as server:
            workers = await play(server, [*WORKERS], changes, seed)
            await check(server, workers)
    tell(workers)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--changes", type=int, default=100, help="stops, kills, pauses and returns")
    options.add_argument("--seed", type=int, default=1)
    asked = options.parse_args()
    asyncio.run(_main(asked.changes, asked.seed))
