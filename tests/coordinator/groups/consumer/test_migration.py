"""Classic members in consumer groups, and groups that change their protocol while they have members."""

from __future__ import annotations

from typing import Any

import pytest

from muster.assignors.subscription import assignment_bytes
from muster.coordinator.groups.classic.group import ClassicGroup
from muster.coordinator.groups.classic.join import JoinCommand
from muster.coordinator.groups.common.helpers import Helpers
from muster.coordinator.groups.common.image import TopicsChanged
from muster.coordinator.groups.consumer import classic_members
from muster.coordinator.groups.consumer.checks import MAX_NAMES
from muster.coordinator.groups.consumer.commands import UpgradePrepared, UpgradeWanted
from muster.coordinator.groups.consumer.group import ConsumerGroup
from muster.coordinator.groups.migration import upgrade
from muster.coordinator.state_machine.interface import Client
from muster.protocol.consumer import decode_assignment, decode_subscription, encode_subscription
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.coordinator.groups.consumer.harness import ConsumerGroupHarness, given, topics

JOIN_AGAIN = ErrorCode.REBALANCE_IN_PROGRESS


def subscription(*names: str, owned: dict[str, list[int]] | None = None) -> bytes:
    rows = [ConsumerProtocolSubscriptionTopicPartition(name, its) for name, its in (owned or {}).items()]
    return encode_subscription(ConsumerProtocolSubscription(list(names), None, rows), 2)


def join(
    harness: ConsumerGroupHarness, member: str, *names: str, owned: dict[str, list[int]] | None = None, **more: Any
) -> Any:
    return harness.join(member, protocols=[("range", subscription(*names, owned=owned))], **more)


def sync(harness: ConsumerGroupHarness, member: str, generation: int) -> Any:
    """Send a SyncGroup: its error, or its partitions of u."""
    answer = harness.sync(member, generation=generation)
    if answer.error_code:
        return answer.error_code
    rows = decode_assignment(answer.assignment)[1].assigned_partitions
    return {row.topic: list(row.partitions) for row in rows}


def classic(**settings: int) -> ConsumerGroupHarness:
    """A Stable classic group of one member, which has both partitions of u."""
    harness = ConsumerGroupHarness(**settings)
    member = join(harness, "", "u").member_id
    harness.sync(member, {member: assignment_bytes({"u": [0, 1]})})
    assert isinstance(harness.core.state.groups["g"], ClassicGroup)
    harness.written()
    return harness


def mixed() -> tuple[ConsumerGroupHarness, str]:
    """The group of `classic`, and a member C of the consumer protocol, which waits for its partition."""
    harness = classic()
    (member,) = harness.core.state.groups["g"].members
    harness.first_heartbeat("C", "u")
    return harness, member


def test_the_first_consumer_heartbeat_upgrades_a_classic_group_in_one_batch() -> None:
    harness = classic()
    joined = harness.first_heartbeat("C", "u")
    assert (joined.error_code, joined.member_epoch, given(joined)) == (0, 2, "")
    assert isinstance(harness.core.state.groups["g"], ConsumerGroup)
    assert harness.written() == [
        "GroupMetadata -",
        "MemberMetadata c-uuid1",
        "Metadata 1",
        "TargetAssignmentMember c-uuid1 u0+1",
        "TargetAssignmentMetadata 1",
        "CurrentMemberAssignment c-uuid1 1<1 0 u0+1",
        "MemberMetadata C",
        "Metadata 2",
        "TargetAssignmentMember C u1",
        "TargetAssignmentMember c-uuid1 u0",
        "TargetAssignmentMetadata 2",
        "CurrentMemberAssignment C 2<0 2",
    ]


def test_a_classic_member_of_an_upgraded_group_joins_again() -> None:
    harness, member = mixed()
    assert harness.beat(member, 1) == JOIN_AGAIN
    first = join(harness, member, "u", owned={"u": [0, 1]})
    assert (first.error_code, first.generation_id, first.leader, list(first.members)) == (0, 1, "", [])
    assert (first.protocol_type, first.protocol_name) == ("consumer", "range")
    assert sync(harness, member, 1) == {"u": [0]}
    assert harness.beat(member, 1) == JOIN_AGAIN  # the member has partitions to give up
    second = join(harness, member, "u", owned={"u": [0]})
    assert second.generation_id == 2
    assert sync(harness, member, 2) == {"u": [0]}
    assert harness.beat(member, 2) == 0
    assert given(harness.heartbeat("C", owned={})) == "u1"
    assert harness.consumers().state == "Stable"


def test_a_classic_member_waits_until_another_member_revokes_a_partition() -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("C", "u")
    member = join(harness, "m", "u")
    assert (member.error_code, member.generation_id) == (0, 3)
    assert sync(harness, "m", 3) == {}
    assert harness.beat("m", 3) == 0  # C has the partition still
    harness.heartbeat("C", owned={"u": [0, 1]})
    harness.heartbeat("C", owned={"u": [0]})
    harness.heartbeat("C", owned={"u": [1]})
    assert harness.beat("m", 3) == JOIN_AGAIN
    join(harness, "m", "u")
    assert sum(map(len, sync(harness, "m", 3).values())) == 1


def test_requests_of_a_classic_member_are_refused_with_kafkas_errors() -> None:
    harness, member = mixed()
    assert harness.beat("C", 2) == harness.beat("nobody", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert sync(harness, "C", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.beat(member, 7) == sync(harness, member, 7) == ErrorCode.ILLEGAL_GENERATION
    assert sync(harness, member, 1) == JOIN_AGAIN
    assert harness.sync(member, generation=1, protocol="other").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert join(harness, "x", "u", kind="connect").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    other = harness.join("x", protocols=[("other", subscription("u"))])
    assert other.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    handed_out = join(harness, "", "u", needs_id=True)
    assert (handed_out.error_code, handed_out.member_id[:4]) == (ErrorCode.MEMBER_ID_REQUIRED, "uuid")
    assert join(harness, "x", "u", session=-1).error_code == ErrorCode.INVALID_SESSION_TIMEOUT


def test_a_classic_member_that_does_not_join_again_in_time_is_fenced() -> None:
    harness, member = mixed()
    harness.beat(member, 1)
    for _ in range(3):
        harness.advance(5_000)
        harness.beat(member, 1)
    harness.advance(4_999)
    assert member in harness.consumers().members
    harness.advance(1)
    assert member not in harness.consumers().members


def test_a_classic_member_that_does_not_sync_in_time_is_fenced() -> None:
    harness, member = mixed()
    harness.first_heartbeat("C", "u")
    join(harness, member, "u", session=60_000)
    harness.advance(19_999)
    assert member in harness.consumers().members
    harness.advance(1)
    assert member not in harness.consumers().members


def test_a_classic_member_keeps_its_own_session_timeout() -> None:
    harness, member = mixed()
    harness.advance(10_000)
    assert list(harness.consumers().members) == ["C"]
    assert member not in harness.consumers().targets


def test_the_group_is_downgraded_and_rebalances_when_its_last_consumer_member_leaves() -> None:
    harness, member = mixed()
    harness.written()
    assert harness.heartbeat("C", -1).error_code == 0
    group = harness.core.state.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert (group.state, group.generation) == ("PreparingRebalance", 2)
    assert harness.written() == [
        f"CurrentMemberAssignment {member} -",
        "CurrentMemberAssignment C -",
        f"TargetAssignmentMember {member} -",
        "TargetAssignmentMember C -",
        "TargetAssignmentMetadata -",
        f"MemberMetadata {member} -",
        "MemberMetadata C -",
        "PartitionMetadata -",
        "Metadata -",
        "GroupMetadata",
    ]
    assert join(harness, member, "u").generation_id == 3
    assert harness.sync(member, {member: b"x"}).assignment == b"x"


def test_a_last_consumer_member_that_returns_as_a_classic_static_member_downgrades_the_group() -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("C", "u", instance="i")
    joined = join(harness, "", "u", instance="i")
    assert (joined.error_code, joined.generation_id) == (0, 2)
    group = harness.core.state.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert (group.state, group.generation, list(group.members)) == ("Stable", 2, [joined.member_id])
    answer = harness.sync(joined.member_id, generation=2, instance="i")
    assert decode_assignment(answer.assignment)[1].assigned_partitions[0].partitions == [0, 1]


@pytest.mark.parametrize("policy", ["UPGRADE", "upgrade"])
def test_the_migration_policy_can_forbid_a_downgrade(policy: str) -> None:
    harness = ConsumerGroupHarness(group_consumer_migration_policy=policy)
    harness.first_heartbeat("C", "u")
    join(harness, "m", "u")
    harness.heartbeat("C", -1)
    assert list(harness.consumers().members) == ["m"]


def refused(harness: ConsumerGroupHarness, why: str) -> None:
    answer = harness.first_heartbeat("C", "u")
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert answer.error_message == f"Cannot upgrade classic group g to consumer group because {why}."
    assert isinstance(harness.core.state.groups["g"], ClassicGroup)
    assert not harness.written()


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_the_migration_policy_can_forbid_an_upgrade(policy: str) -> None:
    harness = ConsumerGroupHarness(group_consumer_migration_policy=policy)
    harness.stable()
    harness.written()
    refused(harness, "online upgrade is disabled")


def test_an_upgrade_is_refused_for_other_protocol_types_custom_metadata_and_too_large_groups() -> None:
    harness = ConsumerGroupHarness()
    harness.join(kind="connect")
    harness.written()
    refused(harness, "the group does not use the consumer embedded protocol")
    unreadable = ConsumerGroupHarness()
    unreadable.stable()
    unreadable.written()
    refused(unreadable, "the embedded consumer protocol is malformed")
    small = ConsumerGroupHarness(group_consumer_max_size=1)
    small.stable()
    small.written()
    refused(small, "the group size exceeds the consumer group maximum size")


def test_an_upgrade_is_refused_if_an_assignor_uses_user_data() -> None:
    harness = ConsumerGroupHarness()
    member = join(harness, "", "u").member_id
    harness.sync(member, {member: assignment_bytes({"u": [0, 1]}, b"mine")})
    harness.written()
    refused(
        harness,
        "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor "
        "before re-attempting the upgrade",
    )


def test_a_parked_join_is_answered_with_rebalance_in_progress_by_an_upgrade() -> None:
    harness = classic()
    assert join(harness, "", "u") is None
    token = harness.asked
    harness.first_heartbeat("C", "u")
    assert harness.reply(token).error_code == JOIN_AGAIN
    assert len(harness.consumers().members) == 3


def test_leave_group_removes_members_of_both_protocols() -> None:
    harness, member = mixed()
    harness.first_heartbeat("D", "u")
    rows = harness.leave("C", "nobody").members
    assert [row.error_code for row in rows] == [0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert set(harness.consumers().members) == {member, "D"}


def test_a_consumer_group_without_members_becomes_a_classic_one() -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("C", "u")
    harness.heartbeat("C", -1)
    assert join(harness, "", "u").generation_id == 1
    assert isinstance(harness.core.state.groups["g"], ClassicGroup)


def test_a_replay_gives_the_same_mixed_group() -> None:
    harness = classic()
    harness.first_heartbeat("C", "u")
    live, other = harness.consumers(), harness.replayed(harness.records)
    for member_id, member in live.members.items():
        assert (other.members[member_id].description, other.members[member_id].position) == (
            member.description,
            member.position,
        )
    assert (other.owners, other.classic_count, other.epoch) == (live.owners, 1, 2)


def test_a_static_classic_member_is_replaced_and_leaves_by_its_instance_id() -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("C", "u")
    first = join(harness, "", "u", instance="i")
    assert first.error_code == 0
    again = join(harness, first.member_id, "u", instance="i")
    assert (again.error_code, again.member_id) == (0, first.member_id)
    other = join(harness, "other", "u", instance="i")
    assert (other.error_code, other.member_id) == (ErrorCode.FENCED_INSTANCE_ID, "")
    assert harness.beat(first.member_id, again.generation_id, "i") == 0
    assert harness.beat("other", again.generation_id, "i") == ErrorCode.FENCED_INSTANCE_ID
    successor = join(harness, "", "u", instance="i")  # the member need not have left
    assert successor.member_id != first.member_id
    assert harness.leave("", instance="i").members[0].error_code == 0
    assert list(harness.consumers().members) == ["C"]


def test_the_id_of_a_new_classic_member_in_a_consumer_group_is_a_kafka_uuid() -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("C", "u")
    request = JoinGroupRequest(
        "g", 10_000, 20_000, "", None, "consumer", [JoinGroupRequestProtocol("range", subscription("u"))]
    )
    drawn = "f660ae1c-9525-4630-bfe0-42347c16eb9b"
    command = JoinCommand(request, -1, Client("c", "/h"), drawn, False, True)
    harness.collect(harness.core.handle(command, harness.now))
    assert harness.reply(-1).member_id == "9mCuHJUlRjC_4EI0fBbrmw"


def test_a_refused_consumer_member_does_not_upgrade_the_group() -> None:
    harness = classic()
    bad = harness.first_heartbeat("C", pattern="[a", error="missing closing ]")
    assert bad.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    full = classic(group_consumer_max_size=1)
    assert full.first_heartbeat("C", "u").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    for one in (harness, full):
        assert isinstance(one.core.state.groups["g"], ClassicGroup)


def test_a_group_larger_than_the_classic_limit_is_not_downgraded() -> None:
    harness = ConsumerGroupHarness(group_max_size=1)
    harness.first_heartbeat("C", "u")
    join(harness, "m", "u")
    join(harness, "n", "u")
    harness.heartbeat("C", -1)
    assert list(harness.consumers().members) == ["m", "n"]


def test_a_parked_sync_is_answered_with_rebalance_in_progress_by_an_upgrade() -> None:
    harness = ConsumerGroupHarness()
    first = join(harness, "", "u").member_id
    assert join(harness, "", "u") is None
    join(harness, first, "u")
    group = harness.core.state.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert group.state == "CompletingRebalance"
    follower = next(one for one in group.members if one != group.leader_id)
    assert harness.sync(follower) is None
    token = harness.asked
    harness.first_heartbeat("C", "u")
    assert harness.reply(token).error_code == JOIN_AGAIN
    assert harness.consumers().epoch == 3


def test_a_new_joiner_without_the_chosen_protocol_prevents_an_upgrade() -> None:
    harness, said = ConsumerGroupHarness(), subscription("u")
    member = harness.join("", protocols=[("range", said), ("sticky", said)]).member_id
    harness.sync(member, {member: assignment_bytes({"u": [0, 1]})})
    assert harness.join("", protocols=[("sticky", said)]) is None  # its rebalance has begun: it waits
    answer = harness.first_heartbeat("C", "u")
    assert (answer.error_code, answer.error_message) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert isinstance(harness.core.state.groups["g"], ClassicGroup)


def test_a_subscription_that_does_not_fit_into_a_batch_is_refused_before_it_is_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("C", "u")
    harness.max_bytes = 100_000
    read: list[bytes] = []

    def reading(metadata: bytes) -> Any:
        read.append(metadata)
        return decode_subscription(metadata)

    monkeypatch.setattr(classic_members, "decode_subscription", reading)
    large = [f"name-{number:05}" for number in range(3_000)]
    assert join(harness, "", *large).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not read
    # its topics are written once more beside it
    assert join(harness, "", *large[:2_000]).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert list(harness.consumers().members) == ["C"]


def test_a_classic_member_with_more_topic_names_than_the_limit_is_refused() -> None:
    harness = ConsumerGroupHarness()
    harness.first_heartbeat("C", "u")
    harness.max_bytes = 1_048_588
    names = [f"{number:x}" for number in range(MAX_NAMES + 1)]
    assert join(harness, "", *names).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert join(harness, "", *names[1:]).error_code == 0


def test_a_group_with_a_member_of_too_many_topic_names_is_not_upgraded() -> None:
    harness = classic(group_initial_rebalance_delay_ms=0)
    (member,) = harness.core.state.groups["g"].members
    names = [f"{number:x}" for number in range(MAX_NAMES + 1)]
    join(harness, member, *names)
    harness.written()
    refused = harness.first_heartbeat("C", "u")
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert refused.error_message == (
        "Cannot upgrade classic group g to consumer group because a member subscribes to more than 20000 topics."
    )
    assert not harness.written()
    assert isinstance(harness.core.state.groups["g"], ClassicGroup)


@pytest.mark.parametrize(("max_bytes", "is_read"), [(5_000, True), (2_000, False)])
def test_a_group_whose_records_do_not_fit_into_a_batch_is_not_upgraded(
    monkeypatch: pytest.MonkeyPatch, max_bytes: int, *, is_read: bool
) -> None:
    harness = ConsumerGroupHarness()
    names = [f"a-topic-{number}" for number in range(200)]
    member = join(harness, "", *names).member_id
    harness.sync(member, {member: assignment_bytes({"u": [0, 1]})})
    harness.written()
    harness.max_bytes = max_bytes
    read: list[bytes] = []
    real = upgrade.decode_subscription
    monkeypatch.setattr(upgrade, "decode_subscription", lambda data: (read.append(data), real(data))[1])
    refused = harness.first_heartbeat("C", "u")
    assert (refused.error_code, refused.error_message) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert bool(read) is is_read
    assert not harness.written()
    assert isinstance(harness.core.state.groups["g"], ClassicGroup)
    harness.max_bytes = 1_048_588
    assert harness.first_heartbeat("C", "u").error_code == 0


def test_a_classic_group_with_only_a_pending_member_id_is_upgraded() -> None:
    harness = classic()
    (member,) = harness.core.state.groups["g"].members
    assert join(harness, "", "u", needs_id=True).error_code == ErrorCode.MEMBER_ID_REQUIRED
    join(harness, member, "t", "u", settle=False)  # it waits for the other member, and is not kept because of it
    harness.leave(member)
    assert not harness.core.state.groups["g"].members
    harness.written()
    harness.first_heartbeat("C", "u")
    assert harness.written()[:4] == ["GroupMetadata -", "Metadata 1", "TargetAssignmentMetadata 1", "MemberMetadata C"]
    assert harness.consumers().members.keys() == {"C"}


def test_a_group_stays_classic_if_the_new_member_does_not_fit_into_the_batch() -> None:
    harness = classic()
    names = [f"a-topic-{number}" for number in range(100)]
    alone = ConsumerGroupHarness()
    alone.max_bytes = harness.max_bytes = 3_600
    assert alone.first_heartbeat("C", *names).error_code == 0
    assert harness.first_heartbeat("C", *names).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not harness.written()
    assert isinstance(harness.core.state.groups["g"], ClassicGroup)
    assert harness.first_heartbeat("C", "u").error_code == 0


class OffloadedWork:
    """Takes the work of reading a large group, away from the event loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(upgrade, "READ_AT_ONCE", 0)
        self.harness = classic()
        self.wanted: list[UpgradeWanted] = []
        helpers = Helpers(self.wanted.append, self.wanted.append, None, self.wanted.append)
        state = self.harness.core.state
        state.helpers = helpers
        (self.member,) = state.groups["g"].members
        real = self.harness.collect

        def take(output: Any) -> Any:
            for respond, response in output.replies:
                if isinstance(response, UpgradeWanted):
                    respond(response)
            output.replies = [one for one in output.replies if not isinstance(one[1], UpgradeWanted)]
            return real(output)

        monkeypatch.setattr(self.harness, "collect", take)


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> OffloadedWork:
    return OffloadedWork(monkeypatch)


@pytest.mark.parametrize("change", ["nothing", "metadata", "topics", "not read"])
def test_a_large_group_read_in_offloaded_work_is_upgraded_like_a_small_one(apart: OffloadedWork, change: str) -> None:
    harness, other = apart.harness, classic()
    assert harness.first_heartbeat("C", "u") is None
    (wanted,) = apart.wanted
    assert not harness.written()
    prepared = wanted.read() if change != "not read" else None
    for one in (harness, other):
        if change == "metadata":
            (member,) = one.core.state.groups["g"].members.values()
            member.protocols = (("range", subscription("t", "u")),)
        elif change == "topics":
            one.notify(TopicsChanged(topics(t=8, u=2, v=3)))
        one.written()
    harness.notify(UpgradePrepared(wanted.command, prepared))
    answer = other.first_heartbeat("C", "u")
    assert harness.reply(harness.asked) == answer
    assert harness.written() == other.written()
    assert len(apart.wanted) == 1


def test_a_malformed_assignment_found_in_offloaded_work_refuses_the_upgrade(apart: OffloadedWork) -> None:
    harness = apart.harness
    harness.core.state.groups["g"].members[apart.member].assignment = b"\0"
    harness.first_heartbeat("C", "u")
    harness.notify(UpgradePrepared(apart.wanted[0].command, apart.wanted[0].read()))
    refused = harness.reply(harness.asked)
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert refused.error_message.endswith("the embedded consumer protocol is malformed.")


def test_an_upgrade_goes_on_if_the_group_was_removed_during_the_offloaded_work(apart: OffloadedWork) -> None:
    harness = apart.harness
    harness.first_heartbeat("C", "u")
    asked, prepared = harness.asked, apart.wanted[0].read()
    harness.leave(apart.member)
    harness.notify(UpgradePrepared(apart.wanted[0].command, prepared))
    assert given(harness.reply(asked)) == "u0+1"


def test_no_classic_member_joins_a_consumer_group_with_the_policy_disabled() -> None:
    harness = ConsumerGroupHarness(group_consumer_migration_policy="DISABLED")
    harness.first_heartbeat("C", "u")
    assert join(harness, "m", "u").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_full_group_takes_in_only_the_successor_of_a_static_member() -> None:
    harness = ConsumerGroupHarness(group_consumer_max_size=1)
    harness.first_heartbeat("A", "u", instance="i")
    assert harness.first_heartbeat("B", "u").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert harness.first_heartbeat("B", "u", instance="j").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert harness.first_heartbeat("B", "u", instance="i").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    harness.heartbeat("A", -2, instance="i")
    assert given(harness.first_heartbeat("B", "u", instance="i")) == "u0+1"
