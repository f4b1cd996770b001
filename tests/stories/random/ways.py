"""Kafka's ways: the accepted differences of docs/conformance.md, as changes to a core, so that the core answers as
Kafka does.

Each change names its paragraph. Any further difference is a bug. Nobody can predict which member leads after the loss
of a leader: the choice is only noted here, and taken from Kafka's answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest import mock

from muster.assignors.uniform import GeneralShares, TargetGroup, UniformAssignor, equal_shares
from muster.coordinator.groups.classic import group as classic
from muster.coordinator.groups.classic import rebalance
from muster.coordinator.groups.classic.group import ClassicGroup
from muster.coordinator.groups.classic.member import Member, Support, elect
from muster.coordinator.groups.consumer import heartbeat, target
from muster.coordinator.groups.consumer.commands import AssignmentWanted
from muster.coordinator.groups.consumer.group import ConsumerGroup
from muster.coordinator.groups.consumer.member import ConsumerMember
from muster.coordinator.groups.core import DEADLINES, HANDLERS, MEMBER_REQUESTS, GroupCore
from muster.coordinator.groups.migration import downgrade
from muster.coordinator.groups.offsets import commit, fetch
from muster.protocol.hashing import java_string_hash
from muster.protocol.messages.join_group import JoinGroupRequest
from muster.protocol.messages.offset_commit import OffsetCommitRequest
from muster.protocol.messages.offset_fetch import OffsetFetchRequest

LEADER = "Which member leads after a leader is lost"
TIES = "Ties of the protocol vote"
PARKED = "No request stays parked for ever"
UNSYNCED = "A static member that restarts before it synced"
REFUSED = "A commit refused only for its metadata"
DELAY = "The initial delay"
ALIKE = "Which algorithm `uniform` uses"
RENAMED = "A member that joins again under another instance id"
FORGOTTEN = "An empty consumer group that an unknown member joins"
PARAGRAPHS = (LEADER, TIES, PARKED, UNSYNCED, REFUSED, DELAY, ALIKE, RENAMED, FORGOTTEN)
"""The paragraphs of docs/conformance.md that this module follows."""

JAVA_TABLE = 16
"""Buckets of a small java.util.HashMap."""

_remove, _rename, _keep_or_elect = ClassicGroup.remove, ClassicGroup.rename, ClassicGroup.keep_or_elect_leader
_elect, _wanted_assignment = elect, target.wanted_assignment
_describe_member, _remove_member = ConsumerGroup.describe_member, ConsumerGroup.remove_member
_refresh = heartbeat.refresh
_begin, _complete, _on_sync_deadline = rebalance.begin, rebalance.complete, rebalance.on_sync_deadline


def java_order(names: Iterable[str]) -> list[str]:
    """The order in which Java's HashMap holds a few strings."""

    def bucket(name: str) -> int:
        code = 0
        for letter in name:
            code = (31 * code + ord(letter)) & 0xFFFFFFFF
        return (code ^ code >> 16) % JAVA_TABLE

    return sorted(names, key=bucket)


def elect_by_hash(support: Support) -> str:
    """TIES: Kafka counts the votes in a HashMap and takes the first protocol with most votes."""
    votes = support.votes()
    return max(java_order(name for name in support.candidates() if votes[name]), key=lambda name: votes[name])


def alike(group: ConsumerGroup) -> bool:
    """Whether Kafka treats the subscriptions as equal: by how often each name and pattern occurs."""
    count = len(group.members)
    names = Counter(name for one in group.members.values() for name in one.description.topics)
    if not group.patterns:
        return all(number == count for number in names.values())
    found = Counter(name for resolved in group.resolved.values() for name in resolved.topics)
    first = Timeline().follow(group.patterns)[0]
    return group.patterns[first] == count and not names and all(number == 1 for number in found.values())


class Timeline:
    """The order in which Kafka's TimelineHashMap holds the members of a group: by a hash, in a table that never
    shrinks.
    """

    def __init__(self) -> None:
        self._slots: list[list[str]] = [[], []]

    def follow(self, members: Iterable[str]) -> list[str]:
        """Set the present members, new ones in the order of joining; returns them in the table's order."""
        now = list(members)
        self._slots = [[one for one in slot if one in now] for slot in self._slots]
        held = sum(map(len, self._slots))
        for one in now:
            if any(one in slot for slot in self._slots):
                continue
            if (held + 1) * 0.75 > len(self._slots):
                self._grow()
            self._slots[self._slot(one)].append(one)
            held += 1
        return [one for slot in self._slots for one in reversed(slot)]

    def _grow(self) -> None:
        before = [one for slot in self._slots for one in slot]
        self._slots = [[] for _ in range(2 * len(self._slots))]
        for one in before:
            self._slots[self._slot(one)].append(one)

    def _slot(self, member_id: str) -> int:
        return (java_string_hash(member_id) * -7046029254386353131 & (1 << 64) - 1) >> 64 - (
            len(self._slots).bit_length() - 1
        )


class OwnWays:
    """A core without changes. `met`: how often each accepted difference occurred; `open_by`: the difference after which
    the rest is unpredictable.
    """

    def __init__(self) -> None:
        self.met: Counter[str] = Counter()
        self.open_by = ""

    def attach(self, core: GroupCore) -> None:
        """Use this core."""

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Inside the block cores have these ways."""
        yield

    def candidates(self, group_id: str) -> frozenset[str]:
        """The member ids that may lead the present generation; none when it is certain."""
        return frozenset()

    def settle(self, group_id: str) -> None:
        """Note that the leader is known now."""

    def unseen(self) -> frozenset[str]:
        """Groups that the server may or may not list and describe."""
        return frozenset()

    def recorded(self, group_id: str) -> None:
        """A record of that group was written."""

    def asked(self) -> None:
        """A request is about to be handled."""


class KafkaWays(OwnWays):
    """Kafka's ways, for one core: they remember facts about its groups."""

    def __init__(self) -> None:
        super().__init__()
        self._possible: dict[str, set[str]] = {}  # candidates for leader after the last leader was lost
        self._candidates: dict[str, frozenset[str]] = {}
        self._carried: set[str] = set()  # groups for which "a member was added" is still remembered
        self._recordless: set[str] = set()  # groups that a refused commit created, or that a refused join removed
        self._forgotten: set[str] = set()  # a group that a refused join removed: OffsetFetch may still find it
        self._is_alike = self._is_general = True
        self._alike: dict[str, bool] = {}  # whether Kafka treats all subscriptions as equal
        self._alike_before: dict[str, bool] = {}  # the same before the present request
        self._bumped: set[str] = set()
        self._patches = [
            (classic, "elect", self.elect),
            (rebalance, "_abandon", self.leave_behind),
            (ClassicGroup, "remove", lambda group, member_id: self.remove(group, member_id)),
            (ClassicGroup, "rename", lambda group, instance_id, member_id: self.rename(group, instance_id, member_id)),
            (ClassicGroup, "keep_or_elect_leader", lambda group: self.keep_or_elect_leader(group)),
            (rebalance, "begin", self.begin),
            (rebalance, "complete", self.complete),
            (target, "wanted_assignment", self.wanted_assignment),
            (heartbeat, "refresh", self.refresh),
            (ConsumerGroup, "describe_member", lambda group, *rest: self.describe_member(group, *rest)),
            (ConsumerGroup, "remove_member", lambda group, member_id: self.remove_member(group, member_id)),
            (UniformAssignor, "assign", lambda _, members, topics: self.uniform(members, topics)),
            (UniformAssignor, "assign_generally", lambda _, members, topics: self.uniform(members, topics)),
        ]

    def attach(self, core: GroupCore) -> None:
        known = core.state.downgrade
        core.state.downgrade = known._replace(
            after_leave=partial(self.downgrade, known.after_leave), after_join=partial(self.downgrade, known.after_join)
        )

    @contextmanager
    def in_force(self) -> Iterator[None]:
        with ExitStack() as stack:
            for owner, name, way in self._patches:
                stack.enter_context(mock.patch.object(owner, name, way))
            stack.enter_context(mock.patch.dict(HANDLERS, {OffsetCommitRequest: self.commit}))
            stack.enter_context(mock.patch.dict(HANDLERS, {OffsetFetchRequest: self.fetch}))
            joins = {**MEMBER_REQUESTS[JoinGroupRequest], ConsumerGroup: self.join_consumer_group}
            stack.enter_context(mock.patch.dict(MEMBER_REQUESTS, {JoinGroupRequest: joins}))
            stack.enter_context(mock.patch.dict(DEADLINES, {classic.SYNC_PHASE: on_sync_deadline}))
            yield

    def candidates(self, group_id: str) -> frozenset[str]:
        return self._candidates.get(group_id, frozenset())

    def settle(self, group_id: str) -> None:
        self._candidates.pop(group_id, None)

    # ---- TIES, PARKED

    def elect(self, support: Support, leader: Member | None) -> str:
        """By hash order."""
        name = elect_by_hash(support)
        self.met[TIES] += name != _elect(support, leader)
        return name

    def leave_behind(self, *_: object) -> None:
        """Kafka forgets such a request."""
        self.met[PARKED] += 1

    # ---- LEADER

    def remove(self, group: ClassicGroup, member_id: str) -> Member | None:
        """When the leader leaves, any other member may be chosen."""
        possible = self._possible.get(group.group_id, set())
        if member_id in group.members and (member_id == group.leader_id or member_id in possible):
            self._possible[group.group_id] = set(group.members) - {member_id}
        return _remove(group, member_id)

    def keep_or_elect_leader(self, group: ClassicGroup) -> bool:
        """The chosen member leads if it has joined, else any member that has joined."""
        joined = {member.member_id for member in group.members.values() if member.parked_join is not None}
        possible = self._possible.get(group.group_id) or {group.leader_id or ""}
        if joined:
            self._possible.pop(group.group_id, None)
            self._candidates[group.group_id] = frozenset(possible if possible <= joined else joined)
        return _keep_or_elect(group)

    # ---- UNSYNCED

    def rename(self, group: ClassicGroup, instance_id: str, member_id: str) -> None:
        """Kafka still expects a SyncGroup of the old id."""
        old_id = group.static_ids[instance_id]
        unsynced = old_id in group.pending_sync
        _rename(group, instance_id, member_id)
        if unsynced:
            self.met[UNSYNCED] += 1
            group.pending_sync.pop(member_id, None)
            group.pending_sync[old_id] = None
        for ids in (self._possible.get(group.group_id), self._candidates.get(group.group_id)):
            if ids and old_id in ids:
                renamed = {*ids, member_id} - {old_id}
                if isinstance(ids, set):
                    self._possible[group.group_id] = renamed
                else:
                    self._candidates[group.group_id] = frozenset(renamed)

    # ---- REFUSED

    def commit(self, step: Any, command: Any, request: Any) -> None:
        """Kafka creates the group before it checks the metadata; without a record the group is visible for some
        time.
        """
        commit.handle(step, command, request)
        groups, group_id = step.state.groups, request.group_id
        if group_id not in groups and request.generation_id_or_member_epoch < 0 and request.topics:
            groups[group_id] = ClassicGroup(group_id, step.now.wall_ms)
            self._recordless.add(group_id)
            self.met[REFUSED] += 1

    def unseen(self) -> frozenset[str]:
        return frozenset(self._recordless)

    def recorded(self, group_id: str) -> None:
        self._recordless.discard(group_id)
        self._forgotten.discard(group_id)

    # ---- ALIKE

    def wanted_assignment(self, step: Any, group: ConsumerGroup, *rest: Any, **more: Any) -> AssignmentWanted:
        """What Kafka counts now if there is a new epoch, else what it counted before."""
        fresh = group.group_id in self._bumped
        self._is_alike = alike(group) if fresh else self._alike_before.get(group.group_id, self._alike[group.group_id])
        wanted = _wanted_assignment(step, group, *rest, **more)
        self._is_general = wanted.is_general
        return wanted

    def asked(self) -> None:
        self._alike_before.clear()
        self._bumped.clear()

    def refresh(self, step: Any, group: ConsumerGroup, **rest: Any) -> None:
        """Note whether the group has a new epoch."""
        before = group.epoch
        _refresh(step, group, **rest)
        if group.epoch != before:
            self._bumped.add(group.group_id)

    def describe_member(self, group: ConsumerGroup, *rest: Any) -> None:
        """Kafka counts when a member is recorded, not when topics of patterns are found."""
        if group.group_id in self._alike:
            self._alike_before.setdefault(group.group_id, self._alike[group.group_id])
        member, said = rest
        before = member.description.instance_id
        if member.is_persisted and said.instance_id not in (None, before):
            self.met[RENAMED] += 1
            self.open_by = RENAMED
        _describe_member(group, *rest)
        self._alike[group.group_id] = alike(group)

    def remove_member(self, group: ConsumerGroup, member_id: str) -> ConsumerMember | None:
        """Kafka counts also when a member leaves."""
        gone = _remove_member(group, member_id)
        self._alike[group.group_id] = alike(group)
        return gone

    def uniform(self, members: Any, topics: Any) -> Any:
        """Assign as Kafka does, also where it is wrong."""
        group = TargetGroup(members, topics)
        if self._is_alike != (group.all_subscribed_alike() and not self._is_general):
            self.met[ALIKE] += 1
            if self._is_alike:  # by the topics of any member
                self.open_by = ALIKE
        return (
            group.by_name(equal_shares(group) if self._is_alike else GeneralShares(group).shares()) if members else {}
        )

    # ---- FORGOTTEN

    def join_consumer_group(self, step: Any, command: Any, request: Any, group: ConsumerGroup) -> None:
        """Kafka removes an empty consumer group before it checks the joining member; after a refusal, nothing is
        recorded.
        """
        downgrade.join_consumer_group(step, command, request, group)
        groups, group_id = step.state.groups, request.group_id
        if groups.get(group_id) is group and not group.members and request.member_id:
            del groups[group_id]
            self._recordless.add(group_id)
            self._forgotten.add(group_id)
            self.met[FORGOTTEN] += 1
            if step.state.offsets.places(group_id):  # which are not found then
                self.open_by = self.open_by or FORGOTTEN

    def fetch(self, step: Any, command: Any, request: Any) -> None:
        """Kafka answers from committed state, in which the group still exists: so it still checks the member."""
        fetch.handle(step, command, request)
        if any(one.group_id in self._forgotten and (one.member_id or one.member_epoch >= 0) for one in request.groups):
            self.open_by = self.open_by or FORGOTTEN

    # ---- LEADER

    def downgrade(self, way: Any, step: Any, group: ConsumerGroup, *rest: Any) -> None:
        """The first member of a group that becomes classic leads, in the order of the table."""
        way(step, group, *rest)
        made = step.state.groups.get(group.group_id)
        if isinstance(made, ClassicGroup):
            self._possible[group.group_id] = set(made.members)

    # ---- DELAY

    def begin(self, step: Any, group: ClassicGroup, *rest: Any) -> None:
        """An initial delay may begin with the newcomer of the delay before."""
        _begin(step, group, *rest)
        if group.initial and group.group_id in self._carried:
            group.newcomer = True
            self.met[DELAY] += 1
        self._carried.discard(group.group_id)

    def complete(self, step: Any, group: ClassicGroup) -> None:
        """Kafka does not forget at the end of an initial delay that a member was added in it."""
        added = group.initial and group.newcomer
        _complete(step, group)
        if added and not group.initial:
            self._carried.add(group.group_id)


def on_sync_deadline(step: Any, group: ClassicGroup, deadline: Any) -> None:
    """UNSYNCED: at last Kafka rebalances because of an id that no member has."""
    gone = [member_id for member_id in group.pending_sync if member_id not in group.members]
    for member_id in gone:
        del group.pending_sync[member_id]
    if group.pending_sync or not gone:
        _on_sync_deadline(step, group, deadline)
    else:
        rebalance.begin(step, group, "an id that nobody has did not sync")
