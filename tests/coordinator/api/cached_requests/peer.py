"""A node of one shard without sockets or files, and a connection to it, for tests of cached requests."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from muster.coordinator.api.dispatch import Dispatcher
from muster.coordinator.api.exchange import NO_INTERCEPT, Intercept
from muster.coordinator.api.layers import CloseConnection
from muster.coordinator.api.node import Node
from muster.coordinator.api.observer import RequestObserver
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.runtime.group_coordinator.shard import GroupShard
from muster.coordinator.runtime.replies import NO_DELAY_MS
from muster.coordinator.runtime.routing import Routing
from muster.coordinator.system.clock import ManualClock
from muster.protocol import frames
from muster.protocol.api import ApiKey, api
from muster.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from muster.protocol.messages.sync_group import SyncGroupRequest
from tests.coordinator.api.harness import FakeTopics, make_channel, make_node
from tests.coordinator.fakes import FakeLog

COMMIT, HEARTBEAT = ApiKey.OFFSET_COMMIT, ApiKey.HEARTBEAT
IDS = {"t1": (1).to_bytes(16, "big"), "t2": (2).to_bytes(16, "big")}


class Log(FakeLog):
    """A log of bytes: each batch is a row."""

    def append(self, leader_epoch: int, batch: Any, *, wall_ms: int) -> None:
        super().append(leader_epoch, [len(self.rows).to_bytes(8, "big") + batch[8:]], wall_ms=wall_ms)

    def replay(self, offset: int | None = None, *, chunk_bytes: int = 0) -> Iterator[Any]:
        yield from list(self.rows)


class Peer:
    """A node of one shard, and a connection to it."""

    def __init__(
        self,
        intercept: Intercept = NO_INTERCEPT,
        linger_ms: int = 0,
        *,
        observer: RequestObserver | None = None,
        caches: bool = True,
    ) -> None:
        self.log, self.clock, self.topics = Log(), ManualClock(), FakeTopics(t1=3, t2=2)
        core = partial(GroupCore, GroupSettings(group_initial_rebalance_delay_ms=0))
        self.epoch = 0
        self.shard = GroupShard(
            0, core, lambda: (self.log, self.epoch), self.clock, self.topics.image, linger_ms=linger_ms
        )
        list(self.shard.runtime.start())
        self.node: Node = make_node(clock=self.clock, topics=self.topics, routing=Routing([self.shard]))
        self.dispatcher = Dispatcher(self.node, intercept, observer, caches=caches)
        self.answers: list[bytes] = []
        self.failed: list[CloseConnection] = []
        self.connect()

    def connect(self) -> None:
        self.requests = self.dispatcher.open(make_channel(), self)

    def answer(self, answer: Any) -> None:
        self.answers.append(bytes(answer))

    def request_decoded(self) -> None:
        """Do nothing: no memory is counted."""

    def part(self, data: bytes) -> None:
        self.answers.append(data)

    def mute(self, throttle_ms: int) -> None:
        """Do nothing: no connection is muted."""

    def fail(self, refused: CloseConnection) -> None:
        self.failed.append(refused)

    def ask(self, key: int, version: int, request: Any, correlation_id: int = 1) -> Any:
        """The message of the answer; None while there is no answer."""
        data = frames.request_frame(api(key), version, correlation_id, request, "me")
        before = len(self.answers)
        at_once = self.requests.handle(data, 4, len(data))
        if at_once is not None:
            self.answer(at_once)
        if len(self.answers) == before:
            return None
        return self.read(key, version, correlation_id)

    def read(self, key: int, version: int, correlation_id: int = 1) -> Any:
        answer = self.answers[-1]
        assert int.from_bytes(answer[:4], "big") == len(answer) - 4
        got, body = frames.decode_response_header(api(key), version, answer, 4, len(answer))
        assert got == correlation_id
        return api(key).decode_response(version, answer, body)

    def member(self, group: str = "g") -> str:
        """A member that is alone in its group, in generation 1."""
        request = JoinGroupRequest(
            group, 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")]
        )
        joined = self.ask(ApiKey.JOIN_GROUP, 3, request) or self._later(ApiKey.JOIN_GROUP, 3)
        self.ask(ApiKey.SYNC_GROUP, 3, SyncGroupRequest(group, 1, joined.member_id))
        return str(joined.member_id)

    def _later(self, key: int, version: int) -> Any:
        self.clock.advance(NO_DELAY_MS)
        return self.read(key, version)

    @property
    def met(self) -> bool:
        """Whether the last request was handled without decoding it."""
        return self.requests.cached is not None


def commit(
    *rows: tuple[str, int, int], version: int = 9, member: str = "", generation: int = -1, **more: Any
) -> OffsetCommitRequest:
    listed = [
        OffsetCommitRequestTopic(
            "" if version > 9 else name,
            IDS.get(name, b"?" * 16) if version > 9 else bytes(16),
            [OffsetCommitRequestPartition(partition, offset, -1, "")],
        )
        for name, partition, offset in rows
    ]
    return OffsetCommitRequest("g", generation, member, topics=listed, **more)
