"""The catalogue: the topics that the metadata log names, and their open partitions.

A change is in force at once. When the change is durable (`PendingChanges`), groups get the new image, clients get their
answer, and files are removed. So no client relies on a change that a power cut may undo.
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.log import DamagedLog, Identity, LogConfig, LogManager, LogOffline
from muster.coordinator.log.storage.shared_sync import Waiter, Waiters
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.jobs import Job, at_once
from muster.coordinator.topics.configs import DynamicConfigs, TopicConfigs
from muster.coordinator.topics.creation import Home
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.metadata_log import MetadataLog, encode
from muster.coordinator.topics.metadata_state import COPIED_AT_ONCE, MetadataState, TopicState
from muster.coordinator.topics.names import METADATA_TOPIC
from muster.coordinator.topics.open_topics import OpenTopics, Topic
from muster.coordinator.topics.partition import Partition
from muster.coordinator.topics.stray_folders import Strays
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.metadata_records.config_record import ConfigRecord
from muster.protocol.messages.metadata_records.partition_record import PartitionRecord


class PendingChanges:
    """Knows which changes are durable, by the version of the metadata log's state."""

    def __init__(
        self,
        version: Callable[[], int],
        sync: Callable[[Waiter], object],
        imaging: Callable[[], Job[TopicsImage]],
        run_job: Callable[[Job[None]], object],
        publish: Callable[[TopicsImage], object],
        remove: Callable[[Sequence[str]], object],
    ) -> None:
        """`version`: returns the version of the present state.

        `sync`: calls back when all present records are durable, or a sync has failed. `imaging`: makes the image of the
        present topics. `run_job`: runs a job. `publish`: gives an image to all subscribers. `remove`: removes folders
        from the disk.
        """
        self._version = version
        self._sync = sync
        self._imaging = imaging
        self._run_job = run_job
        self._publish = publish
        self._remove = remove
        self.version = version()
        """All changes before this version are durable and published."""
        self._is_syncing = False
        self._is_published = True
        self._published = 0
        self._waiters = Waiters()
        self._unneeded: deque[tuple[int, Sequence[str]]] = deque()

    def changed(self, *, topics: bool, unneeded: Sequence[str] = ()) -> None:
        """Note a change. `topics`: whether topics have changed. `unneeded`: folders of deleted topics."""
        if topics:
            self._is_published = False
        if unneeded:
            self._unneeded.append((self._version(), unneeded))
        self._sync_changes()

    def when_durable(self, callback: Waiter) -> None:
        """Call `callback(None)` when all changes so far are durable and published, perhaps at once.

        When the disk fails, call `callback(error)`. A power cut may then undo the changes, which are in force.
        """
        version = self._version()
        if version <= self.version:
            callback(None)
        else:
            self._waiters.add(version, callback)
            self._sync_changes()

    def resume(self) -> None:
        """Sync the waiting changes, because the metadata log works again."""
        if self.version < self._version() or not self._is_published:
            self._sync_changes()

    def publish(self) -> None:
        """Publish the present image at once: at a start, before the first client connects."""
        self._is_published = True
        self._publish_newer(at_once(self._imaging()))

    def _publish_newer(self, image: TopicsImage) -> None:
        if image.version > self._published:
            self._published = image.version
            self._publish(image)

    def _sync_changes(self) -> None:
        if self._is_syncing:
            return
        self._is_syncing = True
        version = self._version()
        if self._is_published:
            self._sync(lambda failure: self._synced(version, None, failure))
        else:
            self._is_published = True
            self._run_job(self._syncing(version))

    def _syncing(self, version: int) -> Job[None]:
        # the present image: a change during the sync must not be published with it
        image = yield from self._imaging()
        self._sync(lambda failure: self._synced(version, image, failure))

    def _synced(self, version: int, image: TopicsImage | None, failure: LogOffline | None) -> None:
        self._is_syncing = False
        if failure is not None:
            if image is not None:
                self._is_published = False
            self._waiters.fail(failure)
            return
        self.version = version
        if image is not None:
            self._publish_newer(image)
        unneeded: list[str] = []
        while self._unneeded and self._unneeded[0][0] <= version:
            unneeded += self._unneeded.popleft()[1]
        if unneeded:
            self._remove(unneeded)
        self._waiters.release(version)
        if version < self._version() or not self._is_published:
            self._sync_changes()


CLOSED_AT_ONCE: Final = 20
REMOVED_AT_ONCE: Final = 1_000
"""The most folders that are removed in one iteration of the event loop. In memory, 1,000 folders take 4 ms."""


class Catalogue:
    """The catalogue. Until `begin`, which needs the metadata log, only `home`, `racks` and `logs` are valid."""

    def __init__(
        self,
        clock: Clock,
        logs: LogManager,
        identity: Identity,
        configs: TopicConfigs,
        racks: Mapping[int, str | None] | None,
        draw_uuid: Callable[[], bytes],
        waits_for_sync: Callable[[str], bool],
    ) -> None:
        """`racks`: the rack of each broker of this process; None: only the broker of `identity`.

        `waits_for_sync`: whether the records of a topic count only after a sync.
        """
        self.clock = clock
        self.logs = logs
        self.configs = configs
        self.draw_uuid = draw_uuid
        self.open = OpenTopics(logs, self._config_of, waits_for_sync)
        self.dynamic_configs = DynamicConfigs(configs, clock, identity.node_id, self.open)
        self.racks: Mapping[int, str | None] = {identity.node_id: None} if racks is None else racks
        directory_id = base64.urlsafe_b64decode(identity.directory_id + "==")
        self.home = Home(identity.node_id, directory_id, dict(self.racks), draw=self._draw_below)
        self.metadata_log: MetadataLog
        self.pending: PendingChanges
        self.strays: Strays

    def _draw_below(self, number: int) -> int:
        return int.from_bytes(self.draw_uuid()) % number

    @property
    def state(self) -> MetadataState:
        """The state that the metadata log describes."""
        return self.metadata_log.state

    def _config_of(self, name: str) -> LogConfig:
        return self.configs.log_config(self.state.topic_configs(name))

    def begin(self, publish: Callable[[TopicsImage], object]) -> None:
        """Begin, after the metadata log was read. `publish` gets each new image of the topics once it is durable."""
        self.see_brokers()
        self.dynamic_configs.apply(self.state)
        self.pending = PendingChanges(
            lambda: self.state.version, self._when_written, self.state.imaging, self._run_imaging, publish, self._remove
        )

    def _run_imaging(self, job: Job[None]) -> None:
        if len(self.state.topics) <= COPIED_AT_ONCE:
            at_once(job)  # the job has one step
        else:
            self.logs.run_job(job)

    def see_brokers(self) -> None:
        """Let new partitions be placed on the brokers that are registered now."""
        home, brokers = self.home, self.state.brokers
        home.racks = {broker_id: brokers[broker_id].rack for broker_id in sorted(brokers)}
        home.fenced = frozenset(broker_id for broker_id, broker in brokers.items() if broker.fenced)

    # -- changing

    def append(self, records: Sequence[Message], encoded: Sequence[bytes] | None = None) -> None:
        """Write records; no log is opened or closed. `encoded`: the same records as bytes. Raises `ApiError`."""
        try:
            self.metadata_log.write(records, self.clock.now(), encoded)
        except LogOffline as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def write(self, records: Sequence[Message]) -> None:
        """Write records, and open the logs of new partitions. Raises `ApiError`."""
        self.append(records)
        self.dynamic_configs.written(records, self.state)
        touched = {self.state.touched_by(record): None for record in records}
        self._changed([state for state in touched if state is not None])

    def _changed(self, topics: Sequence[TopicState], made: Sequence[Partition] = ()) -> None:
        """Open the logs of changed topics. `made`: new partitions of the one changed topic, which are open already."""
        for state in topics:
            self.open.open(state, made)
            state.as_image()  # made now, because many topics may change before the next image of all topics
        self.pending.changed(topics=bool(topics))

    def making(self, name: str, topic_id: bytes, records: Sequence[Message]) -> Job[None]:
        """Create all logs of new partitions or none, then write the records that name them. Raises `ApiError`."""
        given = {record.name: record.value for record in records if isinstance(record, ConfigRecord) and record.value}
        config = self.configs.log_config({**self.state.topic_configs(name), **given})
        begun: list[int] = []
        made: list[Partition] = []
        encoded: list[bytes] = []
        is_checked = False
        try:
            for record in records:
                encoded.append(encode(record))
                if isinstance(record, PartitionRecord):
                    index = record.partition_id
                    if not is_checked and self.logs.is_forgotten(name, index):
                        is_checked = True
                        yield from self.logs.checkpointing()
                    self.strays.clear_folder(name, index)
                    begun.append(index)
                    made.append(self.open.open_partition(name, topic_id, index, record.leader_epoch, config))
                yield None
            self.append(records, encoded)
            self._changed([self.state.topics[name]], made)
        except (DamagedLog, LogOffline, OSError, ApiError) as error:
            for index in begun:
                self.logs.remove(self.logs.delete(name, index))  # no folder had this name before
                yield None
            if isinstance(error, ApiError):
                raise
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def forgetting(self, topic: Topic) -> Job[None]:
        """Close and remove the logs of a topic that the records have deleted."""
        self.open.forget(topic)
        unneeded: list[str] = []
        try:
            for start in range(0, len(topic.partitions), CLOSED_AT_ONCE):
                indexes = range(start, min(start + CLOSED_AT_ONCE, len(topic.partitions)))
                for index in indexes:
                    partition = topic.partitions[index]
                    if partition is not None:
                        partition.close()
                unneeded += self.logs.delete(topic.name, *indexes, topic_id=topic.topic_id)
                yield None
        finally:
            self.pending.changed(topics=True, unneeded=unneeded)

    def _remove(self, folders: Sequence[str]) -> None:
        """Remove the folders of deleted topics. What a stop leaves behind is removed at the next start."""
        self.logs.remove(folders[:REMOVED_AT_ONCE])
        if len(folders) > REMOVED_AT_ONCE:
            self.clock.call_soon(lambda: self._remove(folders[REMOVED_AT_ONCE:]))

    def _when_written(self, callback: Waiter) -> None:
        """Call `callback` when folders and records of all changes so far are on the disk, after one sync."""
        log = self.metadata_log.log
        failures: list[LogOffline | None] = []

        def ended(failure: LogOffline | None) -> None:
            failures.append(failure)
            if len(failures) == 2:
                callback(failures[0] or failures[1])

        self.logs.folders.new.when_synced(ended)
        log.when_durable(log.end_offset, ended)

    def reopen_metadata_log(self) -> None:
        """Open the metadata log again after a failure. Raises a LogError."""
        self.metadata_log.use_log(self.logs.reopen(METADATA_TOPIC, 0))
        self.pending.resume()
