"""The story of a group, as an operator reads it."""

from __future__ import annotations

import json
from datetime import UTC
from typing import Any

import pytest

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event, MemberFacts, Trigger
from muster.coordinator.groups.common.image import TopicImage, TopicsImage
from muster.coordinator.history import schema
from muster.coordinator.history.timeline import Timeline
from muster.coordinator.history.words import seconds, short, who
from tests.coordinator.history.test_schema import completed, kinds

UUID = "9458435d-e5c2-407e-a4f5-9d2135732e2e"
NOON = 1_700_049_787_000  # 2023-11-15 12:03:07 UTC


def facts(name: str, instance: str | None = None) -> MemberFacts:
    return MemberFacts(
        f"{name}-{UUID}", instance, "payments-2", "/127.0.0.1", 10_000, 60_000, (), None, None, None, b""
    )


def value(kind: str, at_ms: int = NOON, **given: Any) -> dict[str, Any]:
    reported: dict[str, Any] = json.loads(schema.to_json(Event(kind, "g", given), at_ms))
    return reported


def done(**changes: Any) -> dict[str, Any]:
    reported: dict[str, Any] = json.loads(schema.to_json(completed(**changes), NOON))
    return reported


@pytest.fixture
def timeline() -> Timeline:
    return Timeline(UTC, dates=False)


def test_the_timeline_shows_a_rebalance_in_one_line(timeline: Timeline) -> None:
    gone = facts("c2")
    assert timeline.feed(value(events.MEMBER_EXPIRED, member=gone)) == [
        "12:03:07 member c2-9458435d… (client payments-2, 127.0.0.1) sent no heartbeat for 10 s and was removed"
    ]
    trigger = Trigger(gone.member, None, gone.client_id, gone.host, None)
    assert timeline.feed(done(generation=15, cause=events.SESSION_EXPIRED, trigger=trigger, took_ms=3_210)) == [
        "12:03:07 rebalance 14 → 15, 3.2 s: member c2-9458435d… (client payments-2, 127.0.0.1) sent no heartbeat for "
        "10 s; 1 partition moved, 2 kept, 1 newly owned, 1 without an owner; 2 members, range"
    ]


def test_the_timeline_shows_the_member_that_left_an_empty_group(timeline: Timeline) -> None:
    emptied = value(events.GROUP_EMPTIED, generation=3, took_ms=0)
    assert timeline.feed(emptied) == ["12:03:07 the group is empty (generation 3)"]
    timeline.feed(value(events.MEMBER_LEFT, member=facts("a"), reason="bye"))
    assert timeline.feed(emptied) == [
        '12:03:07 the group is empty (generation 3): member a-9458435d… (client payments-2, 127.0.0.1) left: "bye"'
    ]
    for name in ("a", "b", "c"):
        timeline.feed(value(events.MEMBER_LEFT, member=facts(name), reason=None))
    assert timeline.feed(emptied) == [
        "12:03:07 the group is empty (generation 3): member c-9458435d… (client payments-2, 127.0.0.1) left, "
        "2 more before it"
    ]
    everything = Timeline(UTC, dates=False, everything=True)
    everything.feed(value(events.MEMBER_LEFT, member=facts("a"), reason="bye"))
    assert everything.feed(emptied) == ["12:03:07 the group is empty (generation 3)"]


def test_the_line_of_a_rebalance_names_other_members_that_joined_and_left(timeline: Timeline) -> None:
    for name in ("a", "b", "c"):
        assert (
            timeline.feed(value(events.MEMBER_JOINED, member=facts(name), protocol_type="consumer", reason=None)) == []
        )
    timeline.feed(value(events.MEMBER_LEFT, member=facts("d"), reason="bye"))
    trigger = Trigger(facts("a").member, "i", "", "", "because")
    (line,) = timeline.feed(done(cause=events.NEW_MEMBER, trigger=trigger))
    assert 'static member i joined ("because"); 2 more joined and 1 more went; ' in line
    (line,) = timeline.feed(done(cause=events.NEW_MEMBER, trigger=trigger))
    assert "more" not in line


def test_the_line_of_a_rebalance_without_a_trigger_names_its_cause(timeline: Timeline) -> None:
    (line,) = timeline.feed(done(cause=events.OVER_CAPACITY, trigger=None, protocol_type="connect"))
    assert "3 ms: the group was loaded with more members than group.max.size; 2 members, range" in line
    (line,) = timeline.feed(done(cause=events.SESSION_EXPIRED, trigger=None))
    assert ": sent no heartbeat for its session timeout;" in line


def test_the_timeline_shows_the_day_when_it_changes() -> None:
    timeline = Timeline(UTC)
    assert timeline.feed(value(events.GROUP_CREATED)) == ["--- 2023-11-15", "12:03:07 the group was created"]
    assert timeline.feed(value(events.GROUP_CREATED)) == ["12:03:07 the group was created"]
    assert timeline.feed(value(events.GROUP_CREATED, NOON + 86_400_000))[0] == "--- 2023-11-16"


MEMBER = facts("m")
T = b"T" * 16
IMAGE = TopicsImage({"t": TopicImage("t", T, 2)}, 1)
EXAMPLES: dict[str, dict[str, Any]] = {
    events.GROUP_CREATED: {},
    events.GROUP_EMPTIED: {"generation": 3, "took_ms": 1},
    events.GROUP_DELETED: {},
    events.MEMBER_JOINED: {"member": MEMBER, "protocol_type": "consumer", "reason": None},
    events.MEMBER_LEFT: {"member": MEMBER, "reason": "done"},
    events.MEMBER_EXPIRED: {"member": MEMBER},
    events.MEMBER_REMOVED: {"member": MEMBER, "cause": events.GROUP_FULL},
    events.MEMBER_REPLACED: {"member": MEMBER._replace(instance="i"), "replaced": "old", "reason": None},
    events.MEMBERS_SYNCED: {"generation": 3, "synced": {"m": 5}},
    events.REBALANCE_STARTED: {"cause": events.LEFT, "trigger": None, "generation": 3, "members": 1, "state": "Stable"},
    events.REBALANCE_FAILED: {"generation": 4, "cause": events.SYNC_TIMEOUT, "join_phase_ms": None,
                              "took_ms": 61_000, "members": ()},
    events.MEMBER_AWAY: {"member": MEMBER._replace(instance="i")},
    events.EPOCH_BUMPED: {"epoch": 4, "cause": events.LEFT, "trigger": None, "members": 2, "state": "Stable",
                          "topics": []},
    events.TARGET_ASSIGNED: {"epoch": 4, "assignor": "range", "took_ms": 7, "since_epoch_ms": 1_200, "members": 3,
                             "topics": 1, "changes": (("a", ((T, (0, 1)),), ((T, (0,)),)), ("b", (), ((T, (1,)),))),
                             "names": IMAGE},
    events.TARGET_FAILED: {"epoch": 4, "assignor": "mine", "took_ms": 7},
    events.MEMBER_RECONCILED: {"member": {"member": "m", "instance": None, "client_id": "c", "host": "/h"},
                               "revoked": 1, "revoking_ms": 300,
                               "assigned": 0, "waited_ms": 0, "took_ms": 5_000, "epoch": 4,
                               "gave_up": [{"topic": "t", "partitions": [1]}], "waited_for": []},
    events.EPOCH_RECONCILED: {"epoch": 4, "first_epoch": 4, "epochs": 1, "cause": events.REVOCATION_TIMEOUT,
                              "trigger": None, "causes": {}, "assignor": None, "took_ms": 5, "members": 1, "changed": 0,
                              "revoked": 0, "assigned": 0, "partitions": 2, "paused_partition_ms": 0, "slowest": [],
                              "waited_for": []},
    events.GROUP_UPGRADED: {"epoch": 4, "members": 2, "trigger": Trigger("m", None, "c", "/h", None)},
    events.GROUP_DOWNGRADED: {"epoch": 4, "members": 1, "cause": events.LEFT, "trigger": None},
    events.DELIVERIES_FAILED: {"topic": "t", "partition": 0, "first_offset": 5, "last_offset": 7, "records": 3,
                               "deliveries": 2, "cause": "lock_over", "member": "m", "state": "available",
                               "left_out": 1},
    events.TOPICS_NOT_READY: {"topology_epoch": 0, "code": 1, "detail": "Source topics t are missing.",
                              "subtopologies": ["0", "1"]},
    events.TOPICS_READY: {"topology_epoch": 0, "took_ms": 2_000},
    events.TASKS_RESTORING: {"member": MEMBER, "count": 7, "tasks": [
        {"task": "0_1", "role": "active", "behind": 120}, *[{"task": "0_2", "role": "standby", "behind": 1}] * 6]},
    events.TASKS_RESTORED: {"member": MEMBER, "count": 1, "tasks": [
        {"task": "0_1", "role": "active", "took_ms": 5_000, "behind": 120}]},
    events.APPLICATION_SHUTDOWN: {"member": MEMBER},
    events.OFFSETS_DELETED: {"cause": events.ASKED, "topics": {"t": [0, 1]}},
    events.OFFSETS_EXPIRED: {"topics": {"t": [0, 1]}},
}  # fmt: skip
SHELL: dict[str, dict[str, Any]] = {
    "requests_refused": {"api": "Heartbeat", "error": "UNKNOWN_MEMBER_ID", "error_code": 25, "client_id": "c",
                         "host": "/1.2.3.4", "instance": None, "count": 3},
    "member_fenced": {"api": "Heartbeat", "error": "FENCED_INSTANCE_ID", "error_code": 82, "client_id": "c",
                      "host": "/1.2.3.4", "instance": "i", "count": 1},
    "producer_fenced": {"api": "TxnOffsetCommit", "error": "INVALID_PRODUCER_EPOCH", "error_code": 47, "client_id": "c",
                        "host": "/1.2.3.4", "instance": None, "count": 1},
    "transactions_committed": {"producer_id": 7, "first_epoch": 3, "last_epoch": 3, "transactions": 1, "offsets": 2},
    "transactions_aborted": {"producer_id": 7, "first_epoch": 3, "last_epoch": 5, "transactions": 3, "offsets": 1},
    "shard_loaded": {"partition": 7, "groups": 2, "records": 30, "took_ms": 4},
}  # fmt: skip


def test_every_kind_of_event_has_a_line() -> None:
    timeline = Timeline(UTC, dates=False, everything=True)
    reported = {kind: timeline.feed(value(kind, **given)) for kind, given in EXAMPLES.items()}
    reported |= {
        kind: timeline.feed({"kind": kind, "group": "g", "time": NOON, **given}) for kind, given in SHELL.items()
    }
    reported["rebalance_completed"] = timeline.feed(done())
    assert set(reported) == set(kinds())
    name = "member m-9458435d… (client payments-2, 127.0.0.1)"
    words = {kind: lines[0].removeprefix("12:03:07 ") for kind, lines in reported.items()}
    assert words["member_left"] == f'{name} left: "done"'
    assert words["member_removed"] == f"{name} found the group full and was removed"
    assert words["rebalance_started"] == "a rebalance begins in Stable: left"
    assert words["rebalance_failed"] == (
        "rebalance to generation 4 did not complete, 1 min 1 s: another began, since a member did not sync in time"
    )
    assert words["target_assigned"] == (
        "epoch 4 has its targets, 1.2 s after it began (range, computed in 7 ms): 2 members of 3 have another; "
        "partitions: 1 to move"
    )
    assert words["member_reconciled"] == (
        "member m (client c, h) reached epoch 4 in 5 s: gave up 1 partition in 300 ms (t: 1)"
    )
    assert words["target_failed"].startswith("the assignor mine failed after 7 ms: epoch 4 has no targets")
    assert words["group_upgraded"] == (
        "the classic group became a consumer group in epoch 4, with 2 classic members: member m (client c, h) joined"
    )
    assert words["group_downgraded"] == "the group became a classic group in epoch 4, 1 member left in it"
    assert words["deliveries_failed"] == (
        "member m held 3 records of t-0 (offsets 5 to 7) until the lock was over in delivery 2: available again; "
        "1 more record before were not reported"
    )
    assert words["topics_not_ready"] == (
        "the topics of the application are not ready for subtopologies 0, 1: Source topics t are missing."
    )
    assert words["topics_ready"] == "the topics of the application are ready after 2 s: topology 0"
    assert words["tasks_restoring"] == (
        f"{name} restores the active task 0_1 (120 records behind){', the standby task 0_2 (1 record behind)' * 4} and "
        "2 more"
    )
    assert (
        words["tasks_restored"] == f"{name} has restored the active task 0_1 (5 s after it got the task; 120 records)"
    )
    assert words["application_shutdown"] == f"{name} had an error, and asked all members to end the application"
    assert words["member_away"].endswith("has gone and will be back: its partitions are kept for 10 s")
    assert words["epoch_bumped"] == "epoch 4 begins in Stable: left"
    assert words["offsets_deleted"] == "offsets were deleted (asked): t: 0 1"
    assert words["producer_fenced"] == (
        "1 TxnOffsetCommit request of client c, 1.2.3.4 refused: INVALID_PRODUCER_EPOCH: a newer producer has its "
        "transactional id"
    )
    assert words["transactions_committed"] == "1 transaction of producer 7 (epoch 3) committed: 2 offsets"
    assert words["transactions_aborted"] == (
        "3 transactions of producer 7 (epochs 3 to 5) aborted: 1 offset will never count"
    )
    assert words["requests_refused"] == "3 Heartbeat requests of client c, 1.2.3.4 refused: UNKNOWN_MEMBER_ID"
    assert words["member_fenced"] == (
        "1 Heartbeat request of static member i (client c, 1.2.3.4) refused: FENCED_INSTANCE_ID"
    )
    assert words["member_replaced"].endswith("came back as m-9458435d…; old is fenced")


def test_the_line_of_a_streams_group_names_tasks_that_nobody_had(timeline: Timeline) -> None:
    tasks = [{"task": "0_1", "unowned_ms": 1_500, "member": "q-1"}, {"task": "0_2", "unowned_ms": 5, "member": "q-1"}]
    facts = {**EXAMPLES[events.EPOCH_RECONCILED], "assignor": "sticky", "revoked": 1, "assigned": 1, "changed": 1}
    (line,) = timeline.feed(value("epoch_reconciled", **facts, unit="task", tasks=tasks))
    assert "1 task given up, 1 taken; nobody had task 0_1 for 1.5 s (now q-1); 1 member, sticky" in line


def test_the_targets_of_a_streams_group_are_tasks() -> None:
    target = value("target_assigned", **EXAMPLES[events.TARGET_ASSIGNED], unit="task")
    (line,) = Timeline(UTC, dates=False, everything=True).feed(target)
    assert line.endswith("2 members of 3 have another; tasks: 1 to move")


def test_unknown_kinds_of_events_are_skipped() -> None:
    later = {"v": 1, "kind": "moon_rose", "group": "g", "time": NOON}
    assert Timeline(UTC, dates=False).feed(later) == []
    assert Timeline(UTC, dates=False, everything=True).feed(later) == ["12:03:07 moon rose"]


def test_long_names_and_durations_are_shown_short() -> None:
    assert short("rWd3UKo9T5K5L+2EpPywVw") == "rWd3UKo9…"
    assert short(f"consumer-orders-1-{UUID}") == "consumer-orders-1-9458435d…"
    assert short("m") == "m"
    assert short("rdkafka-0123456789abcdef") == "rdkafka-01234567…"
    assert who({"member": "m", "instance": None}) == "member m"
    assert [seconds(ms) for ms in (5, 999, 1_000, 3_210, 60_000, 3_600_000)] == [
        "5 ms", "999 ms", "1 s", "3.2 s", "1 min 0 s", "60 min 0 s",
    ]  # fmt: skip


def test_the_timeline_counts_refusals() -> None:
    flood = {"kind": "requests_refused", "time": NOON, "api": None, "count": 50}
    assert Timeline(UTC, dates=False).feed(flood) == ["12:03:07 50 more requests were refused, of many clients"]


def test_the_line_of_a_requested_rebalance_names_no_member() -> None:
    started = value(events.REBALANCE_STARTED, **{**EXAMPLES[events.REBALANCE_STARTED], "cause": events.ASKED})
    assert Timeline(UTC, dates=False, everything=True).feed(started) == [
        "12:03:07 a rebalance begins in Stable: it was asked for"
    ]
