"""The rules of groups of both protocols, by the inputs and outputs of the core and by what its clients own.

* No partition is owned by two members of the group at once.
* Epochs never go back: those of a group, of its targets, of a member, and in the answers to a member.
* No member is assigned a partition that another member still has, by the records.
* A core that is made of the records equals the live one (`check_replay`).
* Every partition is owned in the end (`run`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from muster.coordinator.state_machine.interface import Record
from muster.protocol.message import Message
from muster.protocol.messages.group_records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from muster.protocol.messages.group_records.consumer_group_member_metadata import ConsumerGroupMemberMetadataKey
from muster.protocol.messages.group_records.consumer_group_metadata import ConsumerGroupMetadataKey
from muster.protocol.messages.group_records.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from muster.protocol.messages.group_records.group_metadata import GroupMetadataKey
from tests.simulation.watch import Violation


class View:
    """One group, by its records: members, what each has or is giving up, and the epochs."""

    def __init__(self) -> None:
        self.members: set[str] = set()
        self.has: dict[str, set[tuple[bytes, int]]] = {}
        self.epochs: dict[str, int] = {}
        self.epoch = self.target_epoch = -1
        self.is_classic = self.was_classic = self.was_consumer = False


class Ownership:
    """The rules of this module. `world` has the clients (`clients`)."""

    def __init__(self) -> None:
        self.world: Any = None
        self.clients: list[Any] = []
        self.groups: dict[str, View] = {}
        self.migrations: Counter[str] = Counter()
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
            self.record(record, is_new=False)
        self.ends()

    def record(self, record: Record, *, is_new: bool = True) -> None:
        """Note a record of the core."""
        key: Any = record.key
        value: Any = record.value
        kind = type(key)
        if kind is ConsumerGroupMemberMetadataKey:
            view = self.view(key.group_id)
            (view.members.discard if value is None else view.members.add)(key.member_id)
        elif kind is ConsumerGroupCurrentMemberAssignmentKey:
            self._moved(self.view(key.group_id), key, value, is_new=is_new)
        elif kind is ConsumerGroupMetadataKey:
            view = self.view(key.group_id)
            self.migrations["upgraded"] += is_new and view.was_classic and value is not None
            view.is_classic = view.was_classic = False
            if value is not None and value.epoch < view.epoch:
                self.fail(key.group_id, f"epoch {value.epoch} after {view.epoch}")
            view.was_consumer = view.epoch != -1 and value is None
            view.epoch = -1 if value is None else value.epoch
        elif kind is ConsumerGroupTargetAssignmentMetadataKey:
            view = self.view(key.group_id)
            if value is not None and value.assignment_epoch < view.target_epoch:
                self.fail(key.group_id, f"targets of {value.assignment_epoch} after those of {view.target_epoch}")
            view.target_epoch = -1 if value is None else value.assignment_epoch
        elif kind is GroupMetadataKey:
            view = self.view(key.group)
            self.migrations["downgraded"] += is_new and value is not None and view.epoch == -1 and view.was_consumer
            view.was_consumer = False
            view.was_classic = view.was_classic or value is not None
            view.is_classic = value is not None
            view.members = set() if value is None else {one.member_id for one in value.members}
        else:
            return
        self._touched.add(getattr(key, "group_id", None) or key.group)

    def _moved(self, view: View, key: Any, value: Any, *, is_new: bool) -> None:
        member_id = key.member_id
        if value is None:
            view.has.pop(member_id, None)
            view.epochs.pop(member_id, None)
            return
        before = view.epochs.get(member_id, -2)
        if 0 < value.member_epoch < before:
            self.fail(key.group_id, f"{member_id} is in epoch {value.member_epoch} after {before}")
        view.epochs[member_id] = value.member_epoch
        rows = (*value.assigned_partitions, *value.partitions_pending_revocation)
        view.has[member_id] = {(row.topic_id, partition) for row in rows for partition in row.partitions}

    def ends(self) -> None:
        """Note that all results of one input are known."""
        touched, self._touched = self._touched, set()
        for group_id in touched:
            owners: dict[tuple[bytes, int], str] = {}
            for member_id, partitions in self.view(group_id).has.items():
                for one in partitions:
                    if owners.setdefault(one, member_id) != member_id:
                        self.fail(group_id, f"{one} is of {owners[one]} and of {member_id}, by the records")

    # ---- what the clients own

    def look(self) -> None:
        """Check that no two clients in the group own the same partition."""
        owners: dict[tuple[str, str, int], Any] = {}
        for client in self.clients:
            if client.script is None or not client.owned:
                continue
            view = self.groups.get(client.group_id)
            if view is None or view.is_classic or client.member_id not in view.members:
                continue  # it was removed and does not know it yet; other rules check classic groups
            if getattr(client, "generation", None) not in (None, view.epochs.get(client.member_id)):
                continue  # a static member that slept while the others made a classic generation
            for topic, partition in client.owned:
                other = owners.setdefault((client.group_id, topic, partition), client)
                if other is not client and other.member_id != client.member_id:
                    self.fail(client.group_id, f"{topic}/{partition} is owned by {other.name} and by {client.name}")
