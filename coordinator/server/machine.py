"""What a server stands on: a clock, a data directory, threads and sockets.

`Machine` is the real one. A test puts another in its place, where time passes when it is told to, threads take turns,
and the disk and the network fail as a seed says.
"""

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
    """Whether there is a network, and files of sockets."""
    may_pause_one_node = False
    """Whether the only broker may be paused. Each of several may; for one alone every look at the time costs more."""
    cleaner_cpu_share = CPU_SHARE
    """How much of one core the log cleaner may take."""

    def clock(self) -> Clock:
        """The time, with timers of the running event loop."""
        return LoopClock(asyncio.get_running_loop())

    def draw_uuid(self) -> bytes:
        """A fresh id of a topic, a cluster or a directory: 16 bytes."""
        return uuids.draw_uuid()

    def draw_uuid_text(self) -> str:
        """A fresh text that a member id ends in."""
        return uuids.draw_uuid_text()

    def storage(self, directory: Path | None) -> Storage:
        """The data directory; None: one in memory, gone with the process."""
        return MemoryStorage() if directory is None else FileStorage(directory)

    def engine(self) -> Engine | None:
        """What makes logs durable elsewhere than in the data directory; None: nothing does."""
        return None

    def workers(self, post: Post, threads: int) -> SharedSync:
        """Threads for what waits for the disk; started when the first job comes."""
        return SharedSync(post, threads=threads)

    def thread(self, post: Post) -> Worker:
        """A thread for what takes too long on the event loop; started when the first work comes."""
        return Thread(post)

    def whole_disk(self, directory: Path | None) -> FilesystemSync | None:
        """What syncs every file of the data directory at once; None where nothing does."""
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
        """What accepts the connections of one address."""
        return Listener(address, settings, limits, open_requests, security)
