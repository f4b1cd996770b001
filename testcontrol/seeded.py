"""What a server under test stands on: a machine whose ids are drawn from a seed, so that two runs with the same seed
and the same requests get the same ones, and whose clock can be moved.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from muster.coordinator.log import MemoryStorage, Storage
from muster.coordinator.net.listener import Listener, ListenerAddress
from muster.coordinator.server.machine import Machine
from muster.coordinator.system import uuids
from muster.coordinator.system.clock import Clock, LoopClock
from muster.testcontrol.clock import MovableClock
from muster.testcontrol.disk import Disk


class ControlledMachine(Machine):
    """The machine of a server under test. What it has in memory stays when the server is started again on it."""

    may_pause_one_node = True
    ports_of_before: ClassVar[Sequence[int]] = ()
    """What `ports` is at first: of a process that takes the place of another one."""

    def __init__(self, seed: int | None = None, *, starts_frozen: bool = False) -> None:
        """`seed`: of the ids of members, topics, producers and the cluster, and of the order of what is due at the
        same time; None: ids are drawn as ever, and what was to ring first rings first.

        `starts_frozen`: time stands still from the start, until it is moved.
        """
        self.seed = seed
        self._starts_frozen = starts_frozen
        self._random = None if seed is None else random.Random(seed)
        # of its own: how many timers there were is not to change what id comes next
        self._order = None if seed is None else random.Random(f"order {seed}")
        self._memory = MemoryStorage()
        self.disk = Disk()
        self.ports = list(self.ports_of_before)
        """Where the server listened before: each listener that may take any port takes these again, one after the
        other.
        """

    def clock(self) -> Clock:
        """See `Machine`; one that can be moved."""
        clock = MovableClock(LoopClock(asyncio.get_running_loop()), self._order)
        if self._starts_frozen:
            clock.freeze()
        return clock

    def draw_uuid(self) -> bytes:
        """See `Machine`."""
        return super().draw_uuid() if self._random is None else uuids.draw_uuid(self._random.randbytes)

    def draw_uuid_text(self) -> str:
        """See `Machine`."""
        return super().draw_uuid_text() if self._random is None else uuids.draw_uuid_text(self._random.randbytes)

    def storage(self, directory: Path | None) -> Storage:
        """See `Machine`."""
        return self.disk.before(self._memory if directory is None else super().storage(directory))

    def listener(self, address: ListenerAddress, *more: Any) -> Listener:
        """See `Machine`."""
        if not address.port and self.ports:
            address = address._replace(port=self.ports.pop(0))
        return super().listener(address, *more)
