"""Transactional ids that were not used for `transactional.id.expiration.ms` are removed, unless a transaction is open.

As on Kafka the check runs every `transaction.remove.expired.transaction.cleanup.interval.ms`, by the wall clock. It
runs in slices, so that requests need not wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from muster.coordinator.state_machine.deadlines import Due
from muster.coordinator.transactions import events
from muster.coordinator.transactions.states import EXPIRED, IDLE
from muster.coordinator.transactions.step import Step

EXPIRY: Final = "expiry"
"""Kind of the deadline of a check."""
SLICE: Final = 10_000
"""Ids that are checked at once: a millisecond."""
MOST_REMOVED: Final = 500
"""Ids that are removed at once: some milliseconds, and some 10 kB of tombstones."""
SLICE_AFTER_MS: Final = 1
BELIEVABLE_MS: Final = 60_000
"""How far the wall clock may have been set since the last check. After a larger change, nothing expires at first.

The next check must find the clock unchanged. A wrong clock would delete all ids, and with them the fencing of their old
producers.
"""


class Expiry(Due):
    """The deadline of the next check, and the progress of the present one. Not persisted: a load begins anew."""

    __slots__ = ("ahead_ms", "every_ms", "left")

    kind = EXPIRY

    def __init__(self) -> None:
        super().__init__("")
        self.every_ms = 0
        self.left: Iterator[str] | None = None
        self.ahead_ms = 0
        """By how much the wall clock was ahead of the monotonic one at the last check."""


def start(step: Step, expiry: Expiry, first_ms: int) -> None:
    """The ids are loaded. `first_ms`: the time from now to the first check."""
    expiry.ahead_ms = step.now.wall_ms - step.now.mono_ms
    expiry.every_ms = step.state.settings.transaction_remove_expired_transaction_cleanup_interval_ms
    step.state.deadlines.set(expiry, step.now.mono_ms + first_ms)


def on_deadline(step: Step, expiry: Expiry) -> None:
    """Begin a check, or go on with it."""
    state, mono_ms = step.state, step.now.mono_ms
    if expiry.left is None and _is_believable(step, expiry):
        expiry.left = iter(list(state.transactions))
    if expiry.left is not None and not _slice(step, expiry.left):
        expiry.every_ms = 0  # it continues at once
        state.deadlines.set(expiry, mono_ms + SLICE_AFTER_MS)
        return
    expiry.left = None
    expiry.every_ms = state.settings.transaction_remove_expired_transaction_cleanup_interval_ms
    state.deadlines.set(expiry, mono_ms + expiry.every_ms)


def _is_believable(step: Step, expiry: Expiry) -> bool:
    before_ms, expiry.ahead_ms = expiry.ahead_ms, step.now.wall_ms - step.now.mono_ms
    return abs(expiry.ahead_ms - before_ms) <= BELIEVABLE_MS


def _slice(step: Step, left: Iterator[str]) -> bool:
    """Check some ids. True when these were the last."""
    transactions, wall_ms = step.state.transactions, step.now.wall_ms
    newest_ms = wall_ms - step.state.settings.transactional_id_expiration_ms
    for looked_at, transactional_id in enumerate(left, 1):
        one = transactions.get(transactional_id)
        if one is not None and one.updated_ms <= newest_ms and one.state in IDLE:
            step.event(events.EXPIRED, one, idle_ms=wall_ms - one.updated_ms, state=one.state)
            step.remove(one, EXPIRED)
        if looked_at >= SLICE or len(step.records) >= MOST_REMOVED:
            return False
    return True
