"""Commits that are decided without decoding, see `cached_requests`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from muster.coordinator.api.cached_requests import NOT_CACHED, Made, may_read_group
from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.exchange import RequestingConnection
from muster.coordinator.api.frame_layout import Run, layout_of, runs_between
from muster.coordinator.api.groups.offset_commit import existing_rows
from muster.coordinator.api.layers import Answer
from muster.coordinator.api.node import Node
from muster.coordinator.api.registry import Route
from muster.coordinator.groups.offsets.commit import CommitTemplate, commit_prepared
from muster.coordinator.runtime.figures import commits_of
from muster.coordinator.runtime.group_coordinator.shard import GroupShard
from muster.protocol.message import Message
from muster.protocol.messages.offset_commit import OffsetCommitRequest

MAX_ROWS: Final = 200
"""The most rows of a commit that is cached. The bytes of a larger commit would take too much memory."""
_NUMBERS: Final = {12: "qi", 8: "q"}
"""The types of the numbers in a commit's row: an offset and a leader epoch, or (below v6) an offset."""

_EPOCHS: Final = slice(5, None, 3)
"""The places of the leader epochs in the parts of a frame."""


class CachedCommit:
    """A cached OffsetCommit. All topics and partitions of the request exist. The answer is already known.

    This object is also the `Respond` of the request. With one more object on each connection, 1,000 connections that
    commit in turn use 6 % more CPU (`bench.scenarios.commits`).
    """

    __slots__ = (
        "_after_id", "_authorizer", "_before_id", "_clock", "_commit", "_commits", "_correlation", "_image",
        "_no_epochs", "_offsets", "_permissions", "_requests", "_response", "_rows", "_runtime", "_topics",
        "context", "route", "was_repeated",
    )  # fmt: skip

    def __init__(
        self,
        node: Node,
        route: Route,
        context: RequestContext,
        no_epochs: Sequence[int] | None,
        shard: GroupShard,
        commit: CommitTemplate,
    ) -> None:
        """`no_epochs`: the leader epochs of requests without that field (below v6), which are -1 for each row."""
        self.was_repeated = False
        self._response = commit.response
        self._no_epochs = no_epochs
        self._offsets = slice(4, None, 3) if no_epochs is None else slice(3, None, 2)
        self.route, self.context = route, context
        self._authorizer, self._permissions = node.authorizer, node.authorizer.version
        self._topics, self._image = node.topics, node.topics.image
        self._runtime, self._commit, self._clock = shard.runtime, commit, node.clock
        self._commits, self._rows = commits_of(shard.figures, commit.group_id), len(commit.rows)
        self._requests: Any = None
        self._correlation = b""
        self._before_id, self._after_id = route.around(commit.response)

    @property
    def error_counts(self) -> dict[int, int]:
        """See `CachedRequest`. No row has an error."""
        return {0: self._rows}

    def handle(self, data: bytes, start: int, requests: RequestingConnection) -> Answer | None:
        """See `CachedRequest`."""
        if self._topics.image is not self._image or self._permissions != self._authorizer.version:
            return NOT_CACHED
        commit, runtime = self._commit, self._runtime
        core = runtime.core
        if core is None:
            return NOT_CACHED
        parts, requests.parts = requests.parts, ()
        epochs = self._no_epochs or parts[_EPOCHS]
        rows = commit_prepared(
            core.state, commit, parts[self._offsets], epochs, self._clock.moment(), runtime.log.config.max_message_bytes
        )
        if rows is None:
            return NOT_CACHED
        self.was_repeated = True
        self._correlation = data[start + 4 : start + 8]
        self._requests = requests
        requests.current = self
        runtime.append(rows, commit.size, self, self._response)
        return None

    def __call__(self, response: Message) -> None:
        """Answer, unless the connection has ended."""
        requests = self._requests
        if requests.current is not self:
            requests.not_awaited(self.route)
        elif response is self._response:
            requests.current = None
            self.route.repeats.count += 1
            self._commits.offsets += self._rows
            requests.sink.answer(self._before_id + self._correlation + self._after_id)
        else:
            requests.not_repeated(self.route)
            requests.open(self.route, self._correlation)(response)


def cache_commit(node: Node, route: Route, context: RequestContext, frame: bytes, body: int) -> Made | None:
    """The cached commit. None when a commit has refused rows, tagged fields, or a retention time. Two encodings of the
    request, with all numbers 0 and all numbers -1, show the places of the numbers.
    """
    served, version = route.api, route.version
    request: OffsetCommitRequest = served.decode_request(version, frame, body)
    count = _set_all(request, 0)
    encoded = frame[:body] + served.encode_request(version, request)
    _set_all(request, -1)
    runs: list[Run] = runs_between(encoded, frame[:body] + served.encode_request(version, request), _NUMBERS)
    if not 0 < count == len(runs) <= MAX_ROWS or len(encoded) != len(frame):
        return None
    layout = layout_of(len(frame), tuple(runs))
    constants = layout.constants(frame)
    if layout.constants(encoded) != constants:  # the client has encoded the request in another way than the encoder
        return None
    if not may_read_group(node, context, request.group_id):
        return None
    request.topics, refused = existing_rows(node, context, request.topics)
    shard = node.routing.shard(request.group_id)
    commit = None if refused else shard.prepare_commit(request, context.api_version)
    if commit is None:
        return None
    no_epochs = None if len(runs[0][1]) == 2 else (-1,) * count
    return CachedCommit(node, route, context, no_epochs, shard, commit), constants, layout


def _set_all(request: OffsetCommitRequest, number: int) -> int:
    """Set the offset and leader epoch of every row to `number`. Returns the number of rows."""
    rows = [row for topic in request.topics for row in topic.partitions]
    for row in rows:
        row.committed_offset = row.committed_leader_epoch = number
    return len(rows)
