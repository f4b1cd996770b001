"""Helpers of tests of ShareFetch and ShareAcknowledge: a node with share partitions over a persister in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node
from muster.coordinator.groups.common.events import Event
from muster.coordinator.runtime.share_partitions.led_partition import DeadLetters, LedSharePartition
from muster.coordinator.runtime.share_partitions.share_partitions import SharePartitions
from muster.coordinator.share.in_flight import Row
from muster.coordinator.share.partition import DeadLetter
from muster.coordinator.share_state.persister import (
    UNKNOWN,
    DeleteState,
    InitializeState,
    LoadedState,
    ReadState,
    ReadSummary,
    StateKey,
    StateResponse,
    Summary,
    WriteState,
)
from muster.coordinator.system.clock import ManualClock
from muster.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from muster.protocol.messages.share_fetch import AcknowledgementBatch as FetchAcknowledgement
from muster.protocol.messages.share_fetch import FetchPartition, FetchTopic, ForgottenTopic, ShareFetchRequest
from tests.coordinator.api.data_plane import data_node, topic_id
from tests.coordinator.api.harness import Answers, make_channel, make_context
from tests.coordinator.topics.support import batch, produce

GROUP = "workers"
FEATURES = {"share.version": 2}


class State:
    """The state of one share partition."""

    def __init__(self, start_offset: int = UNKNOWN) -> None:
        self.start_offset = start_offset
        self.epoch = 0
        self.leader_epoch = -1
        self.done_count = UNKNOWN
        self.rows: dict[int, Row] = {}


class MemoryPersister:
    """States in memory, one row for each record. `held`: answers that `release` sends, if `holds`. `error`: the answer
    to each write.
    """

    def __init__(self) -> None:
        self.states: dict[StateKey, State] = {}
        self.writes: list[WriteState] = []
        self.held: list[Callable[[], object]] = []
        self.holds = False
        self.error = StateResponse()

    def _answer(self, respond: Callable[[Any], object], response: Any) -> None:
        if self.holds:
            self.held.append(lambda: respond(response))
        else:
            respond(response)

    def release(self) -> None:
        """Send the held answers."""
        held, self.held, self.holds = self.held, [], False
        for send in held:
            send()

    def initialize(self, request: InitializeState, respond: Callable[[StateResponse], object]) -> None:
        self.states[request.key] = State(request.start_offset)
        self._answer(respond, StateResponse())

    def read(self, request: ReadState, respond: Callable[[LoadedState], object]) -> None:
        state = self.states.setdefault(request.key, State())
        state.leader_epoch = request.leader_epoch
        rows = [row for _, row in sorted(state.rows.items())]
        code, text = self.error.error_code, self.error.error_message
        self._answer(respond, LoadedState(code, text, state.epoch, state.start_offset, rows))

    def write(self, request: WriteState, respond: Callable[[StateResponse], object]) -> None:
        self.writes.append(request)
        if not self.error.error_code:
            state = self.states[request.key]
            if request.start_offset != UNKNOWN:
                state.start_offset = request.start_offset
            state.done_count = request.done_count
            for row in request.rows:
                for offset in range(row.first, row.last + 1):
                    state.rows[offset] = Row(offset, offset, row.state, row.deliveries)
            for offset in [one for one in state.rows if one < state.start_offset]:
                del state.rows[offset]
        self._answer(respond, self.error)

    def delete(self, request: DeleteState, respond: Callable[[StateResponse], object]) -> None:
        self.states.pop(request.key, None)
        self._answer(respond, StateResponse())

    def read_summary(self, request: ReadSummary, respond: Callable[[Summary], object]) -> None:
        state = self.states.get(request.key, State())
        self._answer(respond, Summary(0, None, state.epoch, state.leader_epoch, state.start_offset, state.done_count))


class Letters:
    """A dead-letter queue that keeps what it is given. `is_held`: whether `done` waits for `take`."""

    def __init__(self) -> None:
        self.queued: list[DeadLetter] = []
        self.waiting: list[Callable[[bool], object]] = []

    def queue(self, share: LedSharePartition, letter: DeadLetter, done: Callable[[bool], object]) -> None:
        del share
        self.queued.append(letter)
        self.waiting.append(done)

    def take(self, *, is_queued: bool = True) -> None:
        """Say that the letters are in the queue, or could not be written."""
        waiting, self.waiting = self.waiting, []
        for done in waiting:
            done(is_queued)


def serve_shares(
    node: Node,
    persister: MemoryPersister | None = None,
    letters: DeadLetters | None = None,
    report: Callable[[Event], object] = lambda _: None,
) -> SharePartitions:
    """Let a node serve share groups. `report`: takes events for the histories."""
    node.share_partitions = SharePartitions(
        node.clock,
        persister or MemoryPersister(),
        letters or Letters(),
        node.run_behind,
        node.config,
        lambda: FEATURES,
        report,
    )
    return node.share_partitions


class Serving:
    """A node that serves one share group, and requests of its members."""

    def __init__(self, configs: Mapping[str, str] | None = None, **config: str) -> None:
        properties = {name.replace("_", "."): text for name, text in config.items()}
        self.clock = ManualClock()
        self.node: Node = data_node(properties, self.clock)
        self.persister = MemoryPersister()
        self.letters = Letters()
        self.events: list[Event] = []
        self.shares = serve_shares(self.node, self.persister, self.letters, self.events.append)
        self.shares.configured(GROUP, {"share.auto.offset.reset": "earliest", **(configs or {})})
        self.channels: dict[str, RequestContext] = {}

    def append(self, name: str, count: int = 1, index: int = 0, **more: Any) -> None:
        """Append one batch of this many records."""
        partition = self.node.topics.open.partition(name, index)
        assert partition is not None
        produce(partition, batch(*[b"%d" % number for number in range(count)], **more), self.clock.now())

    def share(self, name: str = "t", index: int = 0) -> LedSharePartition:
        """A share partition that is loaded."""
        found = self.shares.find(StateKey(GROUP, topic_id(self.node, name), index))
        assert found is not None
        return found

    def context(self, member: str, key: int, version: int) -> RequestContext:
        """The context of a request of a member, which has one connection."""
        if member not in self.channels:
            self.channels[member] = make_context(channel=make_channel())
        return make_context(key, version, channel=self.channels[member].channel)

    def disconnect(self, member: str) -> None:
        """End the connection of a member."""
        self.channels.pop(member).channel.close()

    def send_fetch(self, member: str, epoch: int, *rows: tuple[str, int], **more: Any) -> Answers:
        """Send a ShareFetch of partitions. `acks`: by partition. `forget`: partitions. `answers` takes the answer. The
        rest are fields of the request.
        """
        from muster.coordinator.api.share.share_fetch import handle_share_fetch

        version, answers = more.pop("version", 2), more.pop("answers", None) or Answers()
        acks: Mapping[tuple[str, int], Sequence[Sequence[Any]]] = more.pop("acks", {})
        topics = [
            FetchTopic(
                self.id_of(name),
                [FetchPartition(index, 0, [FetchAcknowledgement(*one) for one in acks.get((name, index), ())])],
            )
            for name, index in dict.fromkeys([*rows, *acks])
        ]
        forgotten = [ForgottenTopic(self.id_of(name), [index]) for name, index in more.pop("forget", ())]
        values: dict[str, Any] = {
            "group_id": GROUP,
            "max_wait_ms": 0,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            **more,
        }
        request = ShareFetchRequest(
            member_id=member, share_session_epoch=epoch, topics=topics, forgotten_topics_data=forgotten, **values
        )
        handle_share_fetch(self.node, self.context(member, 78, version), request, answers)
        return answers

    def fetch(self, member: str, epoch: int, *rows: tuple[str, int], **more: Any) -> Any:
        """The answer to a ShareFetch that is answered at once."""
        return self.send_fetch(member, epoch, *rows, **more).one()

    def send_acks(
        self, member: str, epoch: int, acks: Mapping[tuple[str, int], Sequence[Sequence[Any]]], **more: Any
    ) -> Answers:
        """Send a ShareAcknowledge."""
        from muster.coordinator.api.share.share_acknowledge import handle_share_acknowledge

        version, answers = more.pop("version", 2), more.pop("answers", None) or Answers()
        topics = [
            AcknowledgeTopic(
                self.id_of(name), [AcknowledgePartition(index, [AcknowledgementBatch(*one) for one in some])]
            )
            for (name, index), some in acks.items()
        ]
        values = {"group_id": GROUP, **more}
        request = ShareAcknowledgeRequest(member_id=member, share_session_epoch=epoch, topics=topics, **values)
        handle_share_acknowledge(self.node, self.context(member, 79, version), request, answers)
        return answers

    def acknowledge(self, member: str, epoch: int, acks: Mapping[tuple[str, int], Any], **more: Any) -> Any:
        """The answer to a ShareAcknowledge that is answered at once."""
        return self.send_acks(member, epoch, acks, **more).one()

    def id_of(self, name: str) -> bytes:
        """The id of a topic; of a topic that does not exist, its name."""
        topic = self.node.topics.by_name.get(name)
        return name.encode().ljust(16, b"?") if topic is None else topic.topic_id


def acquired(response: Any) -> list[tuple[int, int, int]]:
    """The acquired records of all partitions: first offset, last offset, deliveries."""
    return [
        (row.first_offset, row.last_offset, row.delivery_count)
        for topic in response.responses
        for data in topic.partitions
        for row in data.acquired_records
    ]


def errors(response: Any) -> list[tuple[int, int]]:
    """Partition and error of each row."""
    return [(row.partition_index, row.error_code) for topic in response.responses for row in topic.partitions]
