"""One command, or one passing of time, being worked on: it collects what will come out. Decides nothing."""

from __future__ import annotations

from muster.coordinator.core.interface import Command, Event, Now, Output, Record, Reply, Respond
from muster.coordinator.core.late_answers import NO_LATE_ANSWERS, LateAnswers
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.state import State
from muster.protocol.message import Message


class Step(Output):
    """The state, the time, how long answers waited, and the output so far."""

    __slots__ = ("now", "state", "waits")

    replies: list[Reply]
    records: list[Record]
    events: list[Event]

    def __init__(self, state: State, now: Now, waits: LateAnswers = NO_LATE_ANSWERS) -> None:
        self.state = state
        self.now = now
        self.waits = waits
        self.replies = []
        self.records = []
        self.events = []

    def reply(self, respond: Respond, response: Message) -> None:
        """Answer a request."""
        self.replies.append((respond, response))

    def record(self, record: Record) -> None:
        """Decide on a record: it goes to the log, and is part of the state from now on."""
        self.records.append(record)
        self.state.evolve(record.key, record.value)

    def event(self, kind: str, group_id: str, **facts: object) -> None:
        """Something worth telling; `events` has the kinds and their facts."""
        self.events.append(Event(kind, group_id, facts))

    def refused(self, command: Command, group_id: str, error: int, member_id: str, instance_id: str | None) -> None:
        """Tell the history that a member's request was refused."""
        self.events.append(
            events.request_refused(command.request, command.client, group_id, error, member_id, instance_id)
        )

    def output(self) -> Output:
        """All of it."""
        return self
