"""The logs of a running server with their maintenance, and the topics and users that must exist first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from muster.coordinator.config import Config
from muster.coordinator.history.event_writer import HistorySettings
from muster.coordinator.log import FilesystemSync, LogManager, LogSettings
from muster.coordinator.log.cleaning.cleaner import Cleaner
from muster.coordinator.log.maintenance import Maintenance, monitoring
from muster.coordinator.log.storage.open_files import OF_THIS_PROCESS
from muster.coordinator.server.machine import Machine
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.file_limits import PROCESS_FILES
from muster.coordinator.system.jobs import Job, JobQueue
from muster.coordinator.topics.names import (
    GROUP_EVENTS_TOPIC,
    GROUP_OFFSETS_TOPIC,
    TRANSACTION_EVENTS_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from muster.coordinator.topics.topics import Topics

log = structlog.get_logger("muster.server")

SYNC_THREADS: Final = 4


class Data:
    """The open logs of a server. Call `close` once. `identity`: the ids of the cluster and the node."""

    def __init__(
        self,
        config: Config,
        machine: Machine,
        clock: Clock,
        job_queue: JobQueue,
        post: Callable[[Callable[[], object]], object],
    ) -> None:
        """`job_queue` runs jobs over all logs. Raises OSError and the errors of `log.LogManager.open`."""
        self._clock = clock
        self._machine = machine
        self._post = post
        self._maintenance: Maintenance | None = None
        self._cleaner: Cleaner | None = None
        self.is_bounded = PROCESS_FILES.ask()
        OF_THIS_PROCESS.limit = PROCESS_FILES.max_logs if self.is_bounded else None
        sync = None if config.data_dir is None else machine.workers(post, SYNC_THREADS)
        storage, settings = machine.storage(config.data_dir), config.settings(LogSettings)
        self.logs = LogManager(storage, settings, sync=sync, engine=machine.engine())
        self.logs.run_job = lambda job: job_queue.run_behind(job, _nothing, _Walks())
        self.identity = self.logs.open(
            cluster_id=config.cluster_id, node_id=config.node_id, draw_uuid=machine.draw_uuid
        )
        if self.logs.needs_recovery:
            log.warning("the last stop was not clean: logs are checked from their recovery points on",
                        directory=str(config.data_dir))  # fmt: skip
        self._filesystem: FilesystemSync | None = machine.whole_disk(config.data_dir)
        self._stop_watching = monitoring(self.logs, clock.machine, sync)
        if self._filesystem is not None:
            self.logs.share_sync(self._filesystem.sync, clock.machine)

    def begin_maintenance(self) -> None:
        """Begin to sync, delete and compact logs, as their settings require."""
        logs, clock, machine = self.logs, self._clock, self._machine
        self._maintenance = Maintenance(logs, clock)
        self._maintenance.start()
        cleaners = machine.workers(self._post, max(logs.settings.log_cleaner_threads, 1))
        self._cleaner = Cleaner(logs, clock, cleaners, cpu_share=machine.cleaner_cpu_share)
        self._cleaner.start()

    def close(self, *, clean: bool) -> None:
        """Close the logs. `clean`: everything is written, and the next start need not check the logs."""
        if self._maintenance is not None:
            self._maintenance.stop()
        if self._cleaner is not None:
            self._cleaner.stop(clean=clean)
        self._stop_watching()
        self.logs.close(clean=clean)
        if self._filesystem is not None:
            self._filesystem.close()


class _Walks:
    closed = False

    def fault(self, error: Exception) -> None:
        log.error("a walk over all logs has failed, because of a bug in the server", exc_info=error)


def _nothing(_: object) -> None:
    pass


def creating_first_topics(config: Config, topics: Topics, draw_uuid: Callable[[], bytes]) -> Job[None]:
    """Create __consumer_offsets, the histories, and the topics and users of the options. Raises `ApiError`."""
    histories = config.settings(HistorySettings)
    yield from topics.ensuring(GROUP_OFFSETS_TOPIC)
    if histories.muster_group_events_enable:
        yield from topics.ensuring(GROUP_EVENTS_TOPIC)
    if histories.muster_transaction_events_enable and TRANSACTION_STATE_TOPIC in topics.by_name:
        yield from topics.ensuring(TRANSACTION_EVENTS_TOPIC)
    for name, partitions in config.topics:
        topic = yield from topics.ensuring(name, partitions)
        there = len(topic.partitions)
        if there != partitions:
            log.warning(
                "a topic of --topic exists with another number of partitions, and is not changed",
                topic=name, partitions=there, wanted=partitions,
            )  # fmt: skip
    if config.users:
        # imported here: few configurations have users
        from muster.coordinator.config.scram_users import scram_records

        yield from topics.writing(scram_records(config.users, topics.state.scram, draw_uuid))
