"""The choices of a seed before a history of streams groups begins."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from muster.coordinator.groups.common.settings import GroupSettings

SESSION_MS: Final = 6_000
BEAT_MS: Final = 2_000
REBALANCES_MS: Final = (3_000, 8_000, 20_000)
TOPOLOGIES: Final = (
    "0:t",
    "0:t%~store",
    "0:t>~words 1:<~words%~counts",
    "0:t>~words 1:u,<~words%~store&u,~words",
    "0:t,u%~joined 1:v%~other",
)
"""In the short form of tests/coordinator/groups/streams/topologies.py. `~` is the group."""
PROCESSES: Final = 4
SETTLED_WITHIN_MS: Final = 200_000
"""Within this time after the last fault every task must be owned. Lost requests are given up after 30 s, dead members
after a session or a rebalance timeout. Each of these may begin another rebalance.
"""


@dataclass(frozen=True, slots=True)
class Scenario:
    """The parameters of one seed. Probabilities are per message, per write or per tick of the faults."""

    settings: GroupSettings
    topologies: tuple[str, ...]
    """The topology of each group."""
    consumers: int
    lose_request: float
    lose_reply: float
    repeat: float
    """How often a request comes twice."""
    sync_ms: int
    """A record is durable within this time; 0: at once."""
    late_ms: int
    """How late the shell gives the time to the core."""
    elsewhere_ms: int
    """Work outside the core takes at most this time."""
    tick_ms: int
    crashes: float
    """The share of faults that end the server."""
    crash_at_write: float
    """How often the server ends right after a write."""
    at_once: int
    """Members, tasks and standby copies of a target that is computed at once."""

    @property
    def groups(self) -> int:
        """The number of groups."""
        return len(self.topologies)


def draw(rng: Random) -> Scenario:
    """The scenario of a seed: with few faults or many."""
    settings = GroupSettings(
        group_streams_session_timeout_ms=SESSION_MS,
        group_streams_heartbeat_interval_ms=BEAT_MS,
        group_streams_max_size=rng.choice((4, 1_000, 1_000)),
        group_streams_assignment_interval_ms=rng.choice((0, 0, 1_000, 4_000)),
        group_streams_initial_rebalance_delay_ms=rng.choice((0, 0, 3_000)),
        group_streams_num_standby_replicas=rng.choice((0, 1, 1, 2)),
        group_streams_acceptable_recovery_lag=100,
    )
    topologies = tuple(rng.choice(TOPOLOGIES) for _ in range(rng.choice((1, 1, 2))))
    loss = rng.choice((0.0, 0.01, 0.05))
    return Scenario(
        settings,
        topologies,
        consumers=len(topologies) * rng.choice((2, 3, 5, 8)),
        lose_request=loss,
        lose_reply=rng.choice((0.0, loss, loss * 2)),
        repeat=rng.choice((0.0, 0.02, 0.1)),
        sync_ms=rng.choice((0, 0, 5, 40)),
        late_ms=rng.choice((0, 0, 0, 150)),
        elsewhere_ms=rng.choice((0, 5, 200, 3_000)),
        tick_ms=rng.choice((400, 1_500, 4_000)),
        crashes=rng.choice((0.0, 0.02, 0.1)),
        crash_at_write=rng.choice((0.0, 0.0, 0.01, 0.05)),
        at_once=rng.choice((0, 0, 500)),
    )
