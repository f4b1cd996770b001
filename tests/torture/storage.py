"""`make torture-log`: random lives of a compacted log on a disk that fails, in a process that dies."""

from __future__ import annotations

import argparse
import logging
import sys
from collections import Counter

import structlog

from muster.coordinator.log import DamagedLog
from tests.coordinator.log.storms import Lost, Storm
from tests.simulation import seeds

CHUNK = 100


def chunk(start: int, count: int) -> seeds.Played:
    """Play some seeds; each failure names the seed of that life."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    failures = []
    for seed in range(start, start + count):
        try:
            Storm(seed).run()
        except (Lost, DamagedLog) as error:
            failures.append(f"seed {seed}: {error}")
    return seeds.Played(Counter(lives=count), failures)


def main() -> int:
    """Exit status 1 when something was lost."""
    parser = argparse.ArgumentParser(prog="make torture-log", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20_000, help="how many lives (default: 20000)")
    parser.add_argument("--start", type=int, default=0, help="the first seed (default: 0)")
    options = parser.parse_args()
    return seeds.play(chunk, CHUNK, options.start, options.seeds)


if __name__ == "__main__":
    sys.exit(main())
