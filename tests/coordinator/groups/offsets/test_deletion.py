from __future__ import annotations

import pytest

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.image import NO_TOPICS, TopicImage, TopicsChanged, TopicsImage
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.core import GroupCore
from muster.protocol.consumer import encode_subscription
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from muster.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.coordinator.groups.harness import START, TOPICS, Room

SUBSCRIBED = (("range", encode_subscription(ConsumerProtocolSubscription(["t"]), 1)),)


def delete(room: Room, *partitions: tuple[str, int], group: str = "g") -> int | list[int]:
    topics = [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(p)]) for topic, p in partitions]
    reply = room.send(OffsetDeleteRequest(group, topics))
    if reply.error_code:
        assert list(reply.topics) == []
        return int(reply.error_code)
    return [one.partitions[0].error_code for one in reply.topics]


def tombstones(room: Room) -> list[str]:
    return [repr(record.key) for record in room.records if record.value is None]


def test_offset_delete_top_level_refusals() -> None:
    room = Room()
    assert delete(room, ("t", 0), group="") == ErrorCode.INVALID_GROUP_ID
    assert delete(room, ("t", 0)) == ErrorCode.GROUP_ID_NOT_FOUND
    room.join(kind="connect")
    assert delete(room, ("t", 0)) == ErrorCode.NON_EMPTY_GROUP


def test_offsets_of_subscribed_topics_stay() -> None:
    room = Room()
    a, _ = room.stable(protocols=SUBSCRIBED)
    room.commit(a, 2)
    room.commit(a, 2, topic="u")
    assert delete(room, ("t", 0), ("u", 0)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, 0]
    assert (room.fetch("t").committed_offset, room.fetch("u").committed_offset) == (5, -1)
    room.join(a, protocols=SUBSCRIBED)
    assert delete(room, ("t", 0)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]


def test_a_subscription_that_claims_more_than_it_has_is_read_for_its_topics() -> None:
    room = Room()
    ends_after_user_data = b"\0\1" + encode_subscription(ConsumerProtocolSubscription(["t"]), 0)[2:]
    a, _ = room.stable(protocols=(("range", ends_after_user_data),))
    room.commit(a, 2)
    room.commit(a, 2, topic="u")
    assert delete(room, ("t", 0), ("u", 0)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, 0]


def test_an_offset_that_is_not_there_goes_without_a_record() -> None:
    room = Room()
    room.commit()
    assert delete(room, ("t", 1), ("u", 0)) == [0, 0]
    assert tombstones(room) == []
    assert delete(room, ("t", 0)) == [0]
    assert tombstones(room) == ["OffsetCommitKey(group='g', topic='t', partition=0)"]


def test_unknown_subscriptions_hold_every_topic() -> None:
    room = Room()
    a, _ = room.stable(protocols=(("range", b"nonsense"),))
    room.commit(a, 2, topic="u")
    assert delete(room, ("u", 0)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]


def test_before_its_first_generation_a_group_of_consumers_might_subscribe_to_anything() -> None:
    room = Room(group_initial_rebalance_delay_ms=3_000)
    room.commit()
    room.join(protocols=SUBSCRIBED)
    assert delete(room, ("t", 0)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]


@pytest.mark.parametrize("kind", ["consumer", "connect"])
def test_an_empty_group_holds_nothing(kind: str) -> None:
    room = Room()
    room.join(kind=kind, protocols=SUBSCRIBED)
    room.leave("c-uuid1")
    room.commit()
    assert delete(room, ("t", 0), ("t", 1)) == [0, 0]
    assert len(tombstones(room)) == 1  # there is none for what was not there
    assert room.fetch().committed_offset == -1


def test_deleting_a_group_takes_its_offsets_first() -> None:
    room = Room()
    room.commit(partition=0)
    room.commit(topic="u", partition=1)
    room.commit(group="h")
    reply = room.send(DeleteGroupsRequest(["g", "nobody", "g"]))
    assert [(one.group_id, one.error_code) for one in reply.results] == [("g", 0), ("nobody", 69)]
    assert tombstones(room) == [
        "OffsetCommitKey(group='g', topic='t', partition=0)",
        "OffsetCommitKey(group='g', topic='u', partition=1)",
        "GroupMetadataKey(group='g')",
    ]
    assert list(room.core.state.groups) == ["h"]
    assert room.events[-1] == (events.GROUP_DELETED, "g", {})


@pytest.mark.parametrize("state", ["preparing", "completing", "stable"])
def test_a_group_with_members_is_not_deleted(state: str) -> None:
    room = Room()
    getattr(room, state)()
    assert room.send(DeleteGroupsRequest(["g"])).results[0].error_code == ErrorCode.NON_EMPTY_GROUP


def test_the_nameless_group_is_deleted_like_any_other() -> None:
    room = Room()
    room.commit(group="")
    codes = [room.send(DeleteGroupsRequest([""])).results[0].error_code for _ in range(2)]
    assert codes == [0, ErrorCode.GROUP_ID_NOT_FOUND]


def test_what_comes_back_under_the_name_is_a_new_group() -> None:
    room = Room()
    (a,) = room.stable(count=1)
    room.leave(a)
    room.send(DeleteGroupsRequest(["g"]))
    assert room.join().generation_id == 1


def test_offsets_of_a_deleted_topic_go_with_it() -> None:
    room = Room()
    room.commit(partition=0)
    room.commit(partition=1, group="h")
    room.commit(topic="u")
    room.commit(topic="u", group="other")
    image = TopicsImage({"u": TOPICS.by_name["u"]}, 2)
    room.add(room.core.handle(TopicsChanged(image), room.now))
    assert len(tombstones(room)) == 2
    assert (room.fetch("t").committed_offset, room.fetch("u").committed_offset) == (-1, 5)
    assert room.core.state.image is image


def test_a_topic_made_anew_is_another_one() -> None:
    room = Room()
    room.commit()
    topics = {**TOPICS.by_name, "t": TopicImage("t", b"X" * 16, 8)}
    room.add(room.core.handle(TopicsChanged(TopicsImage(topics, 2)), room.now))
    assert room.fetch().committed_offset == -1


def test_more_partitions_change_nothing() -> None:
    room = Room()
    room.commit()
    topics = {**TOPICS.by_name, "t": TopicImage("t", b"T" * 16, 80)}
    assert not room.add(room.core.handle(TopicsChanged(TopicsImage(topics, 2)), room.now)).records
    room = Room()
    room.core.state.image = NO_TOPICS
    assert not room.core.handle(TopicsChanged(TOPICS), room.now).records


def test_offsets_committed_for_another_topic_of_that_name_stay() -> None:
    room = Room()
    room.commit(partition=0)
    room.commit(partition=1, retention=1_000_000)  # version 1, which has no topic id
    value = OffsetCommitValue(7, commit_timestamp=1, topic_id=b"O" * 16)
    room.core.replay([(OffsetCommitKey("g", "t", 2), value)], room.now)
    room.add(room.core.handle(TopicsChanged(NO_TOPICS), room.now))
    assert [room.fetch(partition=partition).committed_offset for partition in range(3)] == [-1, -1, 7]
    told = [event.facts for event in room.events if event.kind == events.OFFSETS_DELETED]
    assert told == [{"cause": events.TOPIC_DELETED, "topics": {"t": [0, 1]}}]
    # and nothing is told where nothing went
    for image in (TOPICS, NO_TOPICS):
        assert not room.add(room.core.handle(TopicsChanged(image), room.now)).events


@pytest.mark.parametrize(
    ("named", "kept"),
    [
        # known to be deleted: what has its id, and what has no id
        ({}, [3, 4]),
        # made anew: what has no id may be of the new topic
        ({"t": TopicImage("t", b"N" * 16, 8)}, [2, 3, 4]),
    ],
)
def test_offsets_of_topics_deleted_shortly_before_a_crash(named: dict[str, TopicImage], kept: list[int]) -> None:
    image = TopicsImage(named, 3, {b"D" * 16: "t", b"E" * 16: "t"})
    core = GroupCore(GroupSettings(), image)
    rows = [("t", b"D" * 16), ("t", b"E" * 16), ("t", bytes(16)), ("t", b"N" * 16), ("elsewhere", b"O" * 16)]
    for number, (topic, topic_id) in enumerate(rows):
        core.replay([(OffsetCommitKey("g", topic, number), OffsetCommitValue(5, topic_id=topic_id))], START)
    output = core.loaded(START)
    left = [number for number, (topic, _) in enumerate(rows) if core.state.offsets.get("g", topic, number) is not None]
    assert left == kept
    assert len(output.records) == 5 - len(kept)
    assert [event.kind for event in output.events] == [events.OFFSETS_DELETED]
