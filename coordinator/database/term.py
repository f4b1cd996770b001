"""One term of office: from taking it to giving it up. The node is an ordinary `Server` over a copy of the logs, whose
appends count when the database has them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import copy as shallow_copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from muster.coordinator.clock import Clock
from muster.coordinator.config import Config
from muster.coordinator.database import copy
from muster.coordinator.database.lease import Lease
from muster.coordinator.database.shipper import Shipper
from muster.coordinator.database.store import Office, Store, StoreAway
from muster.coordinator.log import FilesystemSync, Storage
from muster.coordinator.log.durability import Engine
from muster.coordinator.machine import Machine, Post
from muster.coordinator.server import Server

if TYPE_CHECKING:
    from muster.coordinator.log import SharedSync
    from muster.coordinator.slices import Worker

_logger = structlog.get_logger("muster.cluster")


class OfficeMachine(Machine):
    """The machine of a node in office: `below`, but for what makes logs durable."""

    def __init__(self, below: Machine, storage: Storage, engine: Engine) -> None:
        self._below = below
        self._storage = storage
        self._engine = engine
        self.cleaner_cpu_share = below.cleaner_cpu_share
        self.draw_uuid = below.draw_uuid  # type: ignore[method-assign]
        self.draw_uuid_text = below.draw_uuid_text  # type: ignore[method-assign]
        self.clock = below.clock  # type: ignore[method-assign]
        self.listener = below.listener  # type: ignore[method-assign]

    def storage(self, directory: Path | None) -> Storage:  # noqa: ARG002
        """The copy."""
        return self._storage

    def engine(self) -> Engine | None:
        """The database."""
        return self._engine

    def workers(self, post: Post, threads: int) -> SharedSync:
        """Threads for what works on files."""
        return self._below.workers(post, threads)

    def thread(self, post: Post) -> Worker:
        """A thread for what takes too long on the event loop."""
        return self._below.thread(post)

    def whole_disk(self, directory: Path | None) -> FilesystemSync | None:  # noqa: ARG002
        """Nobody waits for the disk."""
        return None


class Term:
    """See the module. `lost`: set when the office is lost."""

    def __init__(
        self,
        config: Config,
        store: Store,
        machine: Machine,
        clock: Clock,
        directory: Path | None,
        *,
        open_server: Callable[..., Any] = Server,
        loaded: Callable[[], object] = lambda: None,
    ) -> None:
        """`directory`: where the copy is made; None: in memory. `open_server`: makes the server, for tests."""
        self._open_server = open_server
        self._config = config
        self._store = store
        self._machine = machine
        self._clock = clock
        self._directory = directory
        self._loaded = loaded
        self.lost = asyncio.Event()
        self.server: Any = None
        self._shipper: Shipper
        self._turns: asyncio.Task[None]

    async def begin(self, office: Office, asked_ms: int, lease_ms: int) -> None:
        """The office was taken: make the copy, load, listen. Raises OSError, and the errors of the store, of the log
        and of the copy.

        `asked_ms`: the monotonic time at which it was asked for.
        """
        began_ms = self._clock.mono_ms()
        storage = self._machine.storage(self._directory)
        copy.clear(storage)
        identity = await self._store.identity()
        post = asyncio.get_running_loop().call_soon_threadsafe
        self._files = self._machine.workers(post, 1)
        lease = Lease(lease_ms, asked_ms)
        # the lease must not end while the copy is made
        keeper = Shipper(self._store, self._clock, storage, office.epoch, lease, self._files.run, lost=self._on_lost)
        keeping = asyncio.create_task(keeper.run())
        try:
            copied = await copy.make(self._store, storage, identity, self._config.node_id)
        except Exception:  # whatever it is goes up; what keeps the office ends before
            keeper.stop()
            await keeping
            self._files.close()
            raise
        keeper.stop()
        await keeping
        if keeper.failure:
            self._files.close()
            raise StoreAway(keeper.failure)
        self._shipper = Shipper(
            self._store,
            self._clock,
            storage,
            office.epoch,
            lease,
            self._files.run,
            turn=keeper.turn,
            logs=copied.logs,
            segments=copied.segments,
            lost=self._on_lost,
        )
        self._turns = asyncio.create_task(self._shipper.run())
        config = shallow_copy(self._config)
        config.data_dir, config.cluster_id = self._directory, identity.cluster_id
        machine = OfficeMachine(self._machine, storage, self._shipper)
        self.server = self._open_server(config, machine=machine, loaded=self._loaded)
        try:
            await self.server.start()
        except Exception:  # whatever it is goes up; nothing of the term goes on
            self.server = None  # it has stopped itself
            await self.end()
            raise
        _logger.info("in office", epoch=office.epoch, partitions=len(copied.logs), mb=copied.bytes_read // 1_000_000,
                     took_ms=self._clock.mono_ms() - began_ms)  # fmt: skip

    def _on_lost(self, _: str) -> None:
        self.lost.set()

    async def end(self) -> bool:
        """Give up: stop serving, bring what is left; whether all that was acknowledged, and all else, is there."""
        if self.server is not None:
            await self.server.stop()
        self._shipper.stop()
        await self._turns
        whole = await self._shipper.drain()
        self._files.close()
        return whole
