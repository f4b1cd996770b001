"""Work that is done elsewhere: large targets, and the topics of regular expressions."""

from __future__ import annotations

from typing import Any

import pytest

from muster.assignors import java_order
from muster.assignors.builtin import SERVER_ASSIGNORS
from muster.coordinator.groups.common.image import TopicsChanged
from muster.coordinator.groups.consumer import records
from muster.coordinator.groups.consumer.commands import (
    AssignmentComputed,
    AssignmentWanted,
    TopicsFound,
    TopicsWanted,
)
from muster.coordinator.groups.consumer.target import prepare_target
from muster.coordinator.state_machine.interface import Record
from muster.protocol.errors import ErrorCode
from tests.coordinator.groups.consumer.harness import ConsumerGroupHarness, given, topics


def large(**settings: int) -> ConsumerGroupHarness:
    harness = ConsumerGroupHarness(helped=True, **settings)
    harness.notify(TopicsChanged(topics(t=600)))
    return harness


def partitions(answer: Any) -> list[int]:
    return [one for row in answer.assignment.topic_partitions for one in row.partitions]


def compute(harness: ConsumerGroupHarness) -> AssignmentComputed:
    wanted = harness.elsewhere.pop(0)
    assert isinstance(wanted, AssignmentWanted)
    return prepare_target(wanted, wanted.assign(SERVER_ASSIGNORS[wanted.assignor]))


def search(harness: ConsumerGroupHarness, *names: str) -> None:
    wanted = harness.elsewhere.pop(0)
    assert isinstance(wanted, TopicsWanted)
    harness.notify(TopicsFound(wanted, dict.fromkeys(wanted.patterns, names)))


@pytest.mark.parametrize("change", ["nothing", "a member more", "a member less", "another one", "topics"])
def test_what_was_worked_out_apart_gives_the_same_records(change: str) -> None:
    halls = large(), large()
    for number, harness in enumerate(halls):
        harness.enter("A", "t")
        harness.notify(compute(harness))
        for member in "BCD":
            harness.enter(member, "t")
        computed = compute(harness)
        if change in ("a member less", "another one"):
            harness.cast("C", -1)
        if change in ("a member more", "another one"):
            harness.enter("E", "t")
        if change == "topics":
            harness.notify(TopicsChanged(topics(u=600)))
        harness.written()
        harness.notify(computed if number else computed._replace(prepared_target=None))
    usual, quick = halls
    records = quick.written()
    assert len(records) >= 4
    assert usual.written() == records


def test_a_target_that_stays_gets_no_record() -> None:
    harness = large()
    harness.enter("A", "t")
    harness.notify(compute(harness))
    harness.enter("B", "u")  # what A has stays
    computed = compute(harness)
    assert set(computed.prepared_target.records) == {"B"}
    harness.notify(computed)
    assert [one for one in harness.written() if "target" in one and " A" in one] == []


def test_the_records_of_large_targets_are_made_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = large()
    harness.enter("A", "t")
    harness.notify(compute(harness))
    harness.enter("B", "t")
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


def test_no_member_id_is_hashed_again_when_a_prepared_target_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = large()
    harness.enter("A" * 5_000, "t")
    harness.notify(compute(harness))
    harness.enter("B" * 5_000, "t")
    computed = compute(harness)
    harness.enter("C", "t")
    hashed: list[str] = []
    monkeypatch.setattr(java_order, "java_string_hash", hashed.append)
    harness.notify(computed)
    assert harness.consumers().assignment_epoch == 3
    assert not hashed


def test_who_has_no_epoch_waits_for_the_first_target() -> None:
    harness = large()
    assert harness.enter("A", "t") is None
    token = harness.asked
    assert harness.enter("B", "t") is None  # a second member is not in what is being computed
    assert len(harness.elsewhere) == 1
    harness.notify(compute(harness))
    first, second = harness.reply(token), harness.reply(token + 1)
    assert (first.member_epoch, len(first.assignment.topic_partitions[0].partitions)) == (2, 600)
    assert (second.member_epoch, given(second)) == (2, "")
    assert not harness.consumers().waiting
    harness.notify(compute(harness))  # asked for at once
    assert harness.consumers().assignment_epoch == 3
    assert harness.consumers().state == "Reconciling"


def test_others_are_answered_by_the_target_in_force() -> None:
    harness = large()
    harness.enter("A", "t")
    harness.notify(compute(harness))
    joined = harness.enter("B", "t")
    assert (joined.member_epoch, given(joined)) == (2, "")
    assert harness.cast("A").member_epoch == 2
    assert len(harness.elsewhere) == 1  # asked once
    harness.notify(compute(harness))
    assert harness.cast("B", owned={}).member_epoch == 3
    assert harness.consumers().state == "Reconciling"


def test_a_member_that_has_gone_meanwhile() -> None:
    harness = large()
    harness.enter("A", "t")
    token = harness.asked
    computed = compute(harness)
    harness.cast("A", -1)
    harness.notify(computed)
    assert harness.reply(token).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_first_targets_are_for_all_who_have_come_meanwhile() -> None:
    harness = large(group_consumer_assignment_interval_ms=1_000)
    harness.enter("A", "t")
    first, alone = harness.asked, compute(harness)
    harness.enter("B", "t")
    harness.written()
    harness.notify(alone)
    assert not harness.written()  # A is not given what it would have to give up
    assert harness.reply(first) is None
    together = compute(harness)
    harness.enter("C", "t")
    harness.advance(1_000)  # but nobody waits for longer than this
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


def test_first_targets_are_computed_at_once_when_the_topics_have_become_few() -> None:
    harness = large(group_consumer_assignment_interval_ms=1_000)
    harness.enter("A", "t")
    first, alone = harness.asked, compute(harness)
    harness.enter("B", "t")
    harness.notify(TopicsChanged(topics(t=8)))
    harness.notify(alone)
    assert [len(partitions(harness.reply(one))) for one in (first, first + 1)] == [4, 4]
    assert not harness.elsewhere


def test_the_first_targets_are_in_force_when_as_many_are_there() -> None:
    harness = large(group_consumer_assignment_interval_ms=1_000)
    harness.enter("A", "t")
    first, alone = harness.asked, compute(harness)
    harness.enter("B", "t")
    harness.cast("B", -1)
    harness.notify(alone)
    assert len(partitions(harness.reply(first))) == 600


def test_an_assignor_that_fails() -> None:
    harness = large()
    harness.enter("A", "t")
    token = harness.asked
    wanted = harness.elsewhere.pop()
    harness.notify(AssignmentComputed(wanted, None))
    failed = harness.reply(token)
    assert failed.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert failed.error_message is None
    assert not harness.consumers().members  # as if it had never come
    harness.enter("A", "t")
    harness.notify(compute(harness))
    harness.enter("B", "t", assignor="range")
    harness.notify(AssignmentComputed(harness.elsewhere.pop(), None))
    assert list(harness.consumers().members) == ["A", "B"]  # it was answered by the target in force
    for member in ("A", "B"):
        assert harness.cast(member).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(harness.elsewhere) == 1  # the next heartbeat asks again
    harness.notify(compute(harness))
    assert not harness.cast("A").error_code


def test_a_core_that_is_given_up_answers_who_waits() -> None:
    harness = large()
    harness.enter("A", "t")
    computed = compute(harness)
    replies = harness.core.resign(ErrorCode.NOT_COORDINATOR).replies
    assert [response.error_code for _, response in replies] == [ErrorCode.NOT_COORDINATOR]
    assert not computed.wanted.waiting


def test_a_pattern_finds_its_topics_later() -> None:
    harness = ConsumerGroupHarness(helped=True)
    joined = harness.enter("A", pattern="[tu]")
    assert (joined.member_epoch, given(joined)) == (1, "")
    harness.written()
    search(harness, "t", "u")
    assert harness.written() == ["RegularExpression [tu] t+u", "Metadata 2"]
    assert given(harness.cast("A", owned={})) == "t0+1+2+3+4+5+6+7 u0+1"
    assert not harness.elsewhere
    harness.cast("A", -1)
    assert "RegularExpression [tu] -" in harness.written()


def test_a_pattern_that_changes_takes_everything_away_until_it_is_resolved() -> None:
    harness = ConsumerGroupHarness(helped=True)
    harness.enter("A", pattern="t")
    search(harness, "t")
    harness.cast("A", owned={})
    harness.written()
    changed = harness.cast("A", pattern="u")
    assert given(changed) == ""
    assert harness.written() == [
        "MemberMetadata A",
        "RegularExpression t -",
        "CurrentMemberAssignment A 2<2 1 -t0+1+2+3+4+5+6+7",
    ]


def test_a_pattern_that_is_forgotten_leaves_the_hash_behind_until_there_is_news_of_the_groups_topics() -> None:
    harness = ConsumerGroupHarness(helped=True)
    harness.enter("A", pattern="u")
    search(harness, "u")
    harness.cast("A", owned={})
    harness.cast("A", pattern="t")
    epoch = harness.consumers().epoch
    harness.notify(TopicsChanged(topics(t=8, u=2, nobodys=1)))
    harness.cast("A", owned={})
    assert harness.consumers().epoch == epoch
    harness.notify(TopicsChanged(topics(t=8, u=3, nobodys=1)))  # nor is this one the group's any more
    harness.cast("A", owned={})
    assert harness.consumers().epoch == epoch
    search(harness, "t")
    assert harness.consumers().epoch == epoch + 1


def test_news_of_a_topic_count_also_when_its_pattern_goes_at_the_same_time() -> None:
    harness = ConsumerGroupHarness(helped=True)
    harness.enter("A", pattern="u")
    search(harness, "u")
    epoch = harness.consumers().epoch
    harness.notify(TopicsChanged(topics(t=8, u=3)))
    harness.cast("A", pattern="t", owned={})
    assert harness.consumers().epoch == epoch + 1


def test_a_group_with_other_patterns_goes_the_general_way_though_all_subscribe_alike() -> None:
    harness = ConsumerGroupHarness(helped=True)
    harness.notify(TopicsChanged(topics(t=600)))
    harness.enter("A", pattern="t")
    search(harness, "t")
    harness.cast("A", owned={})
    assert not harness.elsewhere[0].is_general  # all have one pattern
    harness.notify(compute(harness))
    harness.enter("B", pattern="t")
    assert not harness.elsewhere[0].is_general
    harness.notify(compute(harness))
    harness.enter("C", "t")
    wanted = harness.elsewhere[0]
    assert wanted.is_general
    assert {tuple(one.topics) for one in wanted.members} == {("t",)}
    general, equal = compute(harness), SERVER_ASSIGNORS["uniform"].assign(wanted.members, wanted.topics)
    assert general.assignment is not None
    assert sorted(map(len, (one["t"] for one in general.assignment.values()))) == [200, 200, 200]
    assert general.assignment != equal
    harness.notify(general)
    assert not harness.consumers().is_alike
    harness.cast("C", names=[], pattern="t")  # now all have it again
    assert harness.consumers().is_alike
    assert not harness.elsewhere[0].is_general
    assert harness.replayed(harness.records).is_alike


def test_patterns_are_searched_for_again_when_topics_come_but_not_too_often() -> None:
    harness = ConsumerGroupHarness(helped=True)
    harness.enter("A", pattern=".*")
    search(harness, "t")
    harness.notify(TopicsChanged(topics(t=8, u=2)))
    harness.cast("A")
    assert not harness.elsewhere
    harness.advance(10_001)
    harness.cast("A")
    assert len(harness.elsewhere) == 1
    search(harness, "t", "u")
    assert harness.consumers().epoch == 3


def test_a_pattern_that_is_none() -> None:
    harness = ConsumerGroupHarness()
    refused = harness.enter("A", pattern="[a", error="missing closing ]")
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert refused.error_message == ("SubscribedTopicRegex `[a` is not a valid regular expression: missing closing ].")
    assert not harness.core.state.groups
    assert harness.enter("A", pattern="").error_code == 0


def test_a_pattern_that_another_member_has_is_known_at_once() -> None:
    harness = ConsumerGroupHarness(helped=True)
    harness.enter("A", pattern="t")
    search(harness, "t")
    harness.cast("A", owned={})
    joined = harness.enter("B", pattern="t")
    assert joined.member_epoch == 3
    assert not harness.elsewhere
    harness.cast("B", pattern="")  # it has none any more: that counts at once
    assert harness.consumers().epoch == 4
    assert harness.consumers().patterns == {"t": 1}


def test_a_pattern_that_nobody_has_any_more_when_its_topics_are_found() -> None:
    harness = ConsumerGroupHarness(helped=True)
    harness.enter("A", pattern="t")
    harness.cast("A", pattern="u")
    harness.written()
    search(harness, "t")
    assert not any("RegularExpression" in one for one in harness.written())


def test_a_search_of_a_group_that_is_gone_or_that_failed() -> None:
    harness = ConsumerGroupHarness(helped=True)
    harness.enter("A", pattern="t")
    wanted = harness.elsewhere.pop()
    harness.written()
    harness.notify(TopicsFound(wanted, None))
    assert not harness.written()
    harness.cast("A")
    assert harness.elsewhere  # asked for again
    harness.notify(TopicsFound(TopicsWanted("gone", wanted.client, (), wanted.image), {}))
    assert not harness.written()


def test_the_same_topics_again_are_no_new_epoch() -> None:
    harness = ConsumerGroupHarness(helped=True)
    harness.enter("A", pattern="t")
    search(harness, "t")
    harness.advance(10_001)
    harness.notify(TopicsChanged(topics(t=8, u=2)))
    harness.cast("A", owned={})
    epoch = harness.consumers().epoch
    search(harness, "t")
    assert harness.consumers().epoch == epoch


def test_topics_that_do_not_fit_into_a_batch_are_left_out() -> None:
    harness = ConsumerGroupHarness(helped=True)
    harness.enter("A", pattern=".*")
    harness.max_bytes = 500
    search(harness, *[f"a-topic-with-a-name-{number}" for number in range(100)])
    assert not harness.consumers().resolved


def test_without_helpers_no_pattern_finds_a_topic() -> None:
    harness = ConsumerGroupHarness()
    assert harness.enter("A", pattern="t").member_epoch == 1
