"""One node session: from a registration to its end. The node is an ordinary `Server` over local replicas of the logs
that it leads. Appended records are durable when the database has them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from copy import copy as shallow_copy
from pathlib import Path
from types import MappingProxyType
from typing import Any

import structlog

from muster.coordinator.config import Config
from muster.coordinator.log import FilesystemSync, Storage
from muster.coordinator.log.durability import Engine
from muster.coordinator.net.listener import Listener
from muster.coordinator.server import Server
from muster.coordinator.server.machine import Machine
from muster.coordinator.system.clock import Clock
from muster.coordinator.topics.cluster_image import Endpoint
from muster.coordinator.topics.errors import ApiError
from muster.postgres import local_replica
from muster.postgres.database_writer import DatabaseWriter
from muster.postgres.figures import ClusterFigures
from muster.postgres.lease import Lease, LeasedTransport, ReadBarrier
from muster.postgres.membership import Membership
from muster.postgres.segment_cache import SegmentCache
from muster.postgres.settings import ClusterSettings
from muster.postgres.shared_metadata_log import SharedMetadataLog
from muster.postgres.store import NodeRegistration, Store, StoreAway

_logger = structlog.get_logger("muster.cluster")


class LocalReplicaMachine(Machine):
    """The machine of a registered node: `below`, except for what makes logs durable."""

    def __init__(self, below: Machine, storage: Storage, engine: DatabaseWriter, clock: Clock) -> None:
        self._below = below
        self._storage = storage
        self._engine = engine
        self._clock = clock
        self.cleaner_cpu_share = below.cleaner_cpu_share
        self.draw_uuid = below.draw_uuid
        self.draw_uuid_text = below.draw_uuid_text
        self.clock = below.clock  # type: ignore[method-assign]  # the method of `below`
        self.workers = below.workers  # type: ignore[method-assign]  # the method of `below`
        self.thread = below.thread  # type: ignore[method-assign]  # the method of `below`

    def storage(self, directory: Path | None) -> Storage:  # noqa: ARG002  # a parameter of Machine's method
        return self._storage

    def engine(self) -> Engine | None:
        return self._engine.pending

    def listener(self, *arguments: Any) -> Listener:
        """A listener whose connections send no answer once the lease is over."""
        listener = self._below.listener(*arguments)
        clock, lease = self._clock, self._engine.lease
        listener.guard(lambda transport, abort: LeasedTransport(transport, abort, clock, lease))
        return listener

    def whole_disk(self, directory: Path | None) -> FilesystemSync | None:  # noqa: ARG002  # a parameter of Machine's method
        """Always None, because no log waits for the disk."""
        return None


class NodeSession:
    """One node session; see the module. `lost` is set when the registration is lost."""

    def __init__(
        self,
        config: Config,
        store: Store,
        reads: Store,
        machine: Machine,
        clock: Clock,
        directory: Path | None,
        *,
        open_server: Callable[..., Any] = Server,
        loaded: Callable[[], object] = lambda: None,
        figures: ClusterFigures | None = None,
        doors: Mapping[str, Endpoint] = MappingProxyType({}),
    ) -> None:
        """`store`: the connection for database writes; `reads`: another connection to the same database, for all other
        requests. `directory`: the place of the local replica; None: memory. `open_server`: makes the server; tests give
        another function. `doors`: see `Membership`.
        """
        self._doors = doors
        self._open_server = open_server
        self._config = config
        self._store = store
        self._reads = reads
        self._machine = machine
        self._clock = clock
        self._directory = directory
        self._loaded = loaded
        self._figures = figures or ClusterFigures()
        self.lost = asyncio.Event()
        self.server: Any = None
        self.writer: DatabaseWriter
        self.membership: Membership
        self._metadata_log: SharedMetadataLog
        self._cache: SegmentCache
        self._turns: asyncio.Task[None]
        self._following: asyncio.Task[None] | None = None

    async def begin(
        self, registration: NodeRegistration, asked_ms: int, lease_ms: int, *, others_return: bool = False
    ) -> None:
        """Begin after the registration: read the metadata log, join, load, listen. Raises OSError, and the errors of
        the store, of the log and of the local replica.

        `asked_ms`: the monotonic time at which the registration was requested. `others_return`: the database was
        unavailable, and other nodes get the time of a lease to register.
        """
        began_ms = self._clock.mono_ms()
        storage = self._machine.storage(self._directory)
        local_replica.clear(storage)
        barrier = ReadBarrier(self._reads, registration)
        shared_log = self._metadata_log = SharedMetadataLog(
            self._reads, self._clock, self._machine.draw_uuid_text, barrier
        )
        identity, rows = await self._reads.identity(), await shared_log.read()
        local_replica.begin(storage, shared_log.began_at, rows, identity, registration.node_id)
        post = asyncio.get_running_loop().call_soon_threadsafe
        self._files = self._machine.workers(post, 1)
        settings = self._config.settings(ClusterSettings)
        cache = self._cache = SegmentCache(
            self._reads,
            storage,
            self._clock,
            settings.muster_cluster_cache_bytes,
            settings.muster_cluster_segment_bytes,
            self._figures,
        )
        writer = self.writer = DatabaseWriter(
            self._store,
            self._clock,
            storage,
            registration,
            Lease(lease_ms, asked_ms),
            self._files.run,
            known=lambda: shared_log.known,
            follow=shared_log.follow_to,
            lost=lambda _: self.lost.set(),
            figures=self._figures,
            cache=cache,
            barrier=barrier,
        )
        shared_log.lost = writer.failed
        self.membership = Membership(
            registration, self._reads, storage, writer, shared_log, self._clock, settings, self._figures,
            others_until_ms=asked_ms + lease_ms if others_return else 0, doors=self._doors,
        )  # fmt: skip
        self._turns = asyncio.create_task(writer.run())
        config = shallow_copy(self._config)
        config.data_dir, config.cluster_id, config.node_id = self._directory, identity.cluster_id, registration.node_id
        machine = LocalReplicaMachine(self._machine, storage, writer, self._clock)
        self.server = self._open_server(config, machine=machine, loaded=self._loaded, membership=self.membership)
        try:
            await self.server.start()
        except Exception as error:  # any error is raised again, after all parts of the session have stopped
            self.server = None  # the server has stopped itself
            await self.end(hands_over=False)
            if isinstance(error, ApiError):  # the database was unavailable for too long
                raise StoreAway(error.message) from error
            raise
        self._following = asyncio.create_task(self._follow())
        self._figures.node_session = self
        self._figures.registrations_made += 1
        _logger.info("this node serves", node=registration.node_id, epoch=registration.epoch,
                     metadata_offset=shared_log.known, took_ms=self._clock.mono_ms() - began_ms)  # fmt: skip

    async def _follow(self) -> None:
        try:
            await self.membership.run()
        except Exception as error:  # any error: a node that does not know what other nodes decide must stop
            _logger.error("the metadata log cannot be followed", exc_info=error)
            self.writer.failed(f"the metadata log cannot be followed: {error}")

    async def end(self, *, hands_over: bool) -> bool:
        """End the session: let others lead (`hands_over`), stop serving, write the remaining records. Returns whether
        the database has all records, acknowledged or not.
        """
        self._figures.node_session = None
        await self._while_held(self._stop_following(hands_over=hands_over))
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait([self._following])
        await self._metadata_log.stop()
        await self.membership.stop_fetching()
        await self._cache.stop()
        if self.server is not None:
            await self.server.stop()
        self.writer.stop()
        await self._turns
        whole = await self.writer.drain()
        self._files.close()
        return whole

    async def _stop_following(self, *, hands_over: bool) -> None:
        if hands_over:
            await self.membership.leave()
        self.membership.stop()
        if self._following is not None:
            await asyncio.wait([self._following])

    async def _while_held(self, work: Coroutine[None, None, None]) -> None:
        """Do the work until it is done, or the registration is lost. The work may wait long for the database. A node
        without a registration must not answer meanwhile: a successor with the same id may lead its partitions.
        """
        tasks = [asyncio.create_task(one) for one in (work, self.lost.wait())]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        self.membership.stop()
        for task in tasks:
            task.cancel()
        for found in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(found, Exception):
                raise found
