"""`make torture-log`: random lives of a compacted log on a disk that fails, under a process that dies."""

from __future__ import annotations

import argparse
import logging
import sys

import structlog

from muster.coordinator.log import DamagedLog
from tests.coordinator.log.storms import Lost, Storm


def main() -> int:
    """Exit status 1 when something was lost; each line names the seed that makes that life again."""
    parser = argparse.ArgumentParser(prog="make torture-log", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20_000, help="how many lives (default: 20000)")
    parser.add_argument("--start", type=int, default=0, help="the first seed (default: 0)")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    faults = 0
    for number in range(options.seeds):
        try:
            Storm(options.start + number).run()
        except (Lost, DamagedLog) as error:
            faults += 1
            print(f"seed {options.start + number}: {error}", flush=True)
        if (number + 1) % 2000 == 0:
            print(f"{number + 1} lives", flush=True)
    print("something was lost" if faults else "nothing was lost")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
