"""All logs of one data directory, used by one thread: its lock, its identity, the checkpoints and the stop."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any, Final

import structlog

from muster.coordinator.log import checkpoints
from muster.coordinator.log.checkpoints import LastStop, LastStops, Partition
from muster.coordinator.log.durability import Engine
from muster.coordinator.log.errors import DamagedLog, DirectoryGone, LogOffline, Place
from muster.coordinator.log.file_names import DELETE_SUFFIX, LOG_SUFFIX, STRAY_SUFFIX
from muster.coordinator.log.folders import PartitionFolders
from muster.coordinator.log.identity import Identity, identify
from muster.coordinator.log.recovery.loader import LogLoader
from muster.coordinator.log.segments.absence import SegmentFigures
from muster.coordinator.log.settings import LogConfig, LogSettings
from muster.coordinator.log.storage.interfaces import Lock as DirectoryHeld
from muster.coordinator.log.storage.interfaces import Storage
from muster.coordinator.log.storage.shared_sync import SharedSync
from muster.coordinator.log.unified_log import UnifiedLog
from muster.coordinator.system.chunked import Chunked
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import Job, at_once

_logger = structlog.get_logger("muster.log")

LOGS_AT_ONCE: Final = 100
"""How many logs are looked at in one step."""


class LogManager:
    """The logs of one data directory."""

    def __init__(
        self,
        storage: Storage,
        settings: LogSettings,
        *,
        sync: SharedSync | None = None,
        engine: Engine | None = None,
    ) -> None:
        """`sync`: threads for syncs and removals, closed with the manager; without it only `flush` and `close` sync.

        `engine`: makes the logs durable instead of the disk.
        """
        self._engine = engine
        self.storage = storage
        self.folders = PartitionFolders(storage, sync)
        self._sync = sync
        self.settings = settings
        self.default_config = LogConfig.of(settings)
        self.offline: dict[Partition, DamagedLog] = {}
        """Partitions whose log could not be opened, with the reason."""
        self._lock: DirectoryHeld | None = None
        self._logs = Chunked[Partition, UnifiedLog]()
        self._absent: dict[Partition, Sequence[SegmentFigures]] = {}
        self.gone: DirectoryGone | None = None
        """Why the data directory is no longer the directory that was opened; None while it is."""
        self.needs_recovery = False
        """Whether the directory has logs and the last stop was not clean; valid after `open`."""
        self.compactions = self.compacted_bytes = 0
        """How many logs were compacted since the start, and how many bytes that has removed."""
        self._last_stops: LastStops
        self.run_job: Callable[[Job[Any]], object] = at_once
        """Runs a job over all logs. A server lets its job queue run the job."""

    # -- the directory

    def open(self, *, cluster_id: str | None, node_id: int, draw_uuid: Callable[[], bytes]) -> Identity:
        """Take the directory, after creating it if necessary. Find the identity, and how the last stop ended.

        `cluster_id`: see `identify`. Raises DirectoryLocked, WrongDirectory, MalformedCheckpoint or OSError.
        """
        self.folders.draw_uuid = draw_uuid
        self.storage.make_directory("")
        self._lock = self.storage.lock()
        try:
            has_logs = bool(self.folders.on_disk())
            identity = identify(self.storage, cluster_id, node_id, draw_uuid, has_logs=has_logs)
            self._last_stops = LastStops(self.storage)
            self.needs_recovery = not self._last_stops.was_clean and has_logs
            # the next start must notice a kill; the sync is for a power cut, which may restore a removed file
            self.storage.remove(checkpoints.CLEAN_SHUTDOWN)
            if self._last_stops.was_clean:
                self.storage.sync_directory("")
        except BaseException:
            self._release()
            raise
        return identity

    @property
    def is_open(self) -> bool:
        """Whether `open` was called, and `close` was not called since then."""
        return self._lock is not None

    def noted_end(self, topic: str, partition: int) -> int:
        """The offset up to which a log that is not open yet was synced, by the checkpoint."""
        return self._last_stops.of((topic, partition)).recovery_point

    def time_syncs(self, clock: Clock, took_us: Callable[[int], object]) -> None:
        """From now on, give `took_us` the duration of each sync."""
        if self._sync is not None:
            self._sync.time_syncs(clock, took_us)

    def note_compaction(self, removed_bytes: int) -> None:
        """Count the compaction of a log."""
        self.compactions += 1
        self.compacted_bytes += removed_bytes

    def share_sync(self, sync_all: Callable[[], object], clock: Clock) -> None:
        """From now on, let one call of `sync_all`, for the whole file system, replace many syncs."""

        def job() -> None:
            sync_all()
            self.storage.verify()

        if self._sync is not None:
            self._sync.share(job, clock)

    def directory_checked(self, gone: DirectoryGone | None) -> None:
        """Use the result of a check of the directory: every log is offline while the directory is missing."""
        was_gone, self.gone = self.gone, gone
        if gone is not None:
            if was_gone is None:
                _logger.error("the data directory is gone", directory=self.storage.root, reason=gone.strerror,
                              what_to_do="every partition is offline: put the directory back, or stop the "
                              "server")  # fmt: skip
        elif was_gone is not None:
            _logger.warning("the data directory is back", directory=self.storage.root, what="the logs go on")
        if gone is not None or was_gone is not None:
            self.run_job(updating_availability(self.logs(), self.storage.root, lambda: self.gone))

    def _raise_if_gone(self) -> None:
        if self.gone is not None:
            raise LogOffline(self.storage.root, self.gone.strerror or "", is_reported=True)

    # -- logs

    def open_log(
        self,
        topic: str,
        partition: int,
        *,
        config: LogConfig | None = None,
        topic_id: bytes | None = None,
        wall_ms: int = 0,
        wait_for_sync: bool = False,
    ) -> UnifiedLog:
        """Open the log of a partition; create or recover it if necessary.

        `wait_for_sync`: see `DiskDurability`. Raises DamagedLog, or LogOffline for a failure of the disk that may end.
        """
        key = (topic, partition)
        held = self._logs.get(key)
        if held is not None:
            return held
        self._raise_if_gone()
        stop, absent = self._last_stops.of(key), self._absent.get(key, ())
        log = self._open(key, config or self.default_config, stop, topic_id, wall_ms, wait_for_sync, absent)
        self._absent.pop(key, None)
        return log

    def _open(
        self,
        key: Partition,
        config: LogConfig,
        last_stop: LastStop,
        topic_id: bytes | None,
        wall_ms: int,
        waits: bool,
        absent: Sequence[SegmentFigures] = (),
    ) -> UnifiedLog:
        directory = f"{key[0]}-{key[1]}"
        try:
            if self.is_forgotten(*key):
                self.checkpoint()  # waits for the disk, unless the caller ran `checkpointing` before
            self.storage.make_directory(directory)
            if topic_id is not None:
                self.folders.ensure_topic_id(*key, topic_id, was_clean=self._last_stops.was_clean)
            loader = LogLoader(
                self.storage, directory, *key, config, last_stop, wall_ms, self._sync, waits, self._engine, absent
            )
            with self.folders.files_lock:
                log = loader.load()
        except DamagedLog as error:
            self._set_offline(key, error)
            raise
        except OSError as error:
            path, reason = f"{self.storage.root}/{error.filename or directory}", error.strerror or str(error)
            _logger.error("a log is offline", topic=key[0], partition=key[1], path=path, reason=reason)
            raise LogOffline(path, reason) from error
        self.offline.pop(key, None)
        self._logs.put(key, log)
        return log

    def _set_offline(self, key: Partition, damage: DamagedLog) -> None:
        self.offline[key] = damage
        _logger.error("a log is damaged", topic=key[0], partition=key[1], path=damage.path, position=damage.position,
                      reason=damage.reason, what_to_do=damage.advice)  # fmt: skip

    def _raise_if_removed(self, key: Partition) -> None:
        """Raises DamagedLog when the files of a log are missing: the log must not begin again at offset 0."""
        folder = f"{key[0]}-{key[1]}"
        entries = self.storage.entries(folder) if self.storage.is_directory(folder) else ()
        if not any(entry.name.endswith(LOG_SUFFIX) for entry in entries):
            place = Place(f"{self.storage.root}/{folder}/", 0)
            damage = DamagedLog(place, "its files were removed while the server ran")
            self._set_offline(key, damage)
            raise damage

    def get(self, topic: str, partition: int) -> UnifiedLog | None:
        """Return the log of a partition, when it is open."""
        return self._logs.get((topic, partition))

    def logs(self) -> Iterator[UnifiedLog]:
        """Walk over all open logs: see `Chunked.walk`."""
        return self._logs.walk()

    def reopen(self, topic: str, partition: int, *, wall_ms: int = 0) -> UnifiedLog:
        """Discard a log's state and read it again from its files, as after a kill. The log is no longer offline.

        A log that waits for syncs drops what it wrote since it was opened and did not sync. After a failed sync the
        system may call bytes clean that never reached the disk. No client got an answer about these bytes. The old
        object stays offline, and its listeners do not move to the new object. Raises DamagedLog or LogOffline.
        """
        key = (topic, partition)
        damage = self.offline.get(key)
        old = self._logs.get(key)
        if damage is not None and old is None:
            raise damage
        try:
            self.storage.verify()
        except DirectoryGone as gone:
            self.directory_checked(gone)
        self._raise_if_gone()
        if old is None:
            raise KeyError(key)  # the log was never opened
        if any(segment.is_absent for segment in old.segments):
            raise LogOffline(f"{self.storage.root}/{old.directory}", "not all of its segments are here")
        self._raise_if_removed(key)
        old.abandon()
        recovery_point, waits = old.durability.recovery_point, old.durability.waits_for_sync
        self._last_stops.note(key, recovery_point, old.start_offset)
        last_stop = LastStop(was_clean=False, recovery_point=recovery_point, start_offset=old.start_offset)
        try:
            log = self._open(key, old.config, last_stop, None, wall_ms, waits)
            if waits:
                try:
                    log.truncate(max(old.durable_offset, old.durability.found_end, log.start_offset))
                except LogOffline:
                    log.abandon()
                    raise
            return log
        except BaseException:
            self._logs.put(key, old)  # then a caller can try again
            raise

    def delete(self, topic: str, *partitions: int, topic_id: bytes | None = None) -> list[str]:
        """Rename the folders of a topic's deleted logs, as far as they exist; return the new names, for `remove`."""
        try:
            return self._rename(topic, partitions, DELETE_SUFFIX, topic_id)
        except OSError as error:
            # folders without a topic are removed at the next start, or when a log of that name is created
            _logger.error(
                "the folders of a deleted topic cannot be renamed", topic=topic, reason=error.strerror or str(error)
            )
            return []

    def note_copy(
        self,
        topic: str,
        partition: int,
        end_offset: int,
        start_offset: int,
        absent: Sequence[SegmentFigures] = (),
    ) -> None:
        """Note that the files of a log are as after a clean stop, without the segments in `absent`."""
        self._last_stops.note((topic, partition), end_offset, start_offset)
        self._absent.pop((topic, partition), None)
        if absent:
            self._absent[topic, partition] = absent

    def let_go(self, topic: str, partition: int) -> None:
        """Close a log that another process has from now on, and remove its files in the background."""
        self._remove_files(self._rename(topic, [partition], DELETE_SUFFIX))

    def set_aside(self, topic: str, partition: int) -> str:
        """Give a folder that belongs to no topic another name, as Kafka does; return the name. Raises OSError."""
        return self._rename(topic, [partition], STRAY_SUFFIX)[0]

    def _rename(self, topic: str, partitions: Sequence[int], suffix: str, uuid: bytes | None = None) -> list[str]:
        for partition in partitions:
            key = (topic, partition)
            log = self._logs.remove(key)
            if log is not None:
                log.abandon()
            self.offline.pop(key, None)
            self._absent.pop(key, None)
            self._last_stops.forget(key)
        renamed: list[str] = []
        for partition in partitions:
            with contextlib.suppress(FileNotFoundError):
                renamed.append(self.folders.rename(f"{topic}-{partition}", (topic, partition), suffix, uuid))
        return renamed

    def remove(self, folders: Sequence[str]) -> None:
        """Remove the files of deleted logs from the disk, in the background."""
        if self._engine is not None:
            for folder in folders:
                self._engine.dropped(folder)
        self._remove_files(folders)

    def _remove_files(self, folders: Sequence[str]) -> None:
        def job() -> None:
            for folder in folders:
                self.storage.remove_tree(folder)

        if self._sync is None:
            job()
        elif folders and self.is_open:
            self._sync.run(job, lambda _: None)  # the next start removes what could not be removed

    # -- all logs

    def checkpointing(self) -> Job[None]:
        """Do `checkpoint` as a job, with the writes in a thread. Raises OSError."""
        for number, log in enumerate(self.logs(), 1):
            self._last_stops.note((log.topic, log.partition), log.durability.recovery_point, log.start_offset)
            if not number % LOGS_AT_ONCE:
                yield None
        yield from self._last_stops.saving()

    def is_forgotten(self, topic: str, partition: int) -> bool:
        """Whether the checkpoints have offsets of a deleted log: run `checkpointing` before a new log is created."""
        return self._last_stops.is_forgotten((topic, partition))

    def forget_others(self, topics: Container[str]) -> None:
        """Note that only these topics have partitions: other partitions in the checkpoints were deleted."""
        self._last_stops.forget_others(topics)

    def checkpoint(self, *, sync: bool = False) -> None:
        """Write recovery points and start offsets. Closed logs keep their old offsets. `sync`: wait for the disk."""
        for log in self.logs():
            self._last_stops.note((log.topic, log.partition), log.durability.recovery_point, log.start_offset)
        self._last_stops.save(sync=sync)

    def flush(self) -> None:
        """Sync all logs, and wait for the disk."""
        for log in self.logs():
            if log.failure is None:
                log.flush()

    def close(self, *, clean: bool = True) -> None:
        """Release the directory. `clean`: sync and note everything, so that the next start needs no recovery."""
        if self._lock is None:
            return
        try:
            if clean:
                for log in self.logs():
                    log.close()
                self.checkpoint(sync=True)
                # an offline log must be checked completely again. A log that was not opened since a kill has not been
                # recovered.
                unseen = self.needs_recovery and not self._logs.keys() >= set(self.folders.on_disk())
                is_clean = all(log.closed_cleanly for log in self.logs()) and not self.offline and not unseen
                if is_clean and self.folders.new.sync_now():
                    self.storage.save(checkpoints.CLEAN_SHUTDOWN, checkpoints.encode_clean_shutdown(), sync=True)
            else:
                for log in self.logs():
                    log.abandon()
        except OSError as error:
            # the old checkpoints stay valid: the next start takes longer
            _logger.error(
                "a checkpoint cannot be written", directory=self.storage.root, reason=error.strerror or str(error)
            )
        finally:
            self._logs.clear()
            if self._sync is not None:
                self._sync.close()  # before the lock is released: a thread may still use the directory
            self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def updating_availability(
    logs: Iterable[UnifiedLog], directory: str, why_gone: Callable[[], DirectoryGone | None]
) -> Job[None]:
    """Take each log offline while the data directory is missing (`why_gone`), and bring it back afterwards."""
    for number, log in enumerate(logs, 1):
        gone = why_gone()
        if gone is None:
            log.go_online()
        elif log.failure is None:
            log.go_offline(directory, gone)
        if not number % LOGS_AT_ONCE:
            yield None
