"""`python -m bench.kfake` measures Muster and kfake, franz-go's broker for tests, in turn. It needs Go.

kfake keeps everything in memory; Muster has its log on the disk. `bench.run` measures the same figures.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench.load.frameload import FrameLoad
from bench.scenarios import REPEATED, VARIED, Figures, Target, heartbeats, large_group
from bench.substitutes.servers import Kfake
from tests.support.servers import MusterServer, ServerProcess

SETTINGS: Final[Mapping[str, str]] = {"group.initial.rebalance.delay.ms": "0"}
CONNECTIONS: Final = 100
SESSION_MS: Final = 300_000
"""The longest session of kfake."""
SETTLE: Final = "1,000 members settle, CPU ms"
GOALS: Final = {
    f"heartbeat, {REPEATED}, {CONNECTIONS} connections, us": 0.4,
    f"heartbeat, {VARIED}, {CONNECTIONS} connections, us": 0.4,
    SETTLE: 0.7,
}
"""The largest shares of kfake's figures that are to be reached."""

Samples = dict[str, dict[str, list[float]]]


def is_available() -> bool:
    """Whether kfake can be compiled here."""
    return shutil.which("go") is not None


def of_round(target: Target) -> Figures:
    """The figures of one round."""
    found = {**heartbeats(target, CONNECTIONS), **large_group(target)}
    return {name: found[name] for name in GOALS}


def figures(
    workdir: Path, frameload: FrameLoad, rounds: int, seconds: float, executable: Path | None = None
) -> Samples:
    """Start both servers, and measure them in turn. Returns values by figure and server."""
    Kfake.prepare()
    samples: Samples = defaultdict(lambda: defaultdict(list))
    servers: list[ServerProcess] = [
        MusterServer(workdir / "beside-kfake", SETTINGS, executable=executable),
        Kfake(workdir / "kfake", {}),
    ]
    try:
        targets = []
        for server in servers:
            server.start()
            target = Target(server, frameload, seconds)
            target.prepare_heartbeats((CONNECTIONS,), SESSION_MS)
            large_group(target)
            targets.append(target)
        for number in range(rounds):
            print(f"round {number + 1} of {rounds} beside kfake", file=sys.stderr)
            for target in targets:
                for name, value in of_round(target).items():
                    samples[name][target.server.name].append(value)
    finally:
        for server in servers:
            if server.running:
                server.kill()
    return samples


def table(samples: Samples) -> list[str]:
    """The lines of a table in Markdown, with the medians."""
    lines = ["| figure | Muster | kfake | Muster / kfake | to reach | |", "|---|---:|---:|---:|---:|---|"]
    for name, goal in GOALS.items():
        ours, theirs = (statistics.median(samples[name][server]) for server in ("muster", Kfake.name))
        verdict = "yes" if ours <= goal * theirs else "**no**"
        lines.append(f"| {name} | {ours:.1f} | {theirs:.1f} | {ours / theirs:.2f} | ≤ {goal:.2f} | {verdict} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.kfake", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each server is measured (default: 5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long heartbeats are sent (default: 2)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        workdir = Path(folder)
        print("\n".join(table(figures(workdir, FrameLoad(workdir), args.rounds, args.seconds))))


if __name__ == "__main__":
    main()
