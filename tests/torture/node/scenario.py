"""What a seed decides before anything happens: how the disk, the network, the clock and the clients behave."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

NEVER = 1 << 60


@dataclass(frozen=True, slots=True)
class Scenario:
    """One seed's circumstances. `tick_ms`, `consumers`, `groups`, `probers`, `crashes`: see `simulation.faults`."""

    processes: int
    """How many meet faults, one after the other; one more does not."""
    power_cuts: bool
    """Processes end with the power, else by a kill; some stop in good order either way."""
    failing_disk: int
    """So many of a process's changes of the disk fail."""
    slow_disk: float
    """How long a sync may take, as a multiple of what it usually takes."""
    syncs_all: bool
    """One sync serves all files (syncfs)."""
    durability: str
    """`muster.offsets.durability`."""
    cuts: float
    """How likely a tick cuts a connection."""
    pauses: float
    """How likely a tick lets the process stand still, for up to half a minute."""
    clock_jumps: bool
    """The wall clock is set, by up to an hour, both ways."""
    consumers: int
    groups: int
    probers: int
    committers: int
    producers: int
    rogues: bool
    tick_ms: int
    initial_delay_ms: int
    roll_ms: int
    """A segment gets so old; the cleaner compacts what is behind it."""
    transactional_ids: int
    id_expiration_ms: int
    crashes: float = 0.0


def draw(rng: Random) -> Scenario:
    """A seed's scenario: fair as well as foul."""
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
    """The same weather over clients with transactions, and few others."""
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
