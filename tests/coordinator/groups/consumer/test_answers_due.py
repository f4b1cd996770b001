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
from tests.coordinator.groups.consumer.harness import Hall, given, topics


class LaterHall(Hall):
    """A `Hall` whose helpers also tell the core something later: `due` is what."""

    def __init__(self) -> None:
        super().__init__(helped=True)
        self.due: list[Any] = []
        helpers = Helpers(self.elsewhere.append, self.elsewhere.append, self.due.append)
        self.core = GroupCore(self.settings, self.core.state.image, helpers=helpers)
        self.core.loaded(self.now)
        self.told(TopicsChanged(topics(t=600)))

    def take(self, output: Any) -> Any:
        for respond, response in output.replies:
            if isinstance(response, AnswersDue):
                respond(response)
        output.replies = [one for one in output.replies if not isinstance(one[1], AnswersDue)]
        return super().take(output)

    def answered(self, first: int, last: int) -> list[bool]:
        """Whether the requests with these numbers have their answers."""
        return [self.reply(number) is not None for number in range(first, last + 1)]


def compute(hall: Hall) -> AssignmentComputed:
    wanted = hall.elsewhere.pop(0)
    assert isinstance(wanted, AssignmentWanted)
    return prepare_target(wanted, wanted.assign(SERVER_ASSIGNORS[wanted.assignor]))


@pytest.fixture
def hall(monkeypatch: pytest.MonkeyPatch) -> LaterHall:
    """Three members wait, of whom two are answered in one step."""
    monkeypatch.setattr(computed_targets, "TOPICS_AT_ONCE", 3)
    hall = LaterHall()
    for name in "ABC":
        hall.enter(name, "t")
    return hall


def test_each_step_answers_a_few(hall: LaterHall) -> None:
    last = hall.asked
    hall.told(compute(hall))
    assert hall.answered(last - 2, last) == [True, False, False]
    assert given(hall.reply(last - 2)) is not None
    hall.told(hall.due.pop())
    assert hall.answered(last - 1, last) == [True, True]
    assert not hall.due
    assert not hall.consumers().waiting
    assert {name: hall.member(name).position.epoch for name in "ABC"} == dict.fromkeys("ABC", 2)


def test_who_comes_meanwhile_is_not_taken_for_one_that_waited(hall: LaterHall) -> None:
    hall.told(compute(hall))
    assert hall.enter("D", "t").member_epoch == 2
    hall.told(hall.due.pop())
    assert not hall.due


def test_a_core_that_is_given_up_answers_the_rest(hall: LaterHall) -> None:
    last = hall.asked
    hall.told(compute(hall))
    replies = hall.core.resign(ErrorCode.NOT_COORDINATOR).replies
    assert [respond for respond, _ in replies] == [last - 1, last]
    hall.told(hall.due.pop())  # nobody is left
    assert not hall.due


def test_a_group_that_is_gone_meanwhile(hall: LaterHall) -> None:
    last = hall.asked
    hall.told(compute(hall))
    for name in "ABC":
        hall.cast(name, -1)
    del hall.core.state.groups["g"]
    hall.told(hall.due.pop())
    assert hall.reply(last).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_members_without_targets_are_forgotten_some_at_a_time(hall: LaterHall) -> None:
    last = hall.asked
    hall.told(AssignmentComputed(hall.elsewhere.pop(), None))
    assert hall.answered(last - 2, last) == [True, True, True]
    assert hall.reply(last).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not hall.consumers().members
