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
from tests.coordinator.groups.harness import START, TOPICS, GroupHarness

SUBSCRIBED = (("range", encode_subscription(ConsumerProtocolSubscription(["t"]), 1)),)


def delete(harness: GroupHarness, *partitions: tuple[str, int], group: str = "g") -> int | list[int]:
    topics = [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(p)]) for topic, p in partitions]
    reply = harness.send(OffsetDeleteRequest(group, topics))
    if reply.error_code:
        assert list(reply.topics) == []
        return int(reply.error_code)
    return [one.partitions[0].error_code for one in reply.topics]


def tombstones(harness: GroupHarness) -> list[str]:
    return [repr(record.key) for record in harness.records if record.value is None]


def test_offset_delete_is_refused_as_a_whole_for_wrong_groups() -> None:
    harness = GroupHarness()
    assert delete(harness, ("t", 0), group="") == ErrorCode.INVALID_GROUP_ID
    assert delete(harness, ("t", 0)) == ErrorCode.GROUP_ID_NOT_FOUND
    harness.join(kind="connect")
    assert delete(harness, ("t", 0)) == ErrorCode.NON_EMPTY_GROUP


def test_offsets_of_subscribed_topics_are_not_deleted() -> None:
    harness = GroupHarness()
    a, _ = harness.stable(protocols=SUBSCRIBED)
    harness.commit(a, 2)
    harness.commit(a, 2, topic="u")
    assert delete(harness, ("t", 0), ("u", 0)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, 0]
    assert (harness.fetch("t").committed_offset, harness.fetch("u").committed_offset) == (5, -1)
    harness.join(a, protocols=SUBSCRIBED)
    assert delete(harness, ("t", 0)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]


def test_a_subscription_that_claims_more_than_it_has_is_read_for_its_topics() -> None:
    harness = GroupHarness()
    ends_after_user_data = b"\0\1" + encode_subscription(ConsumerProtocolSubscription(["t"]), 0)[2:]
    a, _ = harness.stable(protocols=(("range", ends_after_user_data),))
    harness.commit(a, 2)
    harness.commit(a, 2, topic="u")
    assert delete(harness, ("t", 0), ("u", 0)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, 0]


def test_deleting_an_unknown_offset_writes_no_record() -> None:
    harness = GroupHarness()
    harness.commit()
    assert delete(harness, ("t", 1), ("u", 0)) == [0, 0]
    assert tombstones(harness) == []
    assert delete(harness, ("t", 0)) == [0]
    assert tombstones(harness) == ["OffsetCommitKey(group='g', topic='t', partition=0)"]


def test_a_group_with_an_unreadable_subscription_keeps_the_offsets_of_every_topic() -> None:
    harness = GroupHarness()
    a, _ = harness.stable(protocols=(("range", b"nonsense"),))
    harness.commit(a, 2, topic="u")
    assert delete(harness, ("u", 0)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]


def test_a_consumer_group_before_its_first_generation_keeps_the_offsets_of_every_topic() -> None:
    harness = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    harness.commit()
    harness.join(protocols=SUBSCRIBED)
    assert delete(harness, ("t", 0)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]


@pytest.mark.parametrize("kind", ["consumer", "connect"])
def test_all_offsets_of_an_empty_group_can_be_deleted(kind: str) -> None:
    harness = GroupHarness()
    harness.join(kind=kind, protocols=SUBSCRIBED)
    harness.leave("c-uuid1")
    harness.commit()
    assert delete(harness, ("t", 0), ("t", 1)) == [0, 0]
    assert len(tombstones(harness)) == 1  # there is no tombstone for an offset that did not exist
    assert harness.fetch().committed_offset == -1


def test_deleting_a_group_deletes_its_offsets_first() -> None:
    harness = GroupHarness()
    harness.commit(partition=0)
    harness.commit(topic="u", partition=1)
    harness.commit(group="h")
    reply = harness.send(DeleteGroupsRequest(["g", "nobody", "g"]))
    assert [(one.group_id, one.error_code) for one in reply.results] == [("g", 0), ("nobody", 69)]
    assert tombstones(harness) == [
        "OffsetCommitKey(group='g', topic='t', partition=0)",
        "OffsetCommitKey(group='g', topic='u', partition=1)",
        "GroupMetadataKey(group='g')",
    ]
    assert list(harness.core.state.groups) == ["h"]
    assert harness.events[-1] == (events.GROUP_DELETED, "g", {})


@pytest.mark.parametrize("state", ["preparing", "completing", "stable"])
def test_a_group_with_members_is_not_deleted(state: str) -> None:
    harness = GroupHarness()
    getattr(harness, state)()
    assert harness.send(DeleteGroupsRequest(["g"])).results[0].error_code == ErrorCode.NON_EMPTY_GROUP


def test_the_group_with_the_empty_id_can_be_deleted() -> None:
    harness = GroupHarness()
    harness.commit(group="")
    codes = [harness.send(DeleteGroupsRequest([""])).results[0].error_code for _ in range(2)]
    assert codes == [0, ErrorCode.GROUP_ID_NOT_FOUND]


def test_a_group_made_again_after_its_deletion_begins_anew() -> None:
    harness = GroupHarness()
    (a,) = harness.stable(count=1)
    harness.leave(a)
    harness.send(DeleteGroupsRequest(["g"]))
    assert harness.join().generation_id == 1


def test_offsets_of_a_deleted_topic_are_deleted() -> None:
    harness = GroupHarness()
    harness.commit(partition=0)
    harness.commit(partition=1, group="h")
    harness.commit(topic="u")
    harness.commit(topic="u", group="other")
    image = TopicsImage({"u": TOPICS.by_name["u"]}, 2)
    harness.collect(harness.core.handle(TopicsChanged(image), harness.now))
    assert len(tombstones(harness)) == 2
    assert (harness.fetch("t").committed_offset, harness.fetch("u").committed_offset) == (-1, 5)
    assert harness.core.state.image is image


def test_offsets_are_deleted_if_a_topic_is_created_again_with_another_id() -> None:
    harness = GroupHarness()
    harness.commit()
    topics = {**TOPICS.by_name, "t": TopicImage("t", b"X" * 16, 8)}
    harness.collect(harness.core.handle(TopicsChanged(TopicsImage(topics, 2)), harness.now))
    assert harness.fetch().committed_offset == -1


def test_a_topic_that_grows_keeps_its_offsets() -> None:
    harness = GroupHarness()
    harness.commit()
    topics = {**TOPICS.by_name, "t": TopicImage("t", b"T" * 16, 80)}
    assert not harness.collect(harness.core.handle(TopicsChanged(TopicsImage(topics, 2)), harness.now)).records
    harness = GroupHarness()
    harness.core.state.image = NO_TOPICS
    assert not harness.core.handle(TopicsChanged(TOPICS), harness.now).records


def test_offsets_with_another_topic_id_stay_when_a_topic_is_deleted() -> None:
    harness = GroupHarness()
    harness.commit(partition=0)
    harness.commit(partition=1, retention=1_000_000)  # version 1, which has no topic id
    value = OffsetCommitValue(7, commit_timestamp=1, topic_id=b"O" * 16)
    harness.core.replay([(OffsetCommitKey("g", "t", 2), value)], harness.now)
    harness.collect(harness.core.handle(TopicsChanged(NO_TOPICS), harness.now))
    assert [harness.fetch(partition=partition).committed_offset for partition in range(3)] == [-1, -1, 7]
    reported = [event.facts for event in harness.events if event.kind == events.OFFSETS_DELETED]
    assert reported == [{"cause": events.TOPIC_DELETED, "topics": {"t": [0, 1]}}]
    # a group that lost no offset has no event
    for image in (TOPICS, NO_TOPICS):
        assert not harness.collect(harness.core.handle(TopicsChanged(image), harness.now)).events


@pytest.mark.parametrize(
    ("named", "kept"),
    [
        # offsets with the deleted id are deleted, and offsets without an id
        ({}, [3, 4]),
        # the topic exists again: offsets without an id may belong to it
        ({"t": TopicImage("t", b"N" * 16, 8)}, [2, 3, 4]),
    ],
)
def test_a_loaded_core_deletes_offsets_of_topics_deleted_before_the_crash(
    named: dict[str, TopicImage], kept: list[int]
) -> None:
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
