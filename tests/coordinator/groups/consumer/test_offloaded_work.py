"""Offloaded work: large targets, and the topics of regular expressions."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from muster.assignors import java_order
from muster.assignors.builtin import SERVER_ASSIGNORS
from muster.coordinator.groups.common.image import TopicsChanged
from muster.coordinator.groups.common.state import PackedRecord
from muster.coordinator.groups.consumer import prepared_target, records
from muster.coordinator.groups.consumer.commands import (
    AssignmentComputed,
    AssignmentWanted,
    TopicsFound,
    TopicsWanted,
)
from muster.coordinator.groups.consumer.prepared_target import prepare_target
from muster.coordinator.state_machine.interface import Record
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.group_records.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from muster.protocol.records import OFFSETS, pack_record
from tests.coordinator.groups.consumer.harness import ConsumerGroupHarness, given, topics
from tests.support.opcodes import instructions


def large(**settings: int) -> ConsumerGroupHarness:
    harness = ConsumerGroupHarness(helped=True, **settings)
    harness.notify(TopicsChanged(topics(t=600)))
    return harness


def partitions(answer: Any) -> list[int]:
    return [one for row in answer.assignment.topic_partitions for one in row.partitions]


def compute(harness: ConsumerGroupHarness) -> AssignmentComputed:
    wanted = harness.offloaded.pop(0)
    assert isinstance(wanted, AssignmentWanted)
    return prepared_target.compute(wanted, SERVER_ASSIGNORS[wanted.assignor])


def search(harness: ConsumerGroupHarness, *names: str) -> None:
    wanted = harness.offloaded.pop(0)
    assert isinstance(wanted, TopicsWanted)
    harness.notify(TopicsFound(wanted, dict.fromkeys(wanted.patterns, names)))


@pytest.mark.parametrize("change", ["nothing", "a member more", "a member less", "another one", "topics"])
def test_offloaded_targets_give_the_same_records_as_targets_computed_in_the_loop(change: str) -> None:
    harnesses = large(), large()
    for number, harness in enumerate(harnesses):
        harness.first_heartbeat("A", "t")
        harness.notify(compute(harness))
        for member in "BCD":
            harness.first_heartbeat(member, "t")
        computed = compute(harness)
        if change in ("a member less", "another one"):
            harness.heartbeat("C", -1)
        if change in ("a member more", "another one"):
            harness.first_heartbeat("E", "t")
        if change == "topics":
            harness.notify(TopicsChanged(topics(u=600)))
        harness.written()
        plain = prepare_target(computed.wanted, computed.wanted.assign(SERVER_ASSIGNORS["uniform"]))
        plain = plain._replace(order=(), records={})
        harness.notify(computed if number else computed._replace(prepared_target=plain))
    usual, quick = harnesses
    records = quick.written()
    assert len(records) >= 4
    assert usual.written() == records


def test_an_unchanged_target_gets_no_record() -> None:
    harness = large()
    harness.first_heartbeat("A", "t")
    harness.notify(compute(harness))
    harness.first_heartbeat("B", "u")  # A keeps the rest
    computed = compute(harness)
    assert set(computed.prepared_target.records) == {"B"}
    harness.notify(computed)
    assert [one for one in harness.written() if "target" in one and " A" in one] == []


def test_an_unchanged_target_gets_no_record_either_when_a_member_joins_meanwhile() -> None:
    harness = large()
    harness.first_heartbeat("A", "t")
    harness.notify(compute(harness))
    harness.first_heartbeat("B", "u")  # A keeps the rest
    computed = compute(harness)
    harness.first_heartbeat("C", "u")
    harness.written()
    harness.notify(computed)
    targets = [one for one in harness.written() if "TargetAssignmentMember" in one]
    assert len(targets) == 2
    assert not any(" A" in one for one in targets)


def test_records_of_large_targets_are_made_in_the_offloaded_work(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = large()
    harness.first_heartbeat("A", "t")
    harness.notify(compute(harness))
    harness.first_heartbeat("B", "t")
    computed = compute(harness)
    harness.written()
    made: list[str] = []
    usual = records.target

    def target(group_id: str, member_id: str, *rest: Any) -> Record:
        made.append(member_id)
        return usual(group_id, member_id, *rest)

    monkeypatch.setattr(records, "target", target)
    harness.notify(computed)
    assert not made
    assert sum("TargetAssignmentMember" in one for one in harness.written()) == 2


def test_a_member_that_joins_meanwhile_does_not_void_the_prepared_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise thousands of members with long ids block the loop when others join all the time."""
    harness = large()
    harness.first_heartbeat("A", "t")
    harness.notify(compute(harness))
    harness.first_heartbeat("B", "t")
    computed = compute(harness)
    harness.first_heartbeat("C", "t")
    harness.records.clear()
    made: list[str] = []
    usual = records.target

    def target(group_id: str, member_id: str, *rest: Any) -> Record:
        made.append(member_id)
        return usual(group_id, member_id, *rest)

    monkeypatch.setattr(records, "target", target)
    harness.notify(computed)
    assert made == ["C"]
    targets = [one for one in harness.records if isinstance(one.key, ConsumerGroupTargetAssignmentMemberKey)]
    prepared = [one for one in targets if getattr(one.key, "member_id", "") != "C"]
    assert len(prepared) == 2
    for one in prepared:
        assert type(one) is PackedRecord
        assert one.row == pack_record(OFFSETS, Record(*one))


def test_a_member_that_joins_meanwhile_costs_few_instructions_when_the_target_is_put_in_force() -> None:
    """4,500 such members, each with an empty target in the records, once blocked the event loop for 59 ms."""
    costs: list[int] = []
    for count in (50, 250):
        harness = large(group_consumer_assignment_interval_ms=60_000)
        harness.first_heartbeat("A", "t")
        harness.notify(compute(harness))
        harness.advance(30_000)
        harness.heartbeat("A")
        harness.advance(30_000)
        harness.first_heartbeat("B", "t")
        computed = compute(harness)
        for number in range(count):
            harness.first_heartbeat(f"C{number}", "t")
        harness.records.clear()
        costs.append(instructions(partial(harness.notify, computed)))
        assert sum("TargetAssignmentMember" in one for one in harness.written()) >= count
    assert (costs[1] - costs[0]) / 200 < 560  # 507; 625 before


def test_no_member_id_is_hashed_again_when_a_prepared_target_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = large()
    harness.first_heartbeat("A" * 5_000, "t")
    harness.notify(compute(harness))
    harness.first_heartbeat("B" * 5_000, "t")
    computed = compute(harness)
    harness.first_heartbeat("C" * 5_000, "t")
    hashed: list[str] = []
    monkeypatch.setattr(java_order, "java_string_hash", lambda text: hashed.append(text) or 0)
    harness.notify(computed)
    assert harness.consumers().assignment_epoch == 3
    assert not [text for text in hashed if len(text) > java_order.FEW_LETTERS]


def test_a_member_without_an_epoch_waits_for_its_first_target() -> None:
    harness = large()
    assert harness.first_heartbeat("A", "t") is None
    token = harness.asked
    assert harness.first_heartbeat("B", "t") is None  # the computation does not include the second member
    assert len(harness.offloaded) == 1
    harness.notify(compute(harness))
    first, second = harness.reply(token), harness.reply(token + 1)
    assert (first.member_epoch, len(first.assignment.topic_partitions[0].partitions)) == (2, 600)
    assert (second.member_epoch, given(second)) == (2, "")
    assert not harness.consumers().waiting
    harness.notify(compute(harness))  # the topics are requested at once
    assert harness.consumers().assignment_epoch == 3
    assert harness.consumers().state == "Reconciling"


def test_members_with_an_epoch_are_answered_by_the_current_target() -> None:
    harness = large()
    harness.first_heartbeat("A", "t")
    harness.notify(compute(harness))
    joined = harness.first_heartbeat("B", "t")
    assert (joined.member_epoch, given(joined)) == (2, "")
    assert harness.heartbeat("A").member_epoch == 2
    assert len(harness.offloaded) == 1  # the request is made once
    harness.notify(compute(harness))
    assert harness.heartbeat("B", owned={}).member_epoch == 3
    assert harness.consumers().state == "Reconciling"


def test_a_member_that_left_before_its_first_target_gets_unknown_member_id() -> None:
    harness = large()
    harness.first_heartbeat("A", "t")
    token = harness.asked
    computed = compute(harness)
    harness.heartbeat("A", -1)
    harness.notify(computed)
    assert harness.reply(token).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_first_targets_include_all_members_that_joined_meanwhile() -> None:
    harness = large(group_consumer_assignment_interval_ms=1_000)
    harness.first_heartbeat("A", "t")
    first, alone = harness.asked, compute(harness)
    harness.first_heartbeat("B", "t")
    harness.written()
    harness.notify(alone)
    assert not harness.written()  # A does not get partitions that it would have to give up
    assert harness.reply(first) is None
    together = compute(harness)
    harness.first_heartbeat("C", "t")
    harness.advance(1_000)  # but no member waits for longer than this
    harness.notify(together)
    assert [
        len(rows)
        for rows in map(partitions, (harness.reply(first), harness.reply(first + 1), harness.reply(first + 2)))
    ] == [
        300,
        300,
        0,
    ]
    assert harness.consumers().assignment_epoch == 3


def test_first_targets_are_computed_at_once_if_few_partitions_are_left() -> None:
    harness = large(group_consumer_assignment_interval_ms=1_000)
    harness.first_heartbeat("A", "t")
    first, alone = harness.asked, compute(harness)
    harness.first_heartbeat("B", "t")
    harness.notify(TopicsChanged(topics(t=8)))
    harness.notify(alone)
    assert [len(partitions(harness.reply(one))) for one in (first, first + 1)] == [4, 4]
    assert not harness.offloaded


def test_the_first_targets_are_used_if_the_group_still_has_as_many_members() -> None:
    harness = large(group_consumer_assignment_interval_ms=1_000)
    harness.first_heartbeat("A", "t")
    first, alone = harness.asked, compute(harness)
    harness.first_heartbeat("B", "t")
    harness.heartbeat("B", -1)
    harness.notify(alone)
    assert len(partitions(harness.reply(first))) == 600


def test_a_failed_assignor_refuses_the_waiting_member_and_is_tried_again() -> None:
    harness = large()
    harness.first_heartbeat("A", "t")
    token = harness.asked
    wanted = harness.offloaded.pop()
    harness.notify(AssignmentComputed(wanted, None))
    failed = harness.reply(token)
    assert failed.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert failed.error_message is None
    assert not harness.consumers().members  # as if the heartbeat had never come
    harness.first_heartbeat("A", "t")
    harness.notify(compute(harness))
    harness.first_heartbeat("B", "t", assignor="range")
    harness.notify(AssignmentComputed(harness.offloaded.pop(), None))
    assert list(harness.consumers().members) == ["A", "B"]  # the target in force was its answer
    for member in ("A", "B"):
        assert harness.heartbeat(member).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(harness.offloaded) == 1  # the next heartbeat requests them again
    harness.notify(compute(harness))
    assert not harness.heartbeat("A").error_code


def test_a_core_that_resigns_answers_members_that_wait_for_targets() -> None:
    harness = large()
    harness.first_heartbeat("A", "t")
    computed = compute(harness)
    replies = harness.core.resign(ErrorCode.NOT_COORDINATOR).replies
    assert [response.error_code for _, response in replies] == [ErrorCode.NOT_COORDINATOR]
    assert not computed.wanted.waiting


def test_a_pattern_is_resolved_after_the_first_answer() -> None:
    harness = ConsumerGroupHarness(helped=True)
    joined = harness.first_heartbeat("A", pattern="[tu]")
    assert (joined.member_epoch, given(joined)) == (1, "")
    harness.written()
    search(harness, "t", "u")
    assert harness.written() == ["RegularExpression [tu] t+u", "Metadata 2"]
    assert given(harness.heartbeat("A", owned={})) == "t0+1+2+3+4+5+6+7 u0+1"
    assert not harness.offloaded
    harness.heartbeat("A", -1)
    assert "RegularExpression [tu] -" in harness.written()


def test_a_changed_pattern_takes_all_partitions_away_until_it_is_resolved() -> None:
    harness = ConsumerGroupHarness(helped=True)
    harness.first_heartbeat("A", pattern="t")
    search(harness, "t")
    harness.heartbeat("A", owned={})
    harness.written()
    changed = harness.heartbeat("A", pattern="u")
    assert given(changed) == ""
    assert harness.written() == [
        "MemberMetadata A",
        "RegularExpression t -",
        "CurrentMemberAssignment A 2<2 1 -t0+1+2+3+4+5+6+7",
    ]


def test_a_removed_pattern_keeps_the_metadata_hash_until_a_topic_of_the_group_changes() -> None:
    harness = ConsumerGroupHarness(helped=True)
    harness.first_heartbeat("A", pattern="u")
    search(harness, "u")
    harness.heartbeat("A", owned={})
    harness.heartbeat("A", pattern="t")
    epoch = harness.consumers().epoch
    harness.notify(TopicsChanged(topics(t=8, u=2, nobodys=1)))
    harness.heartbeat("A", owned={})
    assert harness.consumers().epoch == epoch
    harness.notify(TopicsChanged(topics(t=8, u=3, nobodys=1)))  # nor is this pattern the group's any more
    harness.heartbeat("A", owned={})
    assert harness.consumers().epoch == epoch
    search(harness, "t")
    assert harness.consumers().epoch == epoch + 1


def test_a_topic_change_bumps_the_epoch_also_when_its_pattern_is_removed_at_the_same_time() -> None:
    harness = ConsumerGroupHarness(helped=True)
    harness.first_heartbeat("A", pattern="u")
    search(harness, "u")
    epoch = harness.consumers().epoch
    harness.notify(TopicsChanged(topics(t=8, u=3)))
    harness.heartbeat("A", pattern="t", owned={})
    assert harness.consumers().epoch == epoch + 1


def test_members_with_different_patterns_use_the_general_assignor_though_their_topics_are_equal() -> None:
    harness = ConsumerGroupHarness(helped=True)
    harness.notify(TopicsChanged(topics(t=600)))
    harness.first_heartbeat("A", pattern="t")
    search(harness, "t")
    harness.heartbeat("A", owned={})
    assert not harness.offloaded[0].is_general  # all members have one pattern
    harness.notify(compute(harness))
    harness.first_heartbeat("B", pattern="t")
    assert not harness.offloaded[0].is_general
    harness.notify(compute(harness))
    harness.first_heartbeat("C", "t")
    wanted = harness.offloaded[0]
    assert wanted.is_general
    assert {tuple(one.topics) for one in wanted.members} == {("t",)}
    general = compute(harness)
    equal = prepare_target(wanted, SERVER_ASSIGNORS["uniform"].assign(wanted.members, wanted.topics)).member_targets
    targets = general.prepared_target.member_targets
    assert [len(its) for ((_, its),) in targets.values()] == [200, 200, 200]
    assert targets != equal
    harness.notify(general)
    assert not harness.consumers().is_alike
    harness.heartbeat("C", names=[], pattern="t")  # now all members have it again
    assert harness.consumers().is_alike
    assert not harness.offloaded[0].is_general
    assert harness.replayed(harness.records).is_alike


def test_patterns_are_resolved_again_for_new_topics_but_not_too_often() -> None:
    harness = ConsumerGroupHarness(helped=True)
    harness.first_heartbeat("A", pattern=".*")
    search(harness, "t")
    harness.notify(TopicsChanged(topics(t=8, u=2)))
    harness.heartbeat("A")
    assert not harness.offloaded
    harness.advance(10_001)
    harness.heartbeat("A")
    assert len(harness.offloaded) == 1
    search(harness, "t", "u")
    assert harness.consumers().epoch == 3


def test_an_invalid_pattern_is_refused() -> None:
    harness = ConsumerGroupHarness()
    refused = harness.first_heartbeat("A", pattern="[a", error="missing closing ]")
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert refused.error_message == ("SubscribedTopicRegex `[a` is not a valid regular expression: missing closing ].")
    assert not harness.core.state.groups
    assert harness.first_heartbeat("A", pattern="").error_code == 0


def test_a_pattern_that_another_member_has_is_resolved_at_once() -> None:
    harness = ConsumerGroupHarness(helped=True)
    harness.first_heartbeat("A", pattern="t")
    search(harness, "t")
    harness.heartbeat("A", owned={})
    joined = harness.first_heartbeat("B", pattern="t")
    assert joined.member_epoch == 3
    assert not harness.offloaded
    harness.heartbeat("B", pattern="")  # the member has no pattern any more: that counts at once
    assert harness.consumers().epoch == 4
    assert harness.consumers().patterns == {"t": 1}


def test_the_result_of_a_pattern_that_no_member_has_any_more_is_dropped() -> None:
    harness = ConsumerGroupHarness(helped=True)
    harness.first_heartbeat("A", pattern="t")
    harness.heartbeat("A", pattern="u")
    harness.written()
    search(harness, "t")
    assert not any("RegularExpression" in one for one in harness.written())


def test_a_failed_pattern_search_or_one_of_a_removed_group_changes_nothing() -> None:
    harness = ConsumerGroupHarness(helped=True)
    harness.first_heartbeat("A", pattern="t")
    wanted = harness.offloaded.pop()
    harness.written()
    harness.notify(TopicsFound(wanted, None))
    assert not harness.written()
    harness.heartbeat("A")
    assert harness.offloaded  # requested again
    harness.notify(TopicsFound(TopicsWanted("gone", wanted.client, (), wanted.image), {}))
    assert not harness.written()


def test_a_pattern_that_resolves_to_the_same_topics_makes_no_new_epoch() -> None:
    harness = ConsumerGroupHarness(helped=True)
    harness.first_heartbeat("A", pattern="t")
    search(harness, "t")
    harness.advance(10_001)
    harness.notify(TopicsChanged(topics(t=8, u=2)))
    harness.heartbeat("A", owned={})
    epoch = harness.consumers().epoch
    search(harness, "t")
    assert harness.consumers().epoch == epoch


def test_resolved_topics_that_do_not_fit_into_a_batch_are_left_out() -> None:
    harness = ConsumerGroupHarness(helped=True)
    harness.first_heartbeat("A", pattern=".*")
    harness.max_bytes = 500
    search(harness, *[f"a-topic-with-a-name-{number}" for number in range(100)])
    assert not harness.consumers().resolved


def test_a_core_without_helpers_resolves_no_pattern() -> None:
    harness = ConsumerGroupHarness()
    assert harness.first_heartbeat("A", pattern="t").member_epoch == 1


def test_an_unchanged_target_stays_the_same_object_in_whatever_order_the_assignor_gives_it() -> None:
    harness = large()
    harness.first_heartbeat("A", "t")
    harness.notify(compute(harness))
    harness.first_heartbeat("B", "t")
    wanted = harness.offloaded.pop(0)
    assert isinstance(wanted, AssignmentWanted)
    (before,) = wanted.targets.values()
    ((_, kept),) = before
    turned = {"A": {"t": list(reversed(kept))}, "B": {}}
    prepared = prepare_target(wanted, turned)
    assert prepared.member_targets["A"] is before
    assert set(prepared.records) == {"B"}


def test_a_prepared_target_is_put_in_force_when_a_member_left_and_joined_again_meanwhile() -> None:
    harness = large(group_consumer_assignment_interval_ms=1_000)
    for member in "AB":
        harness.first_heartbeat(member, "t")
    while harness.offloaded:
        harness.notify(compute(harness))
    harness.advance(1_000)
    harness.first_heartbeat("C", "t")
    computed = compute(harness)
    harness.heartbeat("B", -1)
    harness.first_heartbeat("B", "t")
    harness.notify(computed)
    assert set(harness.consumers().targets) == {"A", "B", "C"}


def test_a_target_that_is_older_than_an_empty_group_is_dropped() -> None:
    harness = large()
    harness.first_heartbeat("A", "t")
    harness.notify(compute(harness))
    harness.first_heartbeat("B", "t")
    computed = compute(harness)
    harness.heartbeat("A", -1)
    harness.heartbeat("B", -1)
    assert (harness.consumers().epoch, harness.consumers().assignment_epoch) == (5, 5)
    assert harness.first_heartbeat("C", "t") is None
    harness.notify(computed)
    assert (harness.consumers().epoch, harness.consumers().assignment_epoch) == (6, 5)
    harness.notify(compute(harness))
    assert harness.consumers().assignment_epoch == harness.member("C").position.epoch == 6
