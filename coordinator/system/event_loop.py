"""The event loop of a server: uvloop, or else that of asyncio with a bound on one iteration."""

from __future__ import annotations

import asyncio
import selectors
from typing import Final

EVENTS_AT_ONCE: Final = 50
"""The most ready sockets that are served in one iteration: some 10 ms, if each has 256 KB to read."""
_Ready = list[tuple[selectors.SelectorKey, int]]


class FewEvents(selectors.DefaultSelector):
    """Reports few ready sockets at once, in their order. Other sockets come next, before a call of the system."""

    def __init__(self) -> None:
        super().__init__()
        self.rest: _Ready = []
        """The ready sockets that come next."""

    def select(self, timeout: float | None = None) -> _Ready:
        """See `selectors.BaseSelector`."""
        ready = self._still_registered() if self.rest else super().select(timeout)
        if len(ready) <= EVENTS_AT_ONCE:
            return ready
        self.rest = ready[EVENTS_AT_ONCE:]
        return ready[:EVENTS_AT_ONCE]

    def _still_registered(self) -> _Ready:
        """The sockets of `rest` that were not closed or changed meanwhile: the system reports changed sockets again."""
        rest, self.rest = self.rest, []
        keys = self.get_map()
        return [one for one in rest if keys.get(one[0].fd) is one[0]]


class ServerLoop(asyncio.SelectorEventLoop):
    """The loop of asyncio with `FewEvents`. (uvloop serves all ready sockets in one iteration, and cannot be changed.)

    Windows uses this loop too: its default loop lacks readiness events of sockets, which the listener needs.
    """

    def __init__(self) -> None:
        self._events = FewEvents()
        super().__init__(self._events)

    def has_unread(self) -> bool:
        """Whether sockets that were ready before this iteration are not served yet."""
        return bool(self._events.rest)


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A new event loop for a server."""
    try:
        import uvloop
    except ImportError:
        return ServerLoop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
