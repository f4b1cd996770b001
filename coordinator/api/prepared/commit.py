"""A cached OffsetCommit. Only its correlation id, its offsets and its leader epochs vary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.exchange import RequestingConnection
from muster.coordinator.api.groups.offset_commit import sort_out
from muster.coordinator.api.node import Node
from muster.coordinator.api.prepared.request import NOT_PREPARED, may_read_group
from muster.coordinator.api.prepared.template import FrameTemplate, Run, runs_between
from muster.coordinator.api.routes import Route
from muster.coordinator.api.sink import Answer
from muster.coordinator.groups.offsets.commit import CommitTemplate
from muster.coordinator.runtime.group_coordinator.shard import GroupShard
from muster.protocol.message import Message
from muster.protocol.messages.offset_commit import OffsetCommitRequest

MOST_ROWS: Final = 200
"""Larger commits are not cached: their bytes would take too much memory for what they save."""
_NUMBERS: Final = {12: "qi", 8: "q"}
"""The fields that vary in a commit: an offset with its leader epoch, or (below v6) an offset alone."""


class PreparedCommit(FrameTemplate):
    """See `PreparedRequest`. All its topics and partitions exist.

    It is also the `Respond` of its request: a connection has one request at a time. The answer is already known. It is
    also its own template. With two objects on each connection, 1,000 connections that commit in turn use 6 % more CPU
    (`bench.scenarios.commits`).
    """

    __slots__ = (
        "_after_id", "_authorizer", "_before_id", "_commit", "_correlation", "_image", "_no_epochs", "_permissions",
        "_requests", "_response", "_route", "_shard", "_topics", "was_repeated",
    )  # fmt: skip

    def __init__(
        self, node: Node, route: Route, frame: bytes, runs: Sequence[Run], no_epochs: Sequence[int] | None,
        shard: GroupShard, commit: CommitTemplate,
    ) -> None:  # fmt: skip
        """`no_epochs`: the leader epochs of requests without that field (below v6), which are -1 for each row."""
        super().__init__(frame, runs)
        self.was_repeated = False
        self._response = commit.response
        self._no_epochs = no_epochs
        self._route = route
        self._authorizer, self._permissions = node.authorizer, node.authorizer.version
        self._topics, self._image = node.topics, node.topics.image
        self._shard, self._commit = shard, commit
        self._requests: Any = None
        self._correlation = b""
        self._before_id, self._after_id = route.around(commit.response)

    @property
    def error_counts(self) -> dict[int, int]:
        """No row has an error."""
        return {0: len(self._commit.rows)}

    def handle(self, data: bytes, start: int, requests: RequestingConnection) -> Answer | None:
        """See `PreparedRequest`."""
        parts = self.match(data, start)
        if parts is None or self._topics.image is not self._image or self._permissions != self._authorizer.version:
            return NOT_PREPARED
        self.was_repeated = True
        self._correlation = data[start + 4 : start + 8]
        self._requests = requests
        requests.current = self
        if self._no_epochs is None:
            done = self._shard.prepared_commit(self._commit, parts[4::3], parts[5::3], self)
        else:
            done = self._shard.prepared_commit(self._commit, parts[3::2], self._no_epochs, self)
        if done:
            return None
        requests.current = None
        return NOT_PREPARED

    def __call__(self, response: Message) -> None:
        """Answer, unless the connection has ended."""
        requests = self._requests
        if requests.current is not self:
            requests.not_awaited(self._route)
        elif response is self._response:
            requests.current = None
            requests.sink.answer(self._before_id + self._correlation + self._after_id)
        else:
            requests.open(self._route, self._correlation)(response)


def prepare_commit(node: Node, route: Route, context: RequestContext, frame: bytes, body: int) -> PreparedCommit | None:
    """None when a commit has more than offsets: refused rows, tagged fields, or offsets with a retention time.

    The places of the numbers are found by encoding the request twice. All numbers are 0 in one encoding and -1 in the
    other.
    """
    served, version = route.api, route.version
    request: OffsetCommitRequest = served.decode_request(version, frame, body)
    count = _set_all(request, 0)
    encoded = frame[:body] + served.encode_request(version, request)
    _set_all(request, -1)
    runs: list[Run] = runs_between(encoded, frame[:body] + served.encode_request(version, request), _NUMBERS)
    if not 0 < count == len(runs) <= MOST_ROWS or len(encoded) != len(frame):
        return None
    template = FrameTemplate(frame, runs)
    if template.match(encoded, 0) is None:  # the frame has bytes that the encoder does not write
        return None
    if not may_read_group(node, context, request.group_id):
        return None
    request.topics, refused = sort_out(node, context, request.topics)
    shard = node.routing.shard(request.group_id)
    commit = None if refused else shard.prepare_commit(request, context.api_version)
    if commit is None:
        return None
    no_epochs = None if len(runs[0][1]) == 2 else (-1,) * count
    return PreparedCommit(node, route, frame, runs, no_epochs, shard, commit)


def _set_all(request: OffsetCommitRequest, number: int) -> int:
    """Give every row this offset and leader epoch. Returns the number of rows."""
    rows = [row for topic in request.topics for row in topic.partitions]
    for row in rows:
        row.committed_offset = row.committed_leader_epoch = number
    return len(rows)
