"""Alerts about streams groups, from events: topics that are not ready, and applications that were ended."""

from __future__ import annotations

import json
from typing import Any

from muster.coordinator.alerts.group_watch import KEPT_MS
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event, MemberFacts
from muster.coordinator.groups.streams.tasks import Tasks
from muster.coordinator.history import schema
from tests.coordinator.alerts.story import MINUTE, SECOND, Story

NOT_READY = {"topology_epoch": 0, "code": 1, "detail": "Source topics t are missing."}


def after(story: Story, kind: str, **facts: Any) -> Story:
    story.watch.feed(Event(kind, "g", facts), story.now_ms)
    return story


def test_topics_that_are_not_ready_are_an_alert_until_they_are() -> None:
    story = after(Story("web-1"), events.TOPICS_NOT_READY, **NOT_READY)
    assert story.later(10 * SECOND).rules() == []
    after(story, events.TOPICS_NOT_READY, **{**NOT_READY, "detail": "Internal topics are missing: s"})
    assert story.later(10 * SECOND).rules() == ["topics_not_ready"]
    assert story.texts()[0].endswith(": Internal topics are missing: s")
    assert not story.watch.is_idle(story.now_ms)
    assert after(story, events.TOPICS_READY, topology_epoch=0, took_ms=20_000).rules() == []


def test_an_empty_group_waits_for_no_topics() -> None:
    story = after(Story("web-1"), events.TOPICS_NOT_READY, **NOT_READY)
    after(story, events.EPOCH_BUMPED, epoch=3, members=1, cause=events.LEFT, trigger=None, topics=[], state="NotReady")
    assert story.later(MINUTE).rules() == ["topics_not_ready"]
    after(story, events.EPOCH_BUMPED, epoch=4, members=0, cause=events.LEFT, trigger=None, topics=[], state="NotReady")
    assert "topics_not_ready" not in story.rules()


def test_an_application_that_was_ended_is_an_alert_for_an_hour() -> None:
    member = MemberFacts("m", None, "app-1-StreamThread-1-consumer", "/h", 1, 1, (), None, None, None, b"")
    story = after(Story("web-1"), events.APPLICATION_SHUTDOWN, member=member)
    assert "application_ended" in story.rules()
    assert any(text.startswith("app-1 had an error") for text in story.texts())
    assert "application_ended" not in story.later(61 * MINUTE).rules()
    story.watch.is_idle(story.later(KEPT_MS).now_ms)
    assert not story.watch.streams.is_known


def test_the_history_says_what_was_wrong_before_a_restart() -> None:
    member = MemberFacts("m", None, "app-1-StreamThread-1-consumer", "/h", 1, 1, (), None, None, None, b"")
    past: list[tuple[str, dict[str, Any]]] = [
        (events.TOPICS_NOT_READY, NOT_READY),
        (events.APPLICATION_SHUTDOWN, {"member": member}),
    ]
    story = Story("web-1")
    for kind, facts in past:
        story.watch.remember(json.loads(schema.to_json(Event(kind, "g", facts), story.now_ms)))
    assert {"topics_not_ready", "application_ended"} <= set(story.later(MINUTE).rules())
    ready = Event(events.TOPICS_READY, "g", {"topology_epoch": 0, "took_ms": 20_000})
    story.watch.remember(json.loads(schema.to_json(ready, story.now_ms)))
    assert "topics_not_ready" not in story.rules()


class Application:
    """A streams group whose targets are given by hand."""

    def __init__(self, **tasks: str) -> None:
        self.story = Story()
        self.story.see(events.GROUP_CREATED)
        for name in tasks:
            member = MemberFacts(f"{name}-1", None, f"{name}-StreamThread-1-consumer", "/h", 45_000, 1, (), None, None,
                                 None, b"")  # fmt: skip
            self.story.see(events.MEMBER_JOINED, member=member, protocol_type="streams", reason=None)
        self.gives(**tasks)

    def gives(self, **tasks: str) -> Story:
        """Targets, such as a="0 1": the active tasks 0_0 and 0_1."""
        changes = [
            (f"{name}-1", Tasks(), Tasks({"0": frozenset(map(int, text.split()))} if text else {}))
            for name, text in tasks.items()
        ]
        self.story.see(events.TARGET_ASSIGNED, changes=changes)
        return self.story


def test_an_instance_that_has_all_tasks_is_an_alert() -> None:
    group = Application(a="0 1 2", b="")
    assert "one_has_all_tasks" not in group.story.later(MINUTE).rules()
    assert "one_has_all_tasks" in group.story.later(5 * MINUTE).rules()
    assert any(text.startswith("a has all 3 active tasks") for text in group.story.texts())
    assert "one_has_all_tasks" not in group.gives(a="0 1", b="2").rules()


def test_tasks_that_go_back_and_forth_are_an_alert() -> None:
    group = Application(a="0 1", b="2")
    for _ in range(3):
        group.story.later(30 * SECOND)
        group.gives(a="0", b="1 2")
        group.story.later(30 * SECOND)
        group.gives(a="0 1", b="2")
    assert "tasks_bounce" in group.story.rules()
    group.story.watch.streams.forget(group.story.now_ms + 1)
    assert "tasks_bounce" not in group.story.rules()


def test_tasks_of_a_group_that_the_server_loaded_are_not_judged() -> None:
    group = Application(a="0 1 2", b="")
    group.story.see(events.GROUP_DELETED)
    group.gives(a="0 1 2")
    assert "one_has_all_tasks" not in group.story.later(10 * MINUTE).rules()


def test_a_member_that_is_replaced_keeps_its_tasks_and_one_that_leaves_has_none() -> None:
    group = Application(a="0 1 2", b="")
    facts = MemberFacts("a-2", "i", "a-StreamThread-1-consumer", "/h", 45_000, 1, (), None, None, None, b"")
    group.story.see(events.MEMBER_REPLACED, member=facts, replaced="a-1", reason=None)
    held = group.story.watch.streams.facts().tasks
    assert {(one.member_id, one.task) for one in held} == {("a-2", f"0_{number}") for number in range(3)}
    group.story.see(events.MEMBER_LEFT, member=facts, reason=None)
    assert {one.ended for one in group.story.watch.streams.facts().tasks} == {"member_gone"}
