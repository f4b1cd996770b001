"""A difference counts if it shows again, and is the same then."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping

import pytest

from muster.conform.player.story import Story
from tests.stories.random.lockstep import Outcome
from tests.stories.random.session import Address, Campaign, Session, kind

EPOCH = "kafka: A's ConsumerGroupHeartbeat v1: MemberEpoch: 3, expected 4"
STEPS = "A: join\nA: sync\nA: heartbeat\n"
Plays = Callable[[int, Story], tuple[str | None, bool]]
"""(how often it was played before, the story) -> the difference, and whether a server was late."""


def session(plays: Plays) -> Session:
    played = 0

    async def play(_: Mapping[str, Address], story: Story, __: Mapping[str, Mapping[str, uuid.UUID]]) -> Outcome:
        nonlocal played
        difference, is_late = plays(played, story)
        played += 1
        steps = len(story.items)
        return Outcome(story, story.text, steps=steps, difference=difference, at=steps, is_late=is_late)

    return Session({}, {}, Campaign("", lambda number, _: Story(f"random-{number}", STEPS), play))


@pytest.mark.parametrize(
    ("plays", "lasts"),
    [
        (lambda _, __: (EPOCH, False), True),
        (lambda n, _: (EPOCH if n in (0, 3) else None, False), True),
        (lambda n, _: (EPOCH if n in (0, 4) else None, False), False),
        (lambda n, _: (EPOCH if n == 0 else EPOCH.replace("kafka", "muster"), False), False),
        (lambda n, _: (EPOCH, 0 < n < 3), True),
        (lambda n, _: (EPOCH if n in (0, 1, 2) else None, n in (1, 2)), False),
        (lambda _, __: (EPOCH, True), True),
    ],
)
async def test_a_difference_that_does_not_repeat_does_not_count(plays: Plays, *, lasts: bool) -> None:
    tried = session(plays)
    await tried.play_one(7)
    assert (len(tried.found), len(tried.passing)) == ((1, 0) if lasts else (0, 1))


async def test_a_difference_without_a_short_story_does_not_count() -> None:
    whole = 8  # the first time, the repetitions, and the attempts to shorten it
    tried = session(lambda n, _: (EPOCH if n < whole else None, False))
    await tried.play_one(7)
    (found,) = tried.found
    await tried.look_into(found, 60)
    assert (tried.found, tried.passing) == ([], [found])
    assert not found.story


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ("kafka: B's ConsumerGroupHeartbeat v0: MemberEpoch: 7, expected 9", True),
        ("muster: A's ConsumerGroupHeartbeat v1: MemberEpoch: 3, expected 4", False),
        ("kafka: A's JoinGroup v1: MemberEpoch: 3, expected 4", False),
        ("kafka: A's ConsumerGroupHeartbeat v1: ErrorCode: 3, expected 4", False),
        ("kafka: A's ConsumerGroupHeartbeat v1: MemberEpoch: 3, expected 4; ErrorCode: 0, expected 25", False),
        ("kafka: A's ConsumerGroupHeartbeat v1 was not answered: {}", False),
    ],
)
def test_two_differences_are_of_one_kind_or_of_two(other: str, *, same: bool) -> None:
    assert (kind(other) == kind(EPOCH)) is same


def test_rows_and_values_do_not_distinguish_differences() -> None:
    rows = [
        f"kafka: Z's ConsumerGroupDescribe v1: Groups[{n}].Members: ['a: b'], expected [{n}]; Groups[{n}].State: '',"
        f" expected 'x{n}'"
        for n in range(2)
    ]
    assert kind(rows[0]) == kind(rows[1]) == "kafka: ConsumerGroupDescribe: Groups.Members, Groups.State"
    parked = [f"kafka: {actor}'s JoinGroup v9 was answered, not parked: {{'A': {actor!r}}}" for actor in "AB"]
    assert kind(parked[0]) == kind(parked[1]) == "kafka: JoinGroup: was answered, not parked"
    assert kind("add: 3 | 4") == kind("add: 5 | 6")
    assert kind(None) == ""
