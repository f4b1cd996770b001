"""The log lines about a group."""

from __future__ import annotations

from typing import Any

from structlog.testing import capture_logs

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event, MemberFacts, Trigger
from muster.coordinator.server.histories import log_event
from muster.coordinator.system.logging.output import LEVELS

Line = dict[str, Any]

MEMBER = MemberFacts("m", None, "c", "/1.2.3.4", 10_000, 60_000, (("range", b""),), 1, None, None, b"")


def lines_about(kind: str, **facts: object) -> list[Line]:
    with capture_logs() as lines:
        log_event(Event(kind, "g", facts))
    return [dict(line) for line in lines]


def test_the_log_line_of_a_rebalance_has_its_cause_and_duration() -> None:
    trigger = Trigger("m", None, "c", "/1.2.3.4", "a reason")
    assert lines_about(events.REBALANCE_STARTED, cause=events.NEW_MEMBER, trigger=trigger, generation=4, members=2,
                state="Stable") == [
        {"event": "a rebalance began", "log_level": "info", "group": "g", "cause": "a new member joined",
         "trigger": "m", "reason": "a reason", "generation": 4, "members": 2}
    ]  # fmt: skip
    assert lines_about(events.REBALANCE_COMPLETED, generation=5, leader="m", members=(MEMBER, MEMBER), took_ms=30) == [
        {"event": "a rebalance is done", "log_level": "info", "group": "g", "generation": 5, "leader": "m",
         "members": 2, "took_ms": 30}
    ]  # fmt: skip


def test_the_log_line_of_a_rebalance_without_a_trigger_names_nobody() -> None:
    line = lines_about(events.REBALANCE_STARTED, cause=events.OVER_CAPACITY, trigger=None, generation=4, members=2)[0]
    assert "trigger" not in line


def test_an_emptied_or_deleted_group_has_a_log_line() -> None:
    assert lines_about(events.GROUP_EMPTIED, generation=6, took_ms=7) == [
        {"event": "a group has no members left", "log_level": "info", "group": "g", "generation": 6, "took_ms": 7}
    ]
    assert lines_about(events.GROUP_DELETED) == [{"event": "a group was deleted", "log_level": "info", "group": "g"}]


def test_a_removed_member_has_a_log_line() -> None:
    who = {"group": "g", "member": "m", "client_id": "c", "host": "/1.2.3.4", "log_level": "info"}
    assert lines_about(events.MEMBER_EXPIRED, member=MEMBER) == [
        {"event": "a member was removed", "cause": "a member sent no heartbeat for its session timeout",
         "session_timeout_ms": 10_000, **who}
    ]  # fmt: skip
    removed = lines_about(events.MEMBER_REMOVED, member=MEMBER, cause=events.SYNC_TIMEOUT)
    assert removed[0]["cause"] == "a member did not sync within the rebalance timeout"
    fenced = lines_about(events.MEMBER_REPLACED, member=MEMBER._replace(instance="i"), replaced="old", reason=None)
    assert [(line["log_level"], line["replaced"], line["instance"]) for line in fenced] == [("info", "old", "i")]


def test_members_that_join_and_leave_are_logged_at_debug_level() -> None:
    assert not lines_about(events.GROUP_CREATED)
    LEVELS.set("muster.groups", "DEBUG")
    try:
        joined = lines_about(events.MEMBER_JOINED, member=MEMBER, protocol_type="consumer", reason=None)
        left = lines_about(events.MEMBER_LEFT, member=MEMBER, reason="done")
        created = lines_about(events.GROUP_CREATED)
        synced = lines_about(events.MEMBERS_SYNCED, synced={"m": 5}, generation=5)
    finally:
        LEVELS.unset("muster.groups")
    assert [line["log_level"] for line in joined + left + created + synced] == ["debug"] * 4
    assert joined[0] == {"event": "member joined", "log_level": "debug", "group": "g", "member": "m",
                         "protocol_type": "consumer", "client_id": "c", "host": "/1.2.3.4"}  # fmt: skip
