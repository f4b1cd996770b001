"""The source of a console over a Kafka cluster: requests in threads. `cluster_events` reads the events."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

from muster.cli.cluster_rows import ClusterRows, read_cluster
from muster.cli.console.cluster_events import AskingClient, Follower, history_of, time_of
from muster.cli.console.past import PastRebalances
from muster.client.kafka_client import KafkaClient
from muster.client.list_offsets import EARLIEST, LATEST, Lookup
from muster.client.security import ClientSecurity
from muster.coordinator.config.listeners import Address, show
from muster.coordinator.http.console.now import Doing
from muster.coordinator.http.console.sources import Ends, Found, Requester, StoredEvent
from muster.coordinator.http.live_groups import LiveGroups
from muster.coordinator.system.clock import pause_s
from muster.coordinator.system.jobs import Job, OffloadedWork
from muster.coordinator.system.wall_time import wall_now_ms
from muster.protocol.message import Message

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
        self._rows = AskingClient(bootstrap, security)
        self._asks = AskingClient(bootstrap, security)
        self._follower = Follower(AskingClient(bootstrap, security))
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
            events, is_cut = history_of(client, group, from_ms, until_ms)
            if self._past is not None:
                first_ms = min(map(time_of, events), default=until_ms)
                events = [*self._past.of(group, from_ms, first_ms - 1), *events]
            return Found(events[-most:], is_cut or len(events) > most)

        return await self._asks.do(read)
