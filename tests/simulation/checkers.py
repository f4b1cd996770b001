"""The rules of the classic protocol, each as an outside observer can check it. `checkers` makes new checkers for one
history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from muster.coordinator.state_machine.interface import Record
from muster.protocol.message import Message
from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from muster.protocol.messages.group_records.group_metadata import GroupMetadataValue
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey
from muster.protocol.messages.join_group import JoinGroupResponse
from muster.protocol.messages.offset_commit import OffsetCommitRequest
from muster.protocol.messages.offset_delete import OffsetDeleteRequest
from muster.protocol.messages.offset_fetch import OffsetFetchRequest
from muster.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.simulation.scenario import LATE_MS, SESSIONS_MS
from tests.simulation.view import GroupView
from tests.simulation.watch import Checker, Told

if TYPE_CHECKING:
    from tests.simulation.world import Call


class OneLeader(Checker):
    """A generation has one leader: one member is answered so, all members get its id, and the assignment is its own."""

    def round_begins(self, view: GroupView, number: int, reported: list[Told], ms: int) -> None:
        """All were answered the same leader, which is one of them and gets the list of members."""
        leaders = {row.leader: None for _, _, row in reported}
        if len(leaders) != 1:
            self.fail(view.group_id, f"generation {number} was told of {len(leaders)} leaders: {list(leaders)}")
        listed = [identity for _, identity, row in reported if row.leader == row.member_id and row.members]
        if len(listed) != 1:
            self.fail(view.group_id, f"{len(listed)} members of generation {number} got the list of members")

    def joined(self, view: GroupView, call: Call, identity: str, response: JoinGroupResponse) -> None:
        """Whoever joins this generation later is answered the same leader, by its old id or its new one."""
        known = view.round
        if known is None:
            return
        if response.leader == response.member_id and identity != known.leader:
            self.fail(view.group_id, f"{identity!r} was told to lead beside {known.leader!r}")
        named = view.identities.get(response.leader)
        if named not in (None, known.leader):
            self.fail(view.group_id, f"{response.leader!r} was named as leader, which is {known.leader!r}")

    def group_written(self, view: GroupView, value: GroupMetadataValue, writer: Message | None) -> None:
        """Only the leader's assignment is written."""
        known = view.round
        if type(writer) is SyncGroupRequest and known is not None:
            identity = view.identities.get(writer.member_id)
            if identity != known.leader:
                self.fail(view.group_id, f"{identity!r} has assigned, the leader is {known.leader!r}")


class OneOwner(Checker):
    """All members get the share that the leader gave to them, and no partition has two owners in a generation."""

    def synced(self, view: GroupView, call: Call, identity: str, response: SyncGroupResponse) -> None:
        """Compare with the leader's assignment, and with the shares that were acknowledged so far."""
        known = view.round
        if known is None:
            return
        share = response.assignment
        if known.shares is not None and known.shares.get(identity, b"") != share:
            self.fail(view.group_id, f"{identity!r} got {share!r}, not {known.shares.get(identity, b'')!r}")
        for partition in share:
            owner = known.owners.setdefault(partition, identity)
            if owner != identity:
                self.fail(view.group_id, f"partition {partition} belongs to {owner!r} and to {identity!r}")


class OneProtocol(Checker):
    """All members of a generation use one protocol, which all of them offer, and the leader gets their metadata."""

    def round_begins(self, view: GroupView, number: int, reported: list[Told], ms: int) -> None:
        """Check that there is one protocol, which every joined member offers, and one list with the metadata of
        each.
        """
        chosen = {(row.protocol_type, row.protocol_name): None for _, _, row in reported}
        if len(chosen) != 1:
            self.fail(view.group_id, f"generation {number} has {len(chosen)} protocols: {list(chosen)}")
        numbers = {row.generation_id: None for _, _, row in reported}
        if len(numbers) != 1:
            self.fail(view.group_id, f"one round made generations {list(numbers)}")
        name = next(iter(chosen))[1]
        listed = {one.member_id: one.metadata for _, _, row in reported for one in row.members}
        for call, identity, row in reported:
            request: Any = call.request
            offered = {one.name: one.metadata for one in reversed(request.protocols)}
            if name not in offered:
                self.fail(view.group_id, f"{name!r} was chosen, which {identity!r} does not offer")
            if listed.get(row.member_id) != offered[name]:
                self.fail(view.group_id, f"the leader was told {listed.get(row.member_id)!r} of {identity!r}")

    def joined(self, view: GroupView, call: Call, identity: str, response: JoinGroupResponse) -> None:
        """Check that the protocol is that of the others."""
        self._compare(view, identity, response)

    def synced(self, view: GroupView, call: Call, identity: str, response: SyncGroupResponse) -> None:
        """Check that the protocol is that of the JoinGroup."""
        self._compare(view, identity, response)

    def _compare(self, view: GroupView, identity: str, response: JoinGroupResponse | SyncGroupResponse) -> None:
        known = view.round
        if known is not None:
            reported, own = (response.protocol_type, response.protocol_name), (known.protocol_type, known.protocol)
            if reported != own:
                self.fail(view.group_id, f"{identity!r} got {reported}, the generation has {own}")


class GenerationsGrow(Checker):
    """Each round makes one generation more, also when no member is left; no member is ever answered an older one."""

    def round_begins(self, view: GroupView, number: int, reported: list[Told], ms: int) -> None:
        """Check that the number is one more than the last."""
        if number != view.generation + 1:
            self.fail(view.group_id, f"generation {number} came after {view.generation}")

    def group_written(self, view: GroupView, value: GroupMetadataValue, writer: Message | None) -> None:
        """The present generation is written, or, when no member is left, the next one."""
        if value.generation != view.generation + (not value.members and value.generation > 0):
            self.fail(view.group_id, f"generation {value.generation} was written in {view.generation}")


class Barrier(Checker):
    """A round ends when all known members have joined, or have been silent, or the rebalance timeout has passed."""

    def round_begins(self, view: GroupView, number: int, reported: list[Told], ms: int) -> None:
        """Check whether all members are there, or enough time has passed."""
        present = {identity for _, identity, _ in reported}
        missing = [one for identity, one in view.members.items() if identity not in present]
        late = [one.identity for one in missing if not view.excused(one, ms)]
        new = {row.member_id for _, _, row in reported}
        ids = [one for one, until_ms in view.pending.items() if until_ms > ms and one not in new]
        if view.members and (late or ids):
            wait_ms, began_ms = view.wait_ms(ms, new), min(view.began_at_the_earliest(ms), ms)
            if ms < began_ms + wait_ms:
                waited_for = f"members {late} and ids {ids}"
                self.fail(
                    view.group_id,
                    f"generation {number} began without {waited_for}, {ms - began_ms} of {wait_ms} ms after it was due",
                )


class RoundsEnd(Checker):
    """A round ends with the last member that joins, unless a member id that was handed out is still unused."""

    def parked(self, view: GroupView, call: Call, ms: int) -> None:
        """Check whether the round must wait for a member. (The first round of an Empty group, which has a delay, has no
        members yet.)
        """
        if type(call.request) is SyncGroupRequest or not view.members:
            return
        if any(until_ms + LATE_MS > ms for until_ms in view.pending.values()):
            return
        if view.joining.keys() >= view.members.keys():
            self.fail(view.group_id, f"all of {list(view.members)} have joined, and wait for nobody")


class RebalanceAnnounced(Checker):
    """While a JoinGroup is parked the others must join again: no Heartbeat or SyncGroup is answered as if nothing
    happened.
    """

    def succeeded(self, view: GroupView, call: Call, member_id: str, what: str) -> None:
        """Check whether a JoinGroup waits for this member."""
        if view.joining and what in ("Heartbeat", "SyncGroup"):
            self.fail(view.group_id, f"{what} of {member_id!r} told of no rebalance, {list(view.joining)} wait for it")


class NobodyRemoved(Checker):
    """A member that sends heartbeats, rejoins and syncs in time stays a member.

    A rebalance may exceed its timeout and remove members without an answer to any client. When only static members are
    left that have not joined either, it continues to wait for them.
    """

    def unknown(self, view: GroupView, call: Call, ms: int, *, leaving: bool) -> None:
        """Check whether there was a reason to remove this member."""
        request: Any = call.request
        member = view.member(request.member_id)
        if member is None or leaving or view.excused(member, ms):
            return
        if ms < view.began_at_the_earliest(ms) + view.wait_ms(ms):
            silent = f"silent for {ms - member.sign_ms} of {member.session_ms} ms"
            self.fail(view.group_id, f"{member.identity!r} was put out in generation {view.generation}, {silent}")


class FencedStayOut(Checker):
    """An id that was fenced, removed, or replaced, or has left, never succeeds again."""

    def succeeded(self, view: GroupView, call: Call, member_id: str, what: str) -> None:
        """Check whether this id is that of a living member."""
        if member_id in view.dead:
            self.fail(view.group_id, f"{what} of {member_id!r} succeeded, which is no member any more")


class AnsweredOnce(Checker):
    """No request is answered twice."""

    def answered(self, call: Call, response: Message, ms: int, release_ms: int) -> None:
        """Check whether this is the first answer."""
        if call.reply is not None:
            group_id = getattr(call.request, "group_id", "")
            self.fail(group_id, f"{type(call.request).__name__} {call.number} was answered twice")


class AnswersInTime(Checker):
    """A SyncGroup is answered when the round's longest rebalance timeout is over, or a session later if it was sent
    twice. (`at_rest` and `Watch.resigned` check that no request waits for ever.)
    """

    of: Final = (SyncGroupRequest,)

    def __init__(self) -> None:
        self._due_ms: dict[Call, int] = {}

    def parked(self, view: GroupView, call: Call, ms: int) -> None:
        """Compute until when an answer must come."""
        if type(call.request) is SyncGroupRequest:
            self._due_ms[call] = view.ended_ms + view.longest_ms + SESSIONS_MS[-1] + 2 * LATE_MS

    def answered(self, call: Call, response: Message, ms: int, release_ms: int) -> None:
        """Check that the answer was in time."""
        due_ms = self._due_ms.pop(call, ms)
        if ms > due_ms:
            request: Any = call.request
            self.fail(request.group_id, f"SyncGroup {call.number} was answered {ms - due_ms} ms late")


class CommitsShown(Checker):
    """A fetch shows the last commits, all that were acknowledged among them, and nothing else."""

    of: Final = (OffsetCommitRequest, OffsetFetchRequest, OffsetDeleteRequest, DeleteGroupsRequest)

    def __init__(self) -> None:
        self._now: dict[str, dict[int, tuple[int, str]]] = {}
        """Group id -> partition -> (offset, metadata), which the core must show."""
        self._acknowledged: list[tuple[int, str, int, tuple[int, str] | None]] = []
        """When an answer was sent, and what it acknowledged (None: deleted)."""

    def answered(self, call: Call, response: Any, ms: int, release_ms: int) -> None:
        """Note commits and deletions; compare fetched offsets."""
        request: Any = call.request
        if type(request) is OffsetCommitRequest:
            for asked, reported in zip(request.topics, response.topics, strict=True):
                for one, row in zip(asked.partitions, reported.partitions, strict=True):
                    if not row.error_code:
                        value = (one.committed_offset, one.committed_metadata)
                        self._note(release_ms, request.group_id, one.partition_index, value)
        elif type(request) is OffsetFetchRequest:
            for group in response.groups:
                self._compare(group)
        elif type(request) is OffsetDeleteRequest:
            for topic in response.topics:
                for row in topic.partitions:
                    if not row.error_code:
                        self._note(release_ms, request.group_id, row.partition_index, None)
        else:
            for result in response.results:
                if not result.error_code:
                    for partition in list(self._now.get(result.group_id, {})):
                        self._note(release_ms, result.group_id, partition, None)

    def reloaded(self, records: list[Record], released_ms: int) -> None:
        """Check that everything that was acknowledged before is in the log."""
        written: dict[str, dict[int, tuple[int, str]]] = {}
        for key, value, _ in records:
            if type(key) is OffsetCommitKey:
                partitions = written.setdefault(key.group, {})
                partitions.pop(key.partition, None)
                if value is not None:
                    row: Any = value
                    partitions[key.partition] = (row.offset, row.metadata)
        acknowledged: dict[tuple[str, int], tuple[int, str] | None] = {}
        for release_ms, group_id, partition, row in self._acknowledged:
            if release_ms <= released_ms:
                acknowledged[group_id, partition] = row
        for (group_id, partition), row in acknowledged.items():
            there = written.get(group_id, {}).get(partition)
            if there != row:
                self.fail(group_id, f"{row} was acknowledged for partition {partition}, {there} is in the log")
        self._acknowledged = [
            (0, group_id, partition, row)
            for group_id, partitions in written.items()
            for partition, row in partitions.items()
        ]
        self._now = written

    def _note(self, release_ms: int, group_id: str, partition: int, value: tuple[int, str] | None) -> None:
        self._acknowledged.append((release_ms, group_id, partition, value))
        partitions = self._now.setdefault(group_id, {})
        if value is None:
            partitions.pop(partition, None)
        else:
            partitions[partition] = value

    def _compare(self, group: Any) -> None:
        known = self._now.get(group.group_id, {})
        for topic in group.topics:
            for row in topic.partitions:
                value = known.get(row.partition_index, (-1, ""))
                if row.error_code or (row.committed_offset, row.metadata) != value:
                    self.fail(group.group_id, f"a fetch shows {row}, committed was {value}")


def checkers() -> list[Checker]:
    """All rules that are checked at each step."""
    return [
        AnsweredOnce(),
        AnswersInTime(),
        GenerationsGrow(),
        OneProtocol(),
        OneLeader(),
        Barrier(),
        RoundsEnd(),
        RebalanceAnnounced(),
        NobodyRemoved(),
        FencedStayOut(),
        OneOwner(),
        CommitsShown(),
    ]
