"""Fetch sessions (KIP-227): a client uses the session that it was given, with the next epoch, or asks for none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from muster.clientlint.calls import Call, Certainty, Connection
from muster.clientlint.watcher import Broken, Kept, Watcher, broken
from muster.protocol.api import ApiKey
from muster.protocol.errors import ErrorCode

FORGOTTEN_TIMES: Final = 3
"""The number of sessions in a row that one connection opens and never uses, which is wrong."""
_NEW: Final = 0


class _Session:
    """The newest session of a connection. `epoch`: that of the next Fetch."""

    __slots__ = ("epoch", "forgotten", "session_id")

    def __init__(self) -> None:
        self.session_id = self.epoch = self.forgotten = 0


class FetchSessions(Watcher):
    """See the module."""

    apis = (ApiKey.FETCH,)

    def __init__(self) -> None:
        self._sessions: Kept[int, _Session] = Kept()

    def asked(self, call: Call) -> Iterator[Broken]:
        """See `Watcher`."""
        request, session = call.request, self._sessions.find(call.connection.number)
        if session is None or not session.session_id or request.replica_id >= 0:
            return
        if request.session_id == session.session_id:
            session.forgotten = 0
        elif request.session_id == 0 and request.session_epoch == _NEW:
            session.forgotten += 1
            if session.forgotten == FORGOTTEN_TIMES:
                words = (
                    f"{FORGOTTEN_TIMES} Fetches in a row asked for a new session, and none used the session that the "
                    f"answer before had given, the last with id {session.session_id}"
                )
                yield broken("fetch-session-forgotten", call, words, Certainty.SURE)

    def answered(self, call: Call) -> Iterator[Broken]:
        """See `Watcher`."""
        request, answer = call.request, call.answer
        if answer is None or request.replica_id >= 0:
            return
        session = self._sessions.make(call.connection.number, _Session)
        error = answer.error_code
        is_own = request.session_id == session.session_id != 0
        if error == ErrorCode.INVALID_FETCH_SESSION_EPOCH and is_own and request.session_epoch != session.epoch:
            words = f"Fetch in epoch {request.session_epoch} of session {session.session_id}, after an answer in "
            words += f"epoch {session.epoch - 1}"
            yield broken("fetch-session-epoch", call, words, Certainty.SURE)
        if error or call.error:
            # a client may begin again after an error
            session.session_id = session.forgotten = 0
        elif answer.session_id:
            session.epoch = max(request.session_epoch, 0) + 1
            session.session_id = answer.session_id
        else:
            session.session_id = session.forgotten = 0

    def closed(self, connection: Connection) -> None:
        """See `Watcher`."""
        self._sessions.drop(connection.number)
