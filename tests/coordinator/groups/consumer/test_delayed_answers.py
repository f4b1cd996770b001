"""Members that wait for the first targets of a group: each step answers some of them."""

from __future__ import annotations

from typing import Any

import pytest

from muster.assignors.builtin import SERVER_ASSIGNORS
from muster.coordinator.groups.common.helpers import Helpers
from muster.coordinator.groups.common.image import TopicsChanged
from muster.coordinator.groups.consumer import computed_targets, prepared_target
from muster.coordinator.groups.consumer.commands import AnswersDue, AssignmentComputed, AssignmentWanted
from muster.coordinator.groups.core import GroupCore
from muster.protocol.errors import ErrorCode
from tests.coordinator.groups.consumer.harness import ConsumerGroupHarness, given, topics


class DelayedAnswersHarness(ConsumerGroupHarness):
    """A `ConsumerGroupHarness` whose helpers notify the core later. `due` has the notifications."""

    def __init__(self) -> None:
        super().__init__(helped=True)
        self.due: list[Any] = []
        helpers = Helpers(self.offloaded.append, self.offloaded.append, self.due.append)
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
    wanted = harness.offloaded.pop(0)
    assert isinstance(wanted, AssignmentWanted)
    return prepared_target.compute(wanted, SERVER_ASSIGNORS[wanted.assignor])


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> DelayedAnswersHarness:
    """Three members wait, of whom two are answered in one step."""
    monkeypatch.setattr(computed_targets, "TOPICS_AT_ONCE", 3)
    harness = DelayedAnswersHarness()
    for name in "ABC":
        harness.first_heartbeat(name, "t")
    return harness


def test_each_step_answers_only_a_few_waiting_members(harness: DelayedAnswersHarness) -> None:
    last = harness.asked
    harness.notify(compute(harness))
    assert harness.answered(last - 2, last) == [True, False, False]
    assert given(harness.reply(last - 2)) is not None
    harness.notify(harness.due.pop())
    assert harness.answered(last - 1, last) == [True, True]
    assert not harness.due
    assert not harness.consumers().waiting
    assert {name: harness.member(name).position.epoch for name in "ABC"} == dict.fromkeys("ABC", 2)


def test_a_member_that_joins_meanwhile_is_not_treated_as_a_waiting_member(harness: DelayedAnswersHarness) -> None:
    harness.notify(compute(harness))
    assert harness.first_heartbeat("D", "t").member_epoch == 2
    harness.notify(harness.due.pop())
    assert not harness.due


def test_a_core_that_resigns_answers_the_remaining_waiting_members(harness: DelayedAnswersHarness) -> None:
    last = harness.asked
    harness.notify(compute(harness))
    replies = harness.core.resign(ErrorCode.NOT_COORDINATOR).replies
    assert [respond for respond, _ in replies] == [last - 1, last]
    harness.notify(harness.due.pop())  # no member is left
    assert not harness.due


def test_waiting_members_of_a_group_that_was_removed_get_unknown_member_id(harness: DelayedAnswersHarness) -> None:
    last = harness.asked
    harness.notify(compute(harness))
    for name in "ABC":
        harness.heartbeat(name, -1)
    del harness.core.state.groups["g"]
    harness.notify(harness.due.pop())
    assert harness.reply(last).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_members_without_targets_are_removed_a_few_in_each_step(harness: DelayedAnswersHarness) -> None:
    last = harness.asked
    harness.notify(AssignmentComputed(harness.offloaded.pop(), None))
    assert harness.answered(last - 2, last) == [True, True, True]
    assert harness.reply(last).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not harness.consumers().members
