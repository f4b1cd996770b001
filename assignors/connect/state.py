"""The state that the leader of a Connect group keeps from one rebalance to the next."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

from muster.assignors.connect.work import Task


@dataclass(frozen=True, slots=True)
class State:
    """The state of the incremental strategy. A new leader starts with `State()`.

    Times are in milliseconds of the clock of `now_ms`. 0 means that nothing is planned.
    """

    previous: frozenset[Task] = frozenset()
    """The work that was running after the last rebalance, and the work that was lost before it."""
    revoked: frozenset[Task] = frozenset()
    """The work that the last rebalance took away."""
    members: frozenset[str] = frozenset()
    """The workers of the last rebalance."""
    generation: int = -1
    """The generation of the last rebalance that this leader computed."""
    candidates: tuple[str, ...] = ()
    """Workers without work since something was lost. They may be the former owners that have returned."""
    rebalance_at_ms: int = 0
    """When lost work is to be assigned anew, or work may be taken away again."""
    delay_ms: int = 0
    """How long until then. Workers ask for a rebalance after this delay."""
    took_away: bool = False
    """Whether the last rebalance took something away to balance the load."""
    successive: int = 0
    """How many rebalances in a row wanted to take work away (KIP-851)."""


def backoff_ms(attempts: int, max_delay_ms: int) -> int:
    """How long to wait before load is balanced again: 40 ** attempts, at most `max_delay_ms` (KIP-851).

    Java's own pow differs from the C library's in the last bit. For one bound in ten thousand that is 1 ms.
    """
    if max_delay_ms <= 1:
        return max_delay_ms
    return min(int(40.0 ** min(attempts, log(max_delay_ms) / log(40))), max_delay_ms)
