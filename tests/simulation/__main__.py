"""Simulate as many histories as you like: `make simulate ARGS='--seeds 20000 --start 0 --events 1000'`.

Without --seeds it goes on until it is stopped. Prints each failure with its seed and the last events of its group; the
exit code is 1 when there was one.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait

from tests.simulation.run import EVENTS, Failure, play

CHUNK = 100
"""Seeds that are played in one go."""
REPORT_S = 5.0


def chunk(start: int, count: int, events: int) -> tuple[int, int, float, list[tuple[int, str]]]:
    """Play some seeds: how many, how many events, CPU seconds, and the failures as (seed, text)."""
    failures: list[tuple[int, str]] = []

    def note(failure: Failure) -> None:
        failures.append((failure.seed, failure.text))

    began = time.process_time()
    happened, _ = play(range(start, start + count), events, note)
    return count, happened, time.process_time() - began, failures


def chunks(start: int, seeds: int | None) -> Iterator[tuple[int, int]]:
    """(first seed, how many) of each chunk; without end when `seeds` is None."""
    for at in itertools.count(0, CHUNK) if seeds is None else range(0, seeds, CHUNK):
        yield start + at, CHUNK if seeds is None else min(CHUNK, seeds - at)


def main(arguments: list[str] | None = None) -> int:
    """Play, print, and tell by the exit code."""
    parser = argparse.ArgumentParser(prog="make simulate ARGS=...", description=__doc__)
    parser.add_argument("--seeds", type=int, help="how many histories (default: for ever)")
    parser.add_argument("--start", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--events", type=int, default=EVENTS, help=f"events of each at least (default {EVENTS})")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="default: one for each core")
    options = parser.parse_args(arguments)
    done = happened = failed = 0
    cpu_s = 0.0
    began = told = time.monotonic()
    work = chunks(options.start, options.seeds)
    with ProcessPoolExecutor(options.processes) as pool:
        running: set[Future[tuple[int, int, float, list[tuple[int, str]]]]] = set()
        try:
            while True:
                for first, count in itertools.islice(work, 2 * options.processes - len(running)):
                    running.add(pool.submit(chunk, first, count, options.events))
                if not running:
                    break
                finished, running = wait(running, return_when=FIRST_COMPLETED)
                for one in finished:
                    count, events, seconds, failures = one.result()
                    done, happened, cpu_s, failed = (
                        done + count,
                        happened + events,
                        cpu_s + seconds,
                        failed + len(failures),
                    )
                    for _, text in failures:
                        print(text, flush=True)
                if time.monotonic() - told > REPORT_S or not running:
                    told = time.monotonic()
                    rate = f"{happened / max(cpu_s, 1e-9):,.0f} events/s on one core"
                    print(
                        f"{done:,} seeds, {happened:,} events in {told - began:.0f} s, {rate}, {failed} failed",
                        flush=True,
                    )
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            print(f"stopped after {done:,} seeds, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
