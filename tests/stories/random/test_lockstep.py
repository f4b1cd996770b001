from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import pytest

from muster.conform.player.story import Story
from muster.coordinator.groups.classic.group import ClassicGroup
from tests.stories.random.histories import history
from tests.stories.random.lockstep import MARGIN_MS
from tests.stories.random.virtually import play
from tests.stories.random.ways import LEADER, KafkaWays, OwnWays
from tests.stories.virtual import persisted

BROKER = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100", "group.max.size": "4"}
HEAD = "broker group.initial.rebalance.delay.ms=0 group.min.session.timeout.ms=100\ntopics t1=3\n"

LEADER_GOES = Story(
    "leader goes",
    HEAD
    + "A: enter\nB: enter protocols=range:b\nC: enter protocols=range:c\nA: join\nA B C: sync\nA: leave\n"
    + "C: join\nB: join\nB C: sync assign=B:b1,C:c1\nB: join\nC: join\nB C: sync\nC: leave\nB: join\nB: sync\n",
)
"""A leader is lost, and then come the actions that only the next leader may do: assign, rebalance, name the members."""


class OtherLeaders(OwnWays):
    """If any member may lead, another one does."""

    @contextmanager
    def in_force(self) -> Iterator[None]:
        remove = ClassicGroup.remove

        def choose_last(group: ClassicGroup, member_id: str) -> object:
            led, member = group.leader_id == member_id, remove(group, member_id)
            if led:
                group.leader_id = next(reversed(group.members), None)
            return member

        with mock.patch.object(ClassicGroup, "remove", choose_last):
            yield


class UnlawfulLeaders(OwnWays):
    """The member that joins last leads, although the leader is there."""

    @contextmanager
    def in_force(self) -> Iterator[None]:
        keep = ClassicGroup.keep_or_elect_leader

        def depose(group: ClassicGroup) -> bool:
            kept = keep(group)
            if kept:
                group.leader_id = next(reversed(group.members))
            return kept

        with mock.patch.object(ClassicGroup, "keep_or_elect_leader", depose):
            yield


async def test_a_history_with_another_leader_is_compared_to_its_end() -> None:
    outcome, _ = await play(LEADER_GOES, {"kafka": (OtherLeaders, KafkaWays), "muster": (OwnWays, OwnWays)})
    assert outcome.difference is None
    assert outcome.met == {LEADER: 1}
    assert outcome.steps == 15
    assert outcome.alike < outcome.replies, "from then on the two answer otherwise"
    assert "leader=C members=[B:b C:c]" in outcome.text


async def test_an_impossible_leader_is_a_difference() -> None:
    outcome, _ = await play(LEADER_GOES, {"kafka": (UnlawfulLeaders, KafkaWays)})
    assert outcome.difference is not None
    assert "Leader" in outcome.difference
    assert outcome.steps < 6


async def test_an_unanswered_choice_of_leader_is_no_difference() -> None:
    silent = Story(
        "silent",
        HEAD + "A: enter rebalance=900\nB C: enter rebalance=900\nA: join\nA B C: sync\nB C: heartbeat\nA: leave\n"
        "B C: join\nB C: drop\n" + "B: sync\nC: sync\nB: list\n",
    )
    outcome, _ = await play(silent, {"kafka": (OtherLeaders, KafkaWays)})
    assert outcome.difference is None


@pytest.mark.parametrize("seed", range(12))
async def test_a_history_is_repeatable_and_the_log_of_its_core_replays(seed: int) -> None:
    texts = []
    for _ in range(2):
        outcome, (world,) = await play(history(seed, BROKER), {"muster": (OwnWays, OwnWays)})
        assert outcome.difference is None
        texts.append(outcome.text)
        core = world.core
        assert persisted(core.replayed(), core.core) == persisted(core.core, core.core)
    assert texts[0] == texts[1]


async def test_steps_near_a_deadline_wait_until_after_the_deadline() -> None:
    story = Story(
        "near", HEAD + "A: enter session=1000\nA: sync\nadvance 400\nA: heartbeat\nadvance 950\nA: heartbeat\n"
    )
    outcome, _ = await play(story, {"muster": (OwnWays, OwnWays)})
    waits = [int(line.split()[1]) for line in outcome.text.splitlines() if line.startswith("advance")]
    assert outcome.text.endswith("A <- heartbeat UNKNOWN_MEMBER_ID\n")
    assert waits[-1] >= 1000 + MARGIN_MS


async def test_an_impossible_step_is_left_out() -> None:
    story = Story("odd", HEAD + "A: enter\nA: leave B\nA: heartbeat member=B\nA: heartbeat\n")
    outcome, _ = await play(story, {"muster": (OwnWays, OwnWays)})
    assert outcome.difference is None
    assert "leave" not in outcome.text
    assert outcome.text.endswith("A: heartbeat\n    A <- heartbeat ok\n")
