"""The metadata log `__cluster_metadata-0`: each change is one batch of Kafka's records; a replay makes the state."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from muster.coordinator.log import BatchHeader, LogConfig, LogError, Storage, UnifiedLog, batches
from muster.coordinator.log.errors import BatchError, CorruptBatch
from muster.coordinator.log.records.reader import LogRecord
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.features import METADATA, METADATA_VERSION
from muster.coordinator.topics.metadata_state import BROKER_RESOURCE, MetadataState
from muster.coordinator.topics.names import METADATA_TOPIC, METADATA_TOPIC_ID
from muster.protocol.message import MalformedMessage, Message
from muster.protocol.messages.metadata_records.config_record import ConfigRecord
from muster.protocol.messages.metadata_records.feature_level_record import FeatureLevelRecord
from muster.protocol.messages.metadata_records.register_broker_record import RegisterBrokerRecord
from muster.protocol.records import UnknownRecord, decode_metadata, encode_metadata

METADATA_LOG_CONFIG = LogConfig(retention_ms=-1, retention_bytes=-1, cleanup_policy=())
LEADER_EPOCH = 1
"""The leader epoch of all batches: this node has been the only controller since the first record."""
DECODED_AT_ONCE = 200
"""How many records are decoded in one step."""
MIN_INSYNC_REPLICAS = "min.insync.replicas"
_VERSIONS = {
    "PartitionRecord": 2,
    "PartitionChangeRecord": 2,
    "RegisterBrokerRecord": 4,
    "BrokerRegistrationChangeRecord": 3,
}
"""Versions in which Kafka 4.4 writes the records; the other records have version 0."""


def encode(record: Message) -> bytes:
    """Return the bytes of a record in the log."""
    return encode_metadata(record, _VERSIONS.get(type(record).__name__, 0))


def first_records(min_insync_replicas: str | None) -> list[Message]:
    """Return the first records of a new log; see `MetadataLog.load`."""
    first: list[Message] = [FeatureLevelRecord(name=METADATA, feature_level=METADATA_VERSION)]
    if min_insync_replicas is not None:
        first.append(
            ConfigRecord(
                resource_type=BROKER_RESOURCE, resource_name="", name=MIN_INSYNC_REPLICAS, value=min_insync_replicas
            )
        )
    return first


class MetadataLog:
    """The metadata log: `log` has the records, and `state` is the state that they make."""

    __slots__ = ("_unsynced", "log", "state", "unknown")

    def __init__(self, log: UnifiedLog) -> None:
        self.log = log
        self.state = MetadataState()
        self.unknown = 0
        """The number of records of types that the codec does not know; replay passes over them."""
        self._unsynced: deque[tuple[int, bytearray]] = deque()
        """Base offset and bytes of batches that are in force and may not be on the disk yet."""

    def load(self, now: Now, min_insync_replicas: str | None = None) -> None:
        """Replay the log. A new log gets records of the metadata.version and of `min.insync.replicas` (KIP-966)."""
        self.replay()
        if not self.state.features:
            self.write(first_records(min_insync_replicas), now)

    def begin(self, racks: Mapping[int, str | None], draw_uuid: Callable[[], bytes], now: Now) -> None:
        """Write that the nodes of `racks` were started. Each partition that the nodes lead gets a new leader epoch.

        Where a power cut lost records, the new epoch separates the new records from the lost records (KIP-101,
        KIP-320). A broker's epoch is the offset of its record. `racks`: the rack of each node.
        """
        first_epoch = self.log.end_offset
        records = [
            RegisterBrokerRecord(
                broker_id=node_id, incarnation_id=draw_uuid(), broker_epoch=epoch, rack=racks[node_id], fenced=False
            )
            for epoch, node_id in enumerate(racks, first_epoch)
        ]
        self.write(records, now)

    def use_log(self, log: UnifiedLog) -> None:
        """Use the log that was opened again. Raises LogOffline when the log cannot get all records of the state."""
        known = self.state.version
        log.truncate(known)  # the records after this record were refused
        for base_offset, batch in self._unsynced:
            if base_offset == log.end_offset:  # a sync failed: opening the log again has dropped this record
                log.append(LEADER_EPOCH, batch, wall_ms=0)
        if log.end_offset < known:
            log.go_offline(f"{log.directory}", OSError(f"it ends before {known - log.end_offset} records in force"))
        if log.failure is not None:
            raise log.failure
        self.log = log

    def replay(self, snapshot: Iterable[bytes] = ()) -> None:
        """Apply all records. `snapshot`: the state before the first record, as batches of `metadata_snapshot`."""
        for part in snapshot:
            self.unknown += _replay(self.state, part)
        self.state.version = self.log.start_offset
        for chunk in self.log.replay():
            try:
                self.unknown += _replay(self.state, chunk)
            except BatchError as unreadable:
                # a start after a clean stop does not check every batch, so the replay may find damage
                raise self.log.damaged_at(self.state.version, unreadable) from unreadable

    def apply_batches(self, data: bytes, decoded: DecodedBatches) -> None:
        """Apply the whole batches that another process wrote after the known batches. `decoded`: from `decoding`."""
        self.log.append_as_is(data)
        self.unknown += decoded.unknown
        self.state.evolve_all(decoded.records)
        self.state.version = decoded.next_offset

    def write(self, records: Sequence[Message], now: Now, encoded: Sequence[bytes] | None = None) -> None:
        """Append the records (`encoded` too, if many) of one change, and apply them. Raises LogOffline."""
        if not records:
            return
        values = [(None, value) for value in encoded or map(encode, records)]
        batch = batches.build(values, timestamp_ms=now.wall_ms)
        base_offset = self.log.append(LEADER_EPOCH, batch, wall_ms=now.wall_ms).base_offset
        unsynced = self._unsynced
        unsynced.append((base_offset, batch))
        while unsynced and unsynced[0][0] < self.log.durable_offset:
            unsynced.popleft()
        self.state.evolve_all(records)
        self.state.version = self.log.end_offset


class DecodedBatches:
    """The records of whole batches of the metadata log. `unknown`: how many records have unknown types."""

    __slots__ = ("next_offset", "records", "unknown")

    def __init__(self) -> None:
        self.records: list[Message] = []
        self.unknown = 0
        self.next_offset = 0


def decoding(chunk: bytes) -> Job[DecodedBatches]:
    """Decode the records of whole batches, in their order. Raises CorruptBatch."""
    decoded = DecodedBatches()
    for header, records in batches.read(chunk):
        for number, message in enumerate(_messages(header, records), 1):
            if message is None:
                decoded.unknown += 1
            else:
                decoded.records.append(message)
            if not number % DECODED_AT_ONCE:
                yield None
        decoded.next_offset = header.next_offset
    return decoded


def _messages(header: BatchHeader, records: Iterable[LogRecord]) -> Iterator[Message | None]:
    """Yield the decoded records, and None for a record of a type that the codec does not know."""
    for record in () if header.is_control else records:
        try:
            yield decode_metadata(record.value or b"")[2]
        except UnknownRecord:
            yield None
        except MalformedMessage as error:
            raise CorruptBatch(
                f"the batch at offset {header.base_offset} of {METADATA_TOPIC}-0 holds no records of a "
                f"metadata log ({error}): the folder may be that of another partition; restore it from a backup"
            ) from None


def _replay(state: MetadataState, chunk: bytes) -> int:
    """Apply whole batches of the metadata log; return how many of their records have unknown types."""
    unknown = 0
    for header, records in batches.read(chunk):
        for message in _messages(header, records):
            if message is None:
                unknown += 1
            else:
                state.evolve(message)
        state.version = header.next_offset
    return unknown


def read_state(storage: Storage) -> MetadataState:
    """Return the state of the metadata log in a data directory, whether a server uses it or not. Raises OSError."""
    state = MetadataState()
    folder = f"{METADATA_TOPIC}-0"
    if storage.is_directory(folder):
        with contextlib.suppress(LogError):  # the records before the damage are used
            for entry in storage.entries(folder):
                if entry.name.endswith(".log"):
                    _replay(state, storage.load(f"{folder}/{entry.name}") or b"")
    return state


def topic_id_of(storage: Storage, name: str) -> bytes | None:
    """Return the id of a topic, by the metadata log of a directory that no server uses. Raises OSError."""
    if name == METADATA_TOPIC:
        return METADATA_TOPIC_ID
    topic = read_state(storage).topics.get(name)
    return None if topic is None else topic.topic_id


class SharedMetadataLogWriter(Protocol):
    """The metadata log of several nodes. Each node may write. (`postgres.shared_metadata_log` implements this.)"""

    @property
    def snapshot(self) -> Sequence[bytes]:
        """The state before the first record of this node's log, as batches. The start reads the state once."""

    def writing(self, records: Sequence[Message]) -> Job[bool]:
        """Add records that were decided on the present state, as one change.

        True: the records count, and this node has applied them. False: another node has written before; its records are
        applied, and the caller decides again. Raises `ApiError` when the result is unknown, or the write fails.
        """
