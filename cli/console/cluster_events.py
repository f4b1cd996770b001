"""The events of a cluster's groups: all that are new, and those of one group in a time.

A cluster of Muster has `__group_events`. Of any other Kafka, events are inferred from `__consumer_offsets`.
"""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from muster.cli.console.inferred import InferredEvents, OffsetsRecord
from muster.client.connection import RequestFailed
from muster.client.event_reader import OF_GROUPS
from muster.client.fetch import fetch_ranges, fetched
from muster.client.kafka_client import NO_TOPIC, KafkaClient
from muster.client.kept_client import KeptClient
from muster.client.list_offsets import EARLIEST, LATEST, Lookup, end_offsets, offsets_at
from muster.coordinator.http.console.sources import Refused, StoredEvent
from muster.coordinator.log import batches
from muster.coordinator.system.uuids import as_text
from muster.protocol.errors import ErrorCode
from muster.protocol.hashing import group_partition

OFFSETS: Final = "__consumer_offsets"
RECENT_RECORDS: Final = 2_000
"""How many of the newest records of each partition are read at the start."""
MARGIN_MS: Final = 1_800_000
"""A history is read from this long before its time on, so that the members at its start are known."""
MAX_RECORDS: Final = 100_000
"""The most records that are read for one history."""
WAIT_MS: Final = 250
"""How long a broker may wait for new records."""
RETRY_S: Final = 1.0
"""The pause after a failed request, and while the topic does not exist."""
T = TypeVar("T")


class AskingClient(KeptClient):
    """A `KeptClient` for work that is refused if a request fails."""

    async def do(self, work: Callable[[KafkaClient], T]) -> T:
        """Do work in a thread. Raises Refused."""
        return await asyncio.to_thread(self.use, work)

    def use(self, work: Callable[[KafkaClient], T]) -> T:
        """Do work. Raises Refused."""
        try:
            with self.using() as client:
                return work(client)
        except RequestFailed as failure:
            raise Refused(str(failure)) from failure


class Follower:
    """Follows the events of a cluster in a thread."""

    def __init__(self, client: AskingClient) -> None:
        """`client`: its connections are closed at the end."""
        self._client = client
        self._found: queue.SimpleQueue[StoredEvent] = queue.SimpleQueue()
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None
        self._inference: InferredEvents | None = None
        self._topic = OF_GROUPS.topic
        self._position: dict[int, int] = {}
        self.when_found: Callable[[], object] | None = None
        """Called in the thread when events were found."""

    @property
    def inferred(self) -> bool:
        """Whether events are inferred."""
        return self._inference is not None

    def begin(self) -> list[StoredEvent]:
        """Read the newest events, and follow later ones. Raises Refused."""
        found = self._client.use(self._first)
        if self._thread is None:
            self._thread = threading.Thread(target=self._follow, name="muster-console", daemon=True)
            self._thread.start()
        return found

    def taken(self) -> list[StoredEvent]:
        """The events since the last call."""
        found = []
        with suppress(queue.Empty):
            while True:
                found.append(self._found.get_nowait())
        return found

    def forget(self) -> None:
        """Call `when_found` no longer."""
        self.when_found = None

    def stop(self) -> None:
        """Follow no longer."""
        self._ends.set()
        if self._thread is not None:
            self._thread.join()
        self._client.close()

    def _first(self, client: KafkaClient) -> list[StoredEvent]:
        known = client.topics([OF_GROUPS.topic, OFFSETS])
        if OF_GROUPS.topic not in known:
            self._topic = OFFSETS
            self._inference = InferredEvents(_names(client))
        if self._topic not in known:
            _check_seen(client)
            return []
        places = [(self._topic, one.partition_index) for one in known[self._topic].partitions]
        ends, starts = end_offsets(client, places), offsets_at(client, places, EARLIEST)
        ranges = {place[1]: (max(starts.get(place, 0), end - RECENT_RECORDS), end) for place, end in ends.items()}
        self._position = {partition: end for partition, (_, end) in ranges.items()}
        read = fetch_ranges(client, self._topic, ranges)
        return self._events(client, [(partition, start, data) for partition, (start, data) in read.items()])

    def _follow(self) -> None:
        while not self._ends.is_set():
            try:
                self._client.use(self._next)
            except Refused:
                self._ends.wait(RETRY_S)

    def _next(self, client: KafkaClient) -> None:
        topic = client.topics([self._topic]).get(self._topic)
        if topic is None:
            self._ends.wait(RETRY_S)
            return
        leaders = {one.partition_index: one.leader_id for one in topic.partitions}
        for partition in leaders:
            self._position.setdefault(partition, 0)
        for _ in range(100):
            if self._ends.is_set():
                return
            parts = []
            for row in fetched(client, self._topic, leaders, self._position, WAIT_MS):
                partition = row.partition_index
                if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    self._position[partition] = max(row.log_start_offset, 0)
                elif row.error_code:
                    return
                elif row.records:
                    parts.append((partition, self._position[partition], bytes(row.records)))
            events, when_found = self._events(client, parts), self.when_found
            for event in events:
                self._found.put(event)
            if events and when_found is not None:
                with suppress(RuntimeError):  # the loop is closed already
                    when_found()

    def _events(self, client: KafkaClient, parts: Sequence[tuple[int, int, bytes]]) -> list[StoredEvent]:
        if self._inference is None:
            found = [one for partition, start, data in parts for one in _stored(partition, data, start)]
            for partition, _, data in parts:
                self._move(partition, data)
            return sorted(found, key=time_of)
        records = []
        for partition, start, data in parts:
            records += [one for one in _records(partition, data) if one.offset >= start]
            self._move(partition, data)
        names = self._inference.names
        found = self._inference.take(records)
        if not names and found:
            self._inference.names = _names(client)
        return found

    def _move(self, partition: int, data: bytes) -> None:
        last = max((record.offset for _, records in batches.read(data) for record in records), default=-1)
        self._position[partition] = max(self._position.get(partition, 0), last + 1)


def _check_seen(client: KafkaClient) -> None:
    """Raises RequestFailed if the offsets log exists, or may exist, and this user may not see it."""
    why = client.topic_error(OFFSETS)
    if why != NO_TOPIC:
        raise RequestFailed(f"events are inferred from {OFFSETS}, but {why}")


def _names(client: KafkaClient) -> dict[str, str]:
    return {as_text(one.topic_id): name for name, one in client.topics(None).items()}


def time_of(event: StoredEvent) -> int:
    """The wall time of an event."""
    time_ms: int = event.value["time"]
    return time_ms


def _records(partition: int, data: bytes) -> list[OffsetsRecord]:
    return [
        OffsetsRecord(partition, record.offset, record.timestamp, bytes(record.key), record.value)
        for _, records in batches.read(data)
        for record in records
        if record.key is not None
    ]


def _stored(partition: int, data: bytes, start: int) -> list[StoredEvent]:
    found = []
    for _, records in batches.read(data):
        for record in records:
            if record.offset >= start:
                with suppress(ValueError):
                    value = json.loads(record.value or b"")
                    if isinstance(value, dict) and {"kind", "group", "time"} <= value.keys():
                        found.append(StoredEvent(f"{partition}:{record.offset}", value))
    return found


def _range(
    client: KafkaClient, topic: str, group: str, from_ms: int, until_ms: int
) -> tuple[int, tuple[int, int], bool]:
    """The group's partition of a topic, the offsets of a time, and whether they are cut."""
    known = client.topics([topic]).get(topic)
    if known is None:
        _check_seen(client)
        return 0, (0, 0), False
    partition = group_partition(group, len(known.partitions))
    place = topic, partition
    lookup = Lookup(client, [place])

    def at(time_ms: int) -> int:
        found = lookup.at(time_ms).get(place)
        return -1 if found is None else found.offset

    end, begin, beyond = at(LATEST), at(max(from_ms, 0)), at(until_ms + 1)
    end = end if beyond < 0 else beyond
    begin = end if begin < 0 else begin
    return partition, (max(begin, end - MAX_RECORDS), end), end - begin > MAX_RECORDS


def history_of(client: KafkaClient, group: str, from_ms: int, until_ms: int) -> tuple[list[StoredEvent], bool]:
    """The events of a group in a time, and whether earlier ones are left out. Raises RequestFailed."""
    reading = _history_of_events if OF_GROUPS.topic in client.topics([OF_GROUPS.topic]) else _inferred_history
    return reading(client, group, from_ms, until_ms)


def _history_of_events(client: KafkaClient, group: str, from_ms: int, until_ms: int) -> tuple[list[StoredEvent], bool]:
    partition, offsets, is_cut = _range(client, OF_GROUPS.topic, group, from_ms, until_ms)
    read = fetch_ranges(client, OF_GROUPS.topic, {partition: offsets})
    found = [one for start, data in read.values() for one in _stored(partition, data, start)]
    return [one for one in found if one.value["group"] == group and from_ms <= time_of(one) <= until_ms], is_cut


def _inferred_history(client: KafkaClient, group: str, from_ms: int, until_ms: int) -> tuple[list[StoredEvent], bool]:
    partition, offsets, is_cut = _range(client, OFFSETS, group, from_ms - MARGIN_MS, until_ms)
    read = fetch_ranges(client, OFFSETS, {partition: offsets})
    records = [one for start, data in read.values() for one in _records(partition, data) if one.offset >= start]
    found = InferredEvents(_names(client), group).take(records)
    return [one for one in found if from_ms <= time_of(one) <= until_ms], is_cut
