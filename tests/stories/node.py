"""The driver of stories over a whole node in virtual time: all that `muster serve` runs, on a virtual machine.

Stories that one core cannot answer need it: a transaction has a coordinator of its own, groups, and partitions with
records. Requests and replies are bytes on a wire. Nothing is slow, nothing fails, and time passes only when nothing is
left to do.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Collection

from muster.conform.player import kafka_codec as codec
from muster.conform.player import playing
from muster.conform.player.connection import RUNNER
from muster.conform.player.story import Action, Advance, Await, Body, Drop, Reply, Send, Story
from muster.conform.player.tcp import TRANSACTIONS, is_at_rest, stamp, transient
from muster.coordinator.log import MemoryStorage
from muster.coordinator.runtime.replies import NO_DELAY_MS
from muster.simulation.process import Process
from muster.virtual.faulty_storage import FaultyStorage
from muster.virtual.wires import Wire
from tests.support.servers import QUICK
from tests.support.virtual_node import NEVER, START_MS, Machine

AT_REST_MS = 40
"""After this time without a reply a request counts as waiting."""
AGAIN_MS = 20
"""After this time a client repeats a request that could not be answered yet."""
MAX_TRIES = 100
FEW = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}
"""Each story creates these topics; Kafka's 50 partitions would take two thirds of its time."""


class Client:
    """One connection of an actor."""

    def __init__(self, process: Process, on_reply: Callable[[Send, int, Body], object]) -> None:
        self.open: list[tuple[Send, int]] = []
        self._world, self._on_reply, self._received = process.world, on_reply, b""
        self.wire = Wire(process, self, 0)

    def send(self, send: Send) -> None:
        """Send a request as bytes."""
        frame = codec.encode_request(send.api, send.version, len(self.open), send.client_id, send.body)
        self.open.append((send, self._world.ms))
        self.wire.send(struct.pack(">i", len(frame)) + frame)

    def received(self, wire: Wire, data: bytes) -> None:
        """Receive bytes of the node."""
        self._received += data
        while len(self._received) >= 4:
            end = 4 + int.from_bytes(self._received[:4], "big")
            if len(self._received) < end:
                return
            frame, self._received = self._received[4:end], self._received[end:]
            send, sent_ms = self.open.pop(0)
            self._on_reply(send, sent_ms, codec.decode_response(send.api, send.version, frame)[1])

    def hung_up(self, wire: Wire) -> None:
        """The node has closed the connection: no story expects that."""
        if self.open:
            raise AssertionError(f"no answer to {self.open[0][0]}")


class NodeDriver:
    """Plays one story on one node."""

    def __init__(self, story: Story, *, caches: bool = True) -> None:
        """`caches`: whether the node caches repeated requests."""
        self.story = story
        self.world = Machine()
        self.process = Process(
            self.world, self.world, FaultyStorage(1, NEVER, on=MemoryStorage()), {**QUICK, **FEW, **story.broker},
            caches=caches,
        )  # fmt: skip
        self.clients: dict[str, list[Client]] = {}
        self.replies: list[Reply] = []
        self.idle_ms = 0
        """The time that was spent on requests since time last passed: the next step of time is shorter by it."""

    def run(self) -> str:
        """The story's text as it went."""
        self.process.begin()
        assert self.world.run(lambda: self.process.up, START_MS)
        try:
            own = {name: count for name, count in self.story.own_topics.items() if count}
            counts = {**self.story.topics, **own}
            play = playing.play(self.story, "", self._create_topics(counts))
            answer: list[Reply] | None = None
            while True:
                answer = self.act(play.send(answer))
        except StopIteration as end:
            text: str = end.value
            return text
        finally:
            self.process.stop()
            self.world.run(lambda: not self.process.alive, START_MS)
            self.process.loop.close()

    def act(self, action: Action) -> list[Reply]:
        """Perform one action; its replies."""
        if isinstance(action, Send):
            self._send(action)
        elif isinstance(action, Advance):
            self.world.run(lambda: False, max(action.ms - self.idle_ms, action.ms // 2))
            self.idle_ms = 0
        elif isinstance(action, Await):
            self.world.run(lambda: self._has([action.actor]), action.high + 300)
            self.world.run(lambda: False, 1)  # the answers to other clients at the same time
            self.idle_ms = 0
        elif isinstance(action, Drop):
            for client in self.clients.pop(action.actor, []):
                client.open.clear()
                client.wire.cut()
            self.world.run(lambda: False, AT_REST_MS)
            return []
        replies, self.replies = self.replies, []
        return replies

    def _has(self, actors: Collection[str]) -> bool:
        return set(actors) <= {reply.actor for reply in self.replies}

    def _send(self, send: Send) -> None:
        began_ms = self.world.ms
        for _ in range(MAX_TRIES):
            stamp(send.body, self.world.wall_ms)
            self._client(send.actor).send(send)
            self.world.run(lambda: any(reply.request is send.body for reply in self.replies), AT_REST_MS)
            mine = next((reply for reply in self.replies if reply.request is send.body), None)
            if mine is None or send.once or not transient(mine):
                break
            self.replies.remove(mine)
            self.world.run(lambda: False, AGAIN_MS)
        else:
            raise AssertionError(f"not ready after {MAX_TRIES} tries: {mine}")
        if send.api not in TRANSACTIONS:
            self.world.run(lambda: False, NO_DELAY_MS + 1)  # for what other clients receive because of it
        if mine is not None and send.api == "EndTxn" and not mine.body["ErrorCode"]:
            asked = {"TransactionalIds": [send.body["TransactionalId"]]}
            while not is_at_rest(self._ask("DescribeTransactions", 0, asked)):
                self.world.run(lambda: False, AGAIN_MS)
        self.idle_ms += self.world.ms - began_ms

    def _client(self, actor: str) -> Client:
        clients = self.clients.setdefault(actor, [])
        free = next((client for client in clients if not client.open), None)
        if free is None:
            free = Client(self.process, self._on_reply)
            clients.append(free)
        return free

    def _on_reply(self, send: Send, sent_ms: int, body: Body) -> None:
        took_ms = self.world.ms - sent_ms
        self.replies.append(Reply(send.actor, send.api, send.version, send.body, body, took_ms))

    # ---- the runner's own requests

    def _ask(self, api: str, version: int, body: Body) -> Body:
        send = Send(RUNNER, api, version, RUNNER, body, None)
        self._client(RUNNER).send(send)
        assert self.world.run(lambda: self._has([RUNNER]), START_MS)
        reply = next(reply for reply in self.replies if reply.actor == RUNNER)
        self.replies.remove(reply)
        return reply.body

    def _create_topics(self, counts: dict[str, int]) -> dict[str, uuid.UUID]:
        topics = [{"Name": name, "NumPartitions": count, "ReplicationFactor": 1} for name, count in counts.items()]
        made = self._ask("CreateTopics", 7, {"timeoutMs": 10000, "Topics": topics})
        for kind in (0, 1):  # the first search for a coordinator creates its topic
            self._ask("FindCoordinator", 4, {"KeyType": kind, "CoordinatorKeys": ["ready"]})
        return {topic["Name"]: topic["TopicId"] for topic in made["Topics"]}
