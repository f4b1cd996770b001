"""The messages that nodes send each other through the database. Messages carry transaction markers, and requests to
verify that a partition is part of a transaction. Other messages are questions about the states of share groups, and
about the end offsets of partitions.

So nodes need no connections to each other, and no credentials: a node that reaches the database is a member. A question
without an answer in time counts as lost, and its sender asks again. A question may be executed twice.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog

from muster.coordinator.api.node import Node
from muster.coordinator.log.records.markers import EndMarker
from muster.coordinator.runtime.transaction_coordinator.markers import MarkerWriter
from muster.coordinator.state_machine.interface import Client, Respond
from muster.coordinator.system import uuids
from muster.coordinator.system.clock import Clock, Timer
from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.names import TRANSACTION_STATE_TOPIC
from muster.coordinator.transactions.commands import PartitionErrors, PartitionsAsked, TransactionCommand
from muster.postgres.store import Mail, Store, StoreAway, StoreRefused
from muster.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from muster.coordinator.share_state.persister import StateRequest

MARKERS: Final = 1
PARTITIONS: Final = 2
ANSWER: Final = 3
EVENTS: Final = 4
STATES: Final = 5
ENDS: Final = 6
"""The kinds of messages."""
EVENT_BYTES: Final = 256 * 1024
"""The size of the events in one message; one larger event may be alone in a message."""
WAIT_MS: Final = 3_000
"""How long a node waits for an answer. A node that takes its messages later ignores the question (`MAIL_COUNTS_MS`). A
late marker would end the next transaction of a producer, if its epoch is the same (before KIP-890).
"""
MAX_WAITING: Final = 10_000
"""The most questions that wait for their answers. Further questions fail, as if the other node could not be reached."""

Row = tuple[bytes | None, bytes]
"""Key and value of a record."""

log = structlog.get_logger("muster.cluster")


class _Question(NamedTuple):
    """A question that was sent. `failed` is called without arguments when no answer arrives."""

    answered: Callable[[Any], object]
    failed: Callable[[], object]
    timer: Timer


class NodeMessages:
    """The messages of one node: its `transaction_coordinator.markers.Peers`, `share_coordinator`'s `StatePeers`, and
    `api.node.Peers`.
    """

    def __init__(self, node_id: int, store: Store, clock: Clock, is_over: Callable[[], bool] = lambda: False) -> None:
        """`is_over`: whether the lease is over. Then other nodes lead its partitions, and this node answers nobody."""
        self._is_over = is_over
        self._node_id = node_id
        self._store = store
        self._clock = clock
        self._node: Node
        self._writer: MarkerWriter | None = None
        self._waiting: dict[str, _Question] = {}
        self._out: list[tuple[int, Mail]] = []
        self._markers: dict[int, list[tuple[list[Any], Callable[[int], object]]]] = {}
        """The markers of the next message, by node."""
        self.take_over: Callable[[str, int, Sequence[Row]], object] = lambda *_: None
        """Called with events that another node hands over: the topic of the history, the partition, and the rows."""
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._is_asked = False

    def begin(self, node: Node) -> None:
        """Use the node of this process, which answers the questions of other nodes."""
        self._node = node
        self._writer = MarkerWriter(node.topics.open, node.routing.shards, node.clock)

    # -- asking

    def leads(self, topic: str, index: int) -> int | None:
        leaders = self._node.cluster.leaders.get(topic, ())
        if not 0 <= index < len(leaders) or leaders[index].broker_id in (self._node_id, -1):
            return None
        return leaders[index].broker_id

    def mark(self, node_id: int, marker: EndMarker, topic: str, index: int, ended: Callable[[int], object]) -> None:
        self._markers.setdefault(node_id, []).append(([*marker, topic, index], ended))
        self._soon()

    def ask(self, node_id: int, command: TransactionCommand) -> None:
        asked = command.request
        assert isinstance(asked, PartitionsAsked)
        question = {
            "id": asked.transactional_id,
            "producer": [asked.producer_id, asked.producer_epoch],
            "verify": asked.verify_only,
            "topics": {topic: list(rows) for topic, rows in asked.topics.items()},
            "client": [command.client.client_id, command.client.host],
            "version": command.client_transaction_version,
        }

        def answered(rows: Sequence[Any]) -> None:
            command.respond(PartitionErrors(asked, {(topic, index): code for topic, index, code in rows}))

        def failed() -> None:
            error = ErrorCode.NETWORK_EXCEPTION
            answered([(topic, index, error) for topic, rows in asked.topics.items() for index in rows])

        self._ask(node_id, PARTITIONS, question, answered, failed)

    def ask_state(self, node_id: int, request: StateRequest, respond: Respond) -> None:
        from muster.postgres.state_messages import as_json, lost, read_answer

        self._ask(
            node_id,
            STATES,
            as_json(request),
            lambda answer: respond(read_answer(request, answer)),
            lambda: respond(lost(request)),
        )

    def ask_ends(
        self, node_id: int, places: Sequence[tuple[str, int]], respond: Callable[[Sequence[int]], object]
    ) -> None:
        self._ask(node_id, ENDS, places, respond, lambda: respond([-1] * len(places)))

    def _ask(
        self, node_id: int, kind: int, question: object, answered: Callable[[Any], object], failed: Callable[[], object]
    ) -> None:
        if len(self._waiting) >= MAX_WAITING:
            failed()
            return
        mail_id = uuids.draw_uuid_text()
        timer = self._clock.call_at(self._clock.mono_ms() + WAIT_MS, partial(self._give_up, mail_id))
        self._waiting[mail_id] = _Question(answered, failed, timer)
        self._write_parts(node_id, mail_id, kind, question)

    def _give_up(self, mail_id: str) -> None:
        question = self._waiting.pop(mail_id, None)
        if question is not None:
            question.timer.cancel()
            question.failed()

    def _write_parts(self, node_id: int, mail_id: str, kind: int, what: object) -> None:
        data = json.dumps(what, separators=(",", ":")).encode()
        self._out.append((node_id, Mail(mail_id, self._node_id, kind, data)))
        self._soon()

    # -- handing over

    def hand_over(self, node_id: int, topic: str, index: int, rows: Sequence[Row]) -> None:
        """Send events that this node has not written to the node that leads the partition of the history now. This node
        does not learn whether the events arrive.
        """
        some: list[list[str | None]] = []
        size = 0
        for key, value in rows:
            if some and size + len(value) > EVENT_BYTES:
                self._write_parts(node_id, uuids.draw_uuid_text(), EVENTS, [topic, index, some])
                some, size = [], 0
            some.append([None if key is None else _text(key), _text(value)])
            size += len(value)
        self._write_parts(node_id, uuids.draw_uuid_text(), EVENTS, [topic, index, some])

    async def sent(self) -> None:
        """Return when all messages are sent, or have failed."""
        self._send()
        if self._task is not None:
            await asyncio.wait([self._task])

    # -- sending

    def _soon(self) -> None:
        if not self._is_asked:
            self._is_asked = True
            self._clock.call_soon(self._send)

    def _send(self) -> None:
        self._is_asked = False
        markers, self._markers = self._markers, {}
        for node_id, rows in markers.items():
            ended = [callback for _, callback in rows]
            no_answer = [ErrorCode.NETWORK_EXCEPTION] * len(rows)
            self._ask(
                node_id, MARKERS, [row for row, _ in rows], partial(_marked, ended), partial(_marked, ended, no_answer)
            )
        if self._out and self._task is None:
            self._task = self._loop.create_task(self._sending())

    async def _sending(self) -> None:
        while self._out:
            out, self._out = self._out, []
            try:
                if self._is_over():
                    raise StoreAway("the lease is over")
                await self._store.send(out)
            except (StoreAway, StoreRefused):
                for _, mail in out:
                    self._give_up(mail.mail_id)
        self._task = None

    # -- answering

    async def check(self) -> None:
        """Take the messages for this node. Raises the errors of the store."""
        if self._is_over():
            return
        for mail in await self._store.mail(self._node_id):
            if mail.kind == ANSWER:
                self._answered(mail)
            elif mail.kind == EVENTS:
                topic, index, rows = json.loads(mail.data)
                decode = base64.b64decode
                decoded = [(None if key is None else decode(key), decode(value)) for key, value in rows]
                self.take_over(topic, index, decoded)
            elif self._writer is not None:
                what = json.loads(mail.data)
                self._node.job_queue.run(self._serving(mail, what), lambda _: None, self)

    closed = False

    def fault(self, error: Exception) -> None:
        log.error("what another node has asked could not be answered, because of a bug in the server", exc_info=error)

    def _answered(self, mail: Mail) -> None:
        question = self._waiting.pop(mail.mail_id, None)
        if question is not None:
            question.timer.cancel()
            question.answered(json.loads(mail.data))

    def _serving(self, mail: Mail, what: Any) -> Job[None]:
        answer = partial(self._write_parts, mail.sender, mail.mail_id, ANSWER)
        if mail.kind == MARKERS:
            yield from self._marking(what, answer)
        elif mail.kind == STATES:
            from muster.postgres.state_messages import serve

            serve(self._node.persister, self.leads, what, answer)
        elif mail.kind == ENDS:
            from muster.coordinator.api.groups.share_offsets import end_offset

            answer([end_offset(self._node, topic, index) for topic, index in what])
        else:
            self._look_up(what, answer)

    def _marking(self, rows: Sequence[Any], answer: Callable[[object], object]) -> Job[None]:
        codes: dict[int, int] = {}

        def ended(place: int, code: int) -> None:
            codes[place] = code
            if len(codes) == len(rows):
                answer([codes[one] for one in range(len(rows))])

        assert self._writer is not None
        for place, (*marker, topic, index) in enumerate(rows):
            # this node may no longer lead the partition
            if self.leads(topic, index) is not None:
                ended(place, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            else:
                yield from self._writer.writing(EndMarker(*marker), topic, index, partial(ended, place))
            yield None

    def _look_up(self, what: Mapping[str, Any], answer: Callable[[object], object]) -> None:
        producer_id, producer_epoch = what["producer"]
        asked = PartitionsAsked(what["id"], producer_id, producer_epoch, what["verify"], what["topics"])
        transactions = self._node.transactions

        def respond(message: Any) -> None:
            answer([[topic, index, code] for (topic, index), code in message.errors.items()])

        # This node may not know a topic yet. Without this check, an end of transaction would take the topic for
        # deleted.
        is_here = transactions.routing.ready and all(topic in self._node.topics.by_name for topic in what["topics"])
        if not is_here or self.leads(TRANSACTION_STATE_TOPIC, transactions.routing.partition(what["id"])) is not None:
            error = ErrorCode.NOT_COORDINATOR
            answer([[topic, index, error] for topic, rows in what["topics"].items() for index in rows])
            return
        transactions.submit(what["id"], TransactionCommand(asked, respond, Client(*what["client"]), what["version"]))


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _marked(ended: Sequence[Callable[[int], object]], codes: Sequence[int]) -> None:
    for callback, code in zip(ended, codes, strict=True):
        # A node that does not know the topic yet differs from a node where it was deleted.
        unknown = code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        callback(ErrorCode.NOT_LEADER_OR_FOLLOWER if unknown else code)
