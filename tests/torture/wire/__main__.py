"""`make torture-wire`: hostile bytes to whole nodes in memory, then to a server process that other clients use too.

A failure is reported with the command that plays its chapter again; its inputs are in a file.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

from tests.simulation import seeds
from tests.torture.wire.chapter import INPUTS, SLOW, Chapter, import_all
from tests.torture.wire.crowd import Crowd

SEEDS: Final = 1 << 32
EACH: Final = 10
"""Chapters that are played in one task."""
MAX_GROWTH_MB: Final = 300
"""A process that plays chapters may grow by this number of MB after the first chapters."""
_sizes_mb: list[float] = []


def play_chapters(first: int, count: int) -> seeds.Played:
    """Play `count` chapters. Failures are kept in files."""
    import_all()
    counts: Counter[str] = Counter()
    failures = []
    for seed in range(first, first + count):
        chapter = played(seed)
        counts += chapter.counts
        counts["chapters"] += 1
        _sizes_mb.append(_resident_mb())
        if len(_sizes_mb) > EACH and _sizes_mb[-1] > _sizes_mb[EACH // 2] + MAX_GROWTH_MB:
            chapter.faults.append(f"chapters leave memory behind: {_sizes_mb[-1]:.0f} MB")
        if chapter.faults:
            failures.append(described(chapter))
    return seeds.Played(counts, failures)


def played(seed: int, inputs: int = INPUTS) -> Chapter:
    """Play one chapter. A slow iteration counts when it is slow again: the machine may have been busy."""
    chapter = Chapter(seed, inputs)
    chapter.run()
    if chapter.faults and all(one.startswith(SLOW) for one in chapter.faults):
        chapter = Chapter(seed, inputs)
        chapter.run()
    return chapter


def described(chapter: Chapter) -> str:
    """The fault, how to see it again, and where its inputs are."""
    path = Path(tempfile.gettempdir()) / f"torture-wire-{chapter.seed}.txt"
    path.write_text("".join(f"{one.connection} {one.port} {one.data.hex()}\n" for one in chapter.steps))
    return "\n".join(
        [
            f"seed {chapter.seed}: {chapter.faults[0]}",
            *(f"  and {fault}" for fault in chapter.faults[1:5]),
            f"  the last input: {chapter.steps[-1].data.hex()[:400] if chapter.steps else 'none'}",
            f"  all of them (connection, port, bytes): {path}",
            f"  again: make torture-wire ARGS='--inputs {INPUTS} --seed {chapter.seed}'",
        ]
    )


def _resident_mb() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


def main() -> int:
    """Exit status 1 when a fault was found."""
    parser = argparse.ArgumentParser(prog="make torture-wire", description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="to nodes in memory (default: 1,000,000)")
    parser.add_argument("--seed", type=int, default=random.randrange(SEEDS), help="of the first chapter (default: any)")
    parser.add_argument("--processes", type=int, default=0, help="that play chapters (default: one for each core)")
    parser.add_argument(
        "--crowd", type=int, default=0, metavar="INPUTS", help="to a server process, over sockets (default: none)"
    )
    parser.add_argument("--connections", type=int, default=10_000, help="at a time in --crowd (default: 10,000)")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    chapters = -(-options.inputs // INPUTS)
    wrong = seeds.play(play_chapters, min(EACH, chapters or 1), options.seed, chapters, options.processes)
    if options.crowd:
        wrong = _crowd(options) or wrong
    return 1 if wrong else 0


def _crowd(options: argparse.Namespace) -> bool:
    """Run a server process among hostile clients; whether a fault was found."""
    with tempfile.TemporaryDirectory() as folder:
        crowd = Crowd(Path(folder), options.seed, options.crowd, options.connections)
        asyncio.run(crowd.run())
    beats = sorted(crowd.beats_ms)
    print(
        f"{crowd.sent:,} inputs over sockets, " + ", ".join(f"{many:,} {what}" for what, many in crowd.counts.items())
    )
    half_ms, p99_ms = beats[len(beats) // 2], beats[len(beats) * 99 // 100]
    print(f"{len(beats):,} heartbeats beside them: half within {half_ms:.0f} ms, p99 {p99_ms:.0f} ms")
    print(*crowd.faults, sep="\n", end="\n" if crowd.faults else "")
    return bool(crowd.faults)


if __name__ == "__main__":
    sys.exit(main())
