"""One step of the core, for one command or for time that passes. It collects the output and decides nothing."""

from __future__ import annotations

from typing import Final

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event
from muster.coordinator.groups.common.state import State
from muster.coordinator.state_machine.interface import (
    Command,
    Now,
    Output,
    Producer,
    Record,
    Reply,
    Respond,
    TransactionalBatch,
)
from muster.coordinator.state_machine.late_answers import NO_LATE_ANSWERS, LateAnswers
from muster.protocol.message import Message

NO_LIMIT: Final = 2**63 - 1


class Step(Output):
    """The output while it grows, with its input: the state, the time, and how long answers waited.

    It also has the number of bytes that a batch of records may have.
    """

    __slots__ = ("late_answers", "most_bytes", "now", "state")

    replies: list[Reply]
    records: list[Record]
    events: list[Event]

    def __init__(
        self, state: State, now: Now, most_bytes: int = NO_LIMIT, late_answers: LateAnswers = NO_LATE_ANSWERS
    ) -> None:
        self.state = state
        self.now = now
        self.most_bytes = most_bytes
        self.late_answers = late_answers
        self.replies = []
        self.records = []
        self.events = []

    def reply(self, respond: Respond, response: Message) -> None:
        """Answer a request."""
        self.replies.append((respond, response))

    def record(self, record: Record) -> None:
        """Decide on a record: it is written to the log, and is part of the state from now on."""
        self.records.append(record)
        self.state.evolve(record.key, record.value)

    def record_all(self, records: list[Record]) -> None:
        """`record` of each."""
        self.records += records
        evolve = self.state.evolve
        for key, value, _ in records:
            evolve(key, value)

    def record_in_transaction(self, records: list[Record], producer: Producer) -> None:
        """`record` of each, in the transaction of this producer. The records count once it is committed."""
        self.records += records
        pairs = [(key, value) for key, value, _ in records]
        self.state.evolve_transactional(TransactionalBatch(*producer, self.now.wall_ms, pairs))

    def event(self, kind: str, group_id: str, **facts: object) -> None:
        """Report something for the history; `events` has the kinds and their facts."""
        self.events.append(Event(kind, group_id, facts))

    def refused(self, command: Command, group_id: str, error: int, member_id: str, instance_id: str | None) -> None:
        """Report for the history that a member's request was refused."""
        self.events.append(
            events.request_refused(command.request, command.client, group_id, error, member_id, instance_id)
        )
