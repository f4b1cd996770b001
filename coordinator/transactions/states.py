"""The states of a transactional id and every legal transition, as data. The diagrams in docs/ are drawn from it.

Source: Kafka's TransactionState. PrepareEpochFence and Dead last only for one step. PrepareEpochFence becomes
PrepareAbort in the same step; a Dead id is removed. No record has these states.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

EMPTY: Final = "Empty"
ONGOING: Final = "Ongoing"
PREPARE_COMMIT: Final = "PrepareCommit"
PREPARE_ABORT: Final = "PrepareAbort"
COMPLETE_COMMIT: Final = "CompleteCommit"
COMPLETE_ABORT: Final = "CompleteAbort"
DEAD: Final = "Dead"
PREPARE_EPOCH_FENCE: Final = "PrepareEpochFence"
STATES: Final = (
    EMPTY,
    ONGOING,
    PREPARE_COMMIT,
    PREPARE_ABORT,
    COMPLETE_COMMIT,
    COMPLETE_ABORT,
    DEAD,
    PREPARE_EPOCH_FENCE,
)
"""The index of a state is its number in records (transaction_status)."""
STATUS: Final[Mapping[str, int]] = MappingProxyType({state: number for number, state in enumerate(STATES)})
IN_RECORDS: Final = STATES[: STATUS[DEAD]]
"""The states that a record may have."""

INITIALIZED: Final = "a producer gets its id and epoch"
ADDED: Final = "partitions are added"
COMMITTED: Final = "the producer commits"
ABORTED: Final = "the producer aborts"
ABORTED_NOTHING: Final = "the producer aborts, though nothing is open (from EndTxn 5 on)"
FENCED: Final = "a new producer or its timeout ends the transaction"
FENCE_ABORTED: Final = "it is aborted with the next epoch"
MARKED: Final = "each partition has its marker"
EXPIRED: Final = "the id was unused for too long"
EVENTS: Final = (
    INITIALIZED,
    ADDED,
    COMMITTED,
    ABORTED,
    ABORTED_NOTHING,
    FENCED,
    FENCE_ABORTED,
    MARKED,
    EXPIRED,
)

TRANSITIONS: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        (EMPTY, INITIALIZED): EMPTY,
        (COMPLETE_COMMIT, INITIALIZED): EMPTY,
        (COMPLETE_ABORT, INITIALIZED): EMPTY,
        (EMPTY, ADDED): ONGOING,
        (ONGOING, ADDED): ONGOING,
        (COMPLETE_COMMIT, ADDED): ONGOING,
        (COMPLETE_ABORT, ADDED): ONGOING,
        (ONGOING, COMMITTED): PREPARE_COMMIT,
        (ONGOING, ABORTED): PREPARE_ABORT,
        (EMPTY, ABORTED_NOTHING): PREPARE_ABORT,
        (COMPLETE_COMMIT, ABORTED_NOTHING): PREPARE_ABORT,
        (COMPLETE_ABORT, ABORTED_NOTHING): PREPARE_ABORT,
        (ONGOING, FENCED): PREPARE_EPOCH_FENCE,
        (PREPARE_EPOCH_FENCE, FENCE_ABORTED): PREPARE_ABORT,
        (PREPARE_COMMIT, MARKED): COMPLETE_COMMIT,
        (PREPARE_ABORT, MARKED): COMPLETE_ABORT,
        (EMPTY, EXPIRED): DEAD,
        (COMPLETE_COMMIT, EXPIRED): DEAD,
        (COMPLETE_ABORT, EXPIRED): DEAD,
    }
)

IDLE: Final = frozenset((EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT))
"""No transaction is open, and no transaction is ending: a new one may begin, and the id may expire."""
ENDING: Final = frozenset((PREPARE_COMMIT, PREPARE_ABORT))
"""The end of the transaction is decided, and its markers are being written: everything else has to wait."""


class IllegalTransition(RuntimeError):
    """A program error: `event` cannot happen to an id in `state`. Nothing has changed."""

    def __init__(self, transactional_id: str, state: str, event: str) -> None:
        super().__init__(f"transactional id {transactional_id!r} is {state}: {event!r} cannot happen")
        self.state = state
        self.event = event


def after(transactional_id: str, state: str, event: str) -> str:
    """The state after `event`; raises IllegalTransition."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalTransition(transactional_id, state, event) from None
