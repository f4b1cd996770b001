"""Aborts transactions that are open for too long, and removes ids that are unused for too long, in slices.

A transaction that is open for longer than its timeout, by the wall clock, is aborted, and its producer fenced. As on
Kafka this is checked every `transaction.abort.timed.out.transaction.cleanup.interval.ms`, while a transaction is open.
Ids that are unused for `transactional.id.expiration.ms` are removed. The core searches for such ids every
`transaction.remove.expired.transaction.cleanup.interval.ms`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from muster.coordinator.state_machine.deadlines import NEVER, SLICE_AFTER_MS, ExpiryCheck
from muster.coordinator.transactions import end_txn, events
from muster.coordinator.transactions.state import Step, Timeouts
from muster.coordinator.transactions.transaction import EXPIRED, IDLE, NEVER_TIMES_OUT_MS

SLICE: Final = 10_000
"""How many open transactions are checked in one slice, which takes a millisecond."""
MAX_ABORTS: Final = 200
"""How many transactions are aborted in one slice, which takes some 5 ms."""


def start_timeouts(step: Step) -> None:
    """Start the checks after a load. The first check is an interval later, if a transaction is open."""
    interval_ms = step.state.settings.transaction_abort_timed_out_transaction_cleanup_interval_ms
    step.state.timeouts.first_ms = step.now.mono_ms + interval_ms
    watch(step)


def watch(step: Step) -> None:
    """Set the deadline of the next check, if a transaction is open."""
    state, timeouts = step.state, step.state.timeouts
    if timeouts.due_ms == NEVER and state.ongoing:
        interval_ms = state.settings.transaction_abort_timed_out_transaction_cleanup_interval_ms
        late_ms = max(step.now.mono_ms - timeouts.first_ms + interval_ms, 0)
        state.deadlines.set(timeouts, timeouts.first_ms + late_ms // interval_ms * interval_ms)


def on_timeouts_deadline(step: Step, timeouts: Timeouts) -> None:
    """Begin or continue a check."""
    state = step.state
    if timeouts.left is None:
        timeouts.left = iter(list(state.ongoing))
    aborted = 0
    for looked_at, transactional_id in enumerate(timeouts.left, 1):
        one = state.ongoing.get(transactional_id)
        if one is not None and _is_over(one.start_ms, one.timeout_ms, step.now.wall_ms):
            markers, _ = end_txn.fence(step, one, events.TIMED_OUT, timeouts.next_producer_id)
            # Without a fresh producer id the transaction stays open until the next check.
            aborted += 1
            if markers is not None:
                step.replies.append(markers)
        if looked_at >= SLICE or aborted >= MAX_ABORTS:
            state.deadlines.set(timeouts, step.now.mono_ms + SLICE_AFTER_MS)
            return
    timeouts.left = None
    watch(step)


def _is_over(start_ms: int, timeout_ms: int, wall_ms: int) -> bool:
    return timeout_ms != NEVER_TIMES_OUT_MS and start_ms + timeout_ms < wall_ms


EXPIRY: Final = "expiry"
"""The kind of the deadline of a check for expired ids."""
EXPIRY_SLICE: Final = 10_000
"""How many ids are checked in one slice, which takes a millisecond."""
MAX_REMOVED: Final = 500
"""How many ids are removed in one slice: this takes some ms, and writes some 10 kB of tombstones."""


def on_expiry_deadline(step: Step, check: ExpiryCheck) -> None:
    """Begin or continue a check."""
    ids = step.state.transactions
    check.run(step.state.deadlines, step.now, lambda: iter(list(ids)), lambda left: _slice(step, left))


def _slice(step: Step, left: Iterator[str]) -> bool:
    transactions, wall_ms = step.state.transactions, step.now.wall_ms
    newest_ms = wall_ms - step.state.settings.transactional_id_expiration_ms
    for looked_at, transactional_id in enumerate(left, 1):
        one = transactions.get(transactional_id)
        if one is not None and one.updated_ms <= newest_ms and one.state in IDLE:
            step.event(events.EXPIRED, one, idle_ms=wall_ms - one.updated_ms, state=one.state)
            step.remove(one, EXPIRED)
        if looked_at >= EXPIRY_SLICE or len(step.records) >= MAX_REMOVED:
            return False
    return True
