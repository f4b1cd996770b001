"""The choices of a seed before anything happens: the settings of the core, the faults, and the clients."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from muster.coordinator.transactions.commands import TransactionSettings

TOPIC: Final = "t"
PARTITIONS: Final = 3
TIMEOUTS_MS: Final = (2_000, 10_000, 60_000)
CHECK_MS: Final = 3_000
SETTLED_WITHIN_MS: Final = 600_000
"""How long after the last fault every transaction must have ended."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """The parameters of one seed. Probabilities are per message, per batch of records, or per tick of the faults."""

    settings: TransactionSettings
    ids: int
    producers: int
    """The producers of all ids: if there are more of them than ids, some ids have several."""
    lose_request: float
    lose_reply: float
    fail_append: float
    fail_sync: float
    """The records are in the log, but the shard does not know it."""
    sync_ms: int
    marker_ms: int
    """A marker is written within this time."""
    lose_markers: float
    """The markers of a transaction are not written until the coordinator is loaded again."""
    repeat_done: float
    """How likely the core is informed twice that all markers are written."""
    tick_ms: int
    crashes: float
    takeovers: float
    last_epochs: bool
    """Producers have used most of their epochs."""


def draw(rng: Random) -> Scenario:
    """The scenario of a seed: with few faults or many."""
    settings = TransactionSettings(
        transaction_abort_timed_out_transaction_cleanup_interval_ms=CHECK_MS,
        transactional_id_expiration_ms=rng.choice((20_000, 604_800_000)),
        transaction_remove_expired_transaction_cleanup_interval_ms=7_000,
    )
    ids = rng.choice((1, 2, 5))
    return Scenario(
        settings=settings,
        ids=ids,
        producers=ids + rng.choice((0, 1, 3)),
        lose_request=rng.choice((0.0, 0.02, 0.1)),
        lose_reply=rng.choice((0.0, 0.02, 0.1)),
        fail_append=rng.choice((0.0, 0.0, 0.01)),
        fail_sync=rng.choice((0.0, 0.0, 0.01)),
        sync_ms=rng.choice((0, 5, 200)),
        marker_ms=rng.choice((0, 10, 400, 5_000)),
        lose_markers=rng.choice((0.0, 0.0, 0.05)),
        repeat_done=rng.choice((0.0, 0.2)),
        tick_ms=rng.choice((200, 1_000, 5_000)),
        crashes=rng.choice((0.0, 0.1, 0.3)),
        takeovers=rng.choice((0.0, 0.2, 0.5)),
        last_epochs=rng.random() < 0.15,
    )
