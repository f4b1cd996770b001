"""The rules of streams groups, by the records of the core and by what its clients own.

* No active task is owned by two members of the group at once, neither by the records nor by the clients.
* No process has a task and a copy of it, or two copies.
* Epochs never go back: those of a group, of its targets, of a member, and in the answers to a member.
* A core that is made of the records equals the live one, every task is owned in the end, and a group that is deleted
  leaves nothing (`run`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from muster.coordinator.state_machine.interface import Record
from muster.protocol.message import Message
from muster.protocol.messages.group_records.streams_group_current_member_assignment import (
    StreamsGroupCurrentMemberAssignmentKey,
)
from muster.protocol.messages.group_records.streams_group_member_metadata import StreamsGroupMemberMetadataKey
from muster.protocol.messages.group_records.streams_group_metadata import StreamsGroupMetadataKey
from muster.protocol.messages.group_records.streams_group_target_assignment_metadata import (
    StreamsGroupTargetAssignmentMetadataKey,
)
from tests.simulation.streams.clients import Member, Task
from tests.simulation.watch import Violation


class View:
    """One group, by its records: the process of each member, what each member has or gives up, and the epochs."""

    def __init__(self) -> None:
        self.members: dict[str, str] = {}
        self.active: dict[str, set[Task]] = {}
        self.copies: dict[str, set[Task]] = {}
        self.epochs: dict[str, int] = {}
        self.epoch = self.target_epoch = -1


class Ownership:
    """The rules of this module."""

    def __init__(self) -> None:
        self.world: Any = None
        self.clients: list[Member] = []
        self.groups: dict[str, View] = {}
        self.seen: Counter[str] = Counter()
        self._touched: set[str] = set()

    def fail(self, group_id: str, what: str) -> None:
        """Report a broken rule."""
        raise Violation("Ownership", group_id, what)

    def view(self, group_id: str) -> View:
        """The known state of a group."""
        return self.groups.setdefault(group_id, View())

    # ---- from the world

    def begins(self, call: Any, ms: int) -> None:
        """Note that the core gets a request."""

    def reply(self, call: Any, response: Message, release_ms: int) -> None:
        """Note that the core has answered."""

    def parked(self, call: Any) -> None:
        """Note that the core has not answered at once."""

    def resigned(self, calls: Iterable[Any]) -> None:
        """Note that the core has given the groups up."""

    def reloaded(self, records: list[Record], ms: int, released_ms: int) -> None:
        """Note that a new core was made of these records."""
        self.groups.clear()
        for record in records:
            self.record(record)
        self.ends()

    def record(self, record: Record) -> None:
        """Note a record of the core."""
        key: Any = record.key
        value: Any = record.value
        kind = type(key)
        if kind is StreamsGroupMemberMetadataKey:
            view = self.view(key.group_id)
            view.members.pop(key.member_id, None)
            if value is not None:
                view.members[key.member_id] = value.process_id
        elif kind is StreamsGroupCurrentMemberAssignmentKey:
            self._moved(self.view(key.group_id), key, value)
        elif kind is StreamsGroupMetadataKey:
            view = self.view(key.group_id)
            if value is not None and value.epoch < view.epoch:
                self.fail(key.group_id, f"epoch {value.epoch} after {view.epoch}")
            view.epoch = -1 if value is None else value.epoch
        elif kind is StreamsGroupTargetAssignmentMetadataKey:
            view = self.view(key.group_id)
            if value is not None and value.assignment_epoch < view.target_epoch:
                self.fail(key.group_id, f"targets of {value.assignment_epoch} after those of {view.target_epoch}")
            view.target_epoch = -1 if value is None else value.assignment_epoch
        else:
            return
        self._touched.add(key.group_id)

    def _moved(self, view: View, key: Any, value: Any) -> None:
        member_id = key.member_id
        if value is None:
            for rows in (view.active, view.copies, view.epochs):
                rows.pop(member_id, None)
            return
        before = view.epochs.get(member_id, -2)
        if 0 < value.member_epoch < before:
            self.fail(key.group_id, f"{member_id} is in epoch {value.member_epoch} after {before}")
        view.epochs[member_id] = value.member_epoch
        view.active[member_id] = _tasks(value.active_tasks, value.active_tasks_pending_revocation)
        view.copies[member_id] = _tasks(
            value.standby_tasks, value.warmup_tasks,
            value.standby_tasks_pending_revocation, value.warmup_tasks_pending_revocation,
        )  # fmt: skip
        self.seen["standby"] += bool(value.standby_tasks)
        self.seen["unrevoked"] += value.state == 2
        self.seen["unreleased"] += value.state == 3

    def ends(self) -> None:
        """Note that all results of one input are known."""
        touched, self._touched = self._touched, set()
        for group_id in touched:
            view = self.view(group_id)
            owners: dict[Task, str] = {}
            for member_id, tasks in view.active.items():
                for one in tasks:
                    if owners.setdefault(one, member_id) != member_id:
                        self.fail(group_id, f"{one} is of {owners[one]} and of {member_id}, by the records")

    # ---- what the clients own

    def look(self) -> None:
        """Check that no two clients in the group own the same active task."""
        owners: dict[tuple[str, Task], Member] = {}
        for client in self.clients:
            view = self.groups.get(client.group_id)
            if client.script is None or view is None or client.member_id not in view.members:
                continue  # it ended, or was removed and does not know it yet
            for task in client.owned:
                other = owners.setdefault((client.group_id, task), client)
                if other is not client:
                    self.fail(client.group_id, f"{task} is owned by {other.name} and by {client.name}")


def _tasks(*rows: Any) -> set[Task]:
    return {(row.subtopology_id, number) for its in rows for row in its or () for number in row.partitions}
