"""What the history is told of a rebalance: times, causes, who owned what before."""

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
from tests.coordinator.groups.harness import BOTH, RANGE, START, TOPICS, Room


def told(room: Room, kind: str) -> list[dict[str, Any]]:
    return [event.facts for event in room.events if event.kind == kind]


def test_a_completed_rebalance_is_told_with_all_that_a_replay_needs() -> None:
    room = Room(group_max_size=7)
    a, b = room.stable()
    room.advance(1_000)
    room.beat(a)
    room.advance(500)
    room.events.clear()
    room.join(protocols=BOTH, reason="here I am")  # c
    c = list(room.group().members)[-1]
    room.advance(20)
    room.join(a)
    room.advance(30)
    room.join(b)
    room.advance(4)
    room.sync(b)
    room.advance(6)
    room.sync(a, {a: b"x", b: b"y", c: b"z"})
    (facts,) = told(room, events.REBALANCE_COMPLETED)
    wall = START.wall_ms
    members = facts.pop("members")
    assert facts == {
        "generation": 3, "protocol_type": "consumer", "protocol": "range", "votes": {"range": 3}, "leader": a,
        "cause": events.NEW_MEMBER, "trigger": events.Trigger(c, None, "c", "/10.0.0.1", "here I am"),
        "join_phase_ms": 50, "sync_phase_ms": 10, "took_ms": 60, "before": {a: b"0", b: b"1"},
        "topics": {}, "settings": room.settings,
    }  # fmt: skip
    assert [(one.member, one.joined_ms, one.synced_ms, one.heard_ms, one.assignment) for one in members] == [
        (a, wall + 1_520, wall + 1_560, wall + 1_560, b"x"),
        (b, wall + 1_550, wall + 1_554, wall + 1_554, b"y"),
        (c, wall + 1_500, None, wall + 1_500, b"z"),
    ]
    assert members[2].protocols == BOTH
    room.advance(7)
    room.sync(c)
    room.sync(c)
    assert told(room, events.MEMBERS_SYNCED) == [{"generation": 3, "synced": {c: wall + 1_567}}]


def test_before_are_those_of_the_last_generation_that_there_was() -> None:
    """Not who began the rebalance by joining, nor who joined one that failed."""
    room = Room()
    a, b = room.stable()
    assert told(room, events.REBALANCE_COMPLETED)[0]["before"] == {}
    room.events.clear()
    room.join()  # c
    room.join(a)
    room.join(b)  # the leader's assignment is waited for
    room.join()  # d: begun again
    members = list(room.group().members)
    for one in members[:3]:
        room.join(one)
    room.sync(members[0], dict.fromkeys(members, b"z"))
    assert [facts["cause"] for facts in told(room, events.REBALANCE_FAILED)] == [events.NEW_MEMBER]
    (facts,) = told(room, events.REBALANCE_COMPLETED)
    assert facts["before"].keys() == {a, b}
    assert len(facts["members"]) == 4


def test_when_a_member_was_last_heard_of_is_told_when_it_goes() -> None:
    room = Room()
    _, b, c = room.stable(count=3)
    room.advance(2_000)
    room.beat(b)
    room.advance(1_000)
    room.leave(c)
    (left,) = told(room, events.MEMBER_LEFT)
    assert (left["member"].member, left["member"].heard_ms, left["reason"]) == (c, START.wall_ms, "bye")
    room.advance(9_000)
    expired = told(room, events.MEMBER_EXPIRED)
    assert expired[-1]["member"].member == b
    assert expired[-1]["member"].heard_ms == START.wall_ms + 2_000


def test_a_new_member_that_never_hears_its_answer_was_last_heard_of_when_it_joined() -> None:
    room = Room()
    a = room.join(session=600_000, rebalance=600_000).member_id
    room.sync(a, {a: b"0"}, generation=1)
    room.join()
    room.advance(NEW_MEMBER_JOIN_TIMEOUT_MS)
    assert told(room, events.MEMBER_EXPIRED)[0]["member"].heard_ms == START.wall_ms


def test_what_the_departed_had_is_part_of_what_was_before() -> None:
    room = Room()
    a, b, c = room.stable(count=3)
    room.leave(c)
    room.join(a)
    room.join(b)
    room.sync(a, {a: b"x", b: b"y"})
    assert told(room, events.REBALANCE_COMPLETED)[-1]["before"] == {a: b"0", b: b"1", c: b"2"}
    room.join(b, protocols=(("range", b"other"),))
    room.advance(10_000)  # a expires meanwhile
    room.sync(b, {b: b"all"})
    assert told(room, events.REBALANCE_COMPLETED)[-1]["before"] == {a: b"x", b: b"y"}


def test_a_static_member_that_comes_back_meanwhile_had_what_its_predecessor_had() -> None:
    room = Room()
    a, b = room.stable(static=True)
    room.join(a, instance="i0")
    new = room.join(instance="i1").member_id
    (replaced,) = told(room, events.MEMBER_REPLACED)
    assert (replaced["member"].member, replaced["replaced"]) == (new, b)
    room.sync(a, {a: b"x", new: b"y"}, instance="i0")
    assert told(room, events.REBALANCE_COMPLETED)[-1]["before"] == {a: b"0", new: b"1"}


def test_a_static_member_that_was_not_there_before_has_nothing_to_pass_on() -> None:
    room = Room()
    a, _ = room.stable(static=True)
    room.join(instance="i9")
    room.join(instance="i9")
    assert len(told(room, events.MEMBER_REPLACED)) == 1
    assert room.group().rebalance is not None
    assert a in room.group().rebalance.before


def test_a_rebalance_that_another_one_ends_has_failed_and_its_time_counts() -> None:
    room = Room()
    a, b = room.stable()
    room.join(a)
    room.advance(100)
    room.join(b)
    room.events.clear()
    room.advance(50)
    room.join()  # nobody has synced
    (failed,) = told(room, events.REBALANCE_FAILED)
    assert (failed["generation"], failed["cause"]) == (3, events.NEW_MEMBER)
    assert (failed["join_phase_ms"], failed["took_ms"]) == (100, 150)
    assert len(failed["members"]) == 3
    assert told(room, events.REBALANCE_STARTED)[0]["state"] == "CompletingRebalance"
    room.advance(10)
    room.join(a)
    room.join(b)
    room.sync(a, {a: b"x"})
    (done,) = told(room, events.REBALANCE_COMPLETED)
    assert (done["join_phase_ms"], done["took_ms"]) == (10, 160)
    assert {a: b"0", b: b"1"}.items() <= done["before"].items()


def test_late_syncs_are_told_together_at_the_latest_when_the_next_rebalance_begins() -> None:
    room = Room()
    a, b, c, _ = room.stable(count=4)
    room.join(a)
    room.join(b)
    room.join(c)
    room.join(list(room.group().members)[3])
    room.sync(a, {})
    room.events.clear()
    room.sync(b)
    room.advance(5)
    room.sync(c)
    assert room.events == []
    room.leave(a)
    wall = room.now.wall_ms
    assert told(room, events.MEMBERS_SYNCED) == [{"generation": 3, "synced": {b: wall - 5, c: wall}}]
    assert room.kinds()[:2] == [events.MEMBER_LEFT, events.MEMBERS_SYNCED]


def test_a_group_that_ends_empty() -> None:
    room = Room()
    a = room.stable(count=1)[0]
    room.leave(a)
    assert told(room, events.GROUP_EMPTIED) == [{"generation": 2, "took_ms": 0}]
    assert room.group().rebalance is None


# ---- why somebody joined again


def subscription(*topics: str, owned: bytes = b"") -> tuple[tuple[str, bytes], ...]:
    return (("range", encode_subscription(ConsumerProtocolSubscription(list(topics), owned), 1)),)


def grown() -> TopicsImage:
    return TopicsImage({**TOPICS.by_name, "t": TopicImage("t", b"T" * 16, 9)}, 2)


def subscribed(room: Room, *topics: str) -> list[str]:
    ids = room.stable(protocols=subscription(*topics))
    room.events.clear()
    return ids


def cause(room: Room) -> object:
    (facts,) = told(room, events.REBALANCE_STARTED)
    return facts["cause"]


def test_the_leader_joins_again_for_no_known_reason() -> None:
    room = Room()
    a, _ = subscribed(room, "t")
    room.join(a, protocols=subscription("t"))
    assert cause(room) == events.LEADER_REJOINED


def test_the_leader_joins_again_because_a_topic_has_grown() -> None:
    room = Room()
    a, _ = subscribed(room, "t", "gone")
    assert room.group().partition_counts == {"t": 8}
    room.add(room.core.handle(TopicsChanged(grown()), room.now))
    room.join(a, protocols=subscription("t", "gone", owned=b"1"))
    assert cause(room) == events.PARTITIONS_CHANGED


def test_a_member_subscribes_to_other_topics() -> None:
    room = Room()
    _, b = subscribed(room, "t")
    room.join(b, protocols=subscription("t", "u"))
    assert cause(room) == events.SUBSCRIPTION_CHANGED


def test_a_member_whose_subscription_ends_early_subscribes_to_other_topics() -> None:
    def ends_after_user_data(topic: str) -> tuple[tuple[str, bytes], ...]:
        return (("range", b"\0\1" + encode_subscription(ConsumerProtocolSubscription([topic]), 0)[2:]),)

    room = Room()
    _, b = room.stable(protocols=ends_after_user_data("t"))
    room.events.clear()
    room.join(b, protocols=ends_after_user_data("u"))
    assert cause(room) == events.SUBSCRIPTION_CHANGED


def test_a_member_has_other_metadata() -> None:
    room = Room()
    _, b = subscribed(room, "t")
    room.join(b, protocols=subscription("t", owned=b"1"))
    assert cause(room) == events.METADATA_CHANGED


def test_long_metadata_is_not_read_to_find_the_cause() -> None:
    room = Room()
    many = [f"topic-{number}" for number in range(MAX_DECODED_BYTES // 8)]
    _, b = subscribed(room, *many)
    room.join(b, protocols=subscription(*many, "another"))
    assert cause(room) == events.METADATA_CHANGED


def claims(*partitions: int, generation: int) -> tuple[tuple[str, bytes], ...]:
    owned = [ConsumerProtocolSubscriptionTopicPartition("t", list(partitions))]
    said = ConsumerProtocolSubscription(["t"], b"%d" % generation, owned, generation)
    return (("range", encode_subscription(said, 2)),)


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (claims(0, 1, generation=2), events.METADATA_CHANGED),
        (claims(0, 1, 2, generation=2), events.LEADER_REJOINED),
        (claims(0, 1, 2, 3, generation=2), events.LEADER_REJOINED),
    ],
)
def test_a_leader_has_changed_when_it_gave_something_up(now: tuple[tuple[str, bytes], ...], told: str) -> None:
    room = Room()
    a, _ = room.stable(protocols=claims(0, 1, 2, generation=1))
    room.events.clear()
    room.join(a, protocols=now)
    assert cause(room) == told


def test_of_other_protocol_types_nothing_is_read() -> None:
    room = Room()
    a = room.join(kind="connect").member_id
    room.sync(a, {a: b"0"}, generation=1)
    room.events.clear()
    room.join(a, kind="connect", protocols=subscription("t"))
    assert cause(room) == events.METADATA_CHANGED


def test_after_a_restart_the_counts_are_not_known() -> None:
    room = Room()
    a, _ = subscribed(room, "t")
    again = Room()
    again.core = GroupCore(again.settings, grown())
    for record in room.records:
        again.core.replay([(record.key, record.value)], again.now)
    again.take(again.core.loaded(again.now))
    again.join(a, protocols=subscription("t"))
    assert cause(again) == events.LEADER_REJOINED
    assert again.group().members[a].protocols == subscription("t") != RANGE


# ---- what is refused


def test_each_refused_request_is_told_with_who_sent_it() -> None:
    room = Room()
    a, _ = room.stable(static=True)
    room.events.clear()
    room.join("ghost")
    room.join(session=-1)
    room.join(kind="other")
    room.sync("ghost")
    room.sync(a, generation=1)
    room.leave("ghost")
    room.commit("ghost", 2)
    room.leave("ghost", group="")
    assert [
        (event.kind, event.group_id, event.facts["api"], event.facts["error"], event.facts["member"])
        for event in room.events
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
    assert room.events[0].facts["client_id"] == "c"
    assert room.events[0].facts["host"] == "/10.0.0.1"


def test_what_only_tells_a_client_what_to_do_next_is_no_refusal() -> None:
    room = Room()
    a, b = room.stable()
    room.join(a)
    room.events.clear()
    room.join(needs_id=True)
    room.sync(b)
    room.beat(b)
    assert room.events == []
