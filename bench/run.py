"""`python -m bench.run` measures Muster and, if Java is installed, Apache Kafka 4.4 in turn, and writes results.md.

Both have data directories and default settings, but no initial rebalance delay. Both are warmed up first.
"""

from __future__ import annotations

import argparse
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from bench import consumer_groups, consumer_memory, kfake, measure, memory, report, security, transactions
from bench.load.frameload import FrameLoad, Load
from bench.scenarios import (
    REPEATED,
    SCENARIOS,
    UNCACHED,
    VARIED,
    Target,
    cold,
    commits,
    fetch_large,
    fetch_small,
    heartbeats,
    large_group,
    of_load,
    produce,
)
from tests.support import wire
from tests.support.servers import REPOSITORY, KafkaServer, MusterServer, ServerProcess, kafka_available

PAGE_CACHE = {"muster.offsets.durability": "os"}
SETTINGS = {"group.initial.rebalance.delay.ms": "0", **consumer_groups.SETTINGS}
RUN_VENV = REPOSITORY / ".venv-run"
INSTALL = ("make", "-s", f"VENV={RUN_VENV.name}", f"{RUN_VENV.name}/.run")
STARTS = 9
WARM_LOADS = 8
"""How many loads of produced batches and of large groups warm a server up. With two, Kafka still got cheaper."""
CODEC_LINE = "JoinGroup v9 response of 1,000 members, encode"

Samples = defaultdict[str, defaultdict[str, list[float]]]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.run", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each server is measured (default: 5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each load runs (default: 2)")
    parser.add_argument(
        "--warm-up", type=float, default=8.0, help="seconds of heartbeats before it counts (default: 8)"
    )
    parser.add_argument("--without-kafka", action="store_true", help="measure Muster alone")
    return parser.parse_args()


def executable() -> Path:
    """Make an environment with only users' packages (others slow the start), and return its `muster`."""
    subprocess.run(INSTALL, cwd=REPOSITORY, check=True)
    return RUN_VENV / "bin" / "muster"


def start_up(workdir: Path, muster: Path, samples: Samples) -> None:
    """Measure the time from spawn to ready, and the memory then, on an empty data directory."""
    for number in range(STARTS):
        server = MusterServer(workdir / f"start-{number}", SETTINGS, executable=muster)
        begin = time.perf_counter()
        server.start()
        samples["start-up, spawn to ready, ms"]["muster"].append((time.perf_counter() - begin) * 1000)
        note_process(samples, server)
        server.stop()


def note_process(samples: Samples, server: ServerProcess) -> None:
    """Record CPU time and memory of a server that has become ready."""
    samples["start-up, CPU ms"][server.name].append(measure.cpu_s(server.pid) * 1000)
    samples["resident memory when ready, MB"][server.name].append(measure.resident_mb(server.pid))


class BareServer(ServerProcess):
    """Runs bench/load/bare.py, which has the lowest cost that a Python server can have."""

    name = "bare"
    cwd = REPOSITORY

    def command(self) -> list[str | Path]:
        """The command, with the interpreter that also runs Muster."""
        return [RUN_VENV / "bin" / "python", "-m", "bench.load.bare"]

    def wait_until_ready(self, process: subprocess.Popen[bytes]) -> str:
        """Read the address that the server prints."""
        assert process.stdout is not None
        return process.stdout.readline().decode().strip()


class UncachedServer(MusterServer):
    """Runs bench/load/uncached.py: Muster without cached requests."""

    cwd = REPOSITORY

    def command(self) -> list[str | Path]:
        """The command, with the arguments of `muster serve`."""
        _, *words = super().command()
        return [RUN_VENV / "bin" / "python", "-m", "bench.load.uncached", *words]


def uncached_figures(target: Target, samples: Samples) -> None:
    """Measure repeated requests without the cache, to show what the cache saves."""
    for connections in (100, 1000):
        beats = target.load(target.heartbeats[connections], connections=connections)
        for what, load in (("heartbeat", beats), ("commit, page cache", commits(target, connections))):
            name = f"{what}, {UNCACHED}, {connections} connections"
            for row, value in of_load(name, load).items():
                samples[row]["muster"].append(value)


def bare_figures(target: Target, heartbeats_of: Target, samples: Samples) -> None:
    """Measure the same heartbeats on the bare server."""
    for connections in (100, 1000):
        load = target.load(heartbeats_of.heartbeats[connections], connections=connections)
        for name, value in of_load(f"heartbeat, {REPEATED}, {connections} connections", load).items():
            samples[name]["bare"].append(value)


def commit_figures(targets: list[Target], unsynced: Target, samples: Samples) -> None:
    """Measure commits on Muster and Kafka, and commits that Muster acknowledges from the page cache (`unsynced`)."""
    for connections in (100, 1000):
        for comes in (REPEATED, VARIED):
            for target in targets:
                load = commits(target, connections, varied=comes == VARIED)
                note_commits(samples, "synced", comes, connections, target, load)
                if target.server.name == "kafka":
                    note_commits(samples, "page cache", comes, connections, target, load)
            load = commits(unsynced, connections, varied=comes == VARIED)
            note_commits(samples, "page cache", comes, connections, unsynced, load)


def note_commits(samples: Samples, where: str, comes: str, connections: int, target: Target, load: Load) -> None:
    """Record the figures of one load of commits."""
    note(samples, target, of_load(f"commit, {where}, {comes}, {connections} connections", load))


def transaction_figures(targets: list[Target], unsynced: Target, samples: Samples) -> None:
    """Measure transactions on Muster and Kafka, and transactions that end in the page cache (`unsynced`).

    Also measure the cost of reading only committed records.
    """
    page_cache, synced = transactions.WHERE
    for target in targets:
        is_kafka = target.server.name == "kafka"
        note(samples, target, transactions.figures(target, transactions.WHERE if is_kafka else [synced]))
        note(samples, target, dict(transactions.reads(target)))
    note(samples, unsynced, transactions.figures(unsynced, [page_cache]))


def note(samples: Samples, target: Target, figures: Mapping[str, float]) -> None:
    for name, value in figures.items():
        samples[name][target.server.name].append(value)


def first_group(target: Target, samples: Samples) -> None:
    """Let a thousand members join on a fresh server, as in a test, or after a deployment."""
    with socket.create_connection(target.server.address, timeout=60) as connection:
        while not wire.coordinator_is_ready(connection, "first"):
            time.sleep(0.05)
    for name, value in large_group(target).items():
        samples[name.replace("settle", "settle on a fresh server")][target.server.name].append(value)


def warm_up(target: Target, seconds: float) -> None:
    """Warm up a server. A JVM is slow until it is warm."""
    usual, target.seconds = target.seconds, seconds
    heartbeats(target, 100)
    target.seconds = seconds / 2
    commits(target)
    fetch_small(target)
    target.seconds = usual
    fetch_large(target)
    for _ in range(WARM_LOADS):
        produce(target)
        large_group(target)


def codec_figures(samples: Samples) -> str:
    """Run the bench of the codec, and that of ACL decisions, while nothing else runs."""
    said = "".join(
        subprocess.run([sys.executable, "-m", one], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
        for one in ("bench.codec", "bench.acls")
    )
    for line in said.splitlines():
        if line.startswith(CODEC_LINE):
            value = float(line[len(CODEC_LINE) :].split()[0])  # the median
            samples["JoinGroup answer of 1,000 members, encode, us"]["muster"].append(value)
    return said


def started(server: ServerProcess, frameload: FrameLoad, args: argparse.Namespace, samples: Samples) -> Target:
    """Start a server, measure it cold, and warm it up."""
    begin = time.perf_counter()
    server.start()
    if server.name == "kafka":
        samples["start-up, spawn to ready, ms"]["kafka"].append((time.perf_counter() - begin) * 1000)
        note_process(samples, server)
    target = Target(server, frameload, args.seconds)
    first_group(target, samples)
    target.prepare()
    note(samples, target, cold(target))
    warm_up(target, args.warm_up)
    transactions.prepare(target)
    transactions.warm_up(target)
    return target


def run(args: argparse.Namespace, workdir: Path) -> str:
    samples: Samples = defaultdict(lambda: defaultdict(list))
    frameload, muster = FrameLoad(workdir), executable()
    codec = codec_figures(samples)
    start_up(workdir, muster, samples)
    with_kafka = kafka_available() and not args.without_kafka
    memory.figures(samples)
    consumer_memory.figures(samples)
    memory.load_figures(workdir, samples, muster, with_kafka=with_kafka)
    with_events, without_events = (
        MusterServer(workdir / name, SETTINGS, executable=muster) for name in ("with-events", "without-events")
    )
    without_events.properties["muster.group.events.enable"] = "false"
    with_target, without_target = (Target(one, frameload, args.seconds) for one in (with_events, without_events))
    memory.events_figure(with_target, without_target, samples)
    servers: list[ServerProcess] = [MusterServer(workdir / "muster", SETTINGS, executable=muster)]
    page_cache = MusterServer(workdir / "page-cache", {**SETTINGS, **PAGE_CACHE}, executable=muster)
    closed = UncachedServer(workdir / "uncached", {**SETTINGS, **PAGE_CACHE}, executable=muster)
    notes = []
    if with_kafka:
        servers.append(KafkaServer(workdir / "kafka", SETTINGS))
    else:
        notes.append("No Kafka was measured (Java and Maven are needed).")
    targets: list[Target] = []
    bare = BareServer(workdir / "bare")
    try:
        bare.start()
        targets.extend(started(server, frameload, args, samples) for server in servers)
        page_cache.start()
        unsynced = Target(page_cache, frameload, args.seconds)
        unsynced.prepare_commits()
        commits(unsynced)
        unsynced.create_topic(transactions.TOPIC, transactions.PARTITIONS)
        transactions.warm_up(unsynced)
        closed.start()
        uncached = Target(closed, frameload, args.seconds)
        uncached.prepare()
        new_protocol = [(target, consumer_groups.Groups(target)) for target in targets]
        for _, groups in new_protocol:
            groups.prepare()
        for number in range(args.rounds):
            print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
            bare_figures(Target(bare, frameload, args.seconds), targets[0], samples)
            commit_figures(targets, unsynced, samples)
            uncached_figures(uncached, samples)
            transaction_figures(targets, unsynced, samples)
            for target, groups in new_protocol:
                note(samples, target, groups.figures())
            for scenario in SCENARIOS:
                for target in targets:
                    note(samples, target, scenario(target))
        for target in targets:
            samples["resident memory after the load, MB"][target.server.name].append(
                measure.resident_mb(target.server.pid)
            )
    finally:
        for server in [*servers, page_cache, closed, bare]:
            if server.running:
                server.stop()
    for name, by_server in security.figures(workdir, frameload, args, muster).items():
        for server_name, values in by_server.items():
            samples[name][server_name].extend(values)
    beside_kfake = []
    if kfake.is_available():
        beside_kfake = kfake.table(kfake.figures(workdir, frameload, args.rounds, args.seconds, muster))
    medians = {
        name: {server: statistics.median(values) for server, values in by_server.items()}
        for name, by_server in samples.items()
    }
    return report.write(medians, args.rounds, notes, codec, beside_kfake)


def main() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(65536, hard), hard))
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as workdir:
        print(run(arguments(), Path(workdir)))


if __name__ == "__main__":
    main()
