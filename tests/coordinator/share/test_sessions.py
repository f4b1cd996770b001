from __future__ import annotations

import pytest

from muster.coordinator.share import sessions as module
from muster.coordinator.share.sessions import (
    MAX_EPOCH,
    Place,
    SessionContext,
    SessionRefused,
    SessionRow,
    ShareSessions,
)
from muster.protocol.errors import ErrorCode

A, B, C = (Place(b"t" * 16, number) for number in range(3))


def rows(*places: Place) -> list[SessionRow]:
    return [SessionRow(place, "t") for place in places]


def opened(
    sessions: ShareSessions, epoch: int, *places: Place, member: str = "m", forget: tuple[Place, ...] = ()
) -> SessionContext:
    return sessions.open("g", member, epoch, rows(*places), forget, has_acknowledgements=False)


def refusal(sessions: ShareSessions, epoch: int, *places: Place, member: str = "m") -> int:
    with pytest.raises(SessionRefused) as refused:
        opened(sessions, epoch, *places, member=member)
    return refused.value.error_code


def test_a_session_goes_on_with_the_next_epoch() -> None:
    sessions = ShareSessions(10)
    assert [row.place for row in opened(sessions, 0, A, B).rows] == [A, B]
    assert [row.place for row in opened(sessions, 1, C, forget=(A,)).rows] == [B, C]
    assert refusal(sessions, 1) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert refusal(sessions, 1, member="n") == ErrorCode.SHARE_SESSION_NOT_FOUND
    sessions.acknowledge("g", "m", 2)
    assert [row.place for row in opened(sessions, 3).rows] == [B, C]


def test_the_last_epoch_ends_a_session_and_reads_nothing() -> None:
    sessions = ShareSessions(10)
    assert refusal(sessions, -1) == ErrorCode.SHARE_SESSION_NOT_FOUND
    opened(sessions, 0, A)
    assert not opened(sessions, -1, B).rows
    sessions.acknowledge("g", "m", -1)
    session = sessions.end("g", "m")
    assert session is not None
    assert [*session.rows] == [A]
    assert sessions.end("g", "m") is None
    assert (len(sessions), sessions.members("g")) == (0, 0)
    for epoch, code in ((-1, ErrorCode.SHARE_SESSION_NOT_FOUND), (0, ErrorCode.INVALID_SHARE_SESSION_EPOCH)):
        with pytest.raises(SessionRefused) as refused:
            sessions.acknowledge("g", "m", epoch)
        assert refused.value.error_code == code


def test_the_first_epoch_replaces_a_session() -> None:
    sessions = ShareSessions(1)
    opened(sessions, 0, A)
    opened(sessions, 1)
    opened(sessions, 0, B)
    assert refusal(sessions, 0, A, member="n") == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert [row.place for row in opened(sessions, 1).rows] == [B]
    assert sessions.members("g") == 1


def test_acknowledgements_cannot_come_with_the_first_epoch() -> None:
    with pytest.raises(SessionRefused) as refused:
        ShareSessions(1).open("g", "m", 0, rows(A), (), has_acknowledgements=True)
    assert refused.value.error_code == ErrorCode.INVALID_REQUEST


def test_a_partition_that_is_named_twice_is_an_error_of_the_server_as_on_kafka() -> None:
    sessions = ShareSessions(1)
    assert refusal(sessions, 0, A, A) == ErrorCode.UNKNOWN_SERVER_ERROR
    opened(sessions, 0, A)
    assert [row.place for row in opened(sessions, 1, B, B).rows] == [A, B]


@pytest.mark.parametrize("limit", ["MAX_ROWS", "MAX_SESSION_ROWS"])
def test_sessions_have_limits_of_partitions(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, limit, 2)
    sessions = ShareSessions(10)
    opened(sessions, 0, A, B)
    assert refusal(sessions, 0, A, B, C, member="n") == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert refusal(sessions, 1, C) == ErrorCode.SHARE_SESSION_NOT_FOUND
    opened(sessions, 0, A, member="n")


def test_after_the_largest_epoch_follows_1() -> None:
    sessions = ShareSessions(1)
    opened(sessions, 0, A)
    session = sessions.find("g", "m")
    assert session is not None
    session.epoch = MAX_EPOCH
    opened(sessions, MAX_EPOCH)
    assert session.epoch == 1


def test_later_answers_name_partitions_with_news() -> None:
    sessions = ShareSessions(1)
    first = opened(sessions, 0, A, B)
    assert [first.note_answer(row, has_error=False, has_records=False) for row in first.rows] == [True, True]
    later = opened(sessions, 1, C)
    assert [later.note_answer(row, has_error=False, has_records=row.place == A) for row in later.rows] == [
        True,
        False,
        True,
    ]
    session = sessions.find("g", "m")
    assert session is not None
    assert [*session.rows] == [B, C, A]
    session.serve_last(Place(b"?" * 16, 0))
    failed = opened(sessions, 2)
    assert failed.note_answer(failed.rows[0], has_error=True, has_records=False)
    assert opened(sessions, 3).note_answer(failed.rows[0], has_error=False, has_records=False)
    assert not opened(sessions, 4).note_answer(failed.rows[0], has_error=False, has_records=False)


def test_a_waiting_request_is_overtaken_by_the_next_one() -> None:
    sessions = ShareSessions(1)
    first = opened(sessions, 0, A)
    waiting = opened(sessions, 1)
    assert not waiting.is_refused
    opened(sessions, 2)
    assert waiting.is_refused
    assert first.is_over
    assert not first.is_refused


def test_a_wait_ends_when_the_session_is_used_again_or_ends() -> None:
    sessions = ShareSessions(1)
    ended: list[str] = []
    opened(sessions, 0, A).when_overtaken(lambda: ended.append("by a fetch"))
    opened(sessions, 1).when_overtaken(lambda: ended.append("by an acknowledgement"))
    sessions.acknowledge("g", "m", 2)
    waiting = opened(sessions, 3)
    waiting.when_overtaken(lambda: ended.append("never"))
    waiting.when_overtaken(None)
    opened(sessions, 4).when_overtaken(lambda: ended.append("by the end"))
    opened(sessions, -1).when_overtaken(None)
    assert ended == ["by a fetch", "by an acknowledgement"]
    sessions.end("g", "m")
    assert ended[2:] == ["by the end"]
