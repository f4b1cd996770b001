"""Loading the groups of all shards at a start: some of it before the server listens, the rest a chunk in each turn of
the event loop, beside the clients; says how far it is. Knows shards as steps, and nothing of what is in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import structlog

from muster.coordinator.clock import Clock
from muster.coordinator.runtime.shard import LOAD_CHUNK_BYTES

log = structlog.get_logger("muster.server")

TELL_EVERY_MS: Final = 2_000


class Loading:
    """All loads of one start, one after the other; `add` them, then `run_for` once."""

    def __init__(self, clock: Clock, done: Callable[[], object]) -> None:
        """`done` is called once, when everything is loaded."""
        self._clock = clock
        self._done = done
        self._loads: list[tuple[Iterator[None], int]] = []
        self._total = self._finished = self._begun = 0
        self._told_ms = 0

    def add(self, steps: Iterator[None], size_bytes: int) -> None:
        """`steps`: what `Shard.start` returns, for a log of so many bytes."""
        self._loads.append((steps, size_bytes))
        self._total += size_bytes

    def run_for(self, budget_ms: int) -> None:
        """Load for about so long; what is left goes on in the event loop."""
        end = self._clock.mono_ms() + budget_ms
        while self._loads and self._clock.mono_ms() <= end:
            self._step()
        if self._loads:
            self._tell()
            self._clock.call_soon(self._turn)
        else:
            self._done()

    def stop(self) -> None:
        """Leave what is not loaded yet."""
        self._loads.clear()

    def _step(self) -> None:
        steps, size_bytes = self._loads[-1]
        try:
            next(steps)
        except StopIteration:
            self._loads.pop()
            self._finished += size_bytes
            self._begun = 0
        else:
            self._begun = min(self._begun + LOAD_CHUNK_BYTES, size_bytes)

    def _turn(self) -> None:
        if not self._loads:
            return
        self._step()
        if self._loads:
            if self._clock.mono_ms() - self._told_ms >= TELL_EVERY_MS:
                self._tell()
            self._clock.call_soon(self._turn)
        else:
            log.info("all groups are loaded")
            self._done()

    def _tell(self) -> None:
        self._told_ms = self._clock.mono_ms()
        done = self._finished + self._begun
        log.info("the groups are being loaded", percent=100 * done // max(self._total, 1), mb_done=done // 1_000_000,
                 mb=self._total // 1_000_000, partitions_left=len(self._loads))  # fmt: skip
