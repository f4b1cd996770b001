"""The observer that reads everything: it keeps the views of all groups true, and calls the checkers at each step.

It sees requests, replies and records, in the core's order, and nothing inside the core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from muster.coordinator.state_machine.interface import Record
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from muster.protocol.messages.group_records.group_metadata import GroupMetadataKey, GroupMetadataValue
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from muster.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from muster.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from muster.protocol.messages.offset_delete import OffsetDeleteRequest
from muster.protocol.messages.offset_fetch import OffsetFetchRequest
from muster.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.simulation.view import NEVER, GroupView, MemberView, Round

if TYPE_CHECKING:
    from tests.simulation.world import Call

Told = tuple["Call", str, JoinGroupResponse]
"""A member that was answered a new generation: its JoinGroup, its identity, the answer."""


class Violation(AssertionError):
    """The core has broken a rule: the checker, the group, and what the checker saw."""

    def __init__(self, checker: str, group_id: str, what: str) -> None:
        super().__init__(f"{checker}: group {group_id!r}: {what}")
        self.checker = checker
        self.group_id = group_id


class Checker:
    """One rule. It overrides the methods that it needs; each may raise Violation, through `fail`."""

    def fail(self, group_id: str, what: str) -> None:
        """Report that the rule is broken."""
        raise Violation(type(self).__name__, group_id, what)

    def round_begins(self, view: GroupView, number: int, reported: list[Told], ms: int) -> None:
        """Members were answered a new generation, all at once. The view is still that of the last generation."""

    def joined(self, view: GroupView, call: Call, identity: str, response: JoinGroupResponse) -> None:
        """A JoinGroup was answered with the current generation. The view is still that before the answer."""

    def synced(self, view: GroupView, call: Call, identity: str, response: SyncGroupResponse) -> None:
        """A SyncGroup was answered without an error."""

    def succeeded(self, view: GroupView, call: Call, member_id: str, what: str) -> None:
        """A request of a member was answered successfully."""

    def unknown(self, view: GroupView, call: Call, ms: int, *, leaving: bool) -> None:
        """A request was answered with UNKNOWN_MEMBER_ID; `leaving`: while a LeaveGroup was handled."""

    def group_written(self, view: GroupView, value: GroupMetadataValue, writer: Message | None) -> None:
        """A record of a group; `writer`: the request that was handled. The view is still that before the record."""

    def parked(self, view: GroupView, call: Call, ms: int) -> None:
        """A JoinGroup or SyncGroup was not answered at once. The view is that after it."""

    def answered(self, call: Call, response: Message, ms: int, release_ms: int) -> None:
        """A reply, to a request `of` the checker's APIs if it has such a list; it is sent at `release_ms`."""

    def reloaded(self, records: list[Record], released_ms: int) -> None:
        """A new core was made of these records; answers of the last core until `released_ms` were sent."""


_HOOKS: Final = [name for name in vars(Checker) if not name.startswith("_") and name != "fail"]


class Watch:
    """See the module."""

    def __init__(self, checkers: Iterable[Checker]) -> None:
        self.groups: dict[str, GroupView] = {}
        self.ms = 0
        hooks: dict[str, list[Any]] = {
            name: [getattr(one, name) for one in checkers if getattr(type(one), name) is not getattr(Checker, name)]
            for name in _HOOKS
        }
        self._hooks = hooks
        self._always = [one for one in hooks["answered"] if not hasattr(one.__self__, "of")]
        self._answered = {
            kind: [one for one in hooks["answered"] if kind in getattr(one.__self__, "of", (kind,))] for kind in _KINDS
        }
        self._request: Message | None = None
        self._told: dict[str, list[Told]] = {}

    # ---- from the world

    def begins(self, call: Call | None, ms: int) -> None:
        """The core gets a request, or (None) time passes."""
        self.ms = ms
        request = self._request = None if call is None else call.request
        if type(request) is JoinGroupRequest:
            self._joins(self.view(request.group_id), request)

    def _joins(self, view: GroupView, request: JoinGroupRequest) -> None:
        if request.member_id:
            member = view.member(request.member_id)
        else:
            member = view.members.get(request.group_instance_id or "")
            if member is not None:
                member.contested = True
        if member is not None:  # these timeouts may be in force from now on
            member.session_ms = min(member.session_ms, request.session_timeout_ms)
            member.rebalance_ms = min(member.rebalance_ms, request.rebalance_timeout_ms)

    def record(self, record: Record) -> None:
        """The core has decided on a record."""
        if type(record.key) is not GroupMetadataKey:
            return
        value: Any = record.value
        if value is None:
            self.groups.pop(record.key.group, None)
            return
        view = self.view(record.key.group)
        for check in self._hooks["group_written"]:
            check(view, value, self._request)
        if value.generation == view.generation:
            current, request = view.round, self._request
            if current is not None and type(request) is SyncGroupRequest and value.members:
                current.shares = {
                    view.identities.get(one.member_id, one.member_id): one.assignment for one in request.assignments
                }
            return
        view.generation = value.generation
        if not value.members:
            for member_id in [one.member_id for one in view.members.values()]:
                view.drop(member_id, self.ms)
            view.began_ms, view.ended_ms = NEVER, self.ms

    def reply(self, call: Call, response: Message, release_ms: int) -> None:
        """The core has answered."""
        kind = type(call.request)
        for check in self._answered.get(kind, self._always):
            check(call, response, self.ms, release_ms)
        view_it = _VIEWS.get(kind)
        if view_it is not None:
            view_it(self, call, response)

    def ends(self) -> None:
        """All results of the input are known."""
        if self._told:
            reported, self._told = self._told, {}
            for group_id, rows in reported.items():
                self._new_round(self.view(group_id), rows)

    def parked(self, call: Call) -> None:
        """A request was not answered at once."""
        request: Any = call.request
        view = self.view(request.group_id)
        if type(request) is JoinGroupRequest:
            view.begins(self.ms)
            view.pending.pop(request.member_id, None)
            view.joining[self._joiner(view, call, request)] = call
        for check in self._hooks["parked"]:
            check(view, call, self.ms)

    def _joiner(self, view: GroupView, call: Call, request: JoinGroupRequest) -> str:
        known = view.identities.get(request.member_id, request.group_instance_id)
        return known or request.member_id or f"#{call.number}"

    def resigned(self, parked: Iterable[Call]) -> None:
        """The core was given up, and these requests have no answer. Raises Violation (AnswersInTime)."""
        for call in parked:
            request: Any = call.request
            what = f"{type(request).__name__} {call.number} of {call.actor.name} stays parked after the end"
            raise Violation("AnswersInTime", request.group_id, what)

    def reloaded(self, records: list[Record], ms: int, released_ms: int) -> None:
        """A new core was made of these records; answers of the last core until `released_ms` were sent."""
        self.ms = ms
        values: dict[str, Any] = {}
        for record in records:
            if type(record.key) is GroupMetadataKey:
                values.pop(record.key.group, None)
                if record.value is not None:
                    values[record.key.group] = record.value
        for group_id in [*self.groups, *values]:
            self.view(group_id).restore(values.get(group_id), ms)
            self.view(group_id).begins(ms)
        for check in self._hooks["reloaded"]:
            check(records, released_ms)

    def view(self, group_id: str) -> GroupView:
        """The known state of a group."""
        view = self.groups.get(group_id)
        if view is None:
            view = self.groups[group_id] = GroupView(group_id)
        return view

    # ---- replies

    def _join(self, call: Call, response: JoinGroupResponse) -> None:
        request: Any = call.request
        view, error = self.view(request.group_id), response.error_code
        if call.parked:
            joiner = self._joiner(view, call, request)
            if view.joining.get(joiner) is call:
                del view.joining[joiner]
        if error:
            if error == ErrorCode.MEMBER_ID_REQUIRED:
                view.pending[response.member_id] = self.ms + request.session_timeout_ms
            elif error == ErrorCode.GROUP_MAX_SIZE_REACHED:
                view.drop(request.member_id, self.ms)
            else:
                self._refused(view, call, request, error)
            return
        member_id = response.member_id
        identity = view.identities.get(member_id)
        if identity is None:
            identity = view.identities[member_id] = request.group_instance_id or member_id
        if request.member_id:
            self._succeeded(view, call, request.member_id, "JoinGroup")
        if response.generation_id != view.generation:
            self._told.setdefault(view.group_id, []).append((call, identity, response))
            return
        for check in self._hooks["joined"]:
            check(view, call, identity, response)
        member = view.members.get(identity)
        if member is not None and not request.member_id:
            # a static member is back under another id
            view.dead[member.member_id] = None
            member.member_id = member_id
            member.contested = False
            member.sign_ms = self.ms

    def _new_round(self, view: GroupView, reported: list[Told]) -> None:
        number = reported[0][2].generation_id
        for check in self._hooks["round_begins"]:
            check(view, number, reported, self.ms)
        present = {identity: call for call, identity, _ in reported}
        leader, answer = next((identity, row) for _, identity, row in reported if row.leader == row.member_id)
        new = Round(leader, answer.protocol_type, answer.protocol_name)
        old, view.members = view.members, {}
        view.joining.clear()  # the member has sent this parked request again: it waits for nothing
        view.longest_ms = 0
        for one in answer.members:
            identity = one.group_instance_id or one.member_id
            new.listed[identity] = one.metadata
            view.identities[one.member_id] = identity
            before, call = old.pop(identity, None), present.get(identity)
            if before is not None and before.member_id != one.member_id:
                view.dead[before.member_id] = None
            session_ms = rebalance_ms = 0
            if call is not None:
                request: Any = call.request
                session_ms, rebalance_ms = request.session_timeout_ms, request.rebalance_timeout_ms
            elif before is not None:
                session_ms, rebalance_ms = before.session_ms, before.rebalance_ms
            view.members[identity] = MemberView(identity, one.member_id, session_ms, rebalance_ms, self.ms)
            view.pending.pop(one.member_id, None)
            view.longest_ms = max(view.longest_ms, rebalance_ms)
        for member in old.values():
            view.dead[member.member_id] = None
        view.generation = number
        view.rounds[number] = new
        view.began_ms, view.ended_ms = NEVER, self.ms

    def _sync(self, call: Call, response: SyncGroupResponse) -> None:
        request: Any = call.request
        view, error = self.view(request.group_id), response.error_code
        member = view.member(request.member_id)
        if not error:
            self._succeeded(view, call, request.member_id, "SyncGroup")
            identity = view.identities.get(request.member_id, request.member_id)
            for check in self._hooks["synced"]:
                check(view, call, identity, response)
            if member is not None:
                current = view.round
                assigns = request is self._request and current is not None and current.leader == identity
                if call.parked or (assigns and request.assignments and not member.synced):
                    member.sign_ms = self.ms
                member.synced = True
        elif error == ErrorCode.REBALANCE_IN_PROGRESS:
            view.begins(self.ms)
        else:
            self._refused(view, call, request, error)

    def _heartbeat(self, call: Call, response: Any) -> None:
        request: Any = call.request
        view, error = self.view(request.group_id), response.error_code
        if error in (0, ErrorCode.REBALANCE_IN_PROGRESS):
            self._succeeded(view, call, request.member_id, "the refusal of Heartbeat" if error else "Heartbeat")
            member = view.member(request.member_id)
            if member is not None:
                member.sign_ms = self.ms
        else:
            self._refused(view, call, request, error)

    def _commit(self, call: Call, response: OffsetCommitResponse) -> None:
        request: Any = call.request
        if request.generation_id_or_member_epoch < 0 or not response.topics:
            return
        view, error = self.view(request.group_id), response.topics[0].partitions[0].error_code
        if not error:
            self._succeeded(view, call, request.member_id, "OffsetCommit")
            member = view.member(request.member_id)
            if member is not None:
                member.sign_ms = self.ms
        else:
            self._refused(view, call, request, error)

    def _leave(self, call: Call, response: LeaveGroupResponse) -> None:
        request: Any = call.request
        view = self.view(request.group_id)
        for row in response.members:
            if row.error_code:
                continue
            member_id = row.member_id
            if not member_id and row.group_instance_id is not None:
                holder = view.members.get(row.group_instance_id)
                member_id = "" if holder is None else holder.member_id
            view.drop(member_id, self.ms)
            view.begins(self.ms)

    def _succeeded(self, view: GroupView, call: Call, member_id: str, what: str) -> None:
        for check in self._hooks["succeeded"]:
            check(view, call, member_id, what)

    def _refused(self, view: GroupView, call: Call, request: Any, error: int) -> None:
        member_id, instance_id = request.member_id, request.group_instance_id
        identity = view.identities.get(member_id)
        if identity is None:
            return
        if error == ErrorCode.UNKNOWN_MEMBER_ID and instance_id in (None, identity):
            for check in self._hooks["unknown"]:
                check(view, call, self.ms, leaving=type(self._request) is LeaveGroupRequest)
            view.drop(member_id, self.ms)
        elif error == ErrorCode.FENCED_INSTANCE_ID and instance_id == identity:
            view.dead[member_id] = None


_VIEWS: Final[dict[type[Message], Callable[[Watch, Any, Any], None]]] = {
    JoinGroupRequest: Watch._join,
    SyncGroupRequest: Watch._sync,
    HeartbeatRequest: Watch._heartbeat,
    OffsetCommitRequest: Watch._commit,
    LeaveGroupRequest: Watch._leave,
}
_KINDS: Final = (*_VIEWS, OffsetFetchRequest, DeleteGroupsRequest, OffsetDeleteRequest)
