"""Work for consumer groups that is done apart from the event loop: its results come to the core, or to who waits."""

from __future__ import annotations

from functools import partial
from typing import Any

from muster.coordinator.clock import ManualClock
from muster.coordinator.core.interface import Client
from muster.coordinator.group_coordinator.helpers import helpers
from muster.coordinator.group_coordinator.shard import GroupShard
from muster.coordinator.groups.common.image import NO_TOPICS
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.consumer.commands import (
    AnswersDue,
    ConsumerHeartbeatCommand,
    UpgradePrepared,
    UpgradeWanted,
)
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.slices import Slices
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def command(answers: list[Any]) -> ConsumerHeartbeatCommand:
    return ConsumerHeartbeatCommand(ConsumerGroupHeartbeatRequest("g", "A"), answers.append, Client("c", "/host"))


def test_a_classic_group_is_read_and_the_core_is_told() -> None:
    told: list[Any] = []
    read: Any = helpers(Slices(ManualClock()), told.append).read
    beat = command([])
    read(UpgradeWanted(beat, lambda: "what was read"))
    read(UpgradeWanted(beat, partial(int, "no number")))
    assert told == [UpgradePrepared(beat, "what was read"), UpgradePrepared(beat, None)]


def test_what_is_put_off_is_told_in_the_next_turn() -> None:
    told: list[Any] = []
    clock = ManualClock()
    assert helpers(Slices(clock), told.append).later is None
    later: Any = helpers(Slices(clock), told.append, None, clock.call_soon).later
    due = AnswersDue("g", [], 0)
    later(due)
    assert not told
    clock.advance(0)
    assert told == [due]


def test_who_waits_for_a_group_that_is_read_is_answered_when_the_shard_resigns() -> None:
    answers: list[Any] = []
    shard = GroupShard(
        0, partial(GroupCore, GroupSettings()), lambda: None, ManualClock(), NO_TOPICS  # type: ignore[arg-type, return-value]  # it is not opened
    )  # fmt: skip
    shard._tell(UpgradePrepared(command(answers), None))
    (answer,) = answers
    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
