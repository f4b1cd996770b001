"""Deploys in a history: restarts that came together, and their times with another number at a time. Pure.

In a restart a process stops and another one of the same client id and host comes. Restarts at different places that
follow each other within GAP_MS, and are at least half of the group, are one deploy.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final, NamedTuple

from muster.pipeline.whatif.processes import Cast, Process

GAP_MS: Final = 600_000
"""The longest time between two restarts of one deploy, and for one restart."""
SETTLE_MS: Final = 1_000
"""From the return of one batch to the stop of the next, if the history does not tell."""


class Restart(NamedTuple):
    """One process for another."""

    stop_ms: int
    start_ms: int
    old: Process
    new: Process


def deploys(cast: Cast) -> list[list[Restart]]:
    """Each deploy as its restarts, in the order in which they stopped."""
    found: list[list[Restart]] = []
    for restart in sorted(_restarts(cast), key=lambda one: (one.stop_ms, one.old.index)):
        last = found[-1] if found else None
        if last is not None and _goes_on(last, restart):
            last.append(restart)
        else:
            found.append([restart])
    return [one for one in found if len(one) > 1 and 2 * len(one) >= _alive(cast, one[0].stop_ms)]


def shifted(cast: Cast, at_a_time: int) -> tuple[dict[int, int], dict[int, int]]:
    """When processes start and stop with so many at a time (0: all), by index, if a deploy changes it.

    Each is away as long as it was. A deploy is not changed if a process would then start after its stop.
    """
    starts: dict[int, int] = {}
    stops: dict[int, int] = {}
    for deploy in deploys(cast):
        size = at_a_time or len(deploy)
        settle_ms = _settle_ms(deploy)
        begin_ms = deploy[0].stop_ms
        new_starts, new_stops = {}, {}
        for first in range(0, len(deploy), size):
            batch = deploy[first : first + size]
            for restart in batch:
                new_stops[restart.old.index] = begin_ms
                new_starts[restart.new.index] = begin_ms + restart.start_ms - restart.stop_ms
            begin_ms = max(new_starts[one.new.index] for one in batch) + settle_ms
        if all(_fits(one, new_starts, new_stops) for one in deploy):
            starts |= new_starts
            stops |= new_stops
    return starts, stops


def _restarts(cast: Cast) -> list[Restart]:
    found = []
    for new in cast.processes:
        old, start_ms = new.replaces, new.start_ms
        if old is not None and start_ms is not None and 0 <= start_ms - old.end_ms <= GAP_MS:
            found.append(Restart(old.end_ms, start_ms, old, new))
    return found


def _goes_on(deploy: list[Restart], restart: Restart) -> bool:
    last_ms = max(one.start_ms for one in deploy)
    return restart.stop_ms - last_ms <= GAP_MS and all(one.new.slot != restart.new.slot for one in deploy)


def _alive(cast: Cast, ms: int) -> int:
    return sum((one.start_ms is None or one.start_ms <= ms) and one.end_ms >= ms for one in cast.processes)


def _settle_ms(deploy: list[Restart]) -> int:
    """How long after a return the next one stopped."""
    gaps = sorted(
        after.stop_ms - before.start_ms for before, after in pairwise(deploy) if after.stop_ms > before.start_ms
    )
    return gaps[len(gaps) // 2] if gaps else SETTLE_MS


def _fits(restart: Restart, starts: dict[int, int], stops: dict[int, int]) -> bool:
    old, new = restart.old, restart.new
    old_start_ms = starts.get(old.index, old.start_ms)
    new_stop_ms = stops.get(new.index, new.end_ms)
    old_busy = [one.until_ms for one in old.absences[:-1]]
    new_busy = [one.from_ms for one in new.absences[:1]]
    return (
        (old_start_ms is None or old_start_ms < stops[old.index])
        and starts[new.index] < new_stop_ms
        and all(ms < stops[old.index] for ms in old_busy)
        and all(ms > starts[new.index] for ms in new_busy)
    )
