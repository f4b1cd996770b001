"""`make bench-compiled`: the CPU time of a server with compiled modules, beside pure Python; writes compiled.md.

The two servers take turns in one run, and each load has a fixed number of requests.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path

from bench import measure, transactions
from bench.load.frameload import FrameLoad
from bench.run import PAGE_CACHE, SETTINGS, STARTS, executable
from bench.scenarios import (
    BY_THE_CLOCK,
    COMMIT_ERROR_AT,
    MEMBERS_EACH,
    REPEATED,
    VARIED,
    Figures,
    Target,
    commit_frames,
    fetch_large,
    fetch_small,
    large_group,
    produce,
)
from tests.support.servers import REPOSITORY, MusterServer

RESULTS = Path(__file__).with_name("compiled.md")
INSTALLED = REPOSITORY / "build" / "installed" / "site"
HEAD = """\
# What compiled modules save

Written by `make bench-compiled`: medians of {rounds} rounds in which the two servers took turns, of {starts} starts;
load average {load:.0f} at the end. CPU time is the server's own, user and system; commits go to the page cache.

| figure | pure Python | compiled | compiled / pure |
|---|---:|---:|---:|
"""


def run_script(folder: Path, muster: Path) -> Path:
    """A script that runs `muster` with the compiled package."""
    script = folder / "muster"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={INSTALLED} exec {muster} "$@"\n')
    script.chmod(0o755)
    return script


def starts(folder: Path, muster: Path) -> Figures:
    """CPU time and memory of a server that has become ready."""
    server = MusterServer(folder, SETTINGS, executable=muster)
    server.start()
    try:
        return {
            "start-up, CPU ms": measure.cpu_s(server.pid) * 1000,
            "resident memory when ready, MB": measure.resident_mb(server.pid),
        }
    finally:
        server.stop()


def figures(target: Target) -> Figures:
    """One round of all loads."""
    beats = target.heartbeats[100]
    loads = {
        f"heartbeat, {REPEATED}": target.load(beats, connections=100, requests=30_000, seconds=60),
        f"heartbeat, {VARIED}": target.load(
            [*beats, *beats[MEMBERS_EACH:], *beats[:MEMBERS_EACH]], connections=100, requests=30_000, seconds=60
        ),
        **{
            f"commit, {comes}": target.load(
                commit_frames(100, varied=comes == VARIED),
                connections=100,
                error_at=COMMIT_ERROR_AT,
                requests=15_000,
                seconds=60,
            )
            for comes in (REPEATED, VARIED)
        },
    }
    found = {f"{name}, us": load.cpu_us_per_request for name, load in loads.items()}
    for version, requests in ((2, 3), (1, 5)):
        load = transactions.committed(target, version=version, count=800)
        found[f"transaction of version {version}, us"] = load.cpu_us_per_request * requests
    for measured in (produce(target), fetch_large(target), fetch_small(target), large_group(target)):
        found |= {name: value for name, value in measured.items() if BY_THE_CLOCK not in name and "wall" not in name}
    return found


def main() -> None:
    """Measure both servers, and write compiled.md."""
    parser = argparse.ArgumentParser(prog="python -m bench.compiled", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each server is measured (default: 5)")
    rounds = parser.parse_args().rounds
    samples: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with tempfile.TemporaryDirectory(prefix="muster-compiled-") as place:
        folder = Path(place)
        pure = executable()
        programs = {"pure": pure, "compiled": run_script(folder, pure)}
        servers = {
            name: MusterServer(folder / name, {**SETTINGS, **PAGE_CACHE}, executable=path)
            for name, path in programs.items()
        }
        try:
            for number in range(STARTS):
                for name, path in programs.items():
                    for what, value in starts(folder / f"start-{name}-{number}", path).items():
                        samples[what][name].append(value)
            targets = {}
            for name, server in servers.items():
                server.start()
                target = targets[name] = Target(server, FrameLoad(folder), 2.0)
                target.prepare()
                target.create_topic(transactions.TOPIC, transactions.PARTITIONS)
                figures(target)  # the first round warms up
            for _ in range(rounds):
                for name, target in targets.items():
                    for what, value in figures(target).items():
                        samples[what][name].append(value)
        finally:
            for server in servers.values():
                if server.running:
                    server.stop()
    text = HEAD.format(rounds=rounds, starts=STARTS, load=os.getloadavg()[0])
    for what, by_server in samples.items():
        ours, theirs = (statistics.median(by_server[name]) for name in ("pure", "compiled"))
        text += f"| {what} | {ours:.1f} | {theirs:.1f} | {theirs / ours:.2f} |\n"
    RESULTS.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
