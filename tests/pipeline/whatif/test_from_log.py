"""The facts that are inferred from the records of generations."""

from __future__ import annotations

from typing import Any

import pytest

from muster.pipeline.defaults import HEARTBEAT_MS
from muster.pipeline.whatif.from_log import history_of
from muster.pipeline.whatif.history import EXPIRED, JOIN_TIMEOUT, LEFT, History
from muster.pipeline.whatif.processes import polled_too_late

START_MS = 1_700_000_000_000


def member(name: str, *partitions: int, **other: Any) -> dict[str, Any]:
    return {
        "member_id": f"{name}-1",
        "instance_id": None,
        "client_id": name,
        "host": f"/{name}",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "topics": ["t"],
        "assigned": [{"topic": "t", "partitions": list(partitions)}],
        **other,
    }


def record(at_s: float, generation: int, *members: dict[str, Any], protocol: str = "range") -> dict[str, Any]:
    at_ms = START_MS + round(at_s * 1000)
    return {
        "at_ms": at_ms,
        "is_tombstone": False,
        "generation": generation,
        "protocol_type": "consumer" if members else "",
        "protocol": protocol if members else None,
        "leader": members[0]["member_id"] if members else None,
        "state_timestamp_ms": at_ms - 5,
        "members": list(members),
    }


def causes(history: History) -> list[tuple[str, str | None]]:
    return [(one.cause, one.trigger) for one in history.rounds]


def test_new_members_joined_and_missing_members_left() -> None:
    alone, both = [member("a", 0, 1)], [member("a", 0), member("b", 1)]
    found = history_of("g", [record(0, 1, *alone), record(60, 2, *both), record(90, 3, *alone)])
    assert causes(found) == [("member_joined", "b-1"), ("member_left", "b-1")]
    (a, b) = found.stays
    assert (a.joined_ms, a.end) == (None, None)
    assert (b.joined_ms, b.end, b.end_ms) == (START_MS + 59_995 - HEARTBEAT_MS, LEFT, START_MS + 89_995 - HEARTBEAT_MS)
    assert found.given is not None
    assert (found.given.number, [one.number for one in found.generations]) == (1, [2, 3])


def test_a_dead_member_was_silent_for_its_session() -> None:
    records = [record(0, 1, member("a", 0), member("b", 1)), record(60, 2, member("a", 0, 1))]
    (_, b) = history_of("g", records, {"b-1": "expired"}).stays
    assert (b.end, b.end_ms, b.heard_ms) == (EXPIRED, START_MS + 56_995, START_MS + 46_995)


def test_a_rebalance_never_begins_before_the_last_record() -> None:
    found = history_of("g", [record(0, 1, member("a", 0, 1)), record(0.5, 2, member("a", 0), member("b", 1))])
    assert found.rounds[0].began_ms == START_MS + 1


def test_the_same_members_with_another_generation_joined_again() -> None:
    records = [
        record(0, 1, member("a", 0), member("b", 1)),
        record(60, 2, member("a", 0), member("b", 1, topics=["t", "u"])),
        record(90, 3, member("a", 0, 2), member("b", 1, topics=["t", "u"])),
        record(120, 4, member("a", 0, 2), member("b", 1, topics=["t", "u"])),
    ]
    found = history_of("g", records)
    assert causes(found) == [("subscription_changed", "b-1"), ("partitions_changed", "a-1"), ("leader_rejoined", "a-1")]
    assert [one.member_id for one in found.rejoins] == ["b-1", None, None]
    assert [counts for _, counts in found.counts] == [{"t": 2}, {"t": 3}]


def test_a_cooperative_member_that_revoked_joins_again_at_once() -> None:
    records = [
        record(0, 1, member("a", 0, 1), protocol="cooperative-sticky"),
        record(60, 2, member("a", 0), member("b"), protocol="cooperative-sticky"),
        record(63, 3, member("a", 0), member("b", 1), protocol="cooperative-sticky"),
    ]
    found = history_of("g", records)
    assert causes(found) == [("member_joined", "b-1"), ("metadata_changed", "a-1")]
    assert found.rounds[1].began_ms == START_MS + 60_001
    assert found.rejoins == []


def test_a_static_member_comes_back_without_a_generation() -> None:
    old, new = member("a", 0, instance_id="i"), member("a", 0, instance_id="i", member_id="a-2")
    found = history_of("g", [record(0, 1, old), record(60, 1, new)])
    assert (found.rounds, found.generations) == ([], [])
    assert [(one.member_id, one.end) for one in found.stays] == [("a-1", "replaced"), ("a-2", None)]


def test_an_empty_and_a_deleted_group_are_recognized() -> None:
    gone = {"at_ms": START_MS + 120_000, "is_tombstone": True, "members": None}
    found = history_of("g", [record(0, 0), record(3, 1, member("a", 0)), record(60, 2), gone], end_ms=START_MS + 10**6)
    assert found.given is None
    assert (found.initial_delay_ms, found.stays[0].joined_ms) == (2_995, START_MS)
    assert (found.emptied, found.deleted) == ([START_MS + 60_000], [START_MS + 120_000])
    assert (found.last_ms, found.end_ms) == (START_MS + 120_000, START_MS + 10**6)


def test_a_log_that_cannot_be_replayed_has_a_reason() -> None:
    connect = {**record(0, 1, member("a", 0)), "protocol_type": "connect"}
    assert history_of("g", [connect]).unusable == "it is no group of consumers but of type 'connect'"
    before = [record(0, 0), record(3, 1, member("a", 0)), record(60, 2), {**connect, "at_ms": START_MS + 70_000}]
    assert history_of("g", before).unusable == "it was no group of consumers for a time but of type 'connect'"
    unread = record(0, 1, member("a", 0, topics=None))
    assert history_of("g", [unread]).unusable == "the subscription or assignment of a member cannot be read"
    assert history_of("g", [record(0, 0)]).unusable == "no generation of it is in the log"


def test_known_starts_of_rebalances_are_used() -> None:
    records = [record(0, 0), record(3, 1, member("a", 0, 1)), record(60, 2, member("a", 0), member("b", 1))]
    found = history_of(
        "g", records, starts={(1, START_MS + 3_000): START_MS, (2, START_MS + 60_000): START_MS + 59_500}
    )
    assert [one.stopped_ms - START_MS for one in found.generations] == [0, 59_500]
    assert [one.began_ms - START_MS for one in found.rounds] == [0, 59_500]


def test_a_known_initial_delay_is_used() -> None:
    """The record of a new group may be long before its first generation: the broker was busy."""
    records = [record(0, 0), record(0.5, 1, member("a", 0, 1))]
    assert history_of("g", records).initial_delay_ms == 495
    reported = {(1, START_MS + 500): START_MS + 491}
    assert history_of("g", records, starts=reported).initial_delay_ms == 4
    both = [*records, record(60, 2), record(80, 3, member("b", 0), member("c", 1))]
    reported[3, START_MS + 80_000] = START_MS + 79_995
    assert history_of("g", both, starts=reported).initial_delay_ms == 1
    long = [record(0, 0), record(10, 1, member("a", 0, 1))]
    assert history_of("g", long, starts={(1, START_MS + 10_000): START_MS - 5}).initial_delay_ms == 10_000


def test_a_dead_member_does_not_make_others_late() -> None:
    records = [record(0, 1, member("a", 0), member("b", 1)), record(60, 2, member("a", 0), member("c", 1))]
    found = history_of("g", records, {"b-1": "expired"}, starts={(2, START_MS + 60_000): START_MS + 51_000})
    (one,) = found.rounds
    assert (one.began_ms - START_MS, one.joins["a-1"] - START_MS) == (51_000, 54_000)
    assert one.joined_ms is not None
    assert one.joined_ms > START_MS + 59_000


def cooperative(at_s: float, generation: int, *members: dict[str, Any]) -> dict[str, Any]:
    return record(at_s, generation, *members, protocol="cooperative-sticky")


@pytest.mark.parametrize(
    ("ended_s", "session_s", "end"),
    [
        (68.1, 6, JOIN_TIMEOUT),
        (66, 6, LEFT),  # another event ended it
        (68.1, 8, LEFT),  # the session of a dead member would have ended then, too
    ],
)
def test_a_member_awaited_until_the_timeout_was_slow(ended_s: float, session_s: int, end: str) -> None:
    """A dead member would have been removed when its session ended. The others had returned long before."""
    kind = {"rebalance_timeout_ms": 8_000, "session_timeout_ms": session_s * 1_000}
    records = [
        cooperative(0, 1, member("a", 0, 1, **kind), member("b", 2, 3, **kind)),
        cooperative(60, 2, member("a", 0, **kind), member("b", 2, 3, **kind), member("c", **kind)),
        cooperative(ended_s, 3, member("b", 1, 2, 3, **kind), member("a", 0, **kind)),
    ]
    found = history_of("g", records)
    stay = next(one for one in found.stays if one.client_id == "c")
    assert stay.end == end
    assert polled_too_late(stay) == (end == JOIN_TIMEOUT)
    if end == JOIN_TIMEOUT:
        assert found.rounds[-1].joins["b-1"] == START_MS + 60_001 + HEARTBEAT_MS
