"""A machine whose ids are drawn from a seed: two runs with the same seed and the same requests get the same ones."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from muster.coordinator import uuids
from muster.coordinator.log import MemoryStorage, Storage
from muster.coordinator.machine import Machine
from muster.coordinator.net.listener import Listener, ListenerAddress


class RehearsalMachine(Machine):
    """The machine of a server under test. What it has in memory stays when the server is started again on it."""

    def __init__(self, seed: int | None = None) -> None:
        """`seed`: of the ids of members, topics, producers and the cluster; None: they are drawn as ever."""
        self.seed = seed
        self._random = None if seed is None else random.Random(seed)
        self._memory = MemoryStorage()
        self.ports: list[int] = []
        """Where the server listened before: each listener that may take any port takes these again, one after the
        other.
        """

    def draw_uuid(self) -> bytes:
        """See `Machine`."""
        return super().draw_uuid() if self._random is None else uuids.draw_uuid(self._random.randbytes)

    def draw_uuid_text(self) -> str:
        """See `Machine`."""
        return super().draw_uuid_text() if self._random is None else uuids.draw_uuid_text(self._random.randbytes)

    def storage(self, directory: Path | None) -> Storage:
        """See `Machine`."""
        return self._memory if directory is None else super().storage(directory)

    def listener(self, address: ListenerAddress, *more: Any) -> Listener:
        """See `Machine`."""
        if not address.port and self.ports:
            address = address._replace(port=self.ports.pop(0))
        return super().listener(address, *more)
