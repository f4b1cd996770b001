"""Computes from small requests over small states what the largest ones need.

All limits of the work in one step (`AT_ONCE` and similar ones) are divided by `SCALE`, so that small numbers of rows
exceed them. Then the longest piece of work has one of two forms. It is the same for twice as many rows, because
something bounds it. Or it grows, and is taken to grow in proportion up to as many rows as the limits admit. If that
would be too long, more rows are tried.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final, NamedTuple
from unittest.mock import patch

from muster.coordinator.system.jobs import job_queue, jobs
from tests.worst.state import State

IS_WHOLE: Final = os.environ.get("MUSTER_WORST") == "whole"
SCALE: Final = 1 if IS_WHOLE else 20
LIMIT: Final = 5_000_000
"""Instructions in one piece: 50 ms, at 10 ns for each."""
SIZES: Final = (600, 1_200, 6_000) if IS_WHOLE else (60, 120, 600, 1_200)
"""The numbers of rows of requests and states that are tried, one after the other."""
SLACK: Final = 4_000
"""An increase up to this number is no growth: a log line here, an entry of a cache there."""

_LIMITS: Final = re.compile(r"_?([A-Z_]*AT_ONCE|MANY_STEPS|FEW_[A-Z]+|MANY_ROWS|CHECKED_IN_A_STEP|SLICE|FEW)")
_LEAST, _MOST = 50, 100_000
"""Smaller limits bound no considerable work; larger limits are bytes."""


@contextmanager
def scaled_limits() -> Iterator[None]:
    """While the block runs, each limit of the work in one step is divided by `SCALE`."""
    with ExitStack() as stack:
        for name, module in sorted(sys.modules.items()):
            if not name.startswith(("muster.coordinator.", "muster.postgres.", "muster.testcontrol.")):
                continue
            for attribute, value in list(vars(module).items()):
                if _LIMITS.fullmatch(attribute) and type(value) is int and _LEAST <= value <= _MOST:
                    stack.enter_context(patch.object(module, attribute, max(value // SCALE, 1)))
        assert job_queue.MANY_STEPS * SCALE == 2_000
        assert jobs.COUNTED_AT_ONCE * SCALE == 500
        yield


class Verdict(NamedTuple):
    """The result: rows and instructions of each try, and what the largest request needs by estimate."""

    tries: list[tuple[int, int]]
    needs: int
    most: int = LIMIT

    @property
    def is_too_long(self) -> bool:
        """Whether the event loop would be blocked for too long."""
        return self.needs > self.most


def judge(
    measure: Callable[[State], int],
    states: Callable[[int], State],
    most: int,
    sizes: Sequence[int] = SIZES,
    known: int = 0,
) -> Verdict:
    """`measure`: the longest piece of work with as many rows as the state is large. `states`: makes a state of this
    size. `most`: the rows that the limits admit. `sizes`: the sizes that are tried. `known`: the instructions that are
    admitted, if they are more than `LIMIT`.
    """
    tries: list[tuple[int, int]] = []
    verdict = Verdict(tries, 0)
    for size in sizes:
        tries.append((size, measure(states(size))))
        if len(tries) < 2:
            continue
        verdict = Verdict(tries, _largest(tries, most), max(known, LIMIT))
        if not verdict.is_too_long:
            break
    return verdict


def _largest(tries: list[tuple[int, int]], most: int) -> int:
    (size, before), (larger, now) = tries[-2:]
    if now - before <= SLACK:
        return max(now, before) * (1 if most <= larger else SCALE)
    return now + (now - before) * max(most - larger, 0) // (larger - size)
