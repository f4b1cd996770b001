from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.coordinator.topics import fetch_sessions as module
from muster.coordinator.topics.fetch_sessions import (
    EVICTION_MS,
    FINAL_EPOCH,
    MAX_EPOCH,
    FetchContext,
    FetchRow,
    FetchSessions,
    Key,
    next_epoch,
)
from muster.protocol.errors import ErrorCode

ZERO = bytes(16)


def key(partition: int, topic: str = "t") -> Key:
    return topic, ZERO, partition


def rows(*partitions: int, offset: int = 0) -> list[FetchRow]:
    return [FetchRow(key(partition), offset, 1000) for partition in partitions]


def make(slots: int = 3) -> FetchSessions:
    numbers = itertools.count(1)
    return FetchSessions(slots, lambda: next(numbers))


def begin(sessions: FetchSessions, *partitions: int, now_ms: int = 0) -> int:
    context = sessions.open(0, 0, rows(*partitions), (), False, now_ms)
    assert context.wants_session
    return sessions.create(context.rows, False, now_ms)


def follow(
    sessions: FetchSessions,
    session_id: int,
    epoch: int,
    *partitions: int,
    forget: tuple[int, ...] = (),
    now_ms: int = 0,
) -> FetchContext:
    forgotten = [key(partition) for partition in forget]
    return sessions.open(session_id, epoch, rows(*partitions, offset=9), forgotten, False, now_ms)


def asked(context: FetchContext) -> list[int]:
    return [row.key[2] for row in context.rows]


def test_an_incremental_request_means_all_partitions_of_its_session() -> None:
    sessions = make()
    session_id = begin(sessions, 0, 1)
    assert asked(follow(sessions, session_id, 1)) == [0, 1]
    context = follow(sessions, session_id, 2, 1, 2)
    assert asked(context) == [0, 1, 2]
    assert [row.fetch_offset for row in context.rows] == [0, 9, 9]
    assert context.session_id == session_id
    assert asked(follow(sessions, session_id, 3, forget=(1,))) == [0, 2]


def test_a_wrong_epoch_and_an_unknown_session_are_refused() -> None:
    sessions = make()
    session_id = begin(sessions, 0)
    assert follow(sessions, session_id, 2).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert follow(sessions, session_id + 1, 1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert follow(sessions, session_id, 1).error_code == 0
    assert follow(sessions, session_id, 1).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_session_keeps_to_names_or_ids() -> None:
    sessions = make()
    session_id = begin(sessions, 0)
    assert sessions.open(session_id, 1, (), (), True, 0).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


@pytest.mark.parametrize("epoch", [0, FINAL_EPOCH])
def test_a_full_request_ends_the_session_it_names(epoch: int) -> None:
    sessions = make()
    session_id = begin(sessions, 0)
    context = sessions.open(session_id, epoch, rows(5), (), False, 0)
    assert (asked(context), context.session_id, context.wants_session) == ([5], 0, epoch == 0)
    assert len(sessions) == 0


def test_a_session_without_partitions_ends() -> None:
    sessions = make()
    session_id = begin(sessions, 0)
    context = follow(sessions, session_id, 1, forget=(0,))
    assert (context.rows, context.session_id, context.error_code) == ([], 0, 0)
    assert len(sessions) == 0


def test_partitions_that_had_records_are_served_last() -> None:
    sessions = make()
    session_id = begin(sessions, 0, 1, 2)
    context = follow(sessions, session_id, 1)
    context.note_records(context.rows[0])
    assert asked(follow(sessions, session_id, 2)) == [1, 2, 0]


def test_a_parked_fetch_notices_a_newer_request_of_its_session() -> None:
    sessions = make()
    session_id = begin(sessions, 0)
    parked = follow(sessions, session_id, 1)
    assert not parked.overtaken()
    follow(sessions, session_id, 2)
    assert parked.overtaken()


def test_a_session_row_is_sent_when_it_has_changed() -> None:
    row = FetchRow(key(0), 0, 1000)
    assert row.note_answer(0, 5, 0, worth=False)
    assert not row.note_answer(0, 5, 0, worth=False)
    assert row.note_answer(0, 5, 0, worth=True)
    assert row.note_answer(0, 6, 0, worth=False)
    assert row.note_answer(0, 6, 2, worth=False)
    assert row.note_answer(3, -1, -1, worth=False)
    assert row.note_answer(3, -1, -1, worth=False)
    assert row.note_answer(0, 6, 2, worth=False)


def test_a_full_cache_replaces_an_old_session_only_by_a_larger_one() -> None:
    sessions = make(slots=2)
    first, second = begin(sessions, 0, 1), begin(sessions, 0)
    assert begin(sessions, 0, 1, 2, now_ms=1) == 0
    later = EVICTION_MS + 1
    follow(sessions, first, 1, now_ms=later)
    follow(sessions, second, 1, now_ms=later)
    assert begin(sessions, 7, now_ms=later) == 0
    assert begin(sessions, 7, 8, now_ms=later) != 0
    assert follow(sessions, second, 2).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert follow(sessions, first, 2).error_code == 0


def test_a_full_cache_replaces_an_unused_session() -> None:
    sessions = make(slots=1)
    first = begin(sessions, 0, 1, 2)
    assert begin(sessions, 0, now_ms=EVICTION_MS) == 0
    assert begin(sessions, 0, now_ms=EVICTION_MS + 1) != 0
    assert follow(sessions, first, 1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_there_are_no_fetch_sessions_without_slots() -> None:
    assert begin(make(slots=0), 0) == 0


def test_fetch_session_epochs_wrap_to_one() -> None:
    assert [next_epoch(0), next_epoch(MAX_EPOCH), next_epoch(-1)] == [1, 1, -1]


def named(number: int, topics: int, characters: int = 0) -> list[FetchRow]:
    return [FetchRow((f"{number}-{topic}" + "x" * characters, ZERO, 0), 0, 1000) for topic in range(topics)]


def test_a_too_large_fetch_session_is_not_created(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SESSION_BYTES", 10_000)
    sessions = make()
    assert sessions.create(named(1, 10, 1_000), False, 0) == 0
    assert sessions.create(named(1, 10, 10), False, 0) == 1


def test_a_fetch_session_that_grows_too_large_is_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SESSION_BYTES", 10_000)
    sessions = make()
    session_id = begin(sessions, 0)
    assert follow(sessions, session_id, 1, *range(20)).error_code == 0
    assert follow(sessions, session_id, 2, *range(100)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(sessions) == 0
    assert sessions._bytes == 0


def test_large_fetch_sessions_are_evicted_for_smaller_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 50_000)
    sessions = make(1_000)
    assert sessions.create(named(1, 50), False, 0) == 1
    assert sessions.create(named(2, 60), False, 1) == 2
    assert sessions.create(named(3, 55), False, 2) == 3, "the largest of them went"
    assert list(sessions._by_id) == [1, 3]
    assert sessions.create(named(4, 70), False, 3) == 0
    assert sessions.create(named(5, 80), False, 4 + EVICTION_MS) == 4, "nobody had used them"


@given(data=st.data())
def test_fetch_sessions_are_bounded_in_memory(data: st.DataObject) -> None:
    sessions, known = make(5), dict[int, int]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_BYTES", 20_000)
        patch.setattr(module, "MAX_SESSION_BYTES", 9_000)
        for number in range(data.draw(st.integers(1, 25))):
            now_ms = number * data.draw(st.sampled_from([1, EVICTION_MS]))
            partitions = data.draw(st.lists(st.integers(0, 30), max_size=25))
            if known and data.draw(st.booleans()):
                session_id = data.draw(st.sampled_from(sorted(known)))
                forget = tuple(data.draw(st.lists(st.integers(0, 30), max_size=10)))
                follow(sessions, session_id, known[session_id], *partitions, forget=forget, now_ms=now_ms)
                known[session_id] += 1
            else:
                session_id = begin(sessions, *dict.fromkeys(partitions), now_ms=now_ms)
                if session_id:
                    known[session_id] = 1
            assert sessions._bytes == sum(session.bytes for session in sessions._by_id.values()) <= 20_000
            assert all(session.bytes >= len(session.rows) * module.ROW_BYTES for session in sessions._by_id.values())
