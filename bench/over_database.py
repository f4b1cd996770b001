"""Measures nodes that share one PostgreSQL, beside a node without a database: `make bench-cluster` writes
over_database.md. The figures are CPU time, which a busy machine changes little, and the minimum of several runs.
Figures in another unit name it.
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import asyncpg

from bench import measure, nodes
from bench.load.frameload import FrameLoad
from muster.postgres import administration
from muster.postgres.store import Identity
from muster.protocol.messages.find_coordinator import FindCoordinatorRequest
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from muster.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.support import wire
from tests.support.muster import Client
from tests.support.postgres import own_database, running_postgres
from tests.support.servers import MusterServer

RESULTS: Final = Path(__file__).with_name("over_database.md")
LEASE_MS: Final = 3_000
COUNTS: Final = (0, 1, 2, 3, 4)
"""The numbers of nodes; 0 is one node without a database."""
PARTITIONS: Final = 100
TOPIC: Final = "orders"
PROPERTIES: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "muster.offsets.durability": "commit",
    "broker.session.timeout.ms": str(LEASE_MS),
}
IDLE_S: Final = 10
BEATS: Final = 6
"""How often heartbeats are measured for each number of nodes."""
FLAT: Final = 1.1
"""The goal: the largest cost of a request at one of several nodes, divided by that at a single node."""
COMMIT_ERROR_AT: Final = 4 + 4 + 4 + 4 + 2 + len(TOPIC) + 4 + 4
"""The position of the partition's error code in the frame of an OffsetCommit v7 response with one partition."""
HEARTBEAT_ERROR_AT: Final = 12
"""The position of the error code, after the throttle time, in the frame of a Heartbeat response."""


class Cost(NamedTuple):
    """The cost of requests: CPU time of all nodes for one request, and requests in a second of wall time."""

    cpu_us: float
    per_s: float
    database_us: float = 0.0
    """CPU time of the database for one request."""


class _Fixed(MusterServer):
    """A node at an address that is known before its start."""

    def __init__(self, workdir: Path, arguments: Sequence[str]) -> None:
        super().__init__(workdir, PROPERTIES, arguments=[*arguments, "--topic", f"{TOPIC}:{PARTITIONS}"])
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            self.bootstrap = f"127.0.0.1:{held.getsockname()[1]}"


@contextmanager
def running(workdir: Path, postgres: str, count: int) -> Iterator[list[MusterServer]]:
    """Run `count` nodes over a database. 0: one node without a database."""
    with ExitStack() as ends:
        arguments: list[str] = []
        if count:
            url = ends.enter_context(own_database(postgres))
            asyncio.run(administration.init(url, "muster", Identity("of-the-bench", "AAAAAAAAAAAAAAAAAAAAAQ")))
            arguments = ["--cluster", url]
        made: list[MusterServer] = []
        for number in range(max(count, 1)):
            node = _Fixed(workdir / f"node-{number}", arguments)
            node.start()
            ends.callback(lambda node=node: node.stop() if node.running else None)  # type: ignore[misc]  # bound now
            made.append(node)
        yield made


async def connect(port: int) -> Client:
    return Client(*await asyncio.open_connection("127.0.0.1", port), "bench")


async def coordinators(port: int, groups: Sequence[str]) -> dict[str, int]:
    """The port of each group's coordinator. Groups without a coordinator are left out."""
    client = await connect(port)
    answer = await client.ask(FindCoordinatorRequest(coordinator_keys=list(groups)))
    client.writer.close()
    return {one.key: one.port for one in answer.coordinators if not one.error_code}


async def spread(brokers: Sequence[MusterServer], groups: Sequence[str]) -> dict[int, list[str]]:
    """Wait until all nodes agree on the coordinators. Returns the groups of each node, by port."""
    ports = {node.address[1] for node in brokers}
    while True:
        found = [await coordinators(port, groups) for port in ports]
        if all(one == found[0] for one in found) and len(found[0]) == len(groups) and {*found[0].values()} == ports:
            return {port: [group for group, at in found[0].items() if at == port] for port in ports}
        await asyncio.sleep(0.2)


def commits(
    workdir: Path, brokers: Sequence[MusterServer], connections: int, seconds: float, database: int | None = None
) -> Cost:
    """Measure commits of groups without members, at all nodes at the same time."""
    shared = asyncio.run(spread(brokers, [f"g{number}" for number in range(connections)]))
    frames = {
        port: [wire.frame(wire.offset_commit(group, -1, "", TOPIC, 0, 7)) for group in groups]
        for port, groups in shared.items()
    }
    return loaded(workdir, brokers, frames, seconds, COMMIT_ERROR_AT, database)


def heartbeats(
    workdir: Path, postgres: str, counts: Sequence[int], connections: int, seconds: float
) -> dict[int, list[Cost]]:
    """Measure heartbeats at all nodes at the same time, for each number of nodes. A member is alone in its group.

    All clusters run, and are measured in turn, so that other load on the machine is the same for all.
    """

    async def settled(brokers: Sequence[MusterServer]) -> dict[int, list[bytes]]:
        shared = await spread(brokers, [f"h{number}" for number in range(connections)])
        members = {port: await nodes.settle(port, groups) for port, groups in shared.items()}
        return {
            port: [wire.frame(wire.heartbeat(group, *one)) for group, one in found.items()]
            for port, found in members.items()
        }

    with ExitStack() as ends:
        brokers = {count: ends.enter_context(running(workdir / str(count), postgres, count)) for count in counts}
        frames = {count: asyncio.run(settled(some)) for count, some in brokers.items()}
        found: dict[int, list[Cost]] = {count: [] for count in counts}
        for _ in range(BEATS):
            for count, some in brokers.items():
                found[count].append(loaded(workdir, some, frames[count], seconds, HEARTBEAT_ERROR_AT))
    return found


async def database_pid(url: str) -> int:
    """The process id of the PostgreSQL server at a URL, which runs on this machine."""
    connection = await asyncpg.connect(url)
    pid = measure.parent_of(await connection.fetchval("SELECT pg_backend_pid()"))
    await connection.close()
    return pid


def loaded(
    workdir: Path,
    brokers: Sequence[MusterServer],
    frames: Mapping[int, Sequence[bytes]],
    seconds: float,
    error_at: int,
    database: int | None = None,
) -> Cost:
    """Send the frames of each port to that node, all nodes at the same time. Each frame has its own connection.

    `database`: the process id of the PostgreSQL server, whose CPU time is measured too.
    """

    def load(node: MusterServer) -> tuple[float, int, float]:
        own = Path(tempfile.mkdtemp(prefix="load-", dir=workdir))
        mine = frames[node.address[1]]
        found = FrameLoad(own).run(
            node.address[1], node.pid, mine, connections=len(mine), seconds=seconds, error_at=error_at
        )
        return found.server_cpu_us, found.requests, found.requests_per_s

    before = measure.family_cpu_s(database) if database is not None else 0.0
    with ThreadPoolExecutor(len(brokers)) as threads:
        found = list(threads.map(load, brokers))
    spent_s = measure.family_cpu_s(database) - before if database is not None else 0.0
    requests = sum(count for _, count, _ in found)
    return Cost(sum(cpu for cpu, _, _ in found) / requests, sum(one for *_, one in found), spent_s * 1e6 / requests)


def idle(brokers: Sequence[MusterServer]) -> float:
    """The CPU time of one idle node, in % of a core."""
    before = [measure.cpu_s(node.pid) for node in brokers]
    time.sleep(IDLE_S)
    return max(measure.cpu_s(node.pid) - was for node, was in zip(brokers, before, strict=True)) / IDLE_S * 100


async def taken_over(brokers: Sequence[MusterServer], offsets: int) -> tuple[float, float]:
    """Kill a node that coordinates `offsets` committed offsets. Returns the CPU time of the other nodes, and the
    seconds until the last group is served.
    """
    names = [f"t{number}" for number in range(len(brokers) * 2 * offsets // PARTITIONS)]
    victim = brokers[-1]
    mine = (await spread(brokers, names))[victim.address[1]][: offsets // PARTITIONS]
    client = await connect(victim.address[1])
    for group in mine:
        rows = [OffsetCommitRequestPartition(index, 7, -1, "") for index in range(PARTITIONS)]
        request = OffsetCommitRequest(group, -1, "", None, topics=[OffsetCommitRequestTopic(TOPIC, partitions=rows)])
        answer = await client.ask(request, 8)
        assert not any(row.error_code for row in answer.topics[0].partitions)
    client.writer.close()
    others = brokers[:-1]
    before, began = sum(measure.cpu_s(node.pid) for node in others), time.monotonic()
    victim.kill()
    left = set(mine)
    while left:
        await asyncio.sleep(0.1)
        found = await coordinators(others[0].address[1], sorted(left))
        for node in others:
            asked = [group for group, port in found.items() if port == node.address[1]]
            if asked:
                client = await connect(node.address[1])
                # only one partition of each group is requested, because the answers are not measured
                what = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, None, -1, []) for group in asked])
                left.difference_update(row.group_id for row in (await client.ask(what, 9)).groups if not row.error_code)
                client.writer.close()
    return sum(measure.cpu_s(node.pid) for node in others) - before, time.monotonic() - began


def nodes_of(count: int) -> str:
    """The number of nodes in words."""
    return "the embedded log" if count == 0 else "one node" if count == 1 else f"{count} nodes"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.over_database", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=1_000)
    parser.add_argument("--offsets", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    costs: dict[int, list[Cost]] = {count: [] for count in COUNTS}
    synced: list[Cost] = []
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        with running_postgres() as postgres:
            pid = asyncio.run(database_pid(postgres))
            for turn in range(options.rounds):
                for count, found in costs.items():
                    place = Path(folder) / f"{turn}-{count}"
                    with running(place, postgres, count) as brokers:
                        found.append(commits(place, brokers, options.connections, options.seconds, pid))
            place = Path(folder) / "heartbeats"
            beats = heartbeats(place, postgres, COUNTS, options.connections, options.seconds)
            with running(Path(folder) / "takeover", postgres, 3) as brokers:
                spent = idle(brokers)
                cpu_s, wall_s = asyncio.run(taken_over(brokers, options.offsets))
        with running_postgres(fsync=True) as postgres:
            for turn in range(options.rounds):
                place = Path(folder) / f"{turn}-synced"
                with running(place, postgres, 3) as brokers:
                    synced.append(commits(place, brokers, options.connections, options.seconds))
    best = {count: min(found) for count, found in costs.items()}
    fast = {count: max(one.per_s for one in found) for count, found in costs.items()}
    one = min(beats[0]).cpu_us
    rows = [
        ("a commit with the embedded log, CPU us", "", f"{best[0].cpu_us:.1f}"),
        *(
            (f"{nodes_of(count)} over PostgreSQL, x that", "≤ 2", f"{best[count].cpu_us / best[0].cpu_us:.2f}")
            for count in COUNTS[1:]
        ),
        *(
            (f"{nodes_of(count)}, x one over PostgreSQL", f"≤ {FLAT}", f"{best[count].cpu_us / best[1].cpu_us:.2f}")
            for count in COUNTS[2:]
        ),
        *(
            (
                f"{nodes_of(count)} and the database, x the embedded log",
                "≤ 1.4" if count == 3 else "",
                f"{(best[count].cpu_us + best[count].database_us) / best[0].cpu_us:.2f}",
            )
            for count in COUNTS[1:]
        ),
        *((f"commits in a second, {nodes_of(count)} (wall time)", "", f"{fast[count]:,.0f}") for count in COUNTS),
        ("three nodes, with fsync (wall time)", "≥ 20,000", f"{max(one.per_s for one in synced):,.0f}"),
        ("three nodes, with fsync, CPU x the embedded log's", "≤ 2", f"{min(synced).cpu_us / best[0].cpu_us:.2f}"),
        ("a heartbeat with the embedded log, CPU us", "", f"{one:.1f}"),
        *(
            (f"{nodes_of(count)} over PostgreSQL, x that", f"≤ {FLAT}", f"{min(beats[count]).cpu_us / one:.2f}")
            for count in COUNTS[1:]
        ),
        *(
            (f"heartbeats in a second, {nodes_of(count)} (wall time)", "", f"{max(c.per_s for c in beats[count]):,.0f}")
            for count in COUNTS
        ),
        ("a node that has nothing to do, % of a core", "", f"{spent:.1f}"),
        (f"takeover of {options.offsets:,} offsets, CPU s of the others", "≤ 2", f"{cpu_s:.2f}"),
        ("the same until all groups are served, less the lease (wall time), s", "", f"{wall_s - LEASE_MS / 1000:.1f}"),
    ]
    lines = [
        "# What nodes over one PostgreSQL cost",
        "",
        f"Written by `make bench-cluster`: CPython {platform.python_version()}, {options.connections:,} connections,",
        "each with a group of its own; 50 partitions of `__consumer_offsets`; PostgreSQL on the same machine, without",
        "fsync unless a row names it. CPU is that of the nodes, the least of several runs. The load, the database and",
        "the nodes share the machine's cores, so wall time is only a hint. Nodes share only the database. So N nodes",
        "on N cores serve N times as many requests as one node, if a request costs as much at each of them.",
        "",
        "| figure | to reach | measured |",
        "|---|---:|---:|",
        *(f"| {figure} | {wanted} | {found} |" for figure, wanted, found in rows),
    ]
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
