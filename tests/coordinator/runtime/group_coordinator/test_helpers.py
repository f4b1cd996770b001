"""Work for consumer groups outside the event loop: the core, or a waiting caller, gets its results."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs

from muster.coordinator.groups.common.image import NO_TOPICS, TopicImage, TopicsImage
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.consumer.commands import (
    AnswersDue,
    ConsumerHeartbeatCommand,
    TopicsWanted,
    UpgradePrepared,
    UpgradeWanted,
)
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.groups.streams.internal_topics import Configured, ConfiguredSubtopology
from muster.coordinator.groups.streams.member import Description
from muster.coordinator.groups.streams.target import Candidate, TasksWanted
from muster.coordinator.groups.streams.tasks import NOT_ANY, Tasks
from muster.coordinator.runtime.group_coordinator.background_work import helpers
from muster.coordinator.runtime.group_coordinator.shard import GroupShard
from muster.coordinator.state_machine.interface import Client
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.system.jobs import JobQueue
from muster.coordinator.system.jobs.matching import Budget
from muster.protocol.errors import ErrorCode
from muster.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def command(answers: list[Any]) -> ConsumerHeartbeatCommand:
    return ConsumerHeartbeatCommand(ConsumerGroupHeartbeatRequest("g", "A"), answers.append, Client("c", "/host"))


def test_a_classic_group_is_decoded_offloaded_and_the_core_is_notified() -> None:
    notices: list[Any] = []
    read: Any = helpers(JobQueue(ManualClock()), notices.append).read
    beat = command([])
    read(UpgradeWanted(beat, lambda: "what was read"))
    read(UpgradeWanted(beat, partial(int, "no number")))
    assert notices == [UpgradePrepared(beat, "what was read"), UpgradePrepared(beat, None)]


def test_targets_of_a_streams_group_are_computed_offloaded_and_the_core_is_notified() -> None:
    notices: list[Any] = []
    compute: Any = helpers(JobQueue(ManualClock()), notices.append).compute
    topology = Configured(0, {"0": ConfiguredSubtopology(2, ("t",), {}, (), {})}, {}, None)
    member = Candidate("A", Description(process_id="p"), NOT_ANY)
    wanted = TasksWanted("g", 2, {"A": member}, 16, None, {}, topology, 0)
    compute(wanted)
    (made,) = notices
    assert made.wanted is wanted
    assert made.computed.targets == {"A": Tasks({"0": frozenset([0, 1])})}
    with capture_logs() as lines:
        compute(TasksWanted("g", 2, {"A": member}, 16, "nobody", {}, topology, 0))
    assert notices[1].computed is None
    assert [(one["event"], one["assignor"]) for one in lines] == [("no target assignment", "sticky")]


def test_a_delayed_notification_reaches_the_core_in_the_next_iteration() -> None:
    notices: list[Any] = []
    clock = ManualClock()
    assert helpers(JobQueue(clock), notices.append).later is None
    later: Any = helpers(JobQueue(clock), notices.append, None, clock.call_soon).later
    due = AnswersDue("g", [], 0)
    later(due)
    assert not notices
    clock.advance(0)
    assert notices == [due]


def test_a_request_that_waits_for_offloaded_work_is_answered_when_the_shard_resigns() -> None:
    answers: list[Any] = []
    shard = GroupShard(
        0, partial(GroupCore, GroupSettings()), lambda: None, ManualClock(), NO_TOPICS
    )  # fmt: skip
    shard._notify(UpgradePrepared(command(answers), None))
    (answer,) = answers
    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def searched(patterns: Sequence[str], names: Sequence[str], seen: Any = None) -> Any:
    """The topics that each pattern matches."""
    notices: list[Any] = []
    image = TopicsImage({name: TopicImage(number.to_bytes(16), name, 1) for number, name in enumerate(names)}, 1)
    search: Any = helpers(JobQueue(ManualClock()), notices.append).search
    search(TopicsWanted("g", Client("c", "/host", seen), tuple(patterns), image))
    (found,) = notices
    return found.topics


def test_a_pattern_search_finds_only_topics_that_the_client_may_describe() -> None:
    names = ["a1", "a2", "b1"]
    assert searched(["a.", "("], names) == {"a.": ["a1", "a2"], "(": []}
    assert searched(["(?P<n>.)1"], names, lambda some: {*some} - {"a1"}) == {"(?P<n>.)1": ["b1"]}


def test_a_too_expensive_pattern_is_left_out_and_the_others_are_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.coordinator.runtime.group_coordinator.background_work.Budget", partial(Budget, 40_000))
    dear = ".*a.{90}"
    with capture_logs() as logs:
        found = searched([dear, "a.", "b."], ["a1", "a2", "b" + "1" * 100])
    assert found == {dear: [], "a.": ["a1", "a2"], "b.": []}
    assert [(line["event"], line["pattern"]) for line in logs] == [("a regular expression is left out", dear)]
