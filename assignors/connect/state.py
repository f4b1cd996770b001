"""What the leader of a Connect group remembers from one rebalance to the next."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

from muster.assignors.connect.work import Task


@dataclass(frozen=True, slots=True)
class State:
    """The memory of the incremental strategy; a new leader starts with `State()`.

    Times are in milliseconds of whatever clock `now_ms` is read from; 0 stands for "nothing is planned".
    """

    previous: frozenset[Task] = frozenset()
    """What the last rebalance left running, and what was lost before it."""
    revoked: frozenset[Task] = frozenset()
    """What the last rebalance took away."""
    members: frozenset[str] = frozenset()
    """The workers of the last rebalance."""
    generation: int = -1
    """The generation of the last rebalance that this leader computed."""
    candidates: tuple[str, ...] = ()
    """Workers that were seen with nothing to do since something was lost: perhaps those that had it, come back."""
    rebalance_at_ms: int = 0
    """When what was lost is to be assigned anew, or taking away is allowed again."""
    delay_ms: int = 0
    """How long until then; workers ask for a rebalance when it has passed."""
    took_away: bool = False
    """Whether the last rebalance took something away to balance the load."""
    successive: int = 0
    """How many rebalances in a row wanted to (KIP-851)."""


def backoff_ms(attempts: int, max_delay_ms: int) -> int:
    """How long to wait before load is balanced yet again: 40 ** attempts, at most `max_delay_ms` (KIP-851).

    Java's own pow differs from the C library's in the last bit, which for one bound in ten thousand is 1 ms.
    """
    if max_delay_ms <= 1:
        return max_delay_ms
    return min(int(40.0 ** min(attempts, log(max_delay_ms) / log(40))), max_delay_ms)
