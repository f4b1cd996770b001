"""Measures three brokers in one process, beside one broker: `make bench-nodes` writes nodes.md. The figures are CPU
time, which a busy machine changes little, and the minimum of several runs. Only the waiting time of a client is wall
time.
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from bench import measure
from bench.load.frameload import FrameLoad
from muster.cli.nodes import ask
from muster.protocol.messages.find_coordinator import FindCoordinatorRequest
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from muster.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support import wire
from tests.support.muster import Client
from tests.support.servers import MusterServer

RESULTS: Final = Path(__file__).with_name("nodes.md")
PROPERTIES: Final = {"group.initial.rebalance.delay.ms": "0", "muster.offsets.durability": "os"}
CONNECTIONS: Final = 50
LOOKED_UP_AT_ONCE: Final = 2_000
LOOKED_AT: Final = 200
"""How many groups are checked after their coordinator has moved."""
HEAD: Final = "| figure | to reach | measured |\n|---|---:|---:|"


class Moved(NamedTuple):
    """The cost of a broker's stop, in ms: CPU time, and wall time until clients are informed and served again."""

    cpu_ms: float
    reported_ms: float
    served_ms: float


def server_of(workdir: Path, nodes: int) -> MusterServer:
    more = ["--nodes", str(nodes)] if nodes > 1 else []
    return MusterServer(workdir, PROPERTIES, arguments=["--log-level", "error", *more])


async def connect(port: int) -> Client:
    return Client(*await asyncio.open_connection("127.0.0.1", port), "bench")


async def groups_of(port: int, node: int, count: int) -> list[str]:
    """The ids of `count` groups that a broker coordinates."""
    client, found, tried = await connect(port), list[str](), 0
    while len(found) < count:
        names = [f"g{number}" for number in range(tried, tried + LOOKED_UP_AT_ONCE)]
        tried += LOOKED_UP_AT_ONCE
        answer = await client.ask(FindCoordinatorRequest(coordinator_keys=names))
        found += [one.key for one in answer.coordinators if one.node_id == node]
    client.writer.close()
    return found[:count]


async def settle(port: int, groups: Iterable[str]) -> dict[str, tuple[int, str]]:
    """Let one member join each group, and return generation and member id."""
    waiting, members = [*groups], dict[str, tuple[int, str]]()

    async def work() -> None:
        client = await connect(port)
        while waiting:
            group = waiting.pop()
            while group not in members:
                protocols = [JoinGroupRequestProtocol("range", b"m")]
                asked = JoinGroupRequest(group, 300_000, 300_000, protocol_type="consumer", protocols=protocols)
                asked.member_id = (await client.ask(asked)).member_id
                joined = await client.ask(asked)
                sync = SyncGroupRequest(group, joined.generation_id, joined.member_id)
                sync.protocol_type, sync.protocol_name = "consumer", "range"
                sync.assignments = [SyncGroupRequestAssignment(joined.member_id, b"mine")]
                # a coordinator over a database may still load
                if (await client.ask(sync)).error_code:
                    await asyncio.sleep(0.05)
                else:
                    members[group] = joined.generation_id, joined.member_id
        client.writer.close()

    await asyncio.gather(*(work() for _ in range(CONNECTIONS)))
    return members


async def moved(workdir: Path, members: int) -> Moved:
    """Stop a broker that coordinates `members` members, each alone in its group."""
    server = server_of(workdir, 3)
    server.start()
    try:
        data = workdir / "data"
        ports = [int(row["addresses"][0].rpartition(":")[2]) for row in ask(data, {"do": "list"})["nodes"]]
        groups = await groups_of(ports[0], 2, members)
        settled = await settle(ports[1], groups)
        # in one group, another member waits for the first to join; this waiting member must get an answer
        waiter = await connect(ports[1])
        protocols = [JoinGroupRequestProtocol("range", b"m")]
        asked = JoinGroupRequest(groups[0], 300_000, 300_000, protocol_type="consumer", protocols=protocols)
        asked.member_id = (await waiter.ask(asked)).member_id
        waiting = asyncio.create_task(waiter.receive(waiter.send(asked)))
        others = {node: await connect(ports[node - 1]) for node in (1, 3)}
        await others[1].ask(FindCoordinatorRequest(coordinator_keys=groups[:1]))
        begin, cpu_s = time.perf_counter(), measure.cpu_s(server.pid)
        stopping = asyncio.create_task(asyncio.to_thread(ask, data, {"do": "stop", "node": 2}))
        await waiting
        reported_ms = (time.perf_counter() - begin) * 1_000
        await stopping
        spent_ms = (measure.cpu_s(server.pid) - cpu_s) * 1_000
        await _served(others, {group: settled[group] for group in groups[:: max(1, members // LOOKED_AT)]})
        served_ms = (time.perf_counter() - begin) * 1_000
        for client in (waiter, *others.values()):
            client.writer.close()
        return Moved(spent_ms, reported_ms, served_ms)
    finally:
        server.stop()


async def _served(clients: Mapping[int, Client], members: Mapping[str, tuple[int, str]]) -> None:
    """Wait until all groups have a coordinator that answers heartbeats. All clients send their requests at the same
    time.
    """
    left = dict(members)
    while left:
        found = await clients[1].ask(FindCoordinatorRequest(coordinator_keys=list(left)))
        for node_id, client in clients.items():
            groups = [one.key for one in found.coordinators if one.node_id == node_id]
            asked = [client.send(HeartbeatRequest(group, *left[group])) for group in groups]
            for group, one in zip(groups, asked, strict=True):
                if (await client.receive(one)).error_code in (0, 27):  # 27: REBALANCE_IN_PROGRESS
                    del left[group]


def started(workdir: Path, nodes: int) -> tuple[float, float]:
    """The CPU time (ms) from the start of a process until it is ready, and its memory (MB) then."""
    server = server_of(workdir, nodes)
    server.start()
    found = measure.cpu_s(server.pid) * 1_000, measure.resident_mb(server.pid)
    server.stop()
    return found


def heartbeat_us(workdir: Path, frameload: FrameLoad, nodes: int, seconds: float) -> float:
    """The CPU time of the server for a heartbeat, in us."""
    server = server_of(workdir, nodes)
    server.start()
    try:
        port = server.address[1]
        settled = asyncio.run(_some(port))
        frames = [wire.frame(wire.heartbeat(group, *one)) for group, one in settled.items()]
        found = [
            frameload.run(port, server.pid, frames, connections=CONNECTIONS, seconds=seconds).cpu_us_per_request
            for _ in range(3)
        ]
        return min(found)
    finally:
        server.stop()


async def _some(port: int) -> dict[str, tuple[int, str]]:
    return await settle(port, await groups_of(port, 1, CONNECTIONS))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.nodes", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--members", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        workdir, rounds = Path(folder), range(options.rounds)
        starts = {
            nodes: [started(workdir / f"start-{nodes}-{one}", nodes) for one in range(3 * options.rounds)]
            for nodes in (1, 3)
        }
        frameload = FrameLoad(workdir)
        beats = {
            nodes: min(
                heartbeat_us(workdir / f"beat-{nodes}-{one}", frameload, nodes, options.seconds) for one in rounds
            )
            for nodes in (1, 3)
        }
        empty = [asyncio.run(moved(workdir / f"empty-{one}", 1)) for one in rounds]
        full = [asyncio.run(moved(workdir / f"full-{one}", options.members)) for one in rounds]
    rows = [
        ("resident memory when ready and idle, MB", "≤ 60", f"{min(mb for _, mb in starts[3]):.1f}"),
        ("the same with one broker", "", f"{min(mb for _, mb in starts[1]):.1f}"),
        ("start-up, CPU ms", "≤ 400", f"{min(ms for ms, _ in starts[3]):.0f}"),
        ("the same with one broker", "", f"{min(ms for ms, _ in starts[1]):.0f}"),
        ("a heartbeat, CPU us, x one broker", "", f"{beats[3] / beats[1]:.2f}"),
        (
            "stop of a broker, until waiting JoinGroups are answered, ms",
            "≤ 100",
            f"{min(one.reported_ms for one in empty):.0f}",
        ),
        ("stop of a broker, CPU ms", "", f"{min(one.cpu_ms for one in empty):.0f}"),
        (
            f"stop of a broker with {options.members:,} members, until others serve them, ms",
            "≤ 300",
            f"{min(one.served_ms for one in full):.0f}",
        ),
        (f"stop of a broker with {options.members:,} members, CPU ms", "", f"{min(one.cpu_ms for one in full):.0f}"),
    ]
    lines = [
        "# What three brokers in one process cost",
        "",
        f"Written by `make bench-nodes`: CPython {platform.python_version()}, 50 partitions of",
        "`__consumer_offsets`, the least of several runs. Each member is alone in its group. Figures",
        'without "CPU" are wall time, on a machine that also does other work.',
        "",
        HEAD,
        *(f"| {figure} | {wanted} | {found} |" for figure, wanted, found in rows),
    ]
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
