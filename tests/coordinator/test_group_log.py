"""What an operator reads of a group."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from muster.coordinator.clock import ManualClock
from muster.coordinator.group_log import GroupLog
from muster.coordinator.groups import events
from muster.coordinator.groups.interface import Event

Line = dict[str, Any]


class Bench:
    def __init__(self) -> None:
        self.clock = ManualClock(0)
        self.group_log = GroupLog(self.clock)

    def tell(self, kind: str, **facts: object) -> list[Line]:
        with capture_logs() as lines:
            self.group_log(Event(kind, "g", facts))
        return [dict(line) for line in lines]

    def begin(self, cause: str = events.NEW_MEMBER) -> list[Line]:
        return self.tell(events.REBALANCE_BEGAN, cause=cause, trigger="m", reason=None, generation=4, members=2)

    def assign(self) -> list[Line]:
        return self.tell(events.ASSIGNED, generation=5, leader="m", assignments={"m": b"x", "n": b"y"})


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_rebalance_is_told_with_its_cause_and_its_duration(bench: Bench) -> None:
    assert bench.begin() == [
        {"event": "a rebalance began", "log_level": "info", "group": "g", "cause": "a new member joined",
         "trigger": "m", "generation": 4, "members": 2}
    ]  # fmt: skip
    bench.clock.advance(30)
    assert bench.assign() == [
        {"event": "a rebalance is done", "log_level": "info", "group": "g", "generation": 5, "leader": "m",
         "members": 2, "took_ms": 30}
    ]  # fmt: skip


def test_a_rebalance_that_begins_again_took_all_the_time(bench: Bench) -> None:
    bench.begin()
    bench.clock.advance(30)
    bench.begin(events.NOT_SYNCED)
    bench.clock.advance(12)
    assert bench.assign()[0]["took_ms"] == 42
    bench.clock.advance(1_000)
    bench.begin()
    bench.clock.advance(7)
    assert bench.tell(events.EMPTIED, generation=6) == [
        {"event": "a group has no members left", "log_level": "info", "group": "g", "generation": 6, "took_ms": 7}
    ]


def test_who_was_put_out_is_told(bench: Bench) -> None:
    removed = bench.tell(events.MEMBER_REMOVED, member="m", instance=None, cause=events.SESSION_EXPIRED)
    assert removed == [
        {"event": "a member was removed", "log_level": "info", "group": "g", "member": "m",
         "cause": "a session expired"}
    ]  # fmt: skip
    fenced = bench.tell(events.MEMBER_REPLACED, member="new", replaced="old", instance="i")
    assert [(line["log_level"], line["replaced"], line["instance"]) for line in fenced] == [("info", "old", "i")]


def test_members_that_come_and_go_are_told_only_to_those_who_ask(bench: Bench) -> None:
    joined = bench.tell(events.MEMBER_JOINED, member="m", instance=None, client_id="c", host="/1.2.3.4", reason=None)
    left = bench.tell(events.MEMBER_LEFT, member="m", instance=None, reason="done")
    created = bench.tell(events.GROUP_CREATED)
    began = bench.tell(events.GENERATION_BEGAN, generation=5, protocol_type="consumer", protocol="range", leader="m",
                       members=2)  # fmt: skip
    assert [line["log_level"] for line in joined + left + created + began] == ["debug"] * 4
    assert joined[0] == {"event": "member joined", "log_level": "debug", "group": "g", "member": "m",
                         "client_id": "c", "host": "/1.2.3.4"}  # fmt: skip


def test_nothing_is_kept_of_a_group_that_is_gone(bench: Bench) -> None:
    bench.begin()
    assert bench.tell(events.GROUP_DELETED)[0]["log_level"] == "info"
    assert "took_ms" not in bench.assign()[0]
