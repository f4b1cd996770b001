"""`make torture-node`: whole nodes in virtual time, under faults of disk, process, clock, network and clients."""

from __future__ import annotations

import argparse
import sys
import traceback

from tests.torture.node.storm import Storm

SHOWN = 60
"""How many of the last events of a history that went wrong are shown."""


def main() -> int:
    """Exit status 1 when something went wrong; each seed makes its history again."""
    parser = argparse.ArgumentParser(prog="make torture-node", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2_000, help="how many histories (default: 2000)")
    parser.add_argument("--start", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--shown", type=int, default=SHOWN, help="how many events of one that went wrong")
    options = parser.parse_args()
    wrong = answers = lives = 0
    for seed in range(options.start, options.start + options.seeds):
        storm = Storm(seed)
        storm.run()
        answers, lives = answers + storm.world.answers, lives + storm.world.lives
        if storm.failure is not None:
            wrong += 1
            print(f"seed {seed}: {storm.failure}")
            if options.seeds == 1:
                print("\n".join(list(storm.world.trace)[-options.shown :]))
                traceback.print_exception(storm.failure)
        if (seed + 1) % 100 == 0:
            print(f"{seed + 1 - options.start} histories, {lives} processes, {answers} answers", flush=True)
    print(f"{options.seeds} histories, {lives} processes, {answers} answers: {wrong} went wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
