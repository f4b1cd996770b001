"""The events of a rebalance in the group history: its times, its cause, and the owners before it."""

from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.groups.classic.history import MAX_DECODED_BYTES
from muster.coordinator.groups.classic.member import NEW_MEMBER_JOIN_TIMEOUT_MS
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.image import TopicImage, TopicsChanged, TopicsImage
from muster.coordinator.groups.core import GroupCore
from muster.protocol.consumer import encode_subscription
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from tests.coordinator.groups.harness import BOTH, RANGE, START, TOPICS, GroupHarness


def facts_of(harness: GroupHarness, kind: str) -> list[dict[str, Any]]:
    return [event.facts for event in harness.events if event.kind == kind]


def test_the_event_of_a_completed_rebalance_has_all_its_facts() -> None:
    harness = GroupHarness(group_max_size=7)
    a, b = harness.stable()
    harness.advance(1_000)
    harness.beat(a)
    harness.advance(500)
    harness.events.clear()
    harness.join(protocols=BOTH, reason="here I am")  # c
    c = list(harness.group().members)[-1]
    harness.advance(20)
    harness.join(a)
    harness.advance(30)
    harness.join(b)
    harness.advance(4)
    harness.sync(b)
    harness.advance(6)
    harness.sync(a, {a: b"x", b: b"y", c: b"z"})
    (facts,) = facts_of(harness, events.REBALANCE_COMPLETED)
    wall = START.wall_ms
    members = facts.pop("members")
    assert facts == {
        "generation": 3, "protocol_type": "consumer", "protocol": "range", "votes": {"range": 3}, "leader": a,
        "cause": events.NEW_MEMBER, "trigger": events.Trigger(c, None, "c", "/10.0.0.1", "here I am"),
        "join_phase_ms": 50, "sync_phase_ms": 10, "took_ms": 60, "before": {a: b"0", b: b"1"},
        "topics": {}, "settings": harness.settings,
    }  # fmt: skip
    assert [(one.member, one.joined_ms, one.synced_ms, one.heard_ms, one.assignment) for one in members] == [
        (a, wall + 1_520, wall + 1_560, wall + 1_560, b"x"),
        (b, wall + 1_550, wall + 1_554, wall + 1_554, b"y"),
        (c, wall + 1_500, None, wall + 1_500, b"z"),
    ]
    assert members[2].protocols == BOTH
    harness.advance(7)
    harness.sync(c)
    harness.sync(c)
    assert facts_of(harness, events.MEMBERS_SYNCED) == [{"generation": 3, "synced": {c: wall + 1_567}}]


def test_owners_before_a_rebalance_are_those_of_the_last_completed_generation() -> None:
    """The owners are not those of the member that began the rebalance by joining, nor of a failed rebalance."""
    harness = GroupHarness()
    a, b = harness.stable()
    assert facts_of(harness, events.REBALANCE_COMPLETED)[0]["before"] == {}
    harness.events.clear()
    harness.join()  # c
    harness.join(a)
    harness.join(b)  # the group waits for the leader's assignment
    harness.join()  # d: begun again
    members = list(harness.group().members)
    for one in members[:3]:
        harness.join(one)
    harness.sync(members[0], dict.fromkeys(members, b"z"))
    assert [facts["cause"] for facts in facts_of(harness, events.REBALANCE_FAILED)] == [events.NEW_MEMBER]
    (facts,) = facts_of(harness, events.REBALANCE_COMPLETED)
    assert facts["before"].keys() == {a, b}
    assert len(facts["members"]) == 4


def test_the_event_of_a_lost_member_has_the_time_of_its_last_request() -> None:
    harness = GroupHarness()
    _, b, c = harness.stable(count=3)
    harness.advance(2_000)
    harness.beat(b)
    harness.advance(1_000)
    harness.leave(c)
    (left,) = facts_of(harness, events.MEMBER_LEFT)
    assert (left["member"].member, left["member"].heard_ms, left["reason"]) == (c, START.wall_ms, "bye")
    harness.advance(9_000)
    expired = facts_of(harness, events.MEMBER_EXPIRED)
    assert expired[-1]["member"].member == b
    assert expired[-1]["member"].heard_ms == START.wall_ms + 2_000


def test_the_last_request_of_a_new_member_without_an_answer_is_its_join() -> None:
    harness = GroupHarness()
    a = harness.join(session=600_000, rebalance=600_000).member_id
    harness.sync(a, {a: b"0"}, generation=1)
    harness.join()
    harness.advance(NEW_MEMBER_JOIN_TIMEOUT_MS)
    assert facts_of(harness, events.MEMBER_EXPIRED)[0]["member"].heard_ms == START.wall_ms


def test_owners_before_a_rebalance_include_members_that_left() -> None:
    harness = GroupHarness()
    a, b, c = harness.stable(count=3)
    harness.leave(c)
    harness.join(a)
    harness.join(b)
    harness.sync(a, {a: b"x", b: b"y"})
    assert facts_of(harness, events.REBALANCE_COMPLETED)[-1]["before"] == {a: b"0", b: b"1", c: b"2"}
    harness.join(b, protocols=(("range", b"other"),))
    harness.advance(10_000)  # a expires meanwhile
    harness.sync(b, {b: b"all"})
    assert facts_of(harness, events.REBALANCE_COMPLETED)[-1]["before"] == {a: b"x", b: b"y"}


def test_a_returning_static_member_owned_what_its_old_member_id_owned() -> None:
    harness = GroupHarness()
    a, b = harness.stable(static=True)
    harness.join(a, instance="i0")
    new = harness.join(instance="i1").member_id
    (replaced,) = facts_of(harness, events.MEMBER_REPLACED)
    assert (replaced["member"].member, replaced["replaced"]) == (new, b)
    harness.sync(a, {a: b"x", new: b"y"}, instance="i0")
    assert facts_of(harness, events.REBALANCE_COMPLETED)[-1]["before"] == {a: b"0", new: b"1"}


def test_a_new_static_member_that_is_replaced_owned_nothing_before() -> None:
    harness = GroupHarness()
    a, _ = harness.stable(static=True)
    harness.join(instance="i9")
    harness.join(instance="i9")
    assert len(facts_of(harness, events.MEMBER_REPLACED)) == 1
    assert harness.group().rebalance is not None
    assert a in harness.group().rebalance.before


def test_a_rebalance_ended_by_another_one_is_reported_as_failed_and_its_time_counts() -> None:
    harness = GroupHarness()
    a, b = harness.stable()
    harness.join(a)
    harness.advance(100)
    harness.join(b)
    harness.events.clear()
    harness.advance(50)
    harness.join()  # no member has synced
    (failed,) = facts_of(harness, events.REBALANCE_FAILED)
    assert (failed["generation"], failed["cause"]) == (3, events.NEW_MEMBER)
    assert (failed["join_phase_ms"], failed["took_ms"]) == (100, 150)
    assert len(failed["members"]) == 3
    assert facts_of(harness, events.REBALANCE_STARTED)[0]["state"] == "CompletingRebalance"
    harness.advance(10)
    harness.join(a)
    harness.join(b)
    harness.sync(a, {a: b"x"})
    (done,) = facts_of(harness, events.REBALANCE_COMPLETED)
    assert (done["join_phase_ms"], done["took_ms"]) == (10, 160)
    assert {a: b"0", b: b"1"}.items() <= done["before"].items()


def test_late_syncs_are_reported_together_before_the_next_rebalance_begins() -> None:
    harness = GroupHarness()
    a, b, c, _ = harness.stable(count=4)
    harness.join(a)
    harness.join(b)
    harness.join(c)
    harness.join(list(harness.group().members)[3])
    harness.sync(a, {})
    harness.events.clear()
    harness.sync(b)
    harness.advance(5)
    harness.sync(c)
    assert harness.events == []
    harness.leave(a)
    wall = harness.now.wall_ms
    assert facts_of(harness, events.MEMBERS_SYNCED) == [{"generation": 3, "synced": {b: wall - 5, c: wall}}]
    assert harness.kinds()[:2] == [events.MEMBER_LEFT, events.MEMBERS_SYNCED]


def test_a_rebalance_that_leaves_the_group_empty_is_reported() -> None:
    harness = GroupHarness()
    a = harness.stable(count=1)[0]
    harness.leave(a)
    assert facts_of(harness, events.GROUP_EMPTIED) == [{"generation": 2, "took_ms": 0}]
    assert harness.group().rebalance is None


# ---- why a member joined again


def subscription(*topics: str, owned: bytes = b"") -> tuple[tuple[str, bytes], ...]:
    return (("range", encode_subscription(ConsumerProtocolSubscription(list(topics), owned), 1)),)


def grown() -> TopicsImage:
    return TopicsImage({**TOPICS.by_name, "t": TopicImage("t", b"T" * 16, 9)}, 2)


def subscribed(harness: GroupHarness, *topics: str) -> list[str]:
    ids = harness.stable(protocols=subscription(*topics))
    harness.events.clear()
    return ids


def cause(harness: GroupHarness) -> object:
    (facts,) = facts_of(harness, events.REBALANCE_STARTED)
    return facts["cause"]


def test_a_rebalance_of_a_leader_with_unchanged_metadata_has_the_cause_leader_rejoined() -> None:
    harness = GroupHarness()
    a, _ = subscribed(harness, "t")
    harness.join(a, protocols=subscription("t"))
    assert cause(harness) == events.LEADER_REJOINED


def test_a_rebalance_after_a_topic_has_grown_has_the_cause_partitions_changed() -> None:
    harness = GroupHarness()
    a, _ = subscribed(harness, "t", "gone")
    assert harness.group().partition_counts == {"t": 8}
    harness.collect(harness.core.handle(TopicsChanged(grown()), harness.now))
    harness.join(a, protocols=subscription("t", "gone", owned=b"1"))
    assert cause(harness) == events.PARTITIONS_CHANGED


def test_a_rebalance_after_a_new_subscription_has_the_cause_subscription_changed() -> None:
    harness = GroupHarness()
    _, b = subscribed(harness, "t")
    harness.join(b, protocols=subscription("t", "u"))
    assert cause(harness) == events.SUBSCRIPTION_CHANGED


def test_a_new_subscription_is_recognized_though_its_bytes_end_early() -> None:
    def ends_after_user_data(topic: str) -> tuple[tuple[str, bytes], ...]:
        return (("range", b"\0\1" + encode_subscription(ConsumerProtocolSubscription([topic]), 0)[2:]),)

    harness = GroupHarness()
    _, b = harness.stable(protocols=ends_after_user_data("t"))
    harness.events.clear()
    harness.join(b, protocols=ends_after_user_data("u"))
    assert cause(harness) == events.SUBSCRIPTION_CHANGED


def test_a_rebalance_after_other_metadata_has_the_cause_metadata_changed() -> None:
    harness = GroupHarness()
    _, b = subscribed(harness, "t")
    harness.join(b, protocols=subscription("t", owned=b"1"))
    assert cause(harness) == events.METADATA_CHANGED


def test_long_metadata_is_not_read_to_find_the_cause() -> None:
    harness = GroupHarness()
    many = [f"topic-{number}" for number in range(MAX_DECODED_BYTES // 8)]
    _, b = subscribed(harness, *many)
    harness.join(b, protocols=subscription(*many, "another"))
    assert cause(harness) == events.METADATA_CHANGED


def claims(*partitions: int, generation: int) -> tuple[tuple[str, bytes], ...]:
    owned = [ConsumerProtocolSubscriptionTopicPartition("t", list(partitions))]
    said = ConsumerProtocolSubscription(["t"], b"%d" % generation, owned, generation)
    return (("range", encode_subscription(said, 2)),)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (claims(0, 1, generation=2), events.METADATA_CHANGED),
        (claims(0, 1, 2, generation=2), events.LEADER_REJOINED),
        (claims(0, 1, 2, 3, generation=2), events.LEADER_REJOINED),
    ],
)
def test_a_rebalance_of_a_leader_that_gave_up_partitions_has_the_cause_metadata_changed(
    now: tuple[tuple[str, bytes], ...], expected: str
) -> None:
    harness = GroupHarness()
    a, _ = harness.stable(protocols=claims(0, 1, 2, generation=1))
    harness.events.clear()
    harness.join(a, protocols=now)
    assert cause(harness) == expected


def test_metadata_of_other_protocol_types_is_not_read_for_the_cause() -> None:
    harness = GroupHarness()
    a = harness.join(kind="connect").member_id
    harness.sync(a, {a: b"0"}, generation=1)
    harness.events.clear()
    harness.join(a, kind="connect", protocols=subscription("t"))
    assert cause(harness) == events.METADATA_CHANGED


def test_after_a_restart_the_partition_counts_are_unknown_to_the_cause() -> None:
    harness = GroupHarness()
    a, _ = subscribed(harness, "t")
    again = GroupHarness()
    again.core = GroupCore(again.settings, grown())
    for record in harness.records:
        again.core.replay([(record.key, record.value)], again.now)
    again.collect(again.core.loaded(again.now))
    again.join(a, protocols=subscription("t"))
    assert cause(again) == events.LEADER_REJOINED
    assert again.group().members[a].protocols == subscription("t") != RANGE


# ---- what is refused


def test_each_refused_request_is_reported_with_its_sender() -> None:
    harness = GroupHarness()
    a, _ = harness.stable(static=True)
    harness.events.clear()
    harness.join("ghost")
    harness.join(session=-1)
    harness.join(kind="other")
    harness.sync("ghost")
    harness.sync(a, generation=1)
    harness.leave("ghost")
    harness.commit("ghost", 2)
    harness.leave("ghost", group="")
    assert [
        (event.kind, event.group_id, event.facts["api"], event.facts["error"], event.facts["member"])
        for event in harness.events
    ] == [
        (events.REQUEST_REFUSED, "g", "JoinGroup", ErrorCode.UNKNOWN_MEMBER_ID, "ghost"),
        (events.REQUEST_REFUSED, "g", "JoinGroup", ErrorCode.INVALID_SESSION_TIMEOUT, ""),
        (events.REQUEST_REFUSED, "g", "JoinGroup", ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""),
        (events.REQUEST_REFUSED, "g", "SyncGroup", ErrorCode.UNKNOWN_MEMBER_ID, "ghost"),
        (events.REQUEST_REFUSED, "g", "SyncGroup", ErrorCode.ILLEGAL_GENERATION, a),
        (events.REQUEST_REFUSED, "g", "LeaveGroup", ErrorCode.UNKNOWN_MEMBER_ID, "ghost"),
        (events.REQUEST_REFUSED, "g", "OffsetCommit", ErrorCode.UNKNOWN_MEMBER_ID, "ghost"),
        (events.REQUEST_REFUSED, "", "LeaveGroup", ErrorCode.INVALID_GROUP_ID, ""),
    ]
    assert harness.events[0].facts["client_id"] == "c"
    assert harness.events[0].facts["host"] == "/10.0.0.1"


def test_errors_that_only_say_what_to_do_next_are_not_reported_as_refusals() -> None:
    harness = GroupHarness()
    a, b = harness.stable()
    harness.join(a)
    harness.events.clear()
    harness.join(needs_id=True)
    harness.sync(b)
    harness.beat(b)
    assert harness.events == []
