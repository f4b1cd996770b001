"""States of share partitions: asked for, created, refused, asked for again, deleted."""

from __future__ import annotations

import pytest

from muster.coordinator.groups.common.image import TopicsChanged
from muster.coordinator.groups.share.commands import StatesUnwanted, StatesWanted
from muster.protocol.errors import ErrorCode, error_message
from muster.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from muster.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from tests.coordinator.groups.share.harness import IDS, ShareGroupHarness, given, topics

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
def harness() -> ShareGroupHarness:
    return ShareGroupHarness(helped=True)


def wanted(harness: ShareGroupHarness) -> StatesWanted:
    made = harness.wanted[-1]
    assert isinstance(made, StatesWanted)
    return made


def altering(
    harness: ShareGroupHarness, topic: str, *, group: str = "g", **offsets: int
) -> AlterShareGroupOffsetsResponse:
    """The answer to AlterShareGroupOffsets for p0=5 and so on; None while it waits."""
    rows = [AlterShareGroupOffsetsRequestPartition(int(name[1:]), offset) for name, offset in offsets.items()]
    answer: AlterShareGroupOffsetsResponse = harness.send(
        AlterShareGroupOffsetsRequest(group, [AlterShareGroupOffsetsRequestTopic(topic, rows)])
    )
    return answer


def altered(response: AlterShareGroupOffsetsResponse) -> list[tuple[int, int]]:
    return [(one.partition_index, one.error_code) for topic in response.responses for one in topic.partitions]


def deleting(harness: ShareGroupHarness, *names: str, group: str = "g") -> DeleteShareGroupOffsetsResponse:
    rows = [DeleteShareGroupOffsetsRequestTopic(name) for name in names]
    answer: DeleteShareGroupOffsetsResponse = harness.send(DeleteShareGroupOffsetsRequest(group, rows))
    return answer


def deleted(response: DeleteShareGroupOffsetsResponse) -> list[tuple[str, int, str | None]]:
    return [(one.topic_name, one.error_code, one.error_message) for one in response.responses]


def emptied(harness: ShareGroupHarness, *names: str) -> None:
    """Let a group have states for these topics, and no member."""
    harness.heartbeat("a", 0, *names)
    harness.create()
    harness.heartbeat("a", -1)
    harness.written()


# ---- a heartbeat asks


def test_states_are_created_when_the_record_is_written(harness: ShareGroupHarness) -> None:
    harness.heartbeat("a", 0, "t")
    assert harness.written()[-1] == "StatePartitionMetadata (t0+1+2) () ()"
    assert (wanted(harness).epoch, wanted(harness).offsets) == (2, {IDS["t"]: {0: -1, 1: -1, 2: -1}})
    assert (given(harness.heartbeat("a", 0, "t")), len(harness.wanted), harness.written()) == ("", 1, [])
    harness.create()
    assert harness.written() == ["StatePartitionMetadata () (t0+1+2) ()"]
    assert given(harness.heartbeat("a")) == "t0+1+2"


def test_new_partitions_of_a_known_topic_begin_at_offset_0(harness: ShareGroupHarness) -> None:
    harness.heartbeat("a", 0, "t")
    harness.create()
    harness.heartbeat("a")
    harness.notify(TopicsChanged(topics(t=4)))
    harness.heartbeat("a")
    assert wanted(harness).offsets == {IDS["t"]: {3: 0}}
    harness.notify(TopicsChanged(topics(t=5)))
    harness.heartbeat("a")
    assert wanted(harness).offsets == {IDS["t"]: {4: 0}}
    harness.create()
    harness.create()
    assert harness.written()[-1] == "StatePartitionMetadata () (t0+1+2+3+4) ()"


def test_states_that_cannot_be_created_are_asked_for_again(harness: ShareGroupHarness) -> None:
    harness.heartbeat("a", 0, "t", "u")
    harness.written()
    harness.create(("t", 1))
    assert harness.written() == ["StatePartitionMetadata () () ()"]
    harness.heartbeat("a")
    assert harness.written() == ["StatePartitionMetadata (t0+1+2 u0) () ()"]
    harness.create()
    assert given(harness.heartbeat("a")) == "t0+1+2 u0"


def test_states_without_an_answer_are_asked_for_again_after_the_interval(harness: ShareGroupHarness) -> None:
    harness.heartbeat("a", 0, "t")
    harness.advance(29_999)
    harness.heartbeat("a")
    assert len(harness.wanted) == 1
    harness.advance(1)
    harness.heartbeat("a")
    assert len(harness.wanted) == 2
    assert wanted(harness).offsets == {IDS["t"]: {0: 0, 1: 0, 2: 0}}
    harness.create()
    harness.create()
    assert harness.shares().states == harness.replayed(harness.records).state.groups["g"].states


def test_an_answer_for_a_group_that_is_gone_changes_nothing(harness: ShareGroupHarness) -> None:
    harness.heartbeat("a", 0, "t")
    harness.heartbeat("a", -1)
    harness.core.state.groups.clear()
    harness.written()
    harness.create()
    assert harness.written() == []


def test_failed_states_of_forgotten_topics_change_nothing(harness: ShareGroupHarness) -> None:
    harness.heartbeat("a", 0, "t")
    harness.notify(TopicsChanged(topics(u=1)))
    harness.written()
    harness.create(("t", 0))
    assert harness.written() == []


# ---- AlterShareGroupOffsets


def test_start_offsets_are_set_in_a_group_without_members(harness: ShareGroupHarness) -> None:
    assert altering(harness, "t", p0=5, p2=7, p3=1) is None
    assert harness.written() == ["StatePartitionMetadata (t0+2) () ()"]
    assert (wanted(harness).epoch, wanted(harness).offsets) == (1, {IDS["t"]: {0: 5, 2: 7}})
    harness.create()
    answer = harness.reply(harness.asked)
    assert (altered(answer), answer.responses[0].topic_id) == ([(0, 0), (2, 0), (3, UNKNOWN)], IDS["t"])
    assert answer.responses[0].partitions[2].error_message == error_message(UNKNOWN)
    assert (harness.written(), harness.kinds()) == (["StatePartitionMetadata () (t0+2) ()"], ["group_created"])
    harness.heartbeat("a", 0, "t")
    assert wanted(harness).offsets == {IDS["t"]: {1: 0}}


def test_start_offsets_that_cannot_be_set_are_named(harness: ShareGroupHarness) -> None:
    emptied(harness, "t")
    altering(harness, "t", p0=5, p1=6, p9=1)
    harness.create(("t", 1))
    answer = harness.reply(harness.asked)
    assert altered(answer) == [(0, 0), (1, 15), (9, UNKNOWN)]
    assert [one.error_message for one in answer.responses[0].partitions][:2] == [None, "why"]
    assert harness.written() == ["StatePartitionMetadata (t0+1) (t0+1+2) ()"]


def test_start_offsets_are_refused(harness: ShareGroupHarness) -> None:
    unknown = altering(harness, "none", p0=5)
    assert (altered(unknown), harness.core.state.groups) == ([(0, UNKNOWN)], {})
    harness.max_bytes = 80
    assert altering(harness, "t", p0=5).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    harness.max_bytes = 1_000_000
    harness.commit(group="simple")
    other = altering(harness, "t", p0=1, group="simple")
    assert (other.error_code, other.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND, "Group simple is not a share group.",
    )  # fmt: skip
    harness.heartbeat("a", 0, "t")
    busy = altering(harness, "t", p0=1)
    assert (busy.error_code, busy.error_message) == (ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")


def test_only_partitions_that_do_not_exist_have_no_state(harness: ShareGroupHarness) -> None:
    altering(harness, "t", p7=5)
    assert harness.written() == ["StatePartitionMetadata (t) () ()"]
    harness.create()
    assert (altered(harness.reply(harness.asked)), harness.written()) == ([(7, UNKNOWN)], [])


# ---- DeleteShareGroupOffsets


def test_offsets_of_topics_are_deleted(harness: ShareGroupHarness) -> None:
    emptied(harness, "t", "u")
    assert deleting(harness, "t", "none") is None
    assert harness.written() == ["StatePartitionMetadata () (u0) (t)"]
    unwanted = harness.wanted[-1]
    assert isinstance(unwanted, StatesUnwanted)
    assert unwanted.partitions == {"g": {IDS["t"]: (0, 1, 2)}}
    harness.delete()
    answer = harness.reply(harness.asked)
    assert deleted(answer) == [("t", 0, None), ("none", UNKNOWN, error_message(UNKNOWN))]
    assert harness.written() == ["StatePartitionMetadata () (u0) ()"]
    assert deleted(deleting(harness, "t")) == [("t", UNKNOWN, "There is no offset information to delete.")]


def test_offsets_that_cannot_be_deleted_are_deleted_again(harness: ShareGroupHarness) -> None:
    emptied(harness, "t", "u")
    deleting(harness, "t", "u")
    harness.delete(("t", 1))
    assert deleted(harness.reply(harness.asked)) == [("u", 0, None), ("t", 15, error_message(15))]
    assert harness.written()[-1] == "StatePartitionMetadata () () (t)"
    deleting(harness, "t")
    assert harness.wanted[-1].partitions == {"g": {IDS["t"]: range(3)}}
    harness.delete(("t", 0))
    assert deleted(harness.reply(harness.asked)) == [("t", 15, error_message(15))]


def test_a_deletion_whose_topic_or_group_is_gone_is_answered(harness: ShareGroupHarness) -> None:
    emptied(harness, "t")
    deleting(harness, "t")
    harness.notify(TopicsChanged(topics(u=1)))
    harness.core.state.groups.clear()
    harness.delete()
    assert deleted(harness.reply(harness.asked)) == [("", 0, None)]


def test_the_deletion_of_offsets_is_refused(harness: ShareGroupHarness) -> None:
    missing = deleting(harness, "t")
    assert (missing.error_code, missing.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.")
    harness.heartbeat("a", 0, "none")
    assert deleting(harness, "t").error_code == ErrorCode.NON_EMPTY_GROUP
    harness.heartbeat("a", -1)
    assert deleted(deleting(harness, "t")) == []


def test_a_member_that_joins_begins_the_deleted_states_anew(harness: ShareGroupHarness) -> None:
    emptied(harness, "t")
    deleting(harness, "t")
    harness.heartbeat("a", 0, "t")
    assert harness.written()[-1] == "StatePartitionMetadata (t0+1+2) () ()"
    assert wanted(harness).offsets == {IDS["t"]: {0: -1, 1: -1, 2: -1}}


# ---- DeleteGroups


def result(harness: ShareGroupHarness) -> list[tuple[str, int]]:
    return [(one.group_id, one.error_code) for one in harness.reply(harness.asked).results]


def test_a_group_is_deleted_after_its_states(harness: ShareGroupHarness) -> None:
    emptied(harness, "t")
    assert harness.send(DeleteGroupsRequest(["g", "none"])) is None
    assert harness.written() == ["StatePartitionMetadata () () (t)"]
    assert harness.wanted[-1].partitions == {"g": {IDS["t"]: (0, 1, 2)}}
    harness.delete()
    assert result(harness) == [("g", 0), ("none", ErrorCode.GROUP_ID_NOT_FOUND)]
    assert harness.written() == ["TargetAssignmentMetadata -", "StatePartitionMetadata -", "Metadata -"]
    assert (harness.core.state.groups, harness.kinds()[-1]) == ({}, "group_deleted")


def test_a_group_whose_states_cannot_be_deleted_stays(harness: ShareGroupHarness) -> None:
    emptied(harness, "t")
    harness.send(DeleteGroupsRequest(["g"]))
    harness.delete(("t", 2))
    assert (result(harness), list(harness.core.state.groups)) == ([("g", 15)], ["g"])
    harness.send(DeleteGroupsRequest(["g"]))
    assert harness.wanted[-1].partitions == {"g": {IDS["t"]: (0, 1, 2)}}
    harness.delete()
    assert result(harness) == [("g", 0)]


def test_groups_without_states_are_deleted_at_once(harness: ShareGroupHarness) -> None:
    harness.heartbeat("a", 0, "none")
    assert harness.send(DeleteGroupsRequest(["g"])).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    harness.heartbeat("a", -1)
    assert harness.send(DeleteGroupsRequest(["g"])).results[0].error_code == 0
    altering(harness, "t", p7=5, group="h")
    harness.notify(TopicsChanged(topics(u=1)))
    assert harness.send(DeleteGroupsRequest(["h"])).results[0].error_code == 0


def test_without_a_keeper_of_states_all_changes_succeed_at_once() -> None:
    harness = ShareGroupHarness()
    assert altered(altering(harness, "t", p0=5)) == [(0, 0)]
    assert harness.written()[-1] == "StatePartitionMetadata () (t0) ()"
    assert deleted(deleting(harness, "t")) == [("t", 0, None)]
    assert harness.written()[-1] == "StatePartitionMetadata () () ()"
    altering(harness, "t", p0=5)
    assert harness.send(DeleteGroupsRequest(["g"])).results[0].error_code == 0
