"""The choices of a seed before anything happens: the behaviour of the disk, the network, the clock and the clients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

NEVER = 1 << 60


@dataclass(frozen=True, slots=True)
class Scenario:
    """The parameters of one seed. `tick_ms`, `consumers`, `groups`, `probers`, `crashes`: see `simulation.faults`."""

    processes: int
    """How many processes meet faults, one after the other; one more meets none."""
    power_cuts: bool
    """Processes end by a power cut, else by a kill; some stop in order in both cases."""
    failing_disk: int
    """How many changes of the disk fail in each process."""
    slow_disk: float
    """The longest time of a sync, as a multiple of the usual time."""
    syncs_all: bool
    """One sync serves all files (syncfs)."""
    durability: str
    """`muster.offsets.durability`."""
    cuts: float
    """How likely a connection is cut in a tick."""
    pauses: float
    """How likely the process stands still in a tick, for up to half a minute."""
    clock_jumps: bool
    """The wall clock is changed by up to an hour, in both directions."""
    consumers: int
    groups: int
    probers: int
    committers: int
    producers: int
    rogues: bool
    tick_ms: int
    initial_delay_ms: int
    roll_ms: int
    """The largest age of the active segment; the cleaner compacts older segments."""
    transactional_ids: int
    id_expiration_ms: int
    crashes: float = 0.0


def draw(rng: Random) -> Scenario:
    """The scenario of a seed: with few faults or many."""
    power_cuts = rng.random() < 0.5
    groups = rng.choice((1, 2))
    return Scenario(
        processes=rng.choice((1, 2, 3, 4)),
        power_cuts=power_cuts,
        failing_disk=rng.choice((0, 0, 0, 1, 3, 8)),
        slow_disk=rng.choice((0.0, 1.0, 1.0, 20.0)),
        syncs_all=rng.random() < 0.5,
        durability="commit" if power_cuts or rng.random() < 0.7 else "os",
        cuts=rng.choice((0.0, 0.05, 0.3)),
        pauses=rng.choice((0.0, 0.0, 0.05)),
        clock_jumps=rng.random() < 0.3,
        consumers=groups * rng.choice((1, 2, 4)),
        groups=groups,
        probers=rng.choice((0, 1)),
        committers=rng.choice((1, 3)),
        producers=rng.choice((1, 3, 6)),
        rogues=rng.random() < 0.5,
        tick_ms=rng.choice((300, 1_000, 3_000)),
        initial_delay_ms=rng.choice((0, 0, 500)),
        roll_ms=rng.choice((500, 3_000, 3_600_000)),
        transactional_ids=0,
        id_expiration_ms=604_800_000,
    )


def draw_transactional(rng: Random) -> Scenario:
    """The same faults for clients with transactions, and few other clients."""
    return replace(
        draw(rng),
        consumers=1,
        groups=1,
        probers=0,
        committers=1,
        producers=1,
        transactional_ids=rng.choice((1, 2, 4)),
        id_expiration_ms=rng.choice((5_000, 604_800_000)),
    )
