"""The source of a server's own console: its state, its handlers, and its own `__group_events`."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from muster.coordinator.api.context import Channel, RequestContext
from muster.coordinator.api.registry import SERVED, handler
from muster.coordinator.config.listeners import show
from muster.coordinator.history.event_writer import record_key
from muster.coordinator.http.console.now import Does, Doing
from muster.coordinator.http.console.sources import Ends, Found, Refused, Requester, StoredEvent
from muster.coordinator.http.elsewhere import Elsewhere, coordinator_elsewhere, others
from muster.coordinator.http.live_groups import LiveGroups
from muster.coordinator.http.server_rows import group_rows, topic_rows
from muster.coordinator.http.sight import Sees, sight
from muster.coordinator.log import batches
from muster.coordinator.log.errors import LogError
from muster.coordinator.security.authentication import COMPLETE, Authentication
from muster.coordinator.server.group_snapshots import READ_BYTES, GroupNow, history_of, partitions_of, shard_of
from muster.coordinator.server.nodes.running_node import RunningNode
from muster.coordinator.server.server import Server
from muster.coordinator.state_machine.interface import Client
from muster.coordinator.system.clock import within_s
from muster.coordinator.system.jobs import Job, OffloadedWork, to_its_end
from muster.coordinator.topics.cluster_image import Endpoint
from muster.coordinator.topics.names import GROUP_EVENTS_TOPIC
from muster.coordinator.topics.partition import Partition
from muster.protocol.api import ApiKey, api
from muster.protocol.message import Message

CLIENT_ID: Final = "muster-console"
VERSIONS: Final = {ApiKey.OFFSET_FETCH: 9, ApiKey.OFFSET_COMMIT: 9}
"""The versions of requests whose newest one names topics by id."""
LARGE_BYTES: Final = 64 * 1024
"""The JSON of a larger event takes more than a millisecond."""
ENDS_AT_ONCE: Final = 250
RECENT_RECORDS: Final = 200
"""How many of the newest events of each partition the first page has."""
ANSWER_S: Final = 10.0
"""How long an answer may take. A server that stops does not answer any more."""
T = TypeVar("T")


class ServerSource:
    """See the module, and `Source`."""

    kind = "server"
    inferred = False

    def __init__(self, current: Callable[[], Server | None]) -> None:
        """`current` returns the server; None while the node of a cluster is not registered."""
        self._current = current
        self._read: dict[int, int] = {}
        """The offset of the next event by partition of `__group_events`."""

    async def start(self) -> None:
        """See `Source`: nothing is to be opened."""

    async def stop(self) -> None:
        """See `Source`."""

    @property
    def _server(self) -> Server:
        server = self._current()
        if server is None or not server.nodes:
            raise Refused("the node is not registered in its cluster")
        return server

    async def run(self, job: Job[T]) -> T:
        """See `Source`."""
        doing = asyncio.ensure_future(to_its_end(self._server.job_queue, job))
        done, _ = await asyncio.wait([doing], timeout=ANSWER_S)
        if not done:
            doing.cancel()
            raise Refused("the answer took too long; does the server stop?")
        return doing.result()

    async def about(self) -> dict[str, Any]:
        """See `Source`."""
        return await self.run(self._about())

    def _about(self) -> Job[dict[str, Any]]:
        server = self._server
        led: Counter[int] = Counter()
        for leaders in [*server.topics.open.leaders.values()]:
            led.update(leader.broker_id for leader in leaders)
            yield None
        here = {node.node_id: node for node in server.nodes}
        image = server.node.cluster
        rows = []
        for node_id, broker in sorted(image.brokers.items()):
            node = here.get(node_id)
            listeners: Any = broker.addresses if node is None else node.bound
            rows.append(
                {
                    "node": node_id,
                    "address": ", ".join(show(one.host, one.port) for one in listeners),
                    "rack": broker.rack,
                    "here": node is not None,
                    "alive": not broker.fenced,
                    "connections": None if node is None else node.connection_count(),
                    "leads": led[node_id],
                    "console": broker.door if node is None else None,
                }
            )
        return {"cluster_id": image.cluster_id, "nodes": rows}

    def others(self) -> list[dict[str, Any]]:
        """See `Source`."""
        return others(self._server)

    def elsewhere(self, group: str) -> Elsewhere | None:
        """See `Source`."""
        return coordinator_elsewhere(self._server, group)

    async def doing(self, group: str) -> Doing:
        """See `Source`."""
        now = GroupNow.of(self._server, group)
        mono_ms = self._server.clock.now().mono_ms
        return {} if now is None else await self.run(_doing(now, mono_ms))

    async def refresh(self, live: LiveGroups) -> None:
        """See `Source`."""
        server = self._server
        topics = topic_rows(server, await server.ends_elsewhere())
        await self.run(live.take(topics, group_rows(server), server.clock.machine.now().wall_ms))

    async def ends(self, topics: Collection[str]) -> Ends:
        """See `Source`."""
        known = await self._server.ends_elsewhere()
        here = await self.run(_ends(self._server, topics))
        return {topic: {**known.get(topic, {}), **here.get(topic, {})} for topic in topics}

    # ---- requests

    async def ask(self, key: int, request: Message, who: Requester, group: str | None = None) -> Any:
        """See `Source`. The handler checks the rights of `who`."""
        node = self._server.nodes[0]
        if group is not None:
            found = shard_of(self._server, group)
            node = next((one for one in self._server.nodes if found is not None and one.node_id == found[0]), node)
        return await self._ask(node, key, request, who)

    async def ask_every(self, key: int, request: Message, who: Requester) -> Sequence[Any]:
        """See `Source`."""
        return [await self._ask(node, key, request, who) for node in self._server.nodes]

    async def _ask(self, node: RunningNode, key: int, request: Message, who: Requester) -> Any:
        if key not in SERVED:
            raise Refused(f"this server does not offer {api(key).name}")
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def respond(message: Message | None) -> None:
            if not answered.done():
                answered.set_result(message)

        def end(reason: Exception) -> None:
            if not answered.done():
                answered.set_exception(Refused(str(reason)))

        bound = node.bound[0]
        host = f"/{who.host}"
        known = Authentication(COMPLETE, who.principal)
        channel = Channel(bound.listener, Endpoint(bound.host, bound.port), CLIENT_ID, host, known)
        channel.ended_by(end)
        context = RequestContext(channel, Client(CLIENT_ID, host), key, VERSIONS.get(key, SERVED[key].max_version))
        try:
            response = handler(key)(node.node, context, request, respond)
            if response is not None:
                respond(response)
            return await within_s(ANSWER_S, answered)
        except TimeoutError:
            raise Refused("the answer took too long; does the server stop?") from None
        finally:
            channel.close()

    def sees(self, scope: Any, what: int) -> Sees | None:
        """See `Source`."""
        return sight(self._server, scope, what)

    # ---- events

    def watch(self, changed: Callable[[], object]) -> Callable[[], object]:
        """See `Source`. Partitions whose log is not open yet are not watched."""
        topic = self._server.topics.by_name.get(GROUP_EVENTS_TOPIC)
        count = 0 if topic is None else len(topic.partitions)
        partitions = [one for one in map(self._partition, range(count)) if one is not None]
        ends = [one.log.on_append(changed) for one in partitions]

        def end() -> None:
            for each in ends:
                each()

        return end

    def _partition(self, index: int) -> Partition | None:
        return self._server.topics.open.partition(GROUP_EVENTS_TOPIC, index)

    async def recent(self) -> list[StoredEvent]:
        """See `Source`."""
        found: list[StoredEvent] = []
        topic = self._server.topics.by_name.get(GROUP_EVENTS_TOPIC)
        for index in range(0 if topic is None else len(topic.partitions)):
            partition = self._partition(index)
            if partition is not None:
                end = partition.log.durable_offset
                self._read[index] = end
                found += await self.run(_events(partition, index, max(end - RECENT_RECORDS, 0), end))
        found.sort(key=_time)
        return found

    async def news(self) -> list[StoredEvent]:
        """See `Source`."""
        found: list[StoredEvent] = []
        topic = self._server.topics.by_name.get(GROUP_EVENTS_TOPIC)
        for index in range(0 if topic is None else len(topic.partitions)):
            partition = self._partition(index)
            if partition is None:
                continue
            end = partition.log.durable_offset
            begin = self._read.get(index, 0)
            if end > begin:
                self._read[index] = end
                found += await self.run(_events(partition, index, begin, end))
        found.sort(key=_time)
        return found

    async def history(self, group: str, from_ms: int, until_ms: int, most: int) -> Found:
        """See `Source`."""
        partition = history_of(self._server, group)
        if partition is None:
            return Found([], False)
        return await self.run(_history(partition, group, from_ms, until_ms, most))


def _ends(server: Server, topics: Collection[str]) -> Job[Ends]:
    found: dict[str, dict[int, tuple[int, int]]] = {}
    for topic in topics:
        for number, one in enumerate(partitions_of(server, [topic])):
            found.setdefault(topic, {})[one.index] = one.log.start_offset, one.log.durable_offset
            if not number % ENDS_AT_ONCE:
                yield None
    return found


def _doing(now: GroupNow, mono_ms: int) -> Job[dict[str, Does]]:
    found = {}
    for member_id in [*now.member_ids]:
        view = now.member(member_id)
        if view is not None:
            silent_ms = now.silent_ms(member_id, mono_ms)
            found[member_id] = Does(view.doing, view.is_settled, silent_ms, view.session_timeout_ms)
        yield None
    return found


def _time(event: StoredEvent) -> int:
    time_ms: int = event.value["time"]
    return time_ms


def _events(partition: Partition, index: int, begin: int, end: int) -> Job[list[StoredEvent]]:
    found: list[StoredEvent] = []

    def take(record: Any) -> Job[bool]:
        found.append(StoredEvent(f"{index}:{record.offset}", (yield from _value(record.value or b"{}"))))
        return True

    yield from _walk(partition, begin, end, take)
    return found


def _value(data: bytes) -> Job[dict[str, Any]]:
    """The JSON of an event. That of a large group is decoded in the thread."""
    found: dict[str, Any] = (
        (yield OffloadedWork(partial(json.loads, data))) if len(data) > LARGE_BYTES else json.loads(data)
    )
    return found


def _walk(partition: Partition, begin: int, end: int, take: Callable[[Any], Job[bool]]) -> Job[None]:
    """Hand over each record until `take` returns False. A log that fails has no further records."""
    offset = max(begin, partition.log.start_offset)
    while offset < end:
        try:
            data = partition.read(offset, READ_BYTES, True, end)
        except (LogError, OSError):
            return
        before = offset
        for _, records in batches.read(data):
            for number, record in enumerate(records):
                if record.offset >= offset:
                    offset = record.offset + 1
                    if not (yield from take(record)):
                        return
                if not number % 50:
                    yield None
        if offset == before:
            return
        yield None


def _history(partition: Partition, group: str, from_ms: int, until_ms: int, most: int) -> Job[Found]:
    key, found, log = record_key(group), deque[StoredEvent](), partition.log
    begin = log.start_offset
    if from_ms > 0:
        place = yield from log.offset_for_timestamp(from_ms)
        begin = log.durable_offset if place is None else place.offset
    is_cut = False

    def take(record: Any) -> Job[bool]:
        nonlocal is_cut
        if record.timestamp > until_ms:
            return False
        if record.key == key:
            value = yield from _value(record.value or b"{}")
            found.append(StoredEvent(f"{partition.index}:{record.offset}", value))
            if len(found) > most:
                found.popleft()
                is_cut = True
        return True

    yield from _walk(partition, begin, log.durable_offset, take)
    return Found([*found], is_cut)
