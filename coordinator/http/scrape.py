"""Answers scrapes: `/metrics` in the format that the client asks for. The text is made and sent in parts.

Scrapes at the same time get the same text: a scrape of many groups may have some megabytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from starlette.requests import Request

from muster.coordinator.server.exposition import OPEN_METRICS, TEXT, Lines, Metric, exposition

Collect = Callable[[], Awaitable[Sequence[Metric | Lines]]]
Keep = Callable[[bytes], bytes]
"""Returns the lines of a part that a user may see."""


class Scrapes:
    """See the module."""

    def __init__(self, collect: Collect, keeps: Callable[[Any], Keep | None] = lambda _: None) -> None:
        """`collect` returns the present metrics. It may raise Failure. `keeps` gets the scope of a request. Its result
        None means that the sender sees all lines.
        """
        self._collect = collect
        self._keeps = keeps
        self._making: dict[bool, asyncio.Task[list[bytes]]] = {}
        """The text that is made now, by whether it is for OpenMetrics."""

    async def answer(self, request: Request) -> Any:
        """Answer a scrape."""
        is_open = "application/openmetrics-text" in request.headers.get("accept", "")
        making = self._making.get(is_open)
        if making is None:
            making = self._making[is_open] = asyncio.ensure_future(self._make(is_open=is_open))
            making.add_done_callback(lambda _: self._making.pop(is_open, None))
        # a client that disconnects does not end what others wait for
        parts = await asyncio.shield(making)
        keep = self._keeps(request.scope)
        if keep is not None:
            kept = []
            for part in parts:
                kept.append(keep(part))
                await _next_iteration()
            parts = kept
        return _InParts(parts, OPEN_METRICS if is_open else TEXT)

    async def _make(self, *, is_open: bool) -> list[bytes]:
        job = exposition(await self._collect(), is_open=is_open)
        while True:
            try:
                next(job)
            except StopIteration as end:
                parts: list[bytes] = end.value
                return parts
            await _next_iteration()


async def _next_iteration() -> None:
    """Let the event loop serve others."""
    loop = asyncio.get_running_loop()
    turned: asyncio.Future[None] = loop.create_future()
    loop.call_soon(turned.set_result, None)
    await turned


class _InParts:
    """An answer whose body is sent part by part. The next part is sent when the client has read the last one."""

    def __init__(self, parts: Sequence[bytes], content_type: str) -> None:
        self._parts = parts
        size = sum(map(len, parts))
        self._headers = [(b"content-type", content_type.encode()), (b"content-length", b"%d" % size)]

    async def __call__(self, _scope: Any, _receive: Any, send: Any) -> None:
        """Send the answer."""
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        for part in self._parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
