"""The source of a console over a Kafka cluster: requests over the network, in threads.

A cluster of Muster has `__group_events`. Of any other Kafka, events are inferred from `__consumer_offsets`.
"""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from muster.cli.cluster_rows import ClusterRows, read_cluster
from muster.cli.console.inferred import InferredEvents, OffsetsRecord
from muster.cli.console.past import PastRebalances
from muster.client.connection import RequestFailed
from muster.client.event_reader import OF_GROUPS
from muster.client.fetch import fetch_ranges, fetched
from muster.client.kafka_client import NO_TOPIC, KafkaClient
from muster.client.kept_client import KeptClient
from muster.client.list_offsets import EARLIEST, LATEST, Lookup, end_offsets, offsets_at
from muster.client.security import ClientSecurity
from muster.coordinator.config.listeners import Address, show
from muster.coordinator.http.console.now import Doing
from muster.coordinator.http.console.sources import Ends, Found, Refused, Requester, StoredEvent
from muster.coordinator.http.live_groups import LiveGroups
from muster.coordinator.log import batches
from muster.coordinator.system.clock import pause_s
from muster.coordinator.system.jobs import Job, OffloadedWork
from muster.coordinator.system.uuids import as_text
from muster.coordinator.system.wall_time import wall_now_ms
from muster.protocol.errors import ErrorCode
from muster.protocol.hashing import group_partition
from muster.protocol.message import Message

OFFSETS: Final = "__consumer_offsets"
RECENT_RECORDS: Final = 2_000
"""How many of the newest records of each partition are read at the start."""
MARGIN_MS: Final = 1_800_000
"""A history is read from this long before its time on, so that the members at its start are known."""
MAX_RECORDS: Final = 100_000
"""The most records that are read for one history."""
WAIT_MS: Final = 250
RETRY_S: Final = 1.0
T = TypeVar("T")


class ClusterSource:
    """See the module, and `Source`."""

    kind = "cluster"

    def __init__(
        self, bootstrap: Sequence[Address], security: ClientSecurity | None, past: PastRebalances | None = None
    ) -> None:
        """`past`: rebalances that the cluster's logs no longer have. None means that nobody keeps them."""
        self._past = past
        self.inferred = False
        self._rows = _Client(bootstrap, security)
        self._asks = _Client(bootstrap, security)
        self._follower = _Follower(_Client(bootstrap, security))
        self._leads: Counter[int] = Counter()

    async def start(self) -> None:
        """See `Source`: connections are opened when they are needed."""

    async def stop(self) -> None:
        """See `Source`."""
        await asyncio.to_thread(self._follower.stop)
        for one in (self._rows, self._asks):
            await asyncio.to_thread(one.close)

    async def run(self, job: Job[T]) -> T:
        """See `Source`."""
        value: Any = None
        while True:
            try:
                asked = job.send(value)
            except StopIteration as end:
                result: T = end.value
                return result
            value = None
            if isinstance(asked, OffloadedWork):
                value = await asyncio.to_thread(asked.work)
            else:
                await pause_s(0)

    def others(self) -> list[dict[str, Any]]:
        """See `Source`: all groups are on this console."""
        return []

    def elsewhere(self, _: str) -> None:
        """See `Source`."""

    async def doing(self, _: str) -> Doing:
        """See `Source`. A cluster does not say it."""
        return {}

    async def about(self) -> dict[str, Any]:
        """See `Source`."""
        return await self._asks.do(self._about)

    def _about(self, client: KafkaClient) -> dict[str, Any]:
        client.refresh_nodes()
        rows = [
            {
                "node": node_id,
                "address": show(*address),
                "rack": None,
                "here": False,
                "alive": True,
                "connections": None,
                "leads": self._leads[node_id],
                "console": None,
            }
            for node_id, address in sorted(client.nodes.items())
        ]
        return {"cluster_id": client.cluster_id, "nodes": rows}

    async def refresh(self, live: LiveGroups) -> None:
        """See `Source`."""

        def read(client: KafkaClient) -> ClusterRows:
            client.refresh_nodes()
            return read_cluster(client)

        rows = await self._rows.do(read)
        self._leads = Counter(one.leader for topic in rows.topics for one in topic.partitions)
        await self.run(live.take(rows.topics, rows.groups, wall_now_ms()))

    async def ends(self, topics: Collection[str]) -> Ends:
        """See `Source`."""

        def read(client: KafkaClient) -> Ends:
            known = client.topics(sorted(topics)) if topics else {}
            lookup = Lookup(
                client, [(name, one.partition_index) for name, row in known.items() for one in row.partitions]
            )
            starts, found = lookup.at(EARLIEST), dict[str, dict[int, tuple[int, int]]]()
            for (topic, partition), end in lookup.at(LATEST).items():
                if (topic, partition) in starts:
                    found.setdefault(topic, {})[partition] = starts[topic, partition].offset, end.offset
            return found

        return await self._asks.do(read)

    async def ask(self, key: int, request: Message, _: Requester, group: str | None = None) -> Any:
        """See `Source`. The cluster checks the rights of the console's own user."""

        def send(client: KafkaClient) -> Any:
            return (client.every_node()[0] if group is None else client.coordinator(group)).ask(key, request)

        return await self._asks.do(send)

    async def ask_every(self, key: int, request: Message, _: Requester) -> Sequence[Any]:
        """See `Source`."""
        return await self._asks.do(lambda client: [node.ask(key, request) for node in client.every_node()])

    def sees(self, _: Any, __: int) -> None:
        """See `Source`. The cluster gives the console's own user what this user may see."""

    # ---- events

    def watch(self, changed: Callable[[], object]) -> Callable[[], object]:
        """See `Source`."""
        loop = asyncio.get_running_loop()
        self._follower.when_found = lambda: loop.call_soon_threadsafe(changed)
        return self._follower.forget

    async def recent(self) -> list[StoredEvent]:
        """See `Source`."""
        found = await asyncio.to_thread(self._follower.begin)
        self.inferred = self._follower.inferred
        return found

    async def news(self) -> list[StoredEvent]:
        """See `Source`."""
        return self._follower.taken()

    async def history(self, group: str, from_ms: int, until_ms: int, most: int) -> Found:
        """See `Source`."""

        def read(client: KafkaClient) -> Found:
            reading = _history_of_events if OF_GROUPS.topic in client.topics([OF_GROUPS.topic]) else _inferred_history
            events, is_cut = reading(client, group, from_ms, until_ms)
            if self._past is not None:
                first_ms = min(map(_time, events), default=until_ms)
                events = [*self._past.of(group, from_ms, first_ms - 1), *events]
            return Found(events[-most:], is_cut or len(events) > most)

        return await self._asks.do(read)


class _Client(KeptClient):
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


class _Follower:
    """Follows the events of a cluster in a thread."""

    def __init__(self, client: _Client) -> None:
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
            return sorted(found, key=_time)
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


def _time(event: StoredEvent) -> int:
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


def _history_of_events(client: KafkaClient, group: str, from_ms: int, until_ms: int) -> tuple[list[StoredEvent], bool]:
    partition, offsets, is_cut = _range(client, OF_GROUPS.topic, group, from_ms, until_ms)
    read = fetch_ranges(client, OF_GROUPS.topic, {partition: offsets})
    found = [one for start, data in read.values() for one in _stored(partition, data, start)]
    return [one for one in found if one.value["group"] == group and from_ms <= _time(one) <= until_ms], is_cut


def _inferred_history(client: KafkaClient, group: str, from_ms: int, until_ms: int) -> tuple[list[StoredEvent], bool]:
    partition, offsets, is_cut = _range(client, OFFSETS, group, from_ms - MARGIN_MS, until_ms)
    read = fetch_ranges(client, OFFSETS, {partition: offsets})
    records = [one for start, data in read.values() for one in _records(partition, data) if one.offset >= start]
    found = InferredEvents(_names(client), group).take(records)
    return [one for one in found if from_ms <= _time(one) <= until_ms], is_cut
