"""Members of classic groups: what they send in which generation, after leaving, and how they hold their sessions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from muster.clientlint.calls import Call, Certainty, Known, certainty, known
from muster.clientlint.watcher import Broken, Kept, Watcher, after, broken, broken_after, named, seconds
from muster.protocol.api import ApiKey
from muster.protocol.errors import ErrorCode

_ENDED: Final = frozenset((ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID))
"""After these errors, a member id must not be used again."""
_REFUSED: Final = frozenset((*_ENDED, ErrorCode.ILLEGAL_GENERATION))
FOLLOWER_BEATS: Final = 2
"""This many heartbeats of a follower before its SyncGroup are wrong: it has nothing to do meanwhile."""
LEADER_BEATS: Final = 3
SLOW_BEATS: Final = 5
"""This many heartbeats in a row, each later than half of the session timeout, are no accident but a setting."""


class _Member:
    """A member: its newest generation that the client knows, and what has ended."""

    __slots__ = (
        "beats_before_sync", "dead", "generation", "is_leader", "is_silent_ms", "joined", "left", "old_beats",
        "refused", "refused_generation", "session_ms", "sign_ms", "slow_beats", "synced",
    )  # fmt: skip

    def __init__(self) -> None:
        self.generation = self.synced = self.refused_generation = -1
        self.joined: Known | None = None
        self.left: Known | None = None
        self.dead: Known | None = None
        self.refused: Known | None = None
        self.is_leader = False
        self.session_ms = self.sign_ms = self.is_silent_ms = 0
        self.beats_before_sync = self.old_beats = self.slow_beats = 0


class ClassicMembers(Watcher):
    """See the module."""

    apis = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.OFFSET_COMMIT)

    def __init__(self) -> None:
        self._members: Kept[tuple[str, str], _Member] = Kept()

    def asked(self, call: Call) -> Iterator[Broken]:
        """See `Watcher`."""
        request = call.request
        if call.api_key == ApiKey.LEAVE_GROUP:
            return
        member = self._members.find((request.group_id, request.member_id)) if request.member_id else None
        if member is None:
            return
        member.is_silent_ms = call.asked_ms - member.sign_ms
        if call.api_key == ApiKey.JOIN_GROUP:
            return
        if call.api_key == ApiKey.OFFSET_COMMIT:
            yield from self._commits(call, member, request.generation_id_or_member_epoch)
            return
        yield from self._after_its_end(call, member)
        if call.api_key == ApiKey.SYNC_GROUP:
            if request.generation_id == member.generation:
                member.synced = member.generation
        else:
            yield from self._beats(call, member)

    def _after_its_end(self, call: Call, member: _Member) -> Iterator[Broken]:
        request = call.request
        if member.left is not None:
            what = f"{call.api} of member {request.member_id}"
            yield from broken_after("request-after-leave", call, what, member.left, "its LeaveGroup succeeded")
        elif member.dead is not None:
            what = f"{call.api} with member id {request.member_id}"
            why = f"{named(member.dead.error)} had ended this id"
            yield from broken_after("dead-member-id", call, what, member.dead, why)

    def _beats(self, call: Call, member: _Member) -> Iterator[Broken]:
        request = call.request
        if member.joined is None or member.left is not None or member.dead is not None:
            return
        if request.generation_id == member.generation != member.synced:
            member.beats_before_sync += 1
            count, needed = member.beats_before_sync, LEADER_BEATS if member.is_leader else FOLLOWER_BEATS
            if count >= needed and certainty(call, member.joined) is not None:
                role = "the leader" if member.is_leader else "a follower"
                words = (
                    f"{count} Heartbeats of generation {member.generation} without its SyncGroup, "
                    f"{seconds(call.asked_ms - member.joined.at_ms)} after JoinGroup was answered to {role}"
                )
                # a leader may take long to compute the assignment
                sure = Certainty.PERHAPS if member.is_leader else Certainty.SURE
                yield broken("heartbeat-before-sync", call, words, sure)
        elif 0 <= request.generation_id < member.generation and certainty(call, member.joined) is not None:
            member.old_beats += 1
            words = f"Heartbeat of generation {request.generation_id} {after(call, member.joined)} JoinGroup gave "
            words += f"generation {member.generation}"
            sure = Certainty.SURE if member.old_beats > 1 else Certainty.PERHAPS
            yield broken("ended-generation", call, words, sure)
        elif request.generation_id == member.generation:
            yield from self._pace(call, member)

    def _pace(self, call: Call, member: _Member) -> Iterator[Broken]:
        member.slow_beats = member.slow_beats + 1 if member.is_silent_ms * 2 > member.session_ms > 0 else 0
        if member.slow_beats == SLOW_BEATS:
            words = (
                f"{SLOW_BEATS} signs of life in a row with pauses of more than half of the session timeout "
                f"({seconds(member.session_ms)}), the last pause {seconds(member.is_silent_ms)}"
            )
            yield broken("session-not-held", call, words, Certainty.PERHAPS)

    def _commits(self, call: Call, member: _Member, generation: int) -> Iterator[Broken]:
        if generation < 0:
            return
        if member.refused is not None and generation == member.refused_generation:
            what = f"OffsetCommit again with generation {generation}"
            why = f"{named(member.refused.error)} had refused this generation"
            yield from broken_after("ended-generation", call, what, member.refused, why)
            return
        ended = member.left
        if ended is None and member.joined is not None and generation < member.generation:
            ended = member.joined
        if ended is not None and certainty(call, ended) is not None:
            what = "its LeaveGroup succeeded" if ended is member.left else f"JoinGroup gave {member.generation}"
            words = f"OffsetCommit of generation {generation} {after(call, ended)} {what}"
            # the commit may have waited in the client since before
            yield broken("ended-generation", call, words, Certainty.PERHAPS)

    # ---- answers

    def answered(self, call: Call) -> Iterator[Broken]:
        """See `Watcher`."""
        request, answer = call.request, call.answer
        if answer is None:
            return
        if call.api_key == ApiKey.LEAVE_GROUP:
            self._left(call)
            return
        error = call.error
        if call.api_key == ApiKey.JOIN_GROUP and not error:
            self._joined(call)
            return
        if call.api_key == ApiKey.JOIN_GROUP and error == ErrorCode.INVALID_SESSION_TIMEOUT:
            words = f"JoinGroup with a session timeout of {seconds(request.session_timeout_ms)}, which is not allowed"
            yield broken("session-not-held", call, words, Certainty.SURE)
        member = self._members.find((request.group_id, request.member_id)) if request.member_id else None
        if member is None:
            return
        if error == ErrorCode.UNKNOWN_MEMBER_ID and member.is_silent_ms > member.session_ms > 0 and not member.left:
            words = (
                f"no sign of life of member {request.member_id} for {seconds(member.is_silent_ms)}, with a session "
                f"timeout of {seconds(member.session_ms)}; the group had removed it"
            )
            yield broken("session-not-held", call, words, Certainty.SURE)
        if not error and call.api_key == ApiKey.OFFSET_COMMIT:
            member.refused = None
        if error in _REFUSED:
            generation = getattr(request, "generation_id_or_member_epoch", getattr(request, "generation_id", -1))
            member.refused, member.refused_generation = known(call, error), generation
        # a client may leave it to the next heartbeat to find out, if only a commit has failed
        if error in _ENDED and call.api_key != ApiKey.OFFSET_COMMIT and member.dead is None:
            member.dead = known(call, error)
        member.sign_ms = call.answered_ms

    def _joined(self, call: Call) -> None:
        request, answer = call.request, call.answer
        member = self._members.put((request.group_id, answer.member_id), _Member())
        member.generation = answer.generation_id
        member.joined = known(call)
        member.is_leader = answer.leader == answer.member_id
        member.session_ms = request.session_timeout_ms
        member.sign_ms = call.answered_ms

    def _left(self, call: Call) -> None:
        request = call.request
        if call.answer.error_code:
            return
        for row in call.answer.members[:100] or request.members[:100]:
            member = self._members.find((request.group_id, row.member_id))
            if member is not None and not getattr(row, "error_code", 0):
                member.left = known(call)
