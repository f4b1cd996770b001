"""What an outside observer knows of a group from every request, reply and record. It judges nothing.

A static member is identified by its instance id, any other by its member id. If something is uncertain from outside,
the view keeps the value that lets a checker excuse rather than accuse.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from muster.protocol.messages.group_records.group_metadata import GroupMetadataValue

NEVER: Final = 2**62


class MemberView:
    """One member of the present generation.

    `sign_ms`: its last certain sign of life. The timeouts are the least possible. `synced`: it has had an answer to
    SyncGroup in this generation. `contested`: another process has asked for its instance since.
    """

    __slots__ = ("contested", "identity", "member_id", "rebalance_ms", "session_ms", "sign_ms", "synced")

    def __init__(self, identity: str, member_id: str, session_ms: int, rebalance_ms: int, sign_ms: int) -> None:
        self.identity = identity
        self.member_id = member_id
        self.session_ms = session_ms
        self.rebalance_ms = rebalance_ms
        self.sign_ms = sign_ms
        self.synced = False
        self.contested = False


class Round:
    """One generation: what its members were answered. `shares`: the leader's assignment by identity, once it is
    known.
    """

    __slots__ = ("leader", "listed", "owners", "protocol", "protocol_type", "shares")

    def __init__(self, leader: str, protocol_type: str | None, protocol: str | None) -> None:
        self.leader = leader
        self.protocol_type = protocol_type
        self.protocol = protocol
        self.listed: dict[str, bytes] = {}
        """Each member's metadata by identity, as the leader got it."""
        self.shares: dict[str, bytes] | None = None
        self.owners: dict[int, str] = {}
        """Partition -> identity, by acknowledged assignments."""


class GroupView:
    """One group since it was created. `rounds` by generation. `dead`: member ids that must never succeed again.
    `pending`: ids that were handed out, and until when they delay a round. `began_ms`: the earliest time at which a
    rebalance may have begun since the last round; NEVER when none has.
    """

    __slots__ = (
        "began_ms",
        "dead",
        "ended_ms",
        "generation",
        "group_id",
        "identities",
        "joining",
        "longest_ms",
        "members",
        "pending",
        "rounds",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.generation = 0
        self.rounds: dict[int, Round] = {}
        self.members: dict[str, MemberView] = {}
        self.identities: dict[str, str] = {}
        self.dead: dict[str, None] = {}
        self.pending: dict[str, int] = {}
        self.joining: dict[str, object] = {}
        """The last parked JoinGroup of each member: by identity, or by number where the identity is not known yet."""
        self.began_ms = NEVER
        self.ended_ms = 0
        self.longest_ms = 0
        """The greatest rebalance timeout of the round's members, which limits the round's SyncGroups."""

    @property
    def round(self) -> Round | None:
        """The present generation; None when it has no members, or is not known."""
        return self.rounds.get(self.generation)

    def member(self, member_id: str) -> MemberView | None:
        """The member of the present generation with this id; None when no member has it."""
        identity = self.identities.get(member_id)
        member = self.members.get(identity) if identity is not None else None
        return member if member is not None and member.member_id == member_id else None

    def begins(self, ms: int) -> None:
        """An event that may begin a rebalance has happened."""
        self.began_ms = min(self.began_ms, ms)

    def drop(self, member_id: str, ms: int) -> None:
        """This id is no member's any more, and never will be."""
        self.pending.pop(member_id, None)
        member = self.member(member_id)
        if member is not None:
            self.begins(self.began_at_the_earliest(ms))  # perhaps because of this member, which is forgotten now
            del self.members[member.identity]
        if member_id in self.identities:
            self.dead[member_id] = None

    def excused(self, member: MemberView, ms: int) -> bool:
        """Whether this member may have been removed by now: it was silent, or did not sync in time."""
        return (
            ms - member.sign_ms >= member.session_ms
            or (not member.synced and ms - self.ended_ms >= self.longest_ms)
            or member.contested
        )

    def began_at_the_earliest(self, ms: int) -> int:
        """When the current rebalance may have begun, also for reasons that no client sees; NEVER: it cannot have
        begun.
        """
        began_ms = self.began_ms
        for member in self.members.values():
            if member.sign_ms + member.session_ms <= ms:
                began_ms = min(began_ms, member.sign_ms + member.session_ms)
            if not member.synced and self.ended_ms + self.longest_ms <= ms:
                began_ms = min(began_ms, self.ended_ms + self.longest_ms)
        return began_ms

    def wait_ms(self, ms: int, rejoined: Container[str] = ()) -> int:
        """The least duration of the current rebalance: it waits for the slowest certain member. A member is certain if
        it was not silent, or has `rejoined` under the same id.
        """
        sure = [one for one in self.members.values() if one.member_id in rejoined or not self.excused(one, ms)]
        return max((one.rebalance_ms for one in sure), default=0)

    def restore(self, value: GroupMetadataValue | None, ms: int) -> None:
        """A new core has read the log: what was not in it never happened, and sessions begin again."""
        self.generation = 0 if value is None else value.generation
        self.rounds = {number: one for number, one in self.rounds.items() if number <= self.generation}
        self.pending.clear()
        self.joining.clear()
        self.members.clear()
        self.began_ms = NEVER
        self.ended_ms = ms
        self.longest_ms = 0
        for one in () if value is None else value.members:
            identity = one.group_instance_id or one.member_id
            member = MemberView(identity, one.member_id, one.session_timeout, one.rebalance_timeout, ms)
            member.synced = True
            self.members[identity] = member
            self.identities[one.member_id] = identity
            self.dead.pop(one.member_id, None)
