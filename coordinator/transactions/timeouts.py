"""Transactions that are open for longer than their timeout are aborted, and their producers fenced.

As on Kafka the checks are `transaction.abort.timed.out.transaction.cleanup.interval.ms` apart. They use the wall clock,
as the begin of transactions does. When no transaction is open, no check runs.
"""

from __future__ import annotations

from typing import Final

from muster.coordinator.state_machine.deadlines import NEVER
from muster.coordinator.transactions import end, events
from muster.coordinator.transactions.state import Timeouts
from muster.coordinator.transactions.step import Step
from muster.coordinator.transactions.transaction import NEVER_TIMES_OUT_MS

SLICE: Final = 10_000
"""Open transactions that are checked at once: a millisecond."""
MOST_ABORTS: Final = 200
"""Transactions that are aborted at once: some 5 ms."""
SLICE_AFTER_MS: Final = 1


def start(step: Step, timeouts: Timeouts, first_ms: int) -> None:
    """The transactions are loaded. `first_ms`: the time from now to the first check, if it is needed."""
    timeouts.first_ms = step.now.mono_ms + first_ms
    watch(step)


def watch(step: Step) -> None:
    """A transaction is open: let the next check run."""
    state, timeouts = step.state, step.state.timeouts
    if timeouts.due_ms == NEVER and state.ongoing:
        interval_ms = state.settings.transaction_abort_timed_out_transaction_cleanup_interval_ms
        late_ms = max(step.now.mono_ms - timeouts.first_ms + interval_ms, 0)
        state.deadlines.set(timeouts, timeouts.first_ms + late_ms // interval_ms * interval_ms)


def on_deadline(step: Step, timeouts: Timeouts) -> None:
    """Begin a check, or go on with it."""
    state = step.state
    if timeouts.left is None:
        timeouts.left = iter(list(state.ongoing))
    aborted = 0
    for looked_at, transactional_id in enumerate(timeouts.left, 1):
        one = state.ongoing.get(transactional_id)
        if one is not None and _is_over(one.start_ms, one.timeout_ms, step.now.wall_ms):
            markers, _ = end.fence(step, one, events.TIMED_OUT, timeouts.next_producer_id)
            # Without a producer id for the next transaction, the next check tries again.
            aborted += 1
            if markers is not None:
                step.replies.append(markers)
        if looked_at >= SLICE or aborted >= MOST_ABORTS:
            state.deadlines.set(timeouts, step.now.mono_ms + SLICE_AFTER_MS)
            return
    timeouts.left = None
    watch(step)


def _is_over(start_ms: int, timeout_ms: int, wall_ms: int) -> bool:
    return timeout_ms != NEVER_TIMES_OUT_MS and start_ms + timeout_ms < wall_ms
