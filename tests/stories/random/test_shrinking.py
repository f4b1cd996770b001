from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import pytest

from muster.conform.player.story import Step, Story
from muster.coordinator.groups.classic import join, rebalance
from muster.coordinator.groups.classic.group import ClassicGroup
from muster.coordinator.groups.classic.rebalance import present
from muster.protocol.errors import ErrorCode
from tests.stories.random.histories import history
from tests.stories.random.shrinking import Shrinking, fewer_actors, fewer_words
from tests.stories.random.virtually import play
from tests.stories.random.ways import OwnWays

BROKER = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100"}
HISTORIES = 150
FEW = 7


def steps_of(story: Story) -> list[str]:
    return [item.line for item in story.items if isinstance(item, Step)]


async def test_shrinking_leaves_only_necessary_steps() -> None:
    story = Story("long", "topics t1=1\n" + "".join(f"A: commit v=3 t1/{i}=1\n" for i in range(40)))

    async def fails(candidate: Story) -> bool:
        lines = steps_of(candidate)
        return any("t1/7=1" in line for line in lines) and any("t1/31=1" in line for line in lines)

    shrunk = await Shrinking(story, fails, 60).run()
    assert steps_of(shrunk) == ["A: commit t1/7=1", "A: commit t1/31=1"]
    assert shrunk.topics == {"t1": 1}


async def test_shrinking_ends_when_its_time_is_over() -> None:
    times = iter(range(1000))
    tried = []

    async def fails(candidate: Story) -> bool:
        tried.append(candidate)
        return len(steps_of(candidate)) >= 64

    story = Story("long", "A: join\n" * 256)
    shrunk = await Shrinking(story, fails, 3, clock=lambda: next(times)).run()
    assert await fails(shrunk)
    assert len(tried) < 20


def test_steps_lose_actors_and_arguments_one_at_a_time() -> None:
    assert list(fewer_actors("A B C: join v=3")) == ["B C: join v=3", "A C: join v=3", "A B: join v=3"]
    assert list(fewer_words("A: join v=3 type=x")) == ["A: join type=x", "A: join v=3"]
    assert list(fewer_actors("A: drop")) == list(fewer_words("A: drop")) == list(fewer_words("advance 100")) == []


# ---- deliberate faults


class Wrong(OwnWays):
    """A core with changed rules, each as (owner, name, replacement)."""

    changes: tuple[tuple[object, str, object], ...]

    @contextmanager
    def in_force(self) -> Iterator[None]:
        (owner, name, instead) = self.changes[0]
        with mock.patch.object(owner, name, instead):
            yield


validate = ClassicGroup.validate_commit


def allowed(error: int) -> int:
    return 0 if error == ErrorCode.REBALANCE_IN_PROGRESS else error


class CommitsWhileCompleting(Wrong):
    changes = ((ClassicGroup, "validate_commit", lambda *asked: allowed(validate(*asked))),)


class FollowersRebalance(Wrong):
    changes = ((join, "DECISIONS", {**join.DECISIONS, (join.FOLLOWER, "Stable"): join.REJOIN}),)


class StaticLeadersAreToldToAssign(Wrong):
    changes = ((join, "present", lambda group, member, full: present(group, member, full=False)),)


class SessionsAreLong(Wrong):
    changes = (
        (
            rebalance,
            "restart_session",
            lambda step, member: step.state.deadlines.set(member, step.now.mono_ms + 100_000),
        ),
    )


@pytest.mark.parametrize(
    "wrong", [CommitsWhileCompleting, FollowersRebalance, StaticLeadersAreToldToAssign, SessionsAreLong]
)
async def test_a_wrong_rule_is_shrunk_to_a_few_steps(wrong: type[Wrong]) -> None:
    async def differs(story: Story) -> bool:
        outcome, _ = await play(story, {"server": (wrong, OwnWays)})
        return outcome.difference is not None

    for number in range(HISTORIES):
        story = history(number, BROKER)
        if await differs(story):
            break
    else:
        pytest.fail(f"not found in {HISTORIES} histories")
    shrunk = await Shrinking(story, differs, 60).run()
    assert await differs(shrunk)
    assert len(steps_of(shrunk)) <= FEW, shrunk.text
