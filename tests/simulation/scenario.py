"""The choices of a seed before anything happens: the settings of the core, the faults, and the clients."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from muster.coordinator.groups.common.settings import GroupSettings

TOPIC: Final = "t"
PARTITIONS: Final = 6
SESSIONS_MS: Final = (6_000, 8_000, 12_000)
REBALANCES_MS: Final = (3_000, 8_000, 20_000)
DELAYS_MS: Final = (0, 0, 500, 3_000)
MAX_SIZES: Final = (3, 6, 1_000, 1_000)
LATE_MS: Final = 150
NO_ANSWER_FOR_MS: Final = SESSIONS_MS[-1] + REBALANCES_MS[-1] + DELAYS_MS[-1] + 4 * LATE_MS
"""The longest time for which a request may be parked. A round takes a rebalance timeout (or the initial delay), and an
abandoned request a session more.
"""
SETTLED_WITHIN_MS: Final = 300_000
"""Within this time after the last fault all groups must be stable. Lost requests are given up after 30 s, dead members
after a session or a rebalance timeout. Each of these may begin another round.
"""


@dataclass(frozen=True, slots=True)
class Scenario:
    """The parameters of one seed. Probabilities are per message or per tick of the faults."""

    settings: GroupSettings
    groups: int
    consumers: int
    probers: int
    lose_request: float
    lose_reply: float
    sync_ms: int
    """A record is durable within this time; 0: at once."""
    late_ms: int
    """How late the shell gives the time to the core: a busy event loop."""
    tick_ms: int
    """The average time between two faults, or two arrivals or departures."""
    crashes: float
    """The share of them that end the server."""


def draw(rng: Random) -> Scenario:
    """The scenario of a seed: with few faults or many, few members or many."""
    settings = GroupSettings(
        group_min_session_timeout_ms=SESSIONS_MS[0],
        group_max_session_timeout_ms=60_000,
        group_initial_rebalance_delay_ms=rng.choice(DELAYS_MS),
        group_max_size=rng.choice(MAX_SIZES),
    )
    groups = rng.choice((1, 1, 2, 4))
    loss = rng.choice((0.0, 0.01, 0.05))
    return Scenario(
        settings,
        groups,
        consumers=groups * rng.choice((2, 3, 5, 8) if groups > 1 else (2, 4, 8, 30)),
        probers=rng.choice((0, 1, 2)),
        lose_request=loss,
        lose_reply=rng.choice((0.0, loss, loss * 2)),
        sync_ms=rng.choice((0, 0, 5, 40)),
        late_ms=rng.choice((0, 0, 0, LATE_MS)),
        tick_ms=rng.choice((200, 800, 3_000)),
        crashes=rng.choice((0.0, 0.02, 0.1)),
    )
