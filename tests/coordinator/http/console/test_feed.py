"""When the feed sends events: the first at once, those of the next moment together."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from muster.coordinator.http.console.feed import POLL_MS, REFRESH_MS, Feed
from muster.coordinator.http.console.sources import Refused, StoredEvent
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.system.jobs import at_once


class FakeSource:
    """A source whose events a test adds."""

    def __init__(self) -> None:
        self.watched = self.refusals = 0
        self.failures: list[str] = []
        """Why the next reads of the newest events fail."""
        self.found: list[StoredEvent] = []
        self.changed: set[Callable[[], object]] = set()

    async def refresh(self, live: Any) -> None:
        live.at_ms = 1

    async def run(self, job: Any) -> Any:
        return at_once(job)

    async def recent(self) -> list[StoredEvent]:
        if self.failures:
            raise Refused(self.failures.pop())
        return [StoredEvent("0:1", {"time": 1, "kind": "group_emptied", "group": "g"})]

    async def news(self) -> list[StoredEvent]:
        found, self.found = self.found, []
        return found

    def watch(self, changed: Callable[[], object]) -> Callable[[], object]:
        self.watched += 1
        if self.watched <= self.refusals:
            raise Refused("the node is not registered in its cluster")
        self.changed.add(changed)
        return lambda: self.changed.discard(changed)

    def happens(self, number: int) -> None:
        value = {"time": number, "kind": "group_emptied", "group": "g"}
        self.found.append(StoredEvent(f"0:{number}", value))
        for changed in self.changed:
            changed()


async def next_times(messages: Any) -> list[int]:
    text = (await anext(messages)).decode().partition("data: ")[2]
    return [one["time"] for one in json.loads(text)["events"]]


async def some_turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_an_event_is_sent_at_once_and_those_soon_after_it_together() -> None:
    clock, source = ManualClock(1_000), FakeSource()
    feed = Feed(source, clock)
    messages = feed.open(None).messages()
    await some_turns()
    source.happens(1)
    assert await next_times(messages) == [1]  # no time has passed
    for number in (2, 3):
        source.happens(number)
        await some_turns()
    assert len(source.found) == 2
    clock.advance(POLL_MS)
    assert await next_times(messages) == [2, 3]
    clock.advance(POLL_MS)
    await some_turns()
    source.happens(4)
    assert await next_times(messages) == [4]
    await feed.stop()
    assert not source.changed


async def test_a_user_gets_the_events_of_seen_groups_only() -> None:
    clock, source = ManualClock(1_000), FakeSource()
    feed = Feed(source, clock)
    blind, seeing = feed.open(None, lambda _: False), feed.open(None, lambda group: group == "g")
    await some_turns()
    source.happens(1)
    assert await next_times(seeing.messages()) == [1]
    assert not blind._waiting
    await feed.stop()


async def test_events_that_could_not_be_read_at_first_are_read_later() -> None:
    clock, source = ManualClock(1_000), FakeSource()
    source.failures = ["the user may not read them"]
    feed = Feed(source, clock)
    await feed.ready()
    assert (feed.failure, len(feed.events)) == ("the user may not read them", 0)
    clock.advance(REFRESH_MS)
    await some_turns()
    assert (feed.failure, len(feed.events)) == (None, 1)
    await feed.stop()


async def test_a_source_that_cannot_be_watched_is_asked_again_after_a_pause() -> None:
    clock, source = ManualClock(1_000), FakeSource()
    source.refusals = 50
    feed = Feed(source, clock)
    await feed.ready()
    await some_turns()
    assert source.watched == 1  # without a pause, nothing else would run
    source.refusals = 0
    clock.advance(POLL_MS)
    await some_turns()
    assert source.watched == 2
    await feed.stop()
