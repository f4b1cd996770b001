"""The world around a process of three brokers, which stop, die, stand still and return while clients use them.

Clients go to the leader or coordinator, as they would find it; sometimes they are late, and go to another broker. The
promises are those of one broker: see `world`.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any, Final

from muster.coordinator.api.exchange import NO_INTERCEPT, Intercept
from muster.coordinator.server.nodes.common import NodeState, WrongNode
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from muster.protocol.hashing import group_partition
from muster.protocol.message import Message
from muster.protocol.messages.list_transactions import ListTransactionsRequest
from muster.protocol.messages.metadata import MetadataRequest
from muster.simulation.actor import Actor, Script
from muster.simulation.network import Network
from muster.virtual.machine import PORT
from tests.simulation.scenario import NO_ANSWER_FOR_MS
from tests.torture.node.judge import Judge
from tests.torture.node.world import World

NODES: Final = 3
SESSION_MS: Final = 2_000
LATE: Final = 0.03
"""How often a client goes to the wrong broker."""
CHANGES_MS: Final = 3_000
STILL_MS: Final = 5_000
READ_MS: Final = 300
ANSWERS_MS: Final = 3_000
"""A broker that continues answers within this time."""


class Reader(Judge):
    """Asks the coordinator again and again for committed offsets: they are never less than what was acknowledged
    before.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world, was_cut=False)
        self.name = "reader"

    def live(self) -> Script:
        while True:
            yield READ_MS
            self._offsets = dict(self._node.offsets.acknowledged)
            yield from self._judge_offsets()


class Knock(Actor):
    """Asks one broker that has continued after it stood still: some answer must come."""

    def __init__(self, world: Brokers, node: int) -> None:
        super().__init__(world, f"knock-{node}")
        self.answered = False
        self._node_id = node
        self._brokers = world

    def live(self) -> Script:
        while True:
            request = MetadataRequest([])
            self._brokers.knocks[id(request)] = self._node_id
            try:
                response = yield request
            finally:
                del self._brokers.knocks[id(request)]
            if response is not None:
                self.answered = True
                return
            yield 100


class Brokers(World):
    """The world of this module. `changes`: how often a fault hit a broker. `knocks`: the broker that a request is for,
    by the identity of the request.
    """

    brokers = NODES

    def __init__(self, seed: int, intercept: Intercept = NO_INTERCEPT) -> None:
        super().__init__(seed, intercept)
        self.changes = 0
        self.knocks: dict[int, int] = {}
        self.reported: Counter[int] = Counter()
        """How many changes were sent to each broker."""
        self._asked = 0
        self.network = Network(self, lambda: self.process, self, patience_ms=NO_ANSWER_FOR_MS, port=self._port)

    def _properties(self) -> dict[str, str]:
        more = {"muster.nodes": str(NODES), "broker.session.timeout.ms": str(SESSION_MS)}
        return {**super()._properties(), **more, "leader.imbalance.check.interval.seconds": "5"}

    # ---- where clients go

    def _port(self, request: Message) -> int:
        process = self.process
        if process is None or not process.up:
            return PORT
        nodes = process.server.cluster.states
        knocked_at = self.knocks.get(id(request))
        if knocked_at is not None:
            return PORT + [*nodes].index(knocked_at)
        if isinstance(request, ListTransactionsRequest):  # each of these clients knows only its own broker
            self._asked += 1
            return PORT + self._asked % NODES
        up = [node for node, state in nodes.items() if state is NodeState.UP]
        node = self._leader(request)
        if node not in nodes or self.random() < LATE:
            node = self.rng.choice(up or [*nodes])
        return PORT + [*nodes].index(node)

    def _leader(self, request: Any) -> int:
        assert self.process is not None
        leaders = self.process.server.cluster.leaders
        topic, index = _place(request)
        of_topic = leaders.get(topic, ())
        if topic in (GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC) and of_topic:
            index = group_partition(str(index), len(of_topic))
        return of_topic[index].broker_id if isinstance(index, int) and 0 <= index < len(of_topic) else -1

    # ---- faults of brokers

    def _begin_clients(self) -> None:
        super()._begin_clients()
        Reader(self).start()

    def started(self) -> None:
        """Note that the process listens."""
        super().started()
        self._later(self.process)

    def _later(self, process: Any) -> None:
        self.later(1 + int(self.random() * CHANGES_MS), lambda _: self._change(process))

    def _change(self, process: Any) -> None:
        if process is not self.process or not process.up or process.stopping:
            return
        self._look_at_leaderships(process)
        if self.calm:
            return
        if not self.judging:  # the answer is true only when the node has seen the rest
            cluster = process.server.cluster
            node = self.rng.choice([*cluster.states])
            what = self.rng.choice(("stop", "kill", "pause", "return", "return"))
            self.note(f"{what} of broker {node}, which is {cluster.states[node].value}")
            self.reported[node] += 1
            process.does(lambda: process.loop.create_task(self._do(process, what, node)))
        self._later(process)

    def _look_at_leaderships(self, process: Any) -> None:
        """Check that each active leader leads in that epoch: the image and the leaderships change in one iteration."""
        cluster = process.server.cluster
        for node_id, node in cluster.nodes.items():
            if cluster.states[node_id] is not NodeState.UP:
                continue
            for topic, leaderships in (
                (GROUP_OFFSETS_TOPIC, node.leaderships),
                (TRANSACTION_STATE_TOPIC, node.transactions.leaderships),
            ):
                held = {} if leaderships is None else leaderships.held
                leaders = cluster.leaders.get(topic, ())
                for partition, epoch in held.items():
                    if leaders[partition] != (node_id, epoch):
                        self.fault(
                            f"broker {node_id} is active for {topic}-{partition} in epoch {epoch}, "
                            f"which {leaders[partition]} leads"
                        )

    async def _do(self, process: Any, what: str, node: int) -> None:
        cluster = process.server.cluster
        with suppress(WrongNode, ApiError, OSError):  # the broker cannot do that now, or the disk failed
            if what == "stop":
                await cluster.stop_node(node)
            elif what == "kill":
                cluster.kill_node(node)
            elif what == "pause":
                cluster.pause_node(node)
                for_ms = 1 + int(self.random() * STILL_MS)
                self.later(for_ms, lambda _: self._go_on(process, node))
            else:
                await cluster.return_node(node)
            self.changes += 1

    def _go_on(self, process: Any, node: int) -> None:
        if process.up:
            process.does(lambda: process.loop.create_task(self._resume(process, node)))

    async def _resume(self, process: Any, node: int) -> None:
        try:
            await process.server.cluster.resume_node(node)
        except WrongNode:
            pass  # the process was killed meanwhile
        except ApiError:
            self.later(STILL_MS, lambda _: self._go_on(process, node))  # the disk failed
        else:
            self._knock(process, node)

    def _knock(self, process: Any, node: int) -> None:
        """The broker continues: it must answer soon, unless another fault hits it, or the process stands still."""
        changes, knock = self.reported[node], Knock(self, node)
        knock.start()

        def look(_: None) -> None:
            knock.kill()
            spared = self.scenario.pauses or process is not self.process or not process.up or process.stopping
            if not knock.answered and not spared and self.reported[node] == changes:
                self.fault(f"broker {node} was told to go on, and answers nobody")

        self.later(ANSWERS_MS, look)


def _place(request: Any) -> tuple[str, Any]:
    """Topic and partition that a request is about; for coordinators the name that decides the partition."""
    name = type(request).__name__
    transactional_id = getattr(request, "transactional_id", None) or getattr(
        request, "v3_and_below_transactional_id", ""
    )
    if name == "ProduceRequest":
        topic = request.topic_data[0]
        return topic.name, topic.partition_data[0].index
    if name in ("FetchRequest", "ListOffsetsRequest"):
        topic = request.topics[0]
        partition = topic.partitions[0]
        return getattr(topic, "topic", "") or getattr(topic, "name", ""), getattr(
            partition, "partition", getattr(partition, "partition_index", 0)
        )
    if transactional_id and name != "TxnOffsetCommitRequest":
        return TRANSACTION_STATE_TOPIC, transactional_id
    groups = getattr(request, "groups", None) or getattr(request, "groups_names", None)
    group = getattr(request, "group_id", "")
    if not group and groups:
        group = groups[0] if isinstance(groups[0], str) else groups[0].group_id
    return (GROUP_OFFSETS_TOPIC, group) if group else ("", -1)
