"""A core in virtual time, for the groups with which replays are compared: its planned events and its timers."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable
from random import Random

from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.state_machine.output import Output

START_MS = 1_700_000_000_000


class Virtual(ABC):
    """The core of this module."""

    def __init__(self, seed: int, settings: GroupSettings, image: TopicsImage) -> None:
        self.random = Random(seed)
        self.ms = START_MS
        self.core = GroupCore(settings, image)
        self.core.loaded(self.now)
        self._queue: list[tuple[int, int, Callable[[], object]]] = []
        self._order = 0

    @property
    def now(self) -> Now:
        return Now(self.ms, self.ms)

    def at(self, after_ms: int, act: Callable[[], object]) -> None:
        """Plan an action in `after_ms`."""
        self._order += 1
        heapq.heappush(self._queue, (self.ms + after_ms, self._order, act))

    def run(self, ms: int) -> None:
        """Let `ms` pass."""
        until_ms = self.ms + ms
        while True:
            due_ms = self.core.next_deadline_ms()
            next_ms = self._queue[0][0] if self._queue else until_ms + 1
            if min(next_ms, until_ms + 1 if due_ms is None else due_ms) > until_ms:
                break
            if due_ms is not None and due_ms <= next_ms:
                self.ms = max(self.ms, due_ms)
                self._settle(self.core.advance(self.now))
            else:
                self.ms, _, act = heapq.heappop(self._queue)
                act()
        self.ms = until_ms

    @abstractmethod
    def _settle(self, output: Output) -> None:
        """Keep the core's decisions, and send the answers."""
