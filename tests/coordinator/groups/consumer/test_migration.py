"""Classic members in consumer groups, and groups that change their protocol while they have members."""

from __future__ import annotations

from typing import Any

import pytest

from muster.assignors.subscription import assignment_bytes
from muster.coordinator.groups.classic.group import ClassicGroup
from muster.coordinator.groups.classic.join import JoinCommand
from muster.coordinator.groups.common.image import TopicsChanged
from muster.coordinator.groups.consumer import classic_members
from muster.coordinator.groups.consumer.checks import MAX_NAMES
from muster.coordinator.groups.consumer.commands import Helpers, UpgradePrepared, UpgradeWanted
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
from tests.coordinator.groups.consumer.harness import Hall, given, topics

JOIN_AGAIN = ErrorCode.REBALANCE_IN_PROGRESS


def subscription(*names: str, owned: dict[str, list[int]] | None = None) -> bytes:
    rows = [ConsumerProtocolSubscriptionTopicPartition(name, its) for name, its in (owned or {}).items()]
    return encode_subscription(ConsumerProtocolSubscription(list(names), None, rows), 2)


def join(hall: Hall, member: str, *names: str, owned: dict[str, list[int]] | None = None, **more: Any) -> Any:
    return hall.join(member, protocols=[("range", subscription(*names, owned=owned))], **more)


def sync(hall: Hall, member: str, generation: int) -> Any:
    """Its error, or its partitions of u."""
    answer = hall.sync(member, generation=generation)
    if answer.error_code:
        return answer.error_code
    rows = decode_assignment(answer.assignment)[1].assigned_partitions
    return {row.topic: list(row.partitions) for row in rows}


def classic(**settings: int) -> Hall:
    """A Stable classic group of one member, which has both partitions of u."""
    hall = Hall(**settings)
    member = join(hall, "", "u").member_id
    hall.sync(member, {member: assignment_bytes({"u": [0, 1]})})
    assert isinstance(hall.core.state.groups["g"], ClassicGroup)
    hall.written()
    return hall


def mixed() -> tuple[Hall, str]:
    """That, and a member C of the consumer protocol, which waits for its partition."""
    hall = classic()
    (member,) = hall.core.state.groups["g"].members  # type: ignore[attr-defined]
    hall.enter("C", "u")
    return hall, member


def test_the_first_heartbeat_makes_a_consumer_group_in_one_batch() -> None:
    hall = classic()
    joined = hall.enter("C", "u")
    assert (joined.error_code, joined.member_epoch, given(joined)) == (0, 2, "")
    assert isinstance(hall.core.state.groups["g"], ConsumerGroup)
    assert hall.written() == [
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


def test_a_classic_member_follows_by_joining_again() -> None:
    hall, member = mixed()
    assert hall.beat(member, 1) == JOIN_AGAIN
    first = join(hall, member, "u", owned={"u": [0, 1]})
    assert (first.error_code, first.generation_id, first.leader, list(first.members)) == (0, 1, "", [])
    assert (first.protocol_type, first.protocol_name) == ("consumer", "range")
    assert sync(hall, member, 1) == {"u": [0]}
    assert hall.beat(member, 1) == JOIN_AGAIN  # it has something to give up
    second = join(hall, member, "u", owned={"u": [0]})
    assert second.generation_id == 2
    assert sync(hall, member, 2) == {"u": [0]}
    assert hall.beat(member, 2) == 0
    assert given(hall.cast("C", owned={})) == "u1"
    assert hall.consumers().state == "Stable"


def test_a_classic_member_waits_for_a_partition_of_another() -> None:
    hall = Hall()
    hall.enter("C", "u")
    member = join(hall, "m", "u")
    assert (member.error_code, member.generation_id) == (0, 3)
    assert sync(hall, "m", 3) == {}
    assert hall.beat("m", 3) == 0  # C has it still
    hall.cast("C", owned={"u": [0, 1]})
    hall.cast("C", owned={"u": [0]})
    hall.cast("C", owned={"u": [1]})
    assert hall.beat("m", 3) == JOIN_AGAIN
    join(hall, "m", "u")
    assert sum(map(len, sync(hall, "m", 3).values())) == 1


def test_what_is_refused_to_a_classic_member() -> None:
    hall, member = mixed()
    assert hall.beat("C", 2) == hall.beat("nobody", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert sync(hall, "C", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert hall.beat(member, 7) == sync(hall, member, 7) == ErrorCode.ILLEGAL_GENERATION
    assert sync(hall, member, 1) == JOIN_AGAIN
    assert hall.sync(member, generation=1, protocol="other").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert join(hall, "x", "u", kind="connect").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    other = hall.join("x", protocols=[("other", subscription("u"))])
    assert other.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    handed_out = join(hall, "", "u", needs_id=True)
    assert (handed_out.error_code, handed_out.member_id[:4]) == (ErrorCode.MEMBER_ID_REQUIRED, "uuid")
    assert join(hall, "x", "u", session=-1).error_code == ErrorCode.INVALID_SESSION_TIMEOUT


def test_one_that_does_not_join_again_in_time_is_fenced() -> None:
    hall, member = mixed()
    hall.beat(member, 1)
    for _ in range(3):
        hall.advance(5_000)
        hall.beat(member, 1)
    hall.advance(4_999)
    assert member in hall.consumers().members
    hall.advance(1)
    assert member not in hall.consumers().members


def test_one_that_does_not_sync_in_time_is_fenced() -> None:
    hall, member = mixed()
    hall.enter("C", "u")
    join(hall, member, "u", session=60_000)
    hall.advance(19_999)
    assert member in hall.consumers().members
    hall.advance(1)
    assert member not in hall.consumers().members


def test_a_session_of_a_classic_member_is_its_own() -> None:
    hall, member = mixed()
    hall.advance(10_000)
    assert list(hall.consumers().members) == ["C"]
    assert member not in hall.consumers().targets


def test_when_the_last_consumer_member_goes_the_group_is_classic_and_rebalances() -> None:
    hall, member = mixed()
    hall.written()
    assert hall.cast("C", -1).error_code == 0
    group = hall.core.state.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert (group.state, group.generation) == ("PreparingRebalance", 2)
    assert hall.written() == [
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
    assert join(hall, member, "u").generation_id == 3
    assert hall.sync(member, {member: b"x"}).assignment == b"x"


def test_a_static_member_that_comes_back_as_a_classic_one_makes_the_group_classic() -> None:
    hall = Hall()
    hall.enter("C", "u", instance="i")
    joined = join(hall, "", "u", instance="i")
    assert (joined.error_code, joined.generation_id) == (0, 2)
    group = hall.core.state.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert (group.state, group.generation, list(group.members)) == ("Stable", 2, [joined.member_id])
    answer = hall.sync(joined.member_id, generation=2, instance="i")
    assert decode_assignment(answer.assignment)[1].assigned_partitions[0].partitions == [0, 1]


@pytest.mark.parametrize("policy", ["DISABLED", "upgrade"])
def test_a_group_that_may_not_be_downgraded(policy: str) -> None:
    hall = Hall(group_consumer_migration_policy=policy)
    hall.enter("C", "u")
    join(hall, "m", "u")
    hall.cast("C", -1)
    assert list(hall.consumers().members) == ["m"]


def refused(hall: Hall, why: str) -> None:
    answer = hall.enter("C", "u")
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert answer.error_message == f"Cannot upgrade classic group g to consumer group because {why}."
    assert isinstance(hall.core.state.groups["g"], ClassicGroup)
    assert not hall.written()


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_a_group_that_may_not_be_upgraded(policy: str) -> None:
    hall = Hall(group_consumer_migration_policy=policy)
    hall.stable()
    hall.written()
    refused(hall, "online upgrade is disabled")


def test_groups_that_cannot_be_upgraded() -> None:
    hall = Hall()
    hall.join(kind="connect")
    hall.written()
    refused(hall, "the group does not use the consumer embedded protocol")
    unreadable = Hall()
    unreadable.stable()
    unreadable.written()
    refused(unreadable, "the embedded consumer protocol is malformed")
    small = Hall(group_consumer_max_size=1)
    small.stable()
    small.written()
    refused(small, "the group size exceeds the consumer group maximum size")


def test_the_bytes_of_an_assignor_would_be_lost() -> None:
    hall = Hall()
    member = join(hall, "", "u").member_id
    hall.sync(member, {member: assignment_bytes({"u": [0, 1]}, b"mine")})
    hall.written()
    refused(
        hall,
        "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor "
        "before re-attempting the upgrade",
    )


def test_a_joiner_that_waits_is_told_to_join_again() -> None:
    hall = classic()
    assert join(hall, "", "u") is None
    token = hall.asked
    hall.enter("C", "u")
    assert hall.reply(token).error_code == JOIN_AGAIN
    assert len(hall.consumers().members) == 3


def test_leave_group_removes_members_of_both_protocols() -> None:
    hall, member = mixed()
    hall.enter("D", "u")
    rows = hall.leave("C", "nobody").members
    assert [row.error_code for row in rows] == [0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert set(hall.consumers().members) == {member, "D"}


def test_a_consumer_group_without_members_becomes_a_classic_one() -> None:
    hall = Hall()
    hall.enter("C", "u")
    hall.cast("C", -1)
    assert join(hall, "", "u").generation_id == 1
    assert isinstance(hall.core.state.groups["g"], ClassicGroup)


def test_replay_gives_the_mixed_group() -> None:
    hall = classic()
    hall.enter("C", "u")
    live, other = hall.consumers(), hall.replayed(hall.records)
    for member_id, member in live.members.items():
        assert (other.members[member_id].description, other.members[member_id].position) == (
            member.description,
            member.position,
        )
    assert (other.owners, other.classic_count, other.epoch) == (live.owners, 1, 2)


def test_a_static_classic_member_and_its_instance() -> None:
    hall = Hall()
    hall.enter("C", "u")
    first = join(hall, "", "u", instance="i")
    assert first.error_code == 0
    again = join(hall, first.member_id, "u", instance="i")
    assert (again.error_code, again.member_id) == (0, first.member_id)
    other = join(hall, "other", "u", instance="i")
    assert (other.error_code, other.member_id) == (ErrorCode.FENCED_INSTANCE_ID, "")
    assert hall.beat(first.member_id, again.generation_id, "i") == 0
    assert hall.beat("other", again.generation_id, "i") == ErrorCode.FENCED_INSTANCE_ID
    successor = join(hall, "", "u", instance="i")  # it need not have left
    assert successor.member_id != first.member_id
    assert hall.leave("", instance="i").members[0].error_code == 0
    assert list(hall.consumers().members) == ["C"]


def test_an_id_for_a_new_classic_member_is_written_as_kafkas_uuids() -> None:
    hall = Hall()
    hall.enter("C", "u")
    request = JoinGroupRequest(
        "g", 10_000, 20_000, "", None, "consumer", [JoinGroupRequestProtocol("range", subscription("u"))]
    )
    drawn = "f660ae1c-9525-4630-bfe0-42347c16eb9b"
    command = JoinCommand(request, -1, Client("c", "/h"), drawn, False, True)  # type: ignore[arg-type]
    hall.take(hall.core.handle(command, hall.now))
    assert hall.reply(-1).member_id == "9mCuHJUlRjC_4EI0fBbrmw"


def test_who_comes_to_a_group_to_be_upgraded_may_be_refused() -> None:
    hall = classic()
    bad = hall.enter("C", pattern="[a", error="missing closing ]")
    assert bad.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    full = classic(group_consumer_max_size=1)
    assert full.enter("C", "u").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    for one in (hall, full):
        assert isinstance(one.core.state.groups["g"], ClassicGroup)


def test_a_group_larger_than_a_classic_one_may_be_stays() -> None:
    hall = Hall(group_max_size=1)
    hall.enter("C", "u")
    join(hall, "m", "u")
    join(hall, "n", "u")
    hall.cast("C", -1)
    assert list(hall.consumers().members) == ["m", "n"]


def test_a_follower_that_waits_for_its_assignment_is_told_to_join_again() -> None:
    hall = Hall()
    first = join(hall, "", "u").member_id
    assert join(hall, "", "u") is None
    join(hall, first, "u")
    group = hall.core.state.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert group.state == "CompletingRebalance"
    follower = next(one for one in group.members if one != group.leader_id)
    assert hall.sync(follower) is None
    token = hall.asked
    hall.enter("C", "u")
    assert hall.reply(token).error_code == JOIN_AGAIN
    assert hall.consumers().epoch == 3


def test_who_joined_since_the_protocol_was_chosen_and_does_not_offer_it_stops_an_upgrade() -> None:
    hall, said = Hall(), subscription("u")
    member = hall.join("", protocols=[("range", said), ("sticky", said)]).member_id
    hall.sync(member, {member: assignment_bytes({"u": [0, 1]})})
    assert hall.join("", protocols=[("sticky", said)]) is None  # its round has begun: it waits
    answer = hall.enter("C", "u")
    assert (answer.error_code, answer.error_message) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert isinstance(hall.core.state.groups["g"], ClassicGroup)


def test_a_subscription_that_has_no_room_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    hall = Hall()
    hall.enter("C", "u")
    hall.max_bytes = 100_000
    read: list[bytes] = []

    def reading(metadata: bytes) -> Any:
        read.append(metadata)
        return decode_subscription(metadata)

    monkeypatch.setattr(classic_members, "decode_subscription", reading)
    large = [f"name-{number:05}" for number in range(3_000)]
    assert join(hall, "", *large).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not read
    # its topics are written a second time beside it
    assert join(hall, "", *large[:2_000]).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert list(hall.consumers().members) == ["C"]


def test_a_classic_member_may_not_name_more_topics_than_the_limit() -> None:
    hall = Hall()
    hall.enter("C", "u")
    hall.max_bytes = 1_048_588
    names = [f"{number:x}" for number in range(MAX_NAMES + 1)]
    assert join(hall, "", *names).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert join(hall, "", *names[1:]).error_code == 0


def test_a_group_is_not_upgraded_whose_member_names_more_topics_than_the_limit() -> None:
    hall = classic(group_initial_rebalance_delay_ms=0)
    (member,) = hall.core.state.groups["g"].members  # type: ignore[attr-defined]
    names = [f"{number:x}" for number in range(MAX_NAMES + 1)]
    join(hall, member, *names)
    hall.written()
    refused = hall.enter("C", "u")
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert refused.error_message == (
        "Cannot upgrade classic group g to consumer group because a member subscribes to more than 20000 topics."
    )
    assert not hall.written()
    assert isinstance(hall.core.state.groups["g"], ClassicGroup)


@pytest.mark.parametrize(("most_bytes", "is_read"), [(5_000, True), (2_000, False)])
def test_a_group_is_not_upgraded_whose_records_have_no_room_in_a_batch(
    monkeypatch: pytest.MonkeyPatch, max_bytes: int, *, is_read: bool
) -> None:
    hall = Hall()
    names = [f"a-topic-{number}" for number in range(200)]
    member = join(hall, "", *names).member_id
    hall.sync(member, {member: assignment_bytes({"u": [0, 1]})})
    hall.written()
    hall.max_bytes = max_bytes
    read: list[bytes] = []
    real = upgrade.decode_subscription
    monkeypatch.setattr(upgrade, "decode_subscription", lambda data: (read.append(data), real(data))[1])
    refused = hall.enter("C", "u")
    assert (refused.error_code, refused.error_message) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert bool(read) is is_read
    assert not hall.written()
    assert isinstance(hall.core.state.groups["g"], ClassicGroup)
    hall.max_bytes = 1_048_588
    assert hall.enter("C", "u").error_code == 0


def test_a_classic_group_in_which_somebody_has_only_begun_to_join_is_upgraded() -> None:
    hall = classic()
    (member,) = hall.core.state.groups["g"].members  # type: ignore[attr-defined]
    assert join(hall, "", "u", needs_id=True).error_code == ErrorCode.MEMBER_ID_REQUIRED
    join(hall, member, "t", "u", settle=False)  # it waits for the other one, and does not stay for it
    hall.leave(member)
    assert not hall.core.state.groups["g"].members  # type: ignore[attr-defined]
    hall.written()
    hall.enter("C", "u")
    assert hall.written()[:4] == ["GroupMetadata -", "Metadata 1", "TargetAssignmentMetadata 1", "MemberMetadata C"]
    assert hall.consumers().members.keys() == {"C"}


def test_a_group_stays_classic_when_the_newcomer_has_no_room_in_the_batch() -> None:
    hall = classic()
    names = [f"a-topic-{number}" for number in range(100)]
    alone = Hall()
    alone.max_bytes = hall.max_bytes = 3_600
    assert alone.enter("C", *names).error_code == 0
    assert hall.enter("C", *names).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not hall.written()
    assert isinstance(hall.core.state.groups["g"], ClassicGroup)
    assert hall.enter("C", "u").error_code == 0


class OffloadedWork:
    """Takes what is to be read apart from the event loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(upgrade, "READ_AT_ONCE", 0)
        self.hall = classic()
        self.wanted: list[UpgradeWanted] = []
        helpers = Helpers(self.wanted.append, self.wanted.append, None, self.wanted.append)
        state = self.hall.core.state
        state.helpers = helpers
        (self.member,) = state.groups["g"].members  # type: ignore[attr-defined]
        real = self.hall.take

        def take(output: Any) -> Any:
            for respond, response in output.replies:
                if isinstance(response, UpgradeWanted):
                    respond(response)
            output.replies = [one for one in output.replies if not isinstance(one[1], UpgradeWanted)]
            return real(output)

        monkeypatch.setattr(self.hall, "take", take)


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> OffloadedWork:
    return OffloadedWork(monkeypatch)


@pytest.mark.parametrize("change", ["nothing", "metadata", "topics", "not read"])
def test_a_large_group_that_is_read_apart_is_upgraded_as_any_other(apart: OffloadedWork, change: str) -> None:
    hall, other = apart.hall, classic()
    assert hall.enter("C", "u") is None
    (wanted,) = apart.wanted
    assert not hall.written()
    prepared = wanted.read() if change != "not read" else None
    for one in (hall, other):
        if change == "metadata":
            (member,) = one.core.state.groups["g"].members.values()  # type: ignore[attr-defined]
            member.protocols = (("range", subscription("t", "u")),)
        elif change == "topics":
            one.told(TopicsChanged(topics(t=8, u=2, v=3)))
        one.written()
    hall.told(UpgradePrepared(wanted.command, prepared))
    answer = other.enter("C", "u")
    assert hall.reply(hall.asked) == answer
    assert hall.written() == other.written()
    assert len(apart.wanted) == 1


def test_what_cannot_be_read_apart_is_refused_as_ever(apart: OffloadedWork) -> None:
    hall = apart.hall
    hall.core.state.groups["g"].members[apart.member].assignment = b"\0"  # type: ignore[attr-defined]
    hall.enter("C", "u")
    hall.told(UpgradePrepared(apart.wanted[0].command, apart.wanted[0].read()))
    refused = hall.reply(hall.asked)
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert refused.error_message.endswith("the embedded consumer protocol is malformed.")


def test_a_group_that_is_gone_when_it_was_read(apart: OffloadedWork) -> None:
    hall = apart.hall
    hall.enter("C", "u")
    asked, prepared = hall.asked, apart.wanted[0].read()
    hall.leave(apart.member)
    hall.told(UpgradePrepared(apart.wanted[0].command, prepared))
    assert given(hall.reply(asked)) == "u0+1"
