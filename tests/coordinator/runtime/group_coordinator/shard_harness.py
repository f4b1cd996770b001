"""A shard over a core, a codec and a log that tests control."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from muster.coordinator.groups.common.events import Event
from muster.coordinator.groups.common.image import NO_TOPICS, TopicsChanged, TopicsImage
from muster.coordinator.runtime.group_coordinator.shard import GroupShard
from muster.coordinator.state_machine.deadlines import NEVER, LateAnswers
from muster.coordinator.state_machine.interface import Client, Command, Now, Record, Reply
from muster.coordinator.state_machine.output import Output
from muster.coordinator.system.clock import ManualClock
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from muster.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from muster.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.coordinator.api.harness import Answers
from tests.coordinator.fakes import FakeCodec, FakeLog

CLIENT = Client("c", "/1.2.3.4")


class StorageFailed(ValueError):
    error_code = ErrorCode.KAFKA_STORAGE_ERROR


class FakeCore:
    """Keeps the committed offsets; joins are parked until `complete`; each member id has a deadline."""

    def __init__(self, image: TopicsImage) -> None:
        self.image = image
        self.offsets: dict[int, int] = {}
        self.parked: list[Command] = []
        self.deadline: int | None = None
        self.advanced: list[int] = []
        self.after_load: Output = Output()
        self.records_at_deadline: list[Record] = []

    def handle(self, command: Command | TopicsChanged, now: Now, max_bytes: int) -> Output:
        if isinstance(command, TopicsChanged):
            self.image = command.image
            return Output()
        request = command.request
        if isinstance(request, JoinGroupRequest):
            self.parked.append(command)
            deadline = now.mono_ms + request.session_timeout_ms
            self.deadline = deadline if self.deadline is None else min(deadline, self.deadline)
            return Output()
        if isinstance(request, OffsetCommitRequest):
            row = request.topics[0].partitions[0]
            key = OffsetCommitKey(request.group_id, "t", row.partition_index)
            value = OffsetCommitValue(row.committed_offset)
            self.offsets[row.partition_index] = row.committed_offset
            response = OffsetCommitResponse(
                topics=[OffsetCommitResponseTopic("t", partitions=[OffsetCommitResponsePartition(row.partition_index)])]
            )
            return Output([(command.respond, response)], [Record(key, value, 4)], [Event("commit", "g", {})])
        assert isinstance(request, ListGroupsRequest)
        return Output([(command.respond, ListGroupsResponse())])

    def heartbeat(self, request: HeartbeatRequest, mono_ms: int) -> HeartbeatResponse:
        if self.deadline is not None:
            self.deadline = min(self.deadline, mono_ms + request.generation_id)
        return HeartbeatResponse(error_code=self.heartbeat_error)

    heartbeat_error = 0

    @property
    def deadlines(self) -> Any:
        return SimpleNamespace(earliest_ms=NEVER if self.deadline is None else self.deadline)

    def advance(self, now: Now, waits: LateAnswers) -> Output:
        self.advanced.append(now.mono_ms)
        if self.deadline is None or self.deadline > now.mono_ms:
            return Output()
        self.deadline = None
        parked, self.parked = self.parked, []
        records, self.records_at_deadline = self.records_at_deadline, []
        return Output([(c.respond, JoinGroupResponse(generation_id=1)) for c in parked], records)

    def next_deadline_ms(self) -> int | None:
        return self.deadline

    @property
    def group_count(self) -> int:
        return len(self.offsets)

    def open_transactions(self) -> list[Any]:
        return []

    @property
    def state(self) -> Any:
        return SimpleNamespace(image=self.image)

    def replay(self, records: Any, now: Now) -> int:
        read = [(key.partition, value.offset) for key, value in records]
        self.offsets.update(read)
        return len(read)

    def loaded(self, now: Now) -> Output:
        return self.after_load

    def resign(self, error_code: int) -> Output:
        replies: list[Reply] = [(c.respond, JoinGroupResponse(error_code=error_code)) for c in self.parked]
        self.parked = []
        return Output(replies)


class GroupShardHarness:
    """A shard, with all parts that it is made of."""

    def __init__(self, linger_ms: int = 0) -> None:
        self.clock = ManualClock(0)
        self.log = FakeLog()
        self.codec = FakeCodec()
        self.cores: list[FakeCore] = []
        self.events: list[Event] = []
        self.flushed = 0
        self.loads: list[tuple[int, int, int]] = []
        self.open_error: Exception | None = None
        self.after_load = Output()
        self.shard = GroupShard(
            7,
            self._core,
            self._open,
            self.clock,
            NO_TOPICS,
            observer=self,
            linger_ms=linger_ms,
            codec=self.codec,
        )

    def report(self, happened: Sequence[Event], now: Now) -> None:
        assert now == self.clock.now()
        self.events.extend(happened)

    def flush(self) -> None:
        self.flushed = len(self.events)

    def loaded(self, now: Now, *, groups: int, records: int, took_ms: int) -> None:
        assert now == self.clock.now()
        self.loads.append((groups, records, took_ms))

    @property
    def core(self) -> FakeCore:
        return self.cores[-1]

    def _core(self, image: TopicsImage) -> Any:
        core = FakeCore(image)
        core.after_load = self.after_load
        self.cores.append(core)
        return core

    def _open(self) -> Any:
        if self.open_error is not None:
            raise self.open_error
        return self.log, 3

    def active(self) -> bool:
        return self.shard.active

    def load(self) -> GroupShardHarness:
        for _ in self.shard.runtime.start():
            pass
        return self

    def submit(self, request: Message) -> Answers:
        answers = Answers()
        if isinstance(request, HeartbeatRequest):
            at_once = self.shard.heartbeat(request, answers, CLIENT)
            if at_once is not None:
                answers(at_once)
        else:
            self.shard.runtime.submit(Command(request, answers, CLIENT))
        return answers

    def commit(self, offset: int, partition: int = 0) -> Answers:
        row = OffsetCommitRequestPartition(partition, offset)
        topic = OffsetCommitRequestTopic("t", partitions=[row])
        return self.submit(OffsetCommitRequest("g", topics=[topic]))


def code_of(answers: Answers) -> int:
    return answers.one().topics[0].partitions[0].error_code
