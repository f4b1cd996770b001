"""Plays many seeds on all cores, for `make simulate`, `make torture` and `make torture-log`."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import Pool
from typing import NamedTuple

ROUND = 5
"""Progress is reported after this number of calls in each process."""


class Played(NamedTuple):
    """The result of some seeds: `counts` of events, and the texts of the failures."""

    counts: Counter[str]
    failures: list[str]


def play(chunk: Callable[[int, int], Played], each: int, start: int, seeds: int | None, processes: int = 0) -> bool:
    """Call `chunk(first seed, how many)` for `each` seeds at a time, and print the results; whether any failed.

    `seeds` None: until the program is stopped. `processes` 0: one process for each core.
    """
    counts: Counter[str] = Counter()
    failed, began = 0, time.monotonic()
    end = sys.maxsize if seeds is None else start + seeds
    processes = processes or os.cpu_count() or 1
    with suppress(KeyboardInterrupt), Pool(processes) as pool:
        while start < end:
            firsts = range(start, min(end, start + each * processes * ROUND), each)
            for played in pool.starmap(chunk, [(first, min(each, end - first)) for first in firsts]):
                counts += played.counts
                failed += len(played.failures)
                print(*played.failures, sep="\n", end="\n" if played.failures else "", flush=True)
            start = firsts[-1] + each
            what = ", ".join(f"{number:,} {name}" for name, number in counts.items())
            print(f"{what} in {time.monotonic() - began:.0f} s, {failed} failed", flush=True)
    return failed > 0
