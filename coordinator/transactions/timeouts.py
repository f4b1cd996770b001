"""Ends transactions that are open for too long, and ids that are unused for too long. Both checks run in slices.

A transaction that is open for longer than its timeout is aborted, and its producer fenced. As on Kafka the checks are
`transaction.abort.timed.out.transaction.cleanup.interval.ms` apart, by the wall clock. When no transaction is open, no
check runs. Ids that are idle for `transactional.id.expiration.ms` are removed, every
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
"""How many open transactions are checked at once: a millisecond."""
MAX_ABORTS: Final = 200
"""How many transactions are aborted at once: some 5 ms."""


def start_timeouts(step: Step) -> None:
    """Start the checks after a load. The first check is an interval later, if a transaction is open."""
    interval_ms = step.state.settings.transaction_abort_timed_out_transaction_cleanup_interval_ms
    step.state.timeouts.first_ms = step.now.mono_ms + interval_ms
    watch(step)


def watch(step: Step) -> None:
    """Let the next check run, because a transaction is open."""
    state, timeouts = step.state, step.state.timeouts
    if timeouts.due_ms == NEVER and state.ongoing:
        interval_ms = state.settings.transaction_abort_timed_out_transaction_cleanup_interval_ms
        late_ms = max(step.now.mono_ms - timeouts.first_ms + interval_ms, 0)
        state.deadlines.set(timeouts, timeouts.first_ms + late_ms // interval_ms * interval_ms)


def on_timeouts_deadline(step: Step, timeouts: Timeouts) -> None:
    """Begin a check, or go on with it."""
    state = step.state
    if timeouts.left is None:
        timeouts.left = iter(list(state.ongoing))
    aborted = 0
    for looked_at, transactional_id in enumerate(timeouts.left, 1):
        one = state.ongoing.get(transactional_id)
        if one is not None and _is_over(one.start_ms, one.timeout_ms, step.now.wall_ms):
            markers, _ = end_txn.fence(step, one, events.TIMED_OUT, timeouts.next_producer_id)
            # Without a producer id for the next transaction, the next check tries again.
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
"""Kind of the deadline of a check."""
EXPIRY_SLICE: Final = 10_000
"""How many ids are checked at once: a millisecond."""
MAX_REMOVED: Final = 500
"""How many ids are removed at once: some milliseconds, and some 10 kB of tombstones."""


def on_expiry_deadline(step: Step, check: ExpiryCheck) -> None:
    """Begin a check, or go on with it."""
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
