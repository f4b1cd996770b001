"""ShareStateCore: the entry to the core of the share coordinator, with its two kinds of periodic work.

One job writes new snapshots of share partitions that nobody changes. The other job finds the records at the start of
the log that are no longer needed. Together they keep the log short.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from muster.coordinator.share_state.persister import StateKey
from muster.coordinator.share_state.requests import HANDLERS, StateCommand, Step
from muster.coordinator.share_state.state import LogPosition, States, snapshot_record, tombstone
from muster.coordinator.state_machine.deadlines import NO_LATE_ANSWERS, Deadlines, ExpiryCheck, LateAnswers
from muster.coordinator.state_machine.interface import (
    NO_LIMIT,
    Decoded,
    EndTransaction,
    Now,
    Respond,
    TransactionalBatch,
)
from muster.coordinator.state_machine.output import Output


@dataclass(frozen=True, slots=True)
class ShareStateSettings:
    """Kafka's broker properties that the core follows; a field's name is the property's with "." as "_"."""

    share_coordinator_snapshot_update_records_per_snapshot: int = 500
    """How many updates of a share partition are written between two snapshots."""
    share_coordinator_state_topic_prune_interval_ms: int = 300_000
    """How often records that are not needed are deleted from the start of the log."""
    share_coordinator_cold_partition_snapshot_interval_ms: int = 300_000
    """How old the snapshot of an unchanged share partition may become."""


class Forget(NamedTuple):
    """The notice that the topics of these share partitions were deleted."""

    keys: Sequence[StateKey]


COLD: Final = "cold partitions"
PRUNE: Final = "prune"
CHECKED_AT_ONCE: Final = 1_000
"""How many share partitions and rows one step of this check handles. This takes some 2 ms, and 20 kB of records."""


class ShareStateCore:
    """The states in one partition of `__share_group_state`, with the methods of `StateMachine`."""

    __slots__ = ("_checks", "_delete_before", "_pruned_to", "_settings", "deadlines", "states")

    def __init__(self, settings: ShareStateSettings, delete_before: Respond) -> None:
        """`delete_before` takes a `LogPosition`, before which no record of the log is needed."""
        self._settings = settings
        self._delete_before = delete_before
        self._pruned_to = 0
        self.states = States(settings.share_coordinator_snapshot_update_records_per_snapshot)
        self.deadlines = Deadlines()
        self._checks = {
            PRUNE: ExpiryCheck(PRUNE, settings.share_coordinator_state_topic_prune_interval_ms),
            COLD: ExpiryCheck(COLD, settings.share_coordinator_cold_partition_snapshot_interval_ms),
        }

    def handle(self, command: StateCommand | Forget, now: Now, max_bytes: int = NO_LIMIT) -> Output:
        """Handle a command. `max_bytes`: the present limit for a batch."""
        step = Step(self.states, now, max_bytes)
        if isinstance(command, Forget):
            for key in command.keys:
                if key in self.states.partitions:
                    step.write(tombstone(key))
            return step
        request: Any = command.request
        HANDLERS[type(request)](step, command, request)
        return step

    # ---- periodic work

    def advance(self, now: Now, waits: LateAnswers = NO_LATE_ANSWERS) -> Output:  # noqa: ARG002  # no client has to send signs of life
        """Handle the deadlines that are due by `now`."""
        step = Step(self.states, now)
        while (due := self.deadlines.pop_due(now.mono_ms)) is not None:
            if due.kind == PRUNE:
                self._checks[PRUNE].run(self.deadlines, now, lambda: iter(()), lambda _: self._prune(step))
            else:
                self._checks[COLD].run(self.deadlines, now, self._cold, lambda left: self._write_cold(step, left))
        return step

    def _prune(self, step: Step) -> bool:
        offset = self.states.redundant_before()
        if offset > self._pruned_to:
            self._pruned_to = offset
            step.replies.append((self._delete_before, LogPosition(offset)))
        return True

    def _cold(self) -> Iterator[StateKey]:
        """The share partitions to be checked. As on Kafka: none if no request has caused any newest snapshot."""
        partitions = self.states.partitions
        has_new = any(one.created_ms == one.written_ms for one in partitions.values())
        return iter([*partitions] if has_new else ())

    def _write_cold(self, step: Step, left: Iterator[StateKey]) -> bool:
        now_ms, handled = step.now.wall_ms, 0
        for key in left:
            state = self.states.partitions.get(key)
            if state is None:
                continue
            handled += 1
            if now_ms - state.written_ms >= self._settings.share_coordinator_cold_partition_snapshot_interval_ms:
                handled += len(state.rows)
                step.write(
                    snapshot_record(
                        key,
                        snapshot_epoch=state.snapshot_epoch + 1,
                        state_epoch=state.state_epoch,
                        leader_epoch=state.leader_epoch,
                        start_offset=state.start_offset,
                        done_count=state.done_count,
                        created_ms=state.created_ms,
                        written_ms=now_ms,
                        rows=state.rows,
                    )
                )
            if handled >= CHECKED_AT_ONCE:
                return False
        return True

    def next_deadline_ms(self) -> int | None:
        """When `advance` is to be called; None if only a command can change that."""
        return self.deadlines.next_ms()

    # ---- loading

    def replay(self, records: Iterable[Decoded], now: Now) -> int:  # noqa: ARG002  # every entry point takes the time
        """Replay records in the order of the log, and places in the log. Returns the number of both."""
        return self.states.replay(records)

    def replay_transactional(self, batch: TransactionalBatch, now: Now) -> int:
        """Replay records as `replay` does: a coordinator never writes its own records in a transaction."""
        return self.replay(batch.records, now)

    def end_transaction(self, end: EndTransaction, now: Now) -> Generator[None, None, Sequence[Any]]:  # noqa: ARG002  # see `replay_transactional`
        """Do nothing, since `replay_transactional` has replayed the records."""
        yield from ()
        return ()

    def loaded(self, now: Now) -> Output:
        """End the load."""
        for check in self._checks.values():
            check.start(self.deadlines, now, check.every_ms)
        return Output()

    def resign(self, error_code: int) -> Output:  # noqa: ARG002  # no request waits here
        """Give up all states. The core cannot be used afterwards."""
        self.deadlines.clear()
        return Output()
