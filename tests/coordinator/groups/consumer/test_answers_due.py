"""Members that wait for the first targets of a group: they are answered some at a time, each in its own step."""

from __future__ import annotations

from typing import Any

import pytest

from muster.assignors.builtin import SERVER_ASSIGNORS
from muster.coordinator.groups.common.image import TopicsChanged
from muster.coordinator.groups.consumer import computed_targets
from muster.coordinator.groups.consumer.commands import AnswersDue, AssignmentComputed, AssignmentWanted, Helpers
from muster.coordinator.groups.consumer.target import prepare_target
from muster.coordinator.groups.core import GroupCore
from muster.protocol.errors import ErrorCode
from tests.coordinator.groups.consumer.harness import ConsumerGroupHarness, given, topics


class LaterHall(ConsumerGroupHarness):
    """A `ConsumerGroupHarness` whose helpers also tell the core something later: `due` is what."""

    def __init__(self) -> None:
        super().__init__(helped=True)
        self.due: list[Any] = []
        helpers = Helpers(self.elsewhere.append, self.elsewhere.append, self.due.append)
        self.core = GroupCore(self.settings, self.core.state.image, helpers=helpers)
        self.core.loaded(self.now)
        self.notify(TopicsChanged(topics(t=600)))

    def collect(self, output: Any) -> Any:
        for respond, response in output.replies:
            if isinstance(response, AnswersDue):
                respond(response)
        output.replies = [one for one in output.replies if not isinstance(one[1], AnswersDue)]
        return super().collect(output)

    def answered(self, first: int, last: int) -> list[bool]:
        """Whether the requests with these numbers have their answers."""
        return [self.reply(number) is not None for number in range(first, last + 1)]


def compute(harness: ConsumerGroupHarness) -> AssignmentComputed:
    wanted = harness.elsewhere.pop(0)
    assert isinstance(wanted, AssignmentWanted)
    return prepare_target(wanted, wanted.assign(SERVER_ASSIGNORS[wanted.assignor]))


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> LaterHall:
    """Three members wait, of whom two are answered in one step."""
    monkeypatch.setattr(computed_targets, "TOPICS_AT_ONCE", 3)
    harness = LaterHall()
    for name in "ABC":
        harness.enter(name, "t")
    return harness


def test_each_step_answers_a_few(harness: LaterHall) -> None:
    last = harness.asked
    harness.notify(compute(harness))
    assert harness.answered(last - 2, last) == [True, False, False]
    assert given(harness.reply(last - 2)) is not None
    harness.notify(harness.due.pop())
    assert harness.answered(last - 1, last) == [True, True]
    assert not harness.due
    assert not harness.consumers().waiting
    assert {name: harness.member(name).position.epoch for name in "ABC"} == dict.fromkeys("ABC", 2)


def test_who_comes_meanwhile_is_not_taken_for_one_that_waited(harness: LaterHall) -> None:
    harness.notify(compute(harness))
    assert harness.enter("D", "t").member_epoch == 2
    harness.notify(harness.due.pop())
    assert not harness.due


def test_a_core_that_is_given_up_answers_the_rest(harness: LaterHall) -> None:
    last = harness.asked
    harness.notify(compute(harness))
    replies = harness.core.resign(ErrorCode.NOT_COORDINATOR).replies
    assert [respond for respond, _ in replies] == [last - 1, last]
    harness.notify(harness.due.pop())  # nobody is left
    assert not harness.due


def test_a_group_that_is_gone_meanwhile(harness: LaterHall) -> None:
    last = harness.asked
    harness.notify(compute(harness))
    for name in "ABC":
        harness.cast(name, -1)
    del harness.core.state.groups["g"]
    harness.notify(harness.due.pop())
    assert harness.reply(last).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_members_without_targets_are_forgotten_some_at_a_time(harness: LaterHall) -> None:
    last = harness.asked
    harness.notify(AssignmentComputed(harness.elsewhere.pop(), None))
    assert harness.answered(last - 2, last) == [True, True, True]
    assert harness.reply(last).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not harness.consumers().members
