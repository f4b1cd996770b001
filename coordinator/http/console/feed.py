"""Hands new events to the open pages, as server-sent events. All pages of one kind get the same bytes.

While no page is open, nothing is read. A page that reads too slowly loses its stream, and loads again.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Final

import structlog

from muster.coordinator.http.console.shown_events import REFUSALS, Sentences, is_rebalance
from muster.coordinator.http.console.sources import Refused, Source, StoredEvent
from muster.coordinator.http.live_groups import LiveGroups
from muster.coordinator.http.sight import Sees
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import Job

log = structlog.get_logger("muster.http")

POLL_MS: Final = 100
"""Events of this time are sent together. After a pause an event is sent at once."""
REFRESH_MS: Final = 5_000
"""How often the groups are read. The pause is longer when a read takes long."""
REST: Final = 20
"""After a read, the groups rest for this many times its duration."""
KEEP_ALIVE_MS: Final = 15_000
LINGER_MS: Final = 30_000
"""How long reading goes on after the last page has closed: a page that loads again finds all ready."""
EVENTS_AT_ONCE: Final = 200
"""The most events in one message."""
SENTENCES_AT_ONCE: Final = 20
"""How many sentences one step makes."""
MAX_WAITING: Final = 100
"""The most messages that wait for a page."""
MAX_KEPT: Final = 2_000
"""The newest events that are kept for pages that open."""
MAX_REFUSALS: Final = 500
MAX_PAGES: Final = 500
"""The most open streams."""


class Stream:
    """The messages for one page. `group`: only events of this group. None means all groups. `sees`: only events of
    groups that the user sees. None means that the user sees all.
    """

    def __init__(self, group: str | None, sees: Sees | None = None) -> None:
        self.group = group
        self.sees = sees
        self._waiting: deque[bytes] = deque()
        self._ready = asyncio.Event()
        self.is_open = True

    def put(self, message: bytes) -> None:
        """Give the page a message. A page that is too slow loses its stream."""
        if len(self._waiting) >= MAX_WAITING:
            self.end()
            return
        self._waiting.append(message)
        self._ready.set()

    def end(self) -> None:
        """End the stream."""
        self.is_open = False
        self._ready.set()

    async def messages(self) -> AsyncIterator[bytes]:
        """The messages, joined if several wait."""
        while True:
            await self._ready.wait()
            self._ready.clear()
            data, is_open = b"".join(self._waiting), self.is_open
            self._waiting.clear()
            if data:
                yield data
            if not is_open:
                return


class Feed:
    """See the module. `live`: the groups, which are read again and again while a page is open."""

    def __init__(self, source: Source, clock: Clock) -> None:
        """`clock`: the machine's."""
        self._source = source
        self._clock = clock
        self.live = LiveGroups()
        self.events: deque[dict[str, Any]] = deque(maxlen=MAX_KEPT)
        """The newest events of all groups."""
        self.refusals: deque[dict[str, Any]] = deque(maxlen=MAX_REFUSALS)
        self._sentences = Sentences()
        self._streams: set[Stream] = set()
        self._task: asyncio.Task[None] | None = None
        self._first: asyncio.Future[None] | None = None
        self._used_ms = 0
        self._has_begun = False
        """Whether the newest events were read, so that later news follow these."""
        self._changed = asyncio.Event()
        """There may be new events."""
        self.failure: str | None = None
        """Why the groups cannot be read. None means that they can be read."""

    @property
    def pages(self) -> int:
        """The number of open streams."""
        return len(self._streams)

    def wake(self) -> None:
        """Read from now on, for a page that will ask soon."""
        self._used_ms = self._clock.mono_ms()
        if self._task is None:
            self._first = asyncio.get_running_loop().create_future()
            self._task = asyncio.ensure_future(self._run())

    async def ready(self) -> None:
        """Wait until the groups were read once. Raises Refused."""
        self.wake()
        assert self._first is not None
        await asyncio.shield(self._first)
        if self.failure is not None and not self.live.at_ms:
            raise Refused(self.failure)

    def open(self, group: str | None, sees: Sees | None = None) -> Stream:
        """Open the stream of a page. Raises Refused."""
        if len(self._streams) >= MAX_PAGES:
            raise Refused(f"{MAX_PAGES} pages are open already")
        self.wake()
        stream = Stream(group, sees)
        self._streams.add(stream)
        return stream

    def close(self, stream: Stream) -> None:
        """Close the stream of a page."""
        self._streams.discard(stream)
        self._used_ms = self._clock.mono_ms()

    async def stop(self) -> None:
        """End all streams, and read nothing more."""
        for stream in [*self._streams]:
            stream.end()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # ---- reading

    @property
    def _is_used(self) -> bool:
        return bool(self._streams) or self._clock.mono_ms() - self._used_ms < LINGER_MS

    async def _pause(self, ms: int) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self._clock.call_at(self._clock.mono_ms() + ms, lambda: None if done.done() else done.set_result(None))
        try:
            await done
        finally:
            timer.cancel()

    async def _run(self) -> None:
        reading = asyncio.ensure_future(self._reading())
        try:
            await self._refreshing()
        finally:
            reading.cancel()
            self._task = None
            if self._first is not None:
                self._first.cancel()

    async def _refreshing(self) -> None:
        while self._is_used:
            began_ms = self._clock.mono_ms()
            await self._guarded(self._refresh)
            if self._first is not None and not self._first.done():
                self._first.set_result(None)
            await self._pause(max(REFRESH_MS, REST * (self._clock.mono_ms() - began_ms)))

    async def _refresh(self) -> None:
        await self._source.refresh(self.live)
        if not self._has_begun:
            await self._source.run(self._take(await self._source.recent()))
            self._has_begun = True
        self.failure = None

    async def _reading(self) -> None:
        assert self._first is not None
        await asyncio.shield(self._first)
        spoke_ms = self._clock.mono_ms()
        while True:
            has_news = await self._guarded(self._next_news)
            if has_news is None:  # it may have failed at once
                await self._pause(POLL_MS)
            elif has_news:
                spoke_ms = self._clock.mono_ms()
                await self._pause(POLL_MS)
                self._changed.set()  # nobody watched meanwhile
            elif self._clock.mono_ms() - spoke_ms >= KEEP_ALIVE_MS:
                spoke_ms = self._clock.mono_ms()
                self._send(b": \n\n", self._streams)

    async def _next_news(self) -> bool:
        """Send new events as soon as there may be some, or after `POLL_MS`. Returns whether there were some."""
        changed = self._changed
        end = self._source.watch(changed.set)
        timer = self._clock.call_at(self._clock.mono_ms() + POLL_MS, changed.set)
        try:
            await changed.wait()
        finally:
            end()
            timer.cancel()
        changed.clear()
        return await self._news()

    async def _guarded(self, do: Callable[[], Any]) -> Any:
        try:
            return await do()
        except Refused as refusal:
            self.failure = str(refusal)
        except Exception as error:  # a bug costs this read, and not the console
            log.error("the console cannot read", exc_info=error)
            self.failure = f"a fault of the console: {error!r}"
        return None

    async def _news(self) -> bool:
        found = await self._source.run(self._take(await self._source.news()))
        for start in range(0, len(found), EVENTS_AT_ONCE):
            some = found[start : start + EVENTS_AT_ONCE]
            self._publish(some)
        return bool(found)

    def _publish(self, events: list[dict[str, Any]]) -> None:
        """Send the events to the streams of all groups, and to those of the events' groups."""
        alike: dict[tuple[str | None, Sees | None], list[Stream]] = {}
        for stream in self._streams:
            alike.setdefault((stream.group, stream.sees), []).append(stream)
        for (group, sees), streams in alike.items():
            own = events if group is None else [one for one in events if one["group"] == group]
            own = only_seen(own, sees)
            if own:
                self._send(_message(own), streams)

    def _send(self, message: bytes, streams: Iterable[Stream]) -> None:
        for stream in [*streams]:
            stream.put(message)

    def _take(self, events: list[StoredEvent]) -> Job[list[dict[str, Any]]]:
        found = []
        for number, event in enumerate(events):
            if not number % SENTENCES_AT_ONCE:
                yield None
            one = self._sentences.of(event)
            found.append(one)
            self.events.append(one)
            if one["kind"] in REFUSALS:
                self.refusals.append(one)
            if is_rebalance(one) and one["group"] is not None:
                self.live.note_rebalance(one["group"], one["time"], one["text"])
        return found


def _message(events: list[dict[str, Any]]) -> bytes:
    text = json.dumps({"events": events}, ensure_ascii=False, separators=(",", ":"))
    return b"event: news\ndata: " + text.encode("utf-8", "replace") + b"\n\n"


def only_seen(events: Iterable[dict[str, Any]], sees: Sees | None) -> list[dict[str, Any]]:
    """The events of groups that a user sees. None means all events."""
    return [one for one in events if sees is None or (one["group"] is not None and sees(one["group"]))]
