"""What a seed decides before anything happens to groups of both protocols."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from muster.coordinator.groups.common.settings import GroupSettings

SESSION_MS: Final = 6_000
BEAT_MS: Final = 2_000
REBALANCES_MS: Final = (3_000, 8_000, 20_000)
SUBSCRIPTIONS: Final = (("t",), ("t",), ("t", "u"), ("u",), ("t", "u", "nope"))
PATTERNS: Final = ("t|u", "[t-v]", "u")
POLICIES: Final = ("bidirectional", "bidirectional", "bidirectional", "upgrade", "disabled")
ASSIGNORS: Final = (None, None, "range", "uniform")
SETTLED_WITHIN_MS: Final = 200_000
"""So long after the last trouble every partition must be owned: requests that were lost are given up after 30 s, dead
members after a session or a rebalance timeout, and each of them may begin something new; a pattern waits for 10 s.
"""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One seed's circumstances. Probabilities are per message, per write or per tick of the trouble."""

    settings: GroupSettings
    groups: int
    consumers: int
    natives: float
    """How many of those that come use the new protocol."""
    lose_request: float
    lose_reply: float
    repeat: float
    """How often a request comes twice."""
    sync_ms: int
    """A record is durable after up to so many ms; 0: at once."""
    late_ms: int
    """How late the shell lets the core know of the time."""
    elsewhere_ms: int
    """What is done beside the core takes up to so long."""
    tick_ms: int
    crashes: float
    """How much of the trouble is the server's own end."""
    crash_at_write: float
    """How often a write is the last thing that a server does."""
    at_once: int
    """Members and partitions of a target that is computed on the spot."""


def draw(rng: Random) -> Scenario:
    """A seed's scenario: fair weather as well as foul."""
    settings = GroupSettings(
        group_min_session_timeout_ms=SESSION_MS,
        group_max_session_timeout_ms=60_000,
        group_initial_rebalance_delay_ms=rng.choice((0, 0, 500)),
        group_consumer_session_timeout_ms=SESSION_MS,
        group_consumer_heartbeat_interval_ms=BEAT_MS,
        group_consumer_max_size=rng.choice((4, 1_000, 1_000)),
        group_consumer_assignment_interval_ms=rng.choice((0, 0, 1_000, 4_000)),
        group_consumer_migration_policy=rng.choice(POLICIES),
    )
    groups = rng.choice((1, 1, 2))
    loss = rng.choice((0.0, 0.01, 0.05))
    return Scenario(
        settings,
        groups,
        consumers=groups * rng.choice((2, 3, 5, 8)),
        natives=rng.choice((0.4, 0.6, 0.8, 1.0)),
        lose_request=loss,
        lose_reply=rng.choice((0.0, loss, loss * 2)),
        repeat=rng.choice((0.0, 0.02, 0.1)),
        sync_ms=rng.choice((0, 0, 5, 40)),
        late_ms=rng.choice((0, 0, 0, 150)),
        elsewhere_ms=rng.choice((0, 5, 200, 3_000)),
        tick_ms=rng.choice((400, 1_500, 4_000)),
        crashes=rng.choice((0.0, 0.02, 0.1)),
        crash_at_write=rng.choice((0.0, 0.0, 0.01, 0.05)),
        at_once=rng.choice((0, 500, 500)),
    )
