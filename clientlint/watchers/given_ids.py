"""The member ids that JoinGroup gives: a member keeps its id, also after MEMBER_ID_REQUIRED (KIP-394).

A connection that serves two members of one group would look as if it threw ids away. A finding is therefore sure only
when it repeats on the same connection, and a connection that uses two ids by turns has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from muster.clientlint.calls import Call, Certainty, Connection
from muster.clientlint.watcher import Broken, Kept, Watcher, broken, seconds
from muster.protocol.api import ApiKey
from muster.protocol.errors import ErrorCode

_ENDS_ID: Final = frozenset((ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.ILLEGAL_GENERATION))
SURE_TIMES: Final = 2


class _Given:
    """The id that a connection was given for a group. `times`: how often it was thrown away; `required`: KIP-394."""

    __slots__ = ("at_ms", "is_shared", "member_id", "required", "times")

    def __init__(self) -> None:
        self.member_id = ""
        self.at_ms = self.times = 0
        self.required = self.is_shared = False


class GivenIds(Watcher):
    """See the module."""

    apis = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.OFFSET_COMMIT)

    def __init__(self) -> None:
        self._given: Kept[tuple[int, str, str], _Given] = Kept()

    def asked(self, call: Call) -> Iterator[Broken]:
        """See `Watcher`."""
        request, given = call.request, self._given.find(_key(call))
        if given is None:
            return
        if call.api_key == ApiKey.LEAVE_GROUP:
            given.member_id = ""
        elif call.api_key == ApiKey.JOIN_GROUP and given.member_id and not given.is_shared:
            if request.member_id:
                given.is_shared = request.member_id != given.member_id
            elif not request.group_instance_id:
                yield self._thrown_away(call, given)

    def _thrown_away(self, call: Call, given: _Given) -> Broken:
        given.times += 1
        sure = Certainty.SURE if given.times >= SURE_TIMES else Certainty.PERHAPS
        times = f", for the {given.times}th time on this connection" if given.times > SURE_TIMES else ""
        words = f"JoinGroup without a member id {seconds(call.asked_ms - given.at_ms)} after "
        member_id, given.member_id = given.member_id, ""
        if given.required:
            return broken("required-id-thrown-away", call, f"{words}MEMBER_ID_REQUIRED gave {member_id}{times}", sure)
        return broken("join-without-its-id", call, f"{words}the member {member_id} was in the group{times}", sure)

    def answered(self, call: Call) -> Iterator[Broken]:
        """See `Watcher`."""
        if call.answer is None:
            return
        key, error = _key(call), call.error
        if call.api_key == ApiKey.JOIN_GROUP and error in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            given = self._given.make(key, _Given)
            given.member_id, given.at_ms = call.answer.member_id, call.answered_ms
            given.required = bool(error)
        elif error in _ENDS_ID:
            given_now = self._given.find(key)
            if given_now is not None:
                given_now.member_id = ""
        yield from ()

    def closed(self, connection: Connection) -> None:
        """See `Watcher`. Keys of an ended connection are never used again; `Kept` forgets them."""


def _key(call: Call) -> tuple[int, str, str]:
    return call.connection.number, call.client.client_id, call.request.group_id
