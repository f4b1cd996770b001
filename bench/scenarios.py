"""Measures one server. The name of each figure ends with its unit."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable, Iterable
from typing import Any

from bench import measure
from bench.load import records
from bench.load.frameload import FrameLoad, Load
from bench.load.groups import Settled, settle
from tests.support import wire
from tests.support.servers import ServerProcess

MEGABYTE, FOUR_KB, HUNDRED_BYTES = 1_000_000, 4_000, 100
PRODUCE_PARTITIONS = 4
LARGE_ANSWER = 1 << 21
PRODUCE_ERROR_AT = 26
"""The position of the partition's error code in a Produce v7 response for a topic of four letters."""
COMMIT_ERROR_AT = -2
FETCH_PARTITIONS, FETCH_OFFSETS = 4, 12
COMMIT_GROUPS, COMMIT_PARTITIONS = 100, 100
MEMBERS_EACH = 10
COMMITS_EACH = 10
"""How many commits with different offsets there are for each group and partition. Then a connection begins again."""
REPEATED, VARIED = "each again the one before", "no two alike in a row"
UNCACHED = f"{REPEATED} but without the cache"
"""What a connection sends: the same request again, or others; and the same on a server without cached requests."""
PRODUCE_SMALL, PRODUCE_LARGE = "produce, 100 B batches", "produce, 1 MB batches"
FETCH_SMALL, FETCH_LARGE = "fetch, 4 KB answers", "fetch, 1 MB answers"
BY_THE_CLOCK, IN_KERNEL = "by the clock", "in the kernel"
COLD, COLD_S = "the first half second after a start", 0.5
LONG_SESSION_MS = 1_800_000
"""Members of the heartbeat runs do not time out between rounds."""

Figures = dict[str, float]


class Target:
    """A running server, and the load generator for it."""

    def __init__(self, server: ServerProcess, frameload: FrameLoad, seconds: float) -> None:
        self.server, self.frameload, self.seconds = server, frameload, seconds
        self.heartbeats: dict[int, list[bytes]] = {}
        self.serial = itertools.count()

    def load(self, frames: list[bytes], **options: Any) -> Load:
        """Call `FrameLoad.run` for this server."""
        options.setdefault("seconds", self.seconds)
        return self.frameload.run(self.server.address[1], self.server.pid, frames, **options)

    def call(self, request: wire.Request) -> wire.Reader:
        """Send one request on a connection of its own, and return the answer."""
        with socket.create_connection(self.server.address, timeout=60) as connection:
            return wire.call(connection, request)

    def settle(self, groups: list[str], members_each: int, session_timeout_ms: int = 60000) -> Settled:
        """Let members join groups, and wait until all are in."""
        pid = self.server.pid
        joining = settle(
            *self.server.address,
            groups,
            members_each,
            lambda: measure.cpu_s(pid),
            session_timeout_ms=session_timeout_ms,
        )
        with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
            return runner.run(joining)

    def prepare(self) -> None:
        """Create the topics, groups and records that all rounds use."""
        self.prepare_commits()
        for topic, partitions in (("mega", FETCH_PARTITIONS), ("kilo", FETCH_PARTITIONS)):
            self.create_topic(topic, partitions)
        for topic, size in (("mega", MEGABYTE), ("kilo", FOUR_KB)):
            frames = records.produce_frames(topic, FETCH_PARTITIONS, size)
            self.load(
                frames,
                connections=1,
                error_at=PRODUCE_ERROR_AT,
                requests=FETCH_PARTITIONS * (FETCH_OFFSETS + 2),
                seconds=60,
            )
        self.prepare_heartbeats((100, 1000))

    def prepare_heartbeats(self, counts: Iterable[int], session_timeout_ms: int = LONG_SESSION_MS) -> None:
        """Let members join, as many as each of `counts` connections needs, and keep the frames of their heartbeats."""
        for connections in counts:
            # neighbouring groups have names of different lengths, so their requests have different sizes
            groups = [f"beat-{connections}-{number:02}{'-odd' * (number % 2)}" for number in range(connections // 10)]
            self.heartbeats[connections] = self.settle(groups, MEMBERS_EACH, session_timeout_ms).heartbeats

    def prepare_commits(self) -> None:
        """Create the topic of the commits, and wait until all coordinators are ready."""
        self.create_topic("load", COMMIT_PARTITIONS)
        with socket.create_connection(self.server.address, timeout=60) as connection:
            for number in range(COMMIT_GROUPS):
                for group in (f"commit-{number}", f"commit-odd-{number}"):
                    while not wire.coordinator_is_ready(connection, group):
                        pass

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic, and wait until its partitions have leaders."""
        self.call(wire.create_topic(topic, partitions))
        with socket.create_connection(self.server.address, timeout=60) as connection:
            for partition in range(partitions):
                while wire.read_list_offsets_error(wire.call(connection, wire.list_offsets(topic, partition))):
                    pass


def event_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The event loop of uvloop if it is installed, so that the client does not limit the measure."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop  # type: ignore[no-any-return, unused-ignore]  # uvloop may be untyped


def heartbeats(target: Target, connections: int) -> Figures:
    """Measure heartbeats of members. Each connection has one unanswered request.

    First, a connection has one member, as with clients, so each request repeats the one before it. Then, a connection
    has members of two groups in turn, so no request repeats the one before it.
    """
    return {
        **of_load(f"heartbeat, {REPEATED}, {connections} connections", beats(target, connections)),
        **of_load(f"heartbeat, {VARIED}, {connections} connections", beats(target, connections, varied=True)),
    }


def beats(target: Target, connections: int, *, varied: bool = False) -> Load:
    """Send heartbeats: each again the one before, or (`varied`) each of another group."""
    members = target.heartbeats[connections]
    others = [*members[MEMBERS_EACH:], *members[:MEMBERS_EACH]] if varied else []
    return target.load([*members, *others], connections=connections)


def of_load(name: str, load: Load, unit: str = "us", count: float | None = None) -> Figures:
    """The server's CPU time for a request, the kernel's part of it, and the wall time for each request.

    `count`: how many units of work the load had; None means one for each request.
    """
    count = load.requests if count is None else count
    return {
        f"{name}, {unit}": load.server_cpu_us / count,
        f"{name}, {IN_KERNEL}, {unit}": load.server_kernel_us / count,
        f"{name}, {BY_THE_CLOCK}, {unit}": load.requests / load.requests_per_s * 1e6 / count,
    }


def commit_frames(connections: int, *, varied: bool) -> list[bytes]:
    """Frames of commits of one partition, in groups without members. Connections take the frames in turn. So a
    connection commits for one group and partition, or (`varied`) for two.
    """
    places = [(f"commit-{n % COMMIT_GROUPS}", n) for n in range(connections)]
    if varied:
        places += [(f"commit-odd-{n % COMMIT_GROUPS}", n + 1) for n in range(connections)]
    return [
        wire.frame(wire.offset_commit(group, -1, "", "load", partition % COMMIT_PARTITIONS, 1_000 + at))
        for at, (group, partition) in enumerate(places * COMMITS_EACH)
    ]


def commits(target: Target, connections: int = 100, *, varied: bool = False) -> Load:
    """Measure commits of one partition. Each connection has one unanswered request."""
    frames = commit_frames(connections, varied=varied)
    return target.load(frames, connections=connections, error_at=COMMIT_ERROR_AT)


def cold(target: Target) -> Figures:
    """Measure heartbeats and commits on a server that has only let the members join before."""
    short = {"connections": 100, "seconds": COLD_S, "warm": 0}
    beats = target.load(target.heartbeats[100], **short)
    committed = target.load(commit_frames(100, varied=False), error_at=COMMIT_ERROR_AT, **short)
    return {
        **of_load(f"heartbeat, {COLD}, 100 connections", beats),
        **of_load(f"commit, {COLD}, 100 connections", committed),
    }


def produce(target: Target) -> Figures:
    """Measure Produce with batches of a megabyte, and with one record of 100 bytes, into topics that are deleted
    afterwards.
    """
    small, large = small_produces(target), large_produces(target)
    return {**of_load(PRODUCE_SMALL, small), **of_load(PRODUCE_LARGE, large, "us per MB")}


def large_produces(target: Target) -> Load:
    """Send batches of a megabyte over 4 connections."""
    return _produced(target, MEGABYTE, connections=4, requests=200, seconds=60)


def small_produces(target: Target) -> Load:
    """Send batches of one record of 100 bytes over 20 connections."""
    return _produced(target, HUNDRED_BYTES, connections=20)


def _produced(target: Target, size: int, **options: Any) -> Load:
    topic = f"p{next(target.serial):03}"
    target.create_topic(topic, PRODUCE_PARTITIONS)
    frames = records.produce_frames(topic, PRODUCE_PARTITIONS, size)
    load = target.load(frames, error_at=PRODUCE_ERROR_AT, **options)
    target.call(wire.delete_topic(topic))
    return load


def fetch_large(target: Target) -> Figures:
    """Measure Fetch answers with one batch of a megabyte."""
    load = large_fetches(target)
    # each answer has a little more than a megabyte: the batch, and the fields around it
    return of_load(FETCH_LARGE, load, "us per MB", load.received_bytes / MEGABYTE)


def large_fetches(target: Target) -> Load:
    """Send fetches over 4 connections, whose answers have one batch of a megabyte."""
    frames = records.fetch_frames("mega", FETCH_PARTITIONS, range(FETCH_OFFSETS), MEGABYTE + 200)
    load = target.load(frames, connections=4, answer_bytes=LARGE_ANSWER)
    must_carry(load, MEGABYTE)
    return load


def fetch_small(target: Target) -> Figures:
    """Measure Fetch answers with one batch of 4 KB."""
    return of_load(FETCH_SMALL, small_fetches(target))


def small_fetches(target: Target) -> Load:
    """Send fetches over 20 connections, whose answers have one batch of 4 KB."""
    frames = records.fetch_frames("kilo", FETCH_PARTITIONS, range(FETCH_OFFSETS), 4096)
    load = target.load(frames, connections=20)
    must_carry(load, FOUR_KB)
    return load


def must_carry(load: Load, record_bytes: int) -> None:
    """Raise an error if answers were incomplete, because the load generator does not see a partition's error."""
    if load.received_bytes < load.requests * record_bytes:
        raise RuntimeError(f"{load.requests} answers of {record_bytes} bytes came to {load.received_bytes} bytes only")


def large_group(target: Target) -> Figures:
    """Measure one group of 1,000 members that all join at the same time."""
    settled = target.settle([f"large-{next(target.serial)}"], 1000)
    return {
        "1,000 members settle, CPU ms": settled.server_cpu_s * 1000,
        "1,000 members settle, wall ms": settled.wall_s * 1000,
    }


SCENARIOS: list[Callable[[Target], Figures]] = [
    lambda target: heartbeats(target, 100),
    lambda target: heartbeats(target, 1000),
    produce,
    fetch_large,
    fetch_small,
    large_group,
]
