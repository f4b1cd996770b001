"""The machine of a server under test. Its ids are drawn from a seed, and its clock can be moved. Two runs with the same
seed and the same requests get the same ids.
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
    """The machine of a server under test. Its memory stays when the server is started on it again."""

    may_pause_one_node = True
    ports_of_before: ClassVar[Sequence[int]] = ()
    """The first value of `ports`, in a process that replaces another one."""

    def __init__(self, seed: int | None = None, *, starts_frozen: bool = False) -> None:
        """`seed`: for the ids of members, topics, producers and the cluster. It also orders timers with the same
        deadline. None: ids are random, and such timers keep the order in which they were set.

        `starts_frozen`: time is frozen from the start, until it is moved.
        """
        self.seed = seed
        self._starts_frozen = starts_frozen
        self._random = None if seed is None else random.Random(seed)
        # a generator of its own: the number of timers must not change the next id
        self._order = None if seed is None else random.Random(f"order {seed}")
        self._memory = MemoryStorage()
        self.disk = Disk()
        self.ports = list(self.ports_of_before)
        """The ports of the server before. Each listener that may take any port takes the next of them."""

    def clock(self) -> Clock:
        """See `Machine`; a clock that can be moved."""
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
