"""The environment of a server: a clock, a data directory, threads and sockets. Tests replace `Machine`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from muster.coordinator.log import FileStorage, FilesystemSync, MemoryStorage, SharedSync, Storage
from muster.coordinator.log.cleaning.cleaner import CPU_SHARE
from muster.coordinator.log.durability import Engine
from muster.coordinator.net.authentication_gate import RequestsWithSink
from muster.coordinator.net.limits import Limits
from muster.coordinator.net.listener import PLAINTEXT, Listener, ListenerAddress, Security
from muster.coordinator.net.settings import NetSettings
from muster.coordinator.system import uuids
from muster.coordinator.system.clock import Clock, LoopClock
from muster.coordinator.system.jobs import Thread, Worker

Post = Callable[[Callable[[], object]], object]
"""Runs a callable on the event loop soon, from any thread."""


class Machine:
    """The machine that this process runs on."""

    has_sockets = True
    """Whether the machine has a network and socket files."""
    may_pause_one_node = False
    """Whether the only broker of a process may be paused. If so, every read of the clock is slower."""
    cleaner_cpu_share = CPU_SHARE
    """The limit of the log cleaner, as a part of one core."""
    draw_uuid: Callable[[], bytes] = staticmethod(uuids.draw_uuid)
    """Returns a fresh id of a topic, a cluster or a directory: 16 bytes."""
    draw_uuid_text: Callable[[], str] = staticmethod(uuids.draw_uuid_text)
    """Returns a fresh text for the end of a member id."""

    def clock(self) -> Clock:
        """The time, with timers of the running event loop."""
        return LoopClock(asyncio.get_running_loop())

    def storage(self, directory: Path | None) -> Storage:
        """The storage of the data directory. For None the storage is in memory, and is lost with the process."""
        return MemoryStorage() if directory is None else FileStorage(directory)

    def engine(self) -> Engine | None:
        """The engine that makes logs durable; None: a sync of the data directory makes them durable."""
        return None

    def workers(self, post: Post, threads: int) -> SharedSync:
        """Threads for work that waits for the disk. The threads start with the first job."""
        return SharedSync(post, threads=threads)

    def thread(self, post: Post) -> Worker:
        """A thread for work that takes too long on the event loop. The thread starts with the first work."""
        return Thread(post)

    def whole_disk(self, directory: Path | None) -> FilesystemSync | None:
        """A function that syncs every file of the data directory at once; None where the system has no such call."""
        if directory is None or not FilesystemSync.is_reliable():
            return None
        return FilesystemSync(directory)

    def listener(
        self,
        address: ListenerAddress,
        settings: NetSettings,
        limits: Limits,
        open_requests: Callable[..., RequestsWithSink],
        security: Security = PLAINTEXT,
    ) -> Listener:
        """The listener that accepts the connections of one address."""
        return Listener(address, settings, limits, open_requests, security)
