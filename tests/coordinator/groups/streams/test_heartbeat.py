"""StreamsGroupHeartbeat on the core: joins, tasks, refusals, deadlines. The stories of streams groups have more."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from muster.coordinator.groups.common.settings import GroupConfigured, IntervalConfigured, OwnStreams
from muster.coordinator.groups.streams.describe import A_MEMBER, A_TASK, DescribeCommand
from muster.coordinator.groups.streams.member import UNKNOWN
from muster.coordinator.state_machine.deadlines import LateAnswers
from muster.coordinator.state_machine.interface import Client, Now
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from tests.coordinator.groups.streams.harness import PLAIN, StreamsGroupHarness, given, statuses, topics


def test_the_first_member_gets_all_tasks(harness: StreamsGroupHarness) -> None:
    first = harness.heartbeat("a", 0, PLAIN)
    assert (first.error_code, first.member_epoch, given(first), statuses(first)) == (0, 2, "0/0+1+2", [])
    assert (first.heartbeat_interval_ms, first.task_offset_interval_ms, first.acceptable_recovery_lag) == (
        5_000, 60_000, 10_000,
    )  # fmt: skip
    assert harness.written() == [
        "MemberMetadata a", "Topology 0", "Metadata 2 topology 0", "TargetAssignmentMember a 0/0+1+2",
        "TargetAssignmentMetadata 2", "CurrentMemberAssignment a 0>2 0/0+1+2",
    ]  # fmt: skip
    assert harness.kinds() == [
        "group_created", "member_joined", "epoch_bumped", "target_assigned", "epoch_reconciled",
    ]  # fmt: skip
    assert (given(harness.heartbeat("a")), harness.written()) == (None, [])
    assert given(harness.heartbeat("a", 0, PLAIN)) == "0/0+1+2"
    assert harness.written() == []


def test_tasks_move_when_they_are_given_up(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, PLAIN)
    joined = harness.heartbeat("b", 0, PLAIN)
    assert (joined.member_epoch, given(joined)) == (3, "")
    assert harness.streams().state == "Reconciling"
    assert given(harness.heartbeat("a")) == "0/0+1"
    assert harness.written()[-1] == "CurrentMemberAssignment a 2>2 0/0+1 unrevoked"
    assert given(harness.heartbeat("a", active="0/0+1+2", standby="", warmup="")) is None
    assert given(harness.heartbeat("b")) is None
    harness.advance(500)
    assert harness.heartbeat("a", active="0/0+1", standby="", warmup="").member_epoch == 3
    assert given(harness.heartbeat("b")) == "0/2"
    assert harness.streams().state == "Stable"
    _, reconciled = of_kind(harness, "epoch_reconciled")[-1]
    assert (reconciled["paused_partition_ms"], reconciled["changed"], reconciled["partitions"]) == (500, 2, 3)
    assert [(one["member"], one["unowned_ms"]) for one in reconciled["tasks"]] == [("b", 500)]
    harness.heartbeat("b", -1)
    assert harness.streams().state == "Assigning"
    assert given(harness.heartbeat("a")) == "0/0+1+2"
    harness.heartbeat("a", -1)
    assert (harness.streams().state, harness.streams().deletion_error()) == ("Empty", 0)
    assert harness.streams().validate_commit("", None, -1) == 0


def test_replay_equals_the_live_group(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, PLAIN, instance_id="i", endpoint="h:1", tags={"zone": "x"}, rack_id="r")
    harness.heartbeat("b", 0, PLAIN)
    harness.heartbeat("a")
    live, records = harness.streams(), list(harness.records)
    again = StreamsGroupHarness()
    again.core = again.replayed(records)
    loaded = again.streams()
    for name in ("epoch", "metadata_hash", "validated_epoch", "assignment_epoch", "targets", "topology", "static_ids"):
        assert getattr(loaded, name) == getattr(live, name)
    assert {one: its.position for one, its in loaded.members.items()} == {
        one: its.position for one, its in live.members.items()
    }
    assert loaded.owners.active == live.owners.active
    again.collect(again.core.loaded(again.now))
    assert loaded.members["a"].revocation.due_ms == again.now.mono_ms + 10_000
    again.advance(10_000)
    assert list(loaded.members) == ["b"]  # the member has not given up its tasks
    again.advance(35_000)
    assert loaded.state == "Empty"


def test_tombstones_end_the_group(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, PLAIN)
    keys = harness.streams().record_keys()
    harness.core.replay([(key, None) for key in keys[:3]], harness.now)
    assert (harness.streams().assignment_epoch, harness.streams().members["a"].position.epoch) == (-1, -1)
    harness.core.replay([(key, None) for key in (keys[5], keys[4], *keys)], harness.now)
    assert harness.core.state.groups == {}
    assert harness.core.next_deadline_ms() is not None


def test_a_silent_member_is_removed(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, PLAIN)
    harness.advance(44_999)
    assert list(harness.streams().members) == ["a"]
    harness.advance(1)
    assert harness.streams().members == {}
    assert harness.written()[-2:] == ["Metadata 3 topology 0", "TargetAssignmentMetadata 3 never"]
    assert harness.kinds()[-2:] == ["member_expired", "epoch_bumped"]


def test_tasks_that_are_kept_too_long_end_the_membership(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, PLAIN, rebalance_timeout_ms=300)
    harness.heartbeat("b", 0, PLAIN)
    harness.heartbeat("a")
    harness.advance(300)
    assert list(harness.streams().members) == ["b"]
    assert "member_removed" in harness.kinds()
    harness.heartbeat("b", rebalance_timeout_ms=300)
    harness.heartbeat("c", 0, PLAIN)
    harness.heartbeat("b")
    harness.heartbeat("b", active="0/0+1", standby="", warmup="")
    harness.advance(400)
    assert list(harness.streams().members) == ["b", "c"]


def test_the_first_assignment_waits_for_members() -> None:
    harness = StreamsGroupHarness(group_streams_initial_rebalance_delay_ms=3_000)
    first = harness.heartbeat("a", 0, PLAIN)
    assert (first.member_epoch, given(first), statuses(first)) == (1, "", [5])
    harness.heartbeat("a")
    assert harness.heartbeat("b", 0, PLAIN).member_epoch == 1
    harness.advance(3_000)
    assert (harness.streams().assignment_epoch, harness.streams().epoch) == (3, 3)
    assert given(harness.heartbeat("a")) == "0/1"
    for member in "ab":
        harness.heartbeat(member, -1)
    harness.heartbeat("a", 0, PLAIN)
    harness.heartbeat("a", -1)
    harness.advance(3_000)
    assert harness.streams().state == "Empty"


def test_the_first_assignment_is_not_due_before_the_assignment_interval() -> None:
    harness = StreamsGroupHarness(
        group_streams_initial_rebalance_delay_ms=10, group_streams_assignment_interval_ms=60_000
    )
    harness.heartbeat("a", 0, PLAIN)
    harness.advance(10)
    assert harness.heartbeat("a").member_epoch == 2
    harness.streams().epoch += 1
    harness.core.state.deadlines.set(harness.streams().delay, harness.now.mono_ms)
    harness.settle()
    assert harness.streams().assignment_epoch == 2


def test_targets_stay_for_the_assignment_interval() -> None:
    harness = StreamsGroupHarness(group_streams_assignment_interval_ms=1_000)
    harness.heartbeat("a", 0, PLAIN)
    delayed = harness.heartbeat("b", 0, PLAIN)
    assert (delayed.member_epoch, statuses(delayed)) == (2, [5])
    harness.core.handle(IntervalConfigured(0, 0, 0), harness.now)
    assert statuses(harness.heartbeat("b")) == []


def test_a_group_has_its_own_settings(harness: StreamsGroupHarness) -> None:
    own = OwnStreams(50_000, 6_000, None, 0, 1, ("zone",), 70_000, 5)
    harness.core.handle(GroupConfigured("g", None, None, own), harness.now)
    answer = harness.heartbeat("a", 0, PLAIN)
    assert (answer.heartbeat_interval_ms, answer.task_offset_interval_ms, answer.acceptable_recovery_lag) == (
        6_000, 70_000, 5,
    )  # fmt: skip
    assert statuses(answer) == [6]
    assert statuses(harness.heartbeat("a", version=0)) == []
    assert statuses(harness.heartbeat("a", tags={"zone": "x"})) == []
    harness.core.handle(GroupConfigured("g", None), harness.now)
    assert harness.heartbeat("a").heartbeat_interval_ms == 5_000
    assert [one.facts["cause"] for one in harness.events if one.kind == "epoch_bumped"] == [
        "member_joined", "subscription_changed", "asked",
    ]  # fmt: skip


def test_internal_topics_are_missing_and_then_there(harness: StreamsGroupHarness) -> None:
    answer = harness.heartbeat("a", 0, "0:t>words 1:<words%counts")
    assert (statuses(answer), sorted(harness.missing)) == ([3], ["counts", "words"])
    assert (harness.streams().state, given(answer)) == ("NotReady", "")
    harness.change_topics(topics(t=3, u=2, words=3, counts=3))
    answer = harness.heartbeat("a", endpoint="h:1")
    assert (given(answer), harness.missing) == ("0/0+1+2,1/0+1+2", {})
    (row,) = answer.partitions_by_user_endpoint
    assert [(one.topic, one.partitions) for one in row.active_partitions] == [("t", [0, 1, 2]), ("words", [0, 1, 2])]
    assert (
        harness.heartbeat("a", endpoint_information_epoch=answer.endpoint_information_epoch).partitions_by_user_endpoint
        is None
    )
    harness.change_topics(topics(t=3, u=2, words=3, counts=3, other=1))
    assert harness.heartbeat("a").member_epoch == 3
    bumped = [one.facts for one in harness.events if one.kind == "epoch_bumped"]
    assert [one["cause"] for one in bumped] == ["member_joined", "subscription_changed"]
    harness.heartbeat("a", 0, "0:t>words 1:<words%counts")  # without an endpoint
    harness.change_topics(topics(t=4, u=2, words=3, counts=3))
    assert statuses(harness.heartbeat("a")) == [2]
    changed = [one.facts for one in harness.events if one.kind == "epoch_bumped"][-1]
    assert (changed["cause"], changed["topics"]) == (
        "topics_changed", [{"topic": "t", "before": 3, "now": 4, "made_again": False}],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("topology", "code"),
    [("0:nope", 1), ("0:t,u&t,u", 2), ("0:t>words 1:u,<words=5&u,words", 2), ("0:<a=2,<b=3&a,b", 2), ("0:t%u", 2)],
)
def test_wrong_topics_are_a_status(harness: StreamsGroupHarness, topology: str, code: int) -> None:
    answer = harness.heartbeat("a", 0, topology)
    assert (answer.error_code, statuses(answer)) == (0, [code])
    assert harness.heartbeat("a", endpoint="h:1").error_code == (ErrorCode.UNKNOWN_SERVER_ERROR if code < 3 else 0)


def test_copartition_groups_of_repartition_topics_get_one_count(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, "0:t>a 1:u>b 2:<a,<b&a,b 3:t&")
    assert {name: topic.partitions for name, topic in harness.missing.items()} == {"a": 3, "b": 3}
    harness.heartbeat("a", -1)
    other = StreamsGroupHarness()
    other.heartbeat("a", 0, "0:t>a 1:<a=5&a")
    assert other.missing["a"].partitions == 5


def test_an_empty_classic_group_becomes_a_streams_group(harness: StreamsGroupHarness) -> None:
    assert harness.commit() == 0
    first = harness.heartbeat("a", 0, PLAIN, endpoint="h:1")
    assert (first.member_epoch, first.endpoint_information_epoch) == (2, 1)
    assert harness.written()[1] == "GroupMetadata -"
    assert harness.commit("a", 2) == 0


def test_a_group_without_topology_waits_for_one(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, PLAIN)
    harness.streams().topology = None
    assert harness.streams().state == "NotReady"
    assert harness.heartbeat("a").error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    harness.heartbeat("b", -1)
    harness.streams().configured = None
    answer = harness.send(StreamsGroupDescribeRequest(["g"])).groups[0]
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_static_members_are_away_and_come_back(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, PLAIN, instance_id="i")
    assert harness.heartbeat("b", 0, PLAIN, instance_id="i").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert harness.heartbeat("b", 2, instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert harness.heartbeat("b", 2, instance_id="k").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.heartbeat("a", -2, instance_id="i").member_epoch == -2
    back = harness.heartbeat("b", 0, PLAIN, instance_id="i", process_id="a")
    assert (back.member_epoch, given(back)) == (2, "0/0+1+2")
    assert "member_away" in harness.kinds()
    assert "member_replaced" not in harness.kinds()
    assert harness.heartbeat("b", instance_id="i").error_code == 0
    harness.heartbeat("b", -2, instance_id="i")
    harness.heartbeat("c", 0, PLAIN, instance_id="i", process_id="c")
    assert harness.streams().epoch == 3
    harness.heartbeat("c", -1, instance_id="i")
    assert harness.streams().static_ids == {}


def test_a_static_member_may_change_its_instance_id_never_its_place(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, PLAIN)
    harness.heartbeat("a", 0, PLAIN, instance_id="i")
    harness.heartbeat("a", 0, PLAIN, instance_id="j")
    assert harness.streams().static_ids == {"j": "a"}


def test_the_end_of_the_application_is_asked_for_once(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, PLAIN)
    harness.heartbeat("b", 0, PLAIN)
    assert statuses(harness.heartbeat("b", shutdown_application=True)) == [4]
    harness.heartbeat("b", -1, shutdown_application=True)
    assert harness.streams().shutdown_by == "b"
    harness.heartbeat("a", -1)
    assert harness.streams().shutdown_by is None
    harness.heartbeat("a", 0, PLAIN)
    harness.heartbeat("a", -1, shutdown_application=True)


def of_kind(harness: StreamsGroupHarness, *kinds: str) -> list[tuple[str, dict[str, Any]]]:
    return [(one.kind, one.facts) for one in harness.events if one.kind in kinds]


def test_the_history_says_once_who_ended_the_application(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, PLAIN)
    harness.heartbeat("b", 0, PLAIN)
    harness.heartbeat("b", shutdown_application=True)
    harness.heartbeat("b", shutdown_application=True)
    harness.heartbeat("a", shutdown_application=True)
    assert [facts["member"].member for _, facts in of_kind(harness, "application_shutdown")] == ["b"]
    harness.heartbeat("a", -1)
    harness.heartbeat("b", -1, shutdown_application=True)
    assert len(of_kind(harness, "application_shutdown")) == 1
    harness.heartbeat("a", 0, PLAIN)
    harness.heartbeat("a", -1, shutdown_application=True)
    assert [facts["member"].member for _, facts in of_kind(harness, "application_shutdown")] == ["b", "a"]
    harness.heartbeat("a", 0, PLAIN)
    harness.heartbeat("x", -1, shutdown_application=True)  # not a member: nobody asked
    assert len(of_kind(harness, "application_shutdown")) == 2


def test_the_history_says_why_topics_are_not_ready_and_when_they_are(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, "0:soon%store")
    harness.advance(1_000)
    harness.heartbeat("a")
    harness.change_topics(topics(t=3, u=2, soon=2))
    harness.advance(1_000)
    harness.heartbeat("a")
    harness.change_topics(topics(t=3, u=2, soon=2, store=2))
    harness.advance(1_000)
    harness.heartbeat("a")
    found = of_kind(harness, "topics_not_ready", "topics_ready")
    assert [(kind, facts.get("detail", facts.get("took_ms"))) for kind, facts in found] == [
        ("topics_not_ready", "Source topics soon are missing."),
        ("topics_not_ready", "Internal topics are missing: store"),
        ("topics_ready", 3_000),
    ]
    assert [facts.get("subtopologies") for _, facts in found] == [["0"], ["0"], None]
    harness.change_topics(topics(t=3))
    harness.heartbeat("a")
    harness.heartbeat("a", -1)
    harness.heartbeat("a", 0, "0:soon%store")  # an empty group begins again
    assert [kind for kind, _ in of_kind(harness, "topics_not_ready", "topics_ready")][3:] == ["topics_not_ready"] * 2


def test_nobody_has_the_tasks_of_a_member_that_left_until_others_get_them(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, PLAIN)
    harness.advance(1_000)
    harness.heartbeat("b", 0, PLAIN)
    harness.heartbeat("a", -1)
    harness.advance(700)
    harness.heartbeat("b")
    ((_, facts),) = of_kind(harness, "epoch_reconciled")[1:]
    assert (facts["unit"], facts["paused_partition_ms"]) == ("task", 2_100)
    assert facts["tasks"] == [{"task": f"0_{number}", "unowned_ms": 700, "member": "b"} for number in range(3)]


def test_offsets_of_tasks_decide_who_takes_over() -> None:
    harness = StreamsGroupHarness(image=topics(t=2, store=2), group_streams_num_standby_replicas=1)
    topology = "0:t%store"
    harness.heartbeat("a", 0, topology)
    harness.heartbeat("b", 0, topology, task_offsets=[("0", 0, 5)])
    harness.heartbeat("a", task_offsets=[("0", 0, 1), ("0", 1, 9)])
    harness.heartbeat("a", task_end_offsets=[("0", 0, 10)])
    row = harness.send(StreamsGroupDescribeRequest(["g", "x"])).groups
    offsets = {one.member_id: [(its.partition, its.offset) for its in one.task_offsets] for one in row[0].members}
    assert offsets == {"a": [(0, 1), (1, 9)], "b": [(0, 5)]}
    assert row[1].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    twice = harness.heartbeat("a", task_offsets=[("0", 0, 1), ("0", 0, 2)])
    assert twice.error_code == ErrorCode.INVALID_REQUEST


def test_a_stable_group_with_other_tasks_than_its_target_is_put_right(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, PLAIN)
    member = harness.streams().members["a"]
    for epochs in ({"0": {0: 2}}, {"1": {0: 2}}):
        assigned = member.position.assigned._replace(active=epochs)
        harness.streams().move_member(member, member.position._replace(assigned=assigned))
        before = harness.streams().assignment_epoch
        harness.heartbeat("a", active="0/0", standby="", warmup="")
        assert harness.streams().assignment_epoch == before + 1
        harness.heartbeat("a", active="", standby="", warmup="")


def test_a_member_in_an_unknown_state_must_have_nothing(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, PLAIN)
    member = harness.streams().members["a"]
    harness.streams().move_member(member, member.position._replace(state=UNKNOWN))
    assert harness.heartbeat("a").error_code == ErrorCode.FENCED_MEMBER_EPOCH
    owned = harness.heartbeat("a", active="0/0", standby="", warmup="")
    assert owned.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert harness.heartbeat("a", active="", standby="", warmup="").member_epoch == 2


def test_commits_in_earlier_epochs_need_the_task(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, PLAIN)
    harness.heartbeat("b", 0, PLAIN)
    harness.heartbeat("a")
    group = harness.streams()
    parts = {"t0": [("t", b"", 0)], "t2": [("t", b"", 2)], "u0": [("u", b"", 0)]}
    position = group.members["a"].position
    group.move_member(group.members["a"], position._replace(epoch=3))
    for name, epoch, error in (
        ("t0", 3, 0), ("t0", 2, 0), ("t2", 2, 0), ("t0", 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("u0", 2, ErrorCode.STALE_MEMBER_EPOCH), ("t0", 4, ErrorCode.STALE_MEMBER_EPOCH),
    ):  # fmt: skip
        assert group.validate_commit("a", None, epoch, partitions=partial(parts.__getitem__, name)) == error
    assert group.validate_commit("a", None, 3, 8) == ErrorCode.UNSUPPORTED_VERSION
    assert group.validate_commit("a", None, 2) == ErrorCode.STALE_MEMBER_EPOCH
    assert group.validate_commit("x", None, 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.validate_transactional_commit("", None, -1, list) == 0
    assert group.validate_transactional_commit("a", None, 3, list) == 0
    for member, epoch, error in (
        (None, -1, 0), (None, 3, ErrorCode.UNKNOWN_SERVER_ERROR), ("x", 3, ErrorCode.UNKNOWN_MEMBER_ID),
        ("a", 3, 0), ("a", 2, ErrorCode.STALE_MEMBER_EPOCH),
    ):  # fmt: skip
        assert group.validate_fetch(member, epoch) == error
    assert (group.validate_offset_delete(), group.is_unused(), group.subscribes_to("t")) == (0, False, True)
    group.has_committed("a", harness.core.state.deadlines, 0)
    group.topology = None
    assert group.validate_commit("a", None, 2, partitions=list) == ErrorCode.STALE_MEMBER_EPOCH


def test_resigning_answers_nothing(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, PLAIN)
    assert list(harness.core.resign(16).replies) == []


def test_a_plain_command_is_described_with_rows(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, "0:t>words 1:<words%counts", endpoint="h:1", tags={"zone": "x"})
    for partitions in (0, 3):
        row = harness.send(StreamsGroupDescribeRequest(["g"])).groups[0]
        (topic,) = row.topology.subtopologies[1].state_changelog_topics
        assert (topic.name, topic.partitions, topic.topic_configs[0].value) == ("counts", partitions, "compact")
        harness.change_topics(topics(t=3, words=3, counts=3))
        harness.heartbeat("a")


def test_a_session_is_longer_after_late_answers(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, PLAIN)
    waits = LateAnswers()
    waits.late(harness.now.mono_ms, harness.now.mono_ms + 40_000)
    now = Now(harness.now.mono_ms + 45_000, harness.now.wall_ms + 45_000)
    harness.collect(harness.core.advance(now, waits))
    assert list(harness.streams().members) == ["a"]


def test_a_timer_of_an_earlier_epoch_does_nothing(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, PLAIN)
    timer = harness.streams().members["a"].revocation
    for timer.member_id in ("a", "x"):
        harness.core.state.deadlines.set(timer, harness.now.mono_ms)
        harness.settle()
    assert list(harness.streams().members) == ["a"]


def test_a_snapshot_knows_its_size(harness: StreamsGroupHarness) -> None:
    harness.heartbeat("a", 0, PLAIN, tags={"zone": "x"})
    harness.asked += 1
    command = DescribeCommand(StreamsGroupDescribeRequest(["g"]), harness.asked, Client("c", "/h"))
    harness.collect(harness.core.handle(command, harness.now))
    (snapshot,) = harness.reply(harness.asked).groups[0].members
    assert snapshot.size() == A_MEMBER + 6 * A_TASK + len("zonex")


def test_a_task_reads_the_topics_that_have_its_number() -> None:
    harness = StreamsGroupHarness(image=topics(t=1, u=2))
    harness.heartbeat("a", 0, "0:t,u")
    harness.heartbeat("b", 0, "0:t,u")
    harness.heartbeat("a")
    harness.heartbeat("a", active="0/0", standby="", warmup="")
    (row,) = harness.heartbeat("b", endpoint="h:1").partitions_by_user_endpoint
    assert [(one.topic, one.partitions) for one in row.active_partitions] == [("u", [1])]
