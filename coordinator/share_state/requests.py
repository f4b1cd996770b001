"""Decides questions about the states of share partitions, as Kafka's ShareCoordinatorShard does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from muster.coordinator.share.in_flight import Row
from muster.coordinator.share_state.combine import combined
from muster.coordinator.share_state.persister import (
    UNKNOWN,
    DeleteState,
    InitializeState,
    LoadedState,
    ReadState,
    ReadSummary,
    StateRequest,
    StateResponse,
    Summary,
    WriteState,
)
from muster.coordinator.share_state.state import PartitionState, States, snapshot_record, tombstone, update_record
from muster.coordinator.state_machine.interface import HEADER, NO_LIMIT, Command, Now, Record
from muster.coordinator.state_machine.output import Output
from muster.protocol.errors import ErrorCode, error_message
from muster.protocol.message import Message

NO_PARTITION: Final = "The partition id cannot be a negative number."
NO_LEADER_EPOCH: Final = "The leader epoch cannot be a negative number."
NO_STATE_EPOCH: Final = "The state epoch cannot be a negative number."
NO_STATE_TO_WRITE: Final = "Write operation on uninitialized share partition not allowed."
NO_STATE_TO_READ: Final = "Read operation on uninitialized share partition not allowed."
"""Kafka's sentences for INVALID_REQUEST."""
BACKWARDS: Final = "The last offset of a state batch cannot be lower than the first offset."
"""Muster's own sentence: Kafka's coordinator fails when it meets such a batch."""
TOO_LARGE: Final = "The state does not fit into a record of the share-group state topic."

MAX_ROWS: Final = 10_000
"""The most rows of one write. A share partition has at most this many records in flight."""
ROW_BYTES: Final = 20
FRAME_BYTES: Final = 128
"""The size of a record: `FRAME_BYTES`, the group id, and `ROW_BYTES` for each row."""

Refusal = tuple[int, str]
"""An error code with its message."""


@dataclass(slots=True, eq=False, repr=False)
class StateCommand(Command):
    """A `StateRequest`. `partitions`: how many partitions the topic has; 0 if the topic does not exist."""

    partitions: int = field(kw_only=True)


class Step(Output):
    """The output of one call while it grows, and the call's input: state, time, and the limit for records' bytes."""

    __slots__ = ("max_bytes", "now", "states")

    def __init__(self, states: States, now: Now, max_bytes: int = NO_LIMIT) -> None:
        super().__init__()
        self.states = states
        self.now = now
        self.max_bytes = max_bytes

    def write(self, record: Record) -> None:
        """Write a record, which changes the state."""
        self.records.append(record)
        self.states.evolve(record.key, record.value)

    def reply(self, command: StateCommand, response: Message) -> None:
        """Answer a request when the records are durable."""
        self.replies.append((command.respond, response))


def _refused(
    request: Any,
    state: PartitionState | None,
    partitions: int,
    epochs: Sequence[tuple[int, str]] = (),
    no_state: str | None = None,
) -> Refusal | None:
    """The first fault of a request, in Kafka's order; None if the request has no fault.

    `epochs`: the epochs of the request, each with the sentence for a negative epoch. `no_state`: the sentence for a
    share partition without a state; None: the request needs no state.
    """
    if request.key.partition < 0:
        return ErrorCode.INVALID_REQUEST, NO_PARTITION
    for epoch, sentence in epochs:
        if epoch < 0:
            return ErrorCode.INVALID_REQUEST, sentence
    if state is None:
        if no_state is not None:
            return ErrorCode.INVALID_REQUEST, no_state
    else:
        for epoch, sentence in epochs:
            if sentence == NO_LEADER_EPOCH and epoch < state.least_leader_epoch:
                return _error(ErrorCode.FENCED_LEADER_EPOCH)
            if sentence == NO_STATE_EPOCH and epoch < state.least_state_epoch:
                return _error(ErrorCode.FENCED_STATE_EPOCH)
    if request.key.partition >= partitions:
        return _error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return None


def _error(code: int) -> Refusal:
    return code, error_message(code)


def initialize(step: Step, command: StateCommand, request: InitializeState) -> None:
    """Create a state, or replace it."""
    key = request.key
    state = step.states.partitions.get(key)
    refusal = _refused(request, state, command.partitions, [(request.state_epoch, NO_STATE_EPOCH)])
    if refusal is not None:
        step.reply(command, StateResponse(*refusal))
        return
    step.write(
        snapshot_record(
            key,
            snapshot_epoch=0 if state is None else state.snapshot_epoch + 1,
            state_epoch=request.state_epoch,
            leader_epoch=0,
            start_offset=request.start_offset,
            done_count=UNKNOWN if request.start_offset == UNKNOWN else 0,
            created_ms=step.now.wall_ms,
            written_ms=step.now.wall_ms,
        )
    )
    step.reply(command, StateResponse())


def read(step: Step, command: StateCommand, request: ReadState) -> None:
    """Read a state. A new leader epoch is written, so that earlier leaders can no longer write."""
    state = step.states.partitions.get(request.key)
    epochs = [(request.leader_epoch, NO_LEADER_EPOCH)]
    refusal = _refused(request, state, command.partitions, epochs, NO_STATE_TO_READ)
    if refusal is not None or state is None:
        step.reply(command, LoadedState(*(refusal or ())))
        return
    response = LoadedState(0, None, state.state_epoch, state.start_offset, [*state.rows])
    if request.leader_epoch != state.least_leader_epoch:
        change = WriteState(request.key, state.state_epoch, 0, state.start_offset, state.done_count, ())
        _change(step, state, change, request.leader_epoch)
    step.reply(command, response)


def write(step: Step, command: StateCommand, request: WriteState) -> None:
    """Merge changes into a state."""
    state = step.states.partitions.get(request.key)
    epochs = [(request.leader_epoch, NO_LEADER_EPOCH), (request.state_epoch, NO_STATE_EPOCH)]
    refusal = _refused(request, state, command.partitions, epochs, NO_STATE_TO_WRITE)
    if refusal is None and any(row.first > row.last for row in request.rows[: MAX_ROWS + 1]):
        refusal = ErrorCode.INVALID_REQUEST, BACKWARDS
    if refusal is None and state is not None:
        rows = len(state.rows) + len(request.rows)
        if (
            len(request.rows) > MAX_ROWS
            or FRAME_BYTES + len(request.key.group_id) * 4 + ROW_BYTES * rows > step.max_bytes - HEADER
        ):
            refusal = ErrorCode.UNKNOWN_SERVER_ERROR, TOO_LARGE
    if refusal is not None or state is None:
        step.reply(command, StateResponse(*(refusal or ())))
        return
    _change(step, state, request, state.leader_epoch)
    step.reply(command, StateResponse())


def _change(step: Step, state: PartitionState, request: WriteState, leader_epoch: int) -> None:
    """Write an update, or a snapshot after enough updates."""
    start_offset = max(request.start_offset, state.start_offset)
    done_count = request.done_count
    if request.start_offset == state.start_offset:
        done_count = max(done_count, state.done_count)
    elif request.start_offset < state.start_offset:
        done_count = state.done_count
    if state.updates < step.states.updates_per_snapshot:
        rows: Sequence[Row] = combined(request.rows, start_offset)
        step.write(
            update_record(
                request.key,
                snapshot_epoch=state.snapshot_epoch,
                leader_epoch=leader_epoch,
                start_offset=start_offset,
                done_count=done_count,
                rows=rows,
            )
        )
        return
    step.write(
        snapshot_record(
            request.key,
            snapshot_epoch=state.snapshot_epoch + 1,
            state_epoch=state.state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            done_count=done_count,
            created_ms=step.now.wall_ms,
            written_ms=step.now.wall_ms,
            rows=combined([*state.rows, *request.rows], start_offset),
        )
    )


def delete(step: Step, command: StateCommand, request: DeleteState) -> None:
    """Delete a state."""
    refusal = _refused(request, None, command.partitions)
    if refusal is not None:
        step.reply(command, StateResponse(*refusal))
        return
    if request.key in step.states.partitions:
        step.write(tombstone(request.key))
    step.reply(command, StateResponse())


def read_summary(step: Step, command: StateCommand, request: ReadSummary) -> None:
    """Read a summary."""
    refusal = _refused(request, None, command.partitions)
    state = step.states.partitions.get(request.key)
    if refusal is not None:
        step.reply(command, Summary(*refusal))
    elif state is None:
        step.reply(command, Summary())
    else:
        step.reply(
            command, Summary(0, None, state.state_epoch, state.leader_epoch, state.start_offset, state.done_count)
        )


HANDLERS: Final[dict[type[StateRequest], Callable[[Step, StateCommand, Any], None]]] = {
    InitializeState: initialize,
    ReadState: read,
    WriteState: write,
    DeleteState: delete,
    ReadSummary: read_summary,
}
"""The functions by the type of the request: function(step, command, request)."""
