"""The state after a replay of the records is the live state; records of any log are replayed."""

from __future__ import annotations

import random
from typing import Any

import pytest

from muster.coordinator.groups.common.epoch_history import MAX_TOPICS
from muster.coordinator.groups.common.group import NOT_NOW
from muster.coordinator.groups.common.image import TopicsChanged
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.groups.share import target
from muster.coordinator.groups.share.commands import StatesCreated, StatesDeleted, StatesUnwanted, StatesWanted
from muster.coordinator.groups.share.describe import A_MEMBER, A_TOPIC, DescribeCommand, Snapshot, member_row
from muster.coordinator.groups.share.group import ShareGroup
from muster.coordinator.state_machine.deadlines import Deadlines
from muster.coordinator.state_machine.interface import Client, Command
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from muster.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from muster.protocol.messages.group_records.share_group_current_member_assignment import (
    ShareGroupCurrentMemberAssignmentKey,
)
from muster.protocol.messages.group_records.share_group_member_metadata import (
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
)
from muster.protocol.messages.group_records.share_group_metadata import ShareGroupMetadataKey, ShareGroupMetadataValue
from muster.protocol.messages.group_records.share_group_state_partition_metadata import (
    ShareGroupStatePartitionMetadataKey,
)
from muster.protocol.messages.group_records.share_group_target_assignment_member import (
    ShareGroupTargetAssignmentMemberKey,
)
from muster.protocol.messages.group_records.share_group_target_assignment_metadata import (
    ShareGroupTargetAssignmentMetadataKey,
)
from muster.protocol.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from tests.coordinator.groups.share.harness import IDS, START, ShareGroupHarness, given, topics
from tests.support.slots import slots_of

SOFT = {"hashed_topics", "hashed_version", "quiet_version", "settling", "states_ms", "members"}


def facts(core: GroupCore) -> dict[str, object]:
    """All that the log has of the groups of a core."""
    found: dict[str, object] = {}
    for group_id, group in core.state.groups.items():
        assert isinstance(group, ShareGroup)
        found[group_id] = {name: getattr(group, name) for name in slots_of(ShareGroup) if name not in SOFT}
        found[f"members of {group_id}"] = [
            (one.member_id, one.description, one.position) for one in group.members.values()
        ]
    return found


@pytest.mark.parametrize("seed", range(4))
def test_a_replay_gives_the_live_state(seed: int) -> None:
    chance = random.Random(seed)
    harness = ShareGroupHarness(helped=True, group_share_assignment_interval_ms=chance.choice([0, 1_000]))
    for step in range(120):
        members = list(harness.shares().members) if "g" in harness.core.state.groups else []
        dice, member = chance.random(), chance.choice("abcdef")
        if dice < 0.25:
            harness.heartbeat(member, 0, *chance.sample(["t", "u", "none"], chance.randint(1, 3)))
        elif dice < 0.65 and members:
            harness.heartbeat(chance.choice(members))
        elif dice < 0.75 and members:
            harness.heartbeat(chance.choice(members), -1)
        elif dice < 0.85 and harness.wanted:
            harness.create(*[("t", 1)] * chance.randint(0, 1))
        elif dice < 0.92:
            harness.notify(TopicsChanged(topics(**chance.choice([{"t": 3, "u": 1}, {"u": 2}, {"t": 5, "u": 2}]))))
        else:
            harness.advance(chance.choice([500, 5_000, 31_000, 46_000]))
        if not step % 10:
            assert facts(harness.replayed(harness.records)) == facts(harness.core)


def test_tombstones_of_unknown_things_change_nothing() -> None:
    harness = ShareGroupHarness()
    keys: list[Message] = [
        ShareGroupMemberMetadataKey("g", "x"), ShareGroupCurrentMemberAssignmentKey("g", "x"),
        ShareGroupTargetAssignmentMemberKey("g", "x"), ShareGroupTargetAssignmentMetadataKey("g"),
        ShareGroupStatePartitionMetadataKey("g"), ShareGroupMetadataKey("g"),
    ]  # fmt: skip
    harness.core.replay([(key, None) for key in keys], START)
    assert harness.core.state.groups == {}
    harness.core.replay([(ShareGroupMetadataKey("g"), ShareGroupMetadataValue(3))], START)
    harness.core.replay([(key, None) for key in keys[:3]], START)
    assert harness.shares().members == {}


def test_a_group_that_is_deleted_takes_its_members_with_it() -> None:
    harness = ShareGroupHarness()
    harness.heartbeat("a", 0, "t")
    harness.core.replay([(ShareGroupMetadataKey("g"), None)], START)
    harness.advance(60_000)
    assert harness.core.state.groups == {}


def test_members_get_fresh_sessions_after_a_load() -> None:
    harness = ShareGroupHarness()
    harness.heartbeat("a", 0, "t")
    core = harness.replayed(harness.records)
    harness.core = core
    harness.collect(core.loaded(harness.now))
    harness.advance(44_999)
    assert list(harness.shares().members) == ["a"]
    assert given(harness.heartbeat("a")) == "t0+1+2"
    assert core.resign(15).replies == []


def test_a_rebalance_that_began_before_the_load_has_no_end() -> None:
    harness = ShareGroupHarness(group_share_assignment_interval_ms=1_000)
    harness.heartbeat("a", 0, "t")
    harness.heartbeat("b", 0, "t")
    harness.core = harness.replayed(harness.records)
    harness.collect(harness.core.loaded(harness.now))
    harness.kinds()
    harness.advance(1_000)
    harness.heartbeat("a")
    assert harness.kinds() == ["target_assigned"]


def test_late_answers_prolong_a_session() -> None:
    class Late:
        def until(self, since_ms: int, timeout_ms: int, now_ms: int, *, is_own: bool) -> int:
            return now_ms + 1_000

    harness = ShareGroupHarness()
    harness.heartbeat("a", 0, "t")
    harness.now = harness.now._replace(mono_ms=harness.now.mono_ms + 45_000)
    harness.collect(harness.core.advance(harness.now, Late()))
    assert list(harness.shares().members) == ["a"]
    harness.advance(1_000)
    assert not harness.shares().members


def test_partitions_are_written_in_the_order_of_a_hash_table() -> None:
    harness = ShareGroupHarness(image=topics(t=40))
    rows = [AlterShareGroupOffsetsRequestPartition(number, 0) for number in (1, 16)]
    harness.send(AlterShareGroupOffsetsRequest("g", [AlterShareGroupOffsetsRequestTopic("t", rows)]))
    assert harness.written() == ["StatePartitionMetadata (t16+1) () ()", "StatePartitionMetadata () (t16+1) ()"]


def test_a_share_group_has_no_offsets() -> None:
    group = ShareGroup("g")
    group.has_committed("m", Deadlines(), 0)
    no_group = ErrorCode.GROUP_ID_NOT_FOUND
    assert group.validate_commit("m", None, 1) == group.validate_transactional_commit("m", None, 1, list) == no_group
    assert (group.validate_fetch("m", 1), group.validate_offset_delete()) == (0, no_group)
    assert (group.is_unused(), group.unused_since_ms(), group.subscribes_to("t")) == (False, NOT_NOW, False)


def test_thousands_of_names_of_missing_topics_are_one_name_for_the_assignor() -> None:
    harness = ShareGroupHarness()
    names = [f"missing-{i:04}" for i in range(target.FEW_NAMES * 3)]
    harness.heartbeat("a", 0, "t", *names)
    assert given(harness.heartbeat("a")) == "t0+1+2"
    assert given(harness.heartbeat("b", 0, "t", *names)) == "t0"
    assert harness.heartbeat("c", 0, *[f"x{i}" for i in range(target.FEW_NAMES + 1)]).error_code == 0
    many = topics(**{f"n{i}": 1 for i in range(target.FEW_NAMES + 1)})
    harness.notify(TopicsChanged(many))
    assert harness.heartbeat("d", 0, *many.by_name).error_code == 0


def test_a_cause_names_only_some_changed_topics() -> None:
    harness = ShareGroupHarness(image=topics(**{f"n{i}": 1 for i in range(MAX_TOPICS + 5)}))
    harness.heartbeat("a", 0, *harness.core.state.image.by_name)
    harness.heartbeat("a")
    harness.notify(TopicsChanged(topics(**{f"n{i}": 2 for i in range(MAX_TOPICS + 5)})))
    harness.heartbeat("a")
    bumped = [one.facts for one in harness.events if one.kind == "epoch_bumped"]
    rows = [facts["topics"] for facts in bumped if facts["cause"] == "topics_changed"]
    assert [len(one) for one in rows] == [MAX_TOPICS]


def test_groups_are_described() -> None:
    harness = ShareGroupHarness()
    harness.heartbeat("a", 0, "t", "u", rack="r", client="client")
    harness.heartbeat("a", 2)
    harness.commit(group="simple")
    group, missing, other = harness.send(ShareGroupDescribeRequest(["g", "none", "simple"])).groups
    assert (group.group_state, group.group_epoch, group.assignment_epoch, group.assignor_name) == (
        "Stable", 3, 3, "simple",
    )  # fmt: skip
    (member,) = group.members
    assert (member.member_id, member.rack_id, member.member_epoch, member.client_id, member.client_host) == (
        "a", "r", 3, "c", "/10.0.0.1",
    )  # fmt: skip
    assert sorted(member.subscribed_topic_names) == ["t", "u"]
    assert [(row.topic_name, row.partitions) for row in member.assignment.topic_partitions] == [
        ("t", [0, 1, 2]), ("u", [0]),
    ]  # fmt: skip
    assert (missing.error_code, missing.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group none not found.")
    assert other.error_message == "Group simple is not a share group."
    harness.notify(TopicsChanged(topics(u=1)))
    assert len(harness.send(ShareGroupDescribeRequest(["g"])).groups[0].members[0].assignment.topic_partitions) == 1
    asked = [DescribeShareGroupOffsetsRequestGroup(one, None) for one in ("g", "none")]
    found = harness.send(DescribeShareGroupOffsetsRequest(asked)).groups
    assert [[(one.topic_name, len(one.partitions)) for one in row.topics] for row in found] == [[("u", 1)], []]


def test_handlers_get_snapshots_of_members() -> None:
    harness = ShareGroupHarness()
    harness.heartbeat("a", 0, "t")
    harness.heartbeat("a")
    got: list[ShareGroupDescribeResponse] = []
    command = DescribeCommand(ShareGroupDescribeRequest(["g"]), got.append, Client("", ""))
    for respond, response in harness.core.handle(command, harness.now).replies:
        respond(response)
    snapshot: Any = got[0].groups[0].members[0]
    assert isinstance(snapshot, Snapshot)
    assert snapshot.size() == A_MEMBER + 3 + A_TOPIC + 12
    assert member_row(snapshot).member_id == "a"


def test_the_command_of_a_result_is_the_request_that_waits() -> None:
    command = Command(ShareGroupDescribeRequest(), print, Client("", ""))
    assert StatesCreated(StatesWanted("g", 1, {}, command=command), {}).command is command
    assert StatesDeleted(StatesUnwanted(command, {}), {}).command is command


def test_states_without_an_earlier_record_exist() -> None:
    harness = ShareGroupHarness(helped=True)
    harness.core.replay([(ShareGroupMetadataKey("g"), ShareGroupMetadataValue(3))], START)
    harness.notify(StatesCreated(StatesWanted("g", 1, {IDS["t"]: {0: 5}}), {}))
    assert harness.written() == ["StatePartitionMetadata () (t0) ()"]
    harness.core.replay([(ShareGroupMemberMetadataKey("h", "m"), ShareGroupMemberMetadataValue())], START)
    harness.notify(TopicsChanged(topics(u=1)))
    assert harness.written() == ["StatePartitionMetadata () () ()"]
