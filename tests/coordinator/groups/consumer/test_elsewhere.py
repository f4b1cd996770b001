"""Work that is done elsewhere: large targets, and the topics of regular expressions."""

from __future__ import annotations

from typing import Any

import pytest

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
from tests.coordinator.groups.consumer.harness import Hall, given, topics


def large(**settings: int) -> Hall:
    hall = Hall(helped=True, **settings)
    hall.told(TopicsChanged(topics(t=600)))
    return hall


def partitions(answer: Any) -> list[int]:
    return [one for row in answer.assignment.topic_partitions for one in row.partitions]


def compute(hall: Hall) -> AssignmentComputed:
    wanted = hall.elsewhere.pop(0)
    assert isinstance(wanted, AssignmentWanted)
    return prepare_target(wanted, wanted.assign(SERVER_ASSIGNORS[wanted.assignor]))


def search(hall: Hall, *names: str) -> None:
    wanted = hall.elsewhere.pop(0)
    assert isinstance(wanted, TopicsWanted)
    hall.told(TopicsFound(wanted, dict.fromkeys(wanted.patterns, names)))


@pytest.mark.parametrize("change", ["nothing", "a member more", "a member less", "another one", "topics"])
def test_what_was_worked_out_apart_gives_the_same_records(change: str) -> None:
    halls = large(), large()
    for number, hall in enumerate(halls):
        hall.enter("A", "t")
        hall.told(compute(hall))
        for member in "BCD":
            hall.enter(member, "t")
        computed = compute(hall)
        if change in ("a member less", "another one"):
            hall.cast("C", -1)
        if change in ("a member more", "another one"):
            hall.enter("E", "t")
        if change == "topics":
            hall.told(TopicsChanged(topics(u=600)))
        hall.written()
        hall.told(computed if number else computed._replace(prepared_target=None))
    usual, quick = halls
    records = quick.written()
    assert len(records) >= 4
    assert usual.written() == records


def test_a_target_that_stays_gets_no_record() -> None:
    hall = large()
    hall.enter("A", "t")
    hall.told(compute(hall))
    hall.enter("B", "u")  # what A has stays
    computed = compute(hall)
    assert set(computed.prepared_target.records) == {"B"}
    hall.told(computed)
    assert [one for one in hall.written() if "target" in one and " A" in one] == []


def test_the_records_of_large_targets_are_made_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    hall = large()
    hall.enter("A", "t")
    hall.told(compute(hall))
    hall.enter("B", "t")
    computed = compute(hall)
    hall.written()
    made: list[str] = []
    usual = records.target

    def target(group_id: str, member_id: str, *rest: Any) -> Record:
        made.append(member_id)
        return usual(group_id, member_id, *rest)

    monkeypatch.setattr(records, "target", target)
    hall.told(computed)
    assert not made
    assert sum("TargetAssignmentMember" in one for one in hall.written()) == 2


def test_who_has_no_epoch_waits_for_the_first_target() -> None:
    hall = large()
    assert hall.enter("A", "t") is None
    token = hall.asked
    assert hall.enter("B", "t") is None  # a second member is not in what is being computed
    assert len(hall.elsewhere) == 1
    hall.told(compute(hall))
    first, second = hall.reply(token), hall.reply(token + 1)
    assert (first.member_epoch, len(first.assignment.topic_partitions[0].partitions)) == (2, 600)
    assert (second.member_epoch, given(second)) == (2, "")
    assert not hall.consumers().waiting
    hall.told(compute(hall))  # asked for at once
    assert hall.consumers().assignment_epoch == 3
    assert hall.consumers().state == "Reconciling"


def test_others_are_answered_by_the_target_in_force() -> None:
    hall = large()
    hall.enter("A", "t")
    hall.told(compute(hall))
    joined = hall.enter("B", "t")
    assert (joined.member_epoch, given(joined)) == (2, "")
    assert hall.cast("A").member_epoch == 2
    assert len(hall.elsewhere) == 1  # asked once
    hall.told(compute(hall))
    assert hall.cast("B", owned={}).member_epoch == 3
    assert hall.consumers().state == "Reconciling"


def test_a_member_that_has_gone_meanwhile() -> None:
    hall = large()
    hall.enter("A", "t")
    token = hall.asked
    computed = compute(hall)
    hall.cast("A", -1)
    hall.told(computed)
    assert hall.reply(token).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_first_targets_are_for_all_who_have_come_meanwhile() -> None:
    hall = large(group_consumer_assignment_interval_ms=1_000)
    hall.enter("A", "t")
    first, alone = hall.asked, compute(hall)
    hall.enter("B", "t")
    hall.written()
    hall.told(alone)
    assert not hall.written()  # A is not given what it would have to give up
    assert hall.reply(first) is None
    together = compute(hall)
    hall.enter("C", "t")
    hall.advance(1_000)  # but nobody waits for longer than this
    hall.told(together)
    assert [
        len(rows) for rows in map(partitions, (hall.reply(first), hall.reply(first + 1), hall.reply(first + 2)))
    ] == [
        300,
        300,
        0,
    ]
    assert hall.consumers().assignment_epoch == 3


def test_first_targets_are_computed_at_once_when_the_topics_have_become_few() -> None:
    hall = large(group_consumer_assignment_interval_ms=1_000)
    hall.enter("A", "t")
    first, alone = hall.asked, compute(hall)
    hall.enter("B", "t")
    hall.told(TopicsChanged(topics(t=8)))
    hall.told(alone)
    assert [len(partitions(hall.reply(one))) for one in (first, first + 1)] == [4, 4]
    assert not hall.elsewhere


def test_the_first_targets_are_in_force_when_as_many_are_there() -> None:
    hall = large(group_consumer_assignment_interval_ms=1_000)
    hall.enter("A", "t")
    first, alone = hall.asked, compute(hall)
    hall.enter("B", "t")
    hall.cast("B", -1)
    hall.told(alone)
    assert len(partitions(hall.reply(first))) == 600


def test_an_assignor_that_fails() -> None:
    hall = large()
    hall.enter("A", "t")
    token = hall.asked
    wanted = hall.elsewhere.pop()
    hall.told(AssignmentComputed(wanted, None))
    failed = hall.reply(token)
    assert failed.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert failed.error_message is None
    assert not hall.consumers().members  # as if it had never come
    hall.enter("A", "t")
    hall.told(compute(hall))
    hall.enter("B", "t", assignor="range")
    hall.told(AssignmentComputed(hall.elsewhere.pop(), None))
    assert list(hall.consumers().members) == ["A", "B"]  # it was answered by the target in force
    for member in ("A", "B"):
        assert hall.cast(member).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(hall.elsewhere) == 1  # the next heartbeat asks again
    hall.told(compute(hall))
    assert not hall.cast("A").error_code


def test_a_core_that_is_given_up_answers_who_waits() -> None:
    hall = large()
    hall.enter("A", "t")
    computed = compute(hall)
    replies = hall.core.resign(ErrorCode.NOT_COORDINATOR).replies
    assert [response.error_code for _, response in replies] == [ErrorCode.NOT_COORDINATOR]
    assert not computed.wanted.waiting


def test_a_pattern_finds_its_topics_later() -> None:
    hall = Hall(helped=True)
    joined = hall.enter("A", pattern="[tu]")
    assert (joined.member_epoch, given(joined)) == (1, "")
    hall.written()
    search(hall, "t", "u")
    assert hall.written() == ["RegularExpression [tu] t+u", "Metadata 2"]
    assert given(hall.cast("A", owned={})) == "t0+1+2+3+4+5+6+7 u0+1"
    assert not hall.elsewhere
    hall.cast("A", -1)
    assert "RegularExpression [tu] -" in hall.written()


def test_a_pattern_that_changes_takes_everything_away_until_it_is_resolved() -> None:
    hall = Hall(helped=True)
    hall.enter("A", pattern="t")
    search(hall, "t")
    hall.cast("A", owned={})
    hall.written()
    changed = hall.cast("A", pattern="u")
    assert given(changed) == ""
    assert hall.written() == [
        "MemberMetadata A",
        "RegularExpression t -",
        "CurrentMemberAssignment A 2<2 1 -t0+1+2+3+4+5+6+7",
    ]


def test_a_pattern_that_is_forgotten_leaves_the_hash_behind_until_there_is_news_of_the_groups_topics() -> None:
    hall = Hall(helped=True)
    hall.enter("A", pattern="u")
    search(hall, "u")
    hall.cast("A", owned={})
    hall.cast("A", pattern="t")
    epoch = hall.consumers().epoch
    hall.told(TopicsChanged(topics(t=8, u=2, nobodys=1)))
    hall.cast("A", owned={})
    assert hall.consumers().epoch == epoch
    hall.told(TopicsChanged(topics(t=8, u=3, nobodys=1)))  # nor is this one the group's any more
    hall.cast("A", owned={})
    assert hall.consumers().epoch == epoch
    search(hall, "t")
    assert hall.consumers().epoch == epoch + 1


def test_news_of_a_topic_count_also_when_its_pattern_goes_at_the_same_time() -> None:
    hall = Hall(helped=True)
    hall.enter("A", pattern="u")
    search(hall, "u")
    epoch = hall.consumers().epoch
    hall.told(TopicsChanged(topics(t=8, u=3)))
    hall.cast("A", pattern="t", owned={})
    assert hall.consumers().epoch == epoch + 1


def test_a_group_with_other_patterns_goes_the_general_way_though_all_subscribe_alike() -> None:
    hall = Hall(helped=True)
    hall.told(TopicsChanged(topics(t=600)))
    hall.enter("A", pattern="t")
    search(hall, "t")
    hall.cast("A", owned={})
    assert not hall.elsewhere[0].is_general  # all have one pattern
    hall.told(compute(hall))
    hall.enter("B", pattern="t")
    assert not hall.elsewhere[0].is_general
    hall.told(compute(hall))
    hall.enter("C", "t")
    wanted = hall.elsewhere[0]
    assert wanted.is_general
    assert {tuple(one.topics) for one in wanted.members} == {("t",)}
    general, equal = compute(hall), SERVER_ASSIGNORS["uniform"].assign(wanted.members, wanted.topics)
    assert general.assignment is not None
    assert sorted(map(len, (one["t"] for one in general.assignment.values()))) == [200, 200, 200]
    assert general.assignment != equal
    hall.told(general)
    assert not hall.consumers().is_alike
    hall.cast("C", names=[], pattern="t")  # now all have it again
    assert hall.consumers().is_alike
    assert not hall.elsewhere[0].is_general
    assert hall.replayed(hall.records).is_alike


def test_patterns_are_searched_for_again_when_topics_come_but_not_too_often() -> None:
    hall = Hall(helped=True)
    hall.enter("A", pattern=".*")
    search(hall, "t")
    hall.told(TopicsChanged(topics(t=8, u=2)))
    hall.cast("A")
    assert not hall.elsewhere
    hall.advance(10_001)
    hall.cast("A")
    assert len(hall.elsewhere) == 1
    search(hall, "t", "u")
    assert hall.consumers().epoch == 3


def test_a_pattern_that_is_none() -> None:
    hall = Hall()
    refused = hall.enter("A", pattern="[a", error="missing closing ]")
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert refused.error_message == ("SubscribedTopicRegex `[a` is not a valid regular expression: missing closing ].")
    assert not hall.core.state.groups
    assert hall.enter("A", pattern="").error_code == 0


def test_a_pattern_that_another_member_has_is_known_at_once() -> None:
    hall = Hall(helped=True)
    hall.enter("A", pattern="t")
    search(hall, "t")
    hall.cast("A", owned={})
    joined = hall.enter("B", pattern="t")
    assert joined.member_epoch == 3
    assert not hall.elsewhere
    hall.cast("B", pattern="")  # it has none any more: that counts at once
    assert hall.consumers().epoch == 4
    assert hall.consumers().patterns == {"t": 1}


def test_a_pattern_that_nobody_has_any_more_when_its_topics_are_found() -> None:
    hall = Hall(helped=True)
    hall.enter("A", pattern="t")
    hall.cast("A", pattern="u")
    hall.written()
    search(hall, "t")
    assert not any("RegularExpression" in one for one in hall.written())


def test_a_search_of_a_group_that_is_gone_or_that_failed() -> None:
    hall = Hall(helped=True)
    hall.enter("A", pattern="t")
    wanted = hall.elsewhere.pop()
    hall.written()
    hall.told(TopicsFound(wanted, None))
    assert not hall.written()
    hall.cast("A")
    assert hall.elsewhere  # asked for again
    hall.told(TopicsFound(TopicsWanted("gone", wanted.client, (), wanted.image), {}))
    assert not hall.written()


def test_the_same_topics_again_are_no_new_epoch() -> None:
    hall = Hall(helped=True)
    hall.enter("A", pattern="t")
    search(hall, "t")
    hall.advance(10_001)
    hall.told(TopicsChanged(topics(t=8, u=2)))
    hall.cast("A", owned={})
    epoch = hall.consumers().epoch
    search(hall, "t")
    assert hall.consumers().epoch == epoch


def test_topics_that_do_not_fit_into_a_batch_are_left_out() -> None:
    hall = Hall(helped=True)
    hall.enter("A", pattern=".*")
    hall.max_bytes = 500
    search(hall, *[f"a-topic-with-a-name-{number}" for number in range(100)])
    assert not hall.consumers().resolved


def test_without_helpers_no_pattern_finds_a_topic() -> None:
    hall = Hall()
    assert hall.enter("A", pattern="t").member_epoch == 1
