"""Which process is behind each member id."""

from __future__ import annotations

from typing import Any

from muster.pipeline.whatif.history import (
    EVENTS,
    EXPIRED,
    FAR,
    JOIN_TIMEOUT,
    LEFT,
    History,
    Offer,
    Refusal,
    Round,
    Stay,
)
from muster.pipeline.whatif.processes import LEAVES, SILENT, SLOW, Clients


def stay(name: str, joined_ms: int | None, end: str | None = None, end_ms: int | None = None, **other: Any) -> Stay:
    client = name.partition("-")[0]
    return Stay(name, None, client, f"/{client}", 10_000, 60_000, joined_ms, offers=[(0, (Offer("range", ("t",)),))],
                 end=end, end_ms=end_ms, **other)  # fmt: skip


def clients(*stays: Stay, **other: Any) -> Clients:
    return Clients(History("g", EVENTS, stays=list(stays), **other))


def test_a_process_that_replaces_another_has_its_slot() -> None:
    found = clients(stay("a-1", 1_000, LEFT, 5_000), stay("a-2", 6_000), stay("b-1", 2_000))
    one, two, three = sorted(found.processes, key=lambda process: process.stays[0].member_id)
    assert (one.slot, two.slot, three.slot) == ("a@a", "a@a", "b@b")
    assert two.replaces is one
    assert [(absence.kind, absence.until_ms) for absence in one.absences] == [(LEAVES, FAR)]


def test_two_at_a_time_have_different_slots() -> None:
    found = clients(stay("a-1", 1_000), stay("a-2", 2_000), stay("a-3", 3_000))
    assert [process.slot for process in found.processes] == ["a@a", "a@a#1", "a@a#2"]


def test_a_refused_request_shows_that_the_process_was_alive() -> None:
    gone = stay("a-1", 1_000, EXPIRED, 20_000, heard_ms=10_000)
    (process,) = clients(gone, stay("a-2", 30_000), refusals=[Refusal(29_900, "a", "/a")]).processes
    assert [one.member_id for one in process.stays] == ["a-1", "a-2"]
    assert [one[:3] for one in process.absences] == [(SILENT, 10_000, 30_000)]


def test_a_return_without_a_refused_request_is_a_new_process() -> None:
    gone = stay("a-1", 1_000, EXPIRED, 20_000, heard_ms=10_000)
    for refusal in (Refusal(29_900, "b", "/b"), Refusal(9_000, "a", "/a")):
        assert len(clients(gone, stay("a-2", 30_000), refusals=[refusal]).processes) == 2


def test_a_process_that_knows_its_partitions_continues() -> None:
    gone = stay("a-1", 1_000, EXPIRED, 20_000, heard_ms=10_000)
    assert len(clients(gone, stay("a-2", 30_000, remembers=True)).processes) == 1


def test_a_slow_poller_continues() -> None:
    reason = "consumer poll timeout has expired. This means ..."
    (process,) = clients(stay("a-1", 1_000, LEFT, 5_000, reason=reason), stay("a-2", 9_000)).processes
    assert [one[:3] for one in process.absences] == [(LEAVES, 5_000, 9_000)]


def test_a_member_that_did_not_join_in_time_was_slow() -> None:
    rounds = [Round(40_000, "member_joined", "b-1"), Round(100_000, "join_timeout", "a-1")]
    found = clients(stay("a-1", 1_000, JOIN_TIMEOUT, 100_000), stay("b-1", 40_000), rounds=rounds)
    assert [one[:3] for one in found.by_member["a-1"].absences] == [(SLOW, 40_000, FAR)]


def test_the_nearest_real_rebalance_is_found() -> None:
    rounds = [Round(ms, "member_left", None) for ms in (10_000, 10_000, 40_000)]
    found = clients(stay("a-1", 1_000), rounds=rounds)
    near = [found.near(ms) for ms in (9_500, 10_000, 25_000, 40_900)]
    # of those that began in one ms, all but the last have failed
    expected = [rounds[1], rounds[1], None, rounds[2]]
    assert all((None if one is None else one.round) is other for one, other in zip(near, expected, strict=True))
