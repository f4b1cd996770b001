"""Notices when machine or broker are too busy for the times of a story. It sends a small request every 30 ms."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import itertools
import time
from typing import Final

from muster.client.connection import RequestFailed
from muster.conform.target import Target

EVERY_S: Final = 0.03
"""The time between two requests."""
BUSY_S: Final = 0.1
"""A story has 150 ms between what it asserts and the event. It cannot be judged if an answer may take this long."""
KEPT: Final = 20_000
"""How many of the newest measures are kept."""


class Pulse:
    """Asks for ApiVersions on a connection of its own. The time includes that in which this process got no CPU."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.measures: collections.deque[tuple[float, float]] = collections.deque(maxlen=KEPT)
        """Moments of answers, and how long they took."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to measure."""
        self._task = asyncio.create_task(self._beat())

    async def stop(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def was_busy(self, since: float, scale: float = 1) -> bool:
        """Whether an answer took too long since this moment of `time.monotonic()`, for a story stretched by `scale`."""
        newest = itertools.takewhile(lambda pair: pair[0] >= since, reversed(self.measures))
        return any(took_s > BUSY_S * scale for _, took_s in newest)

    async def _beat(self) -> None:
        while True:
            with contextlib.suppress(OSError, TimeoutError, RequestFailed):
                await self._measure()
            await asyncio.sleep(1)

    async def _measure(self) -> None:
        connection = await self._target.open()
        try:
            while True:
                began = time.monotonic()
                await asyncio.sleep(EVERY_S)
                await connection.ask("ApiVersions", 0, {})
                self.measures.append((time.monotonic(), time.monotonic() - began - EVERY_S))
        finally:
            await connection.close()
