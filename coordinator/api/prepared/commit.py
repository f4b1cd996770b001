"""Requests that a connection sends again and again: a member's heartbeats, its commits. What does not change of them is
read once; what they mean is decided anew each time, by the same shard and the same core.

`PREPARERS` has what can be made ready; everything else, and whatever is out of the ordinary, goes the usual way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.groups.membership import handle_heartbeat
from muster.coordinator.api.groups.offset_commit import handle_offset_commit, sort_out
from muster.coordinator.api.node import Node
from muster.coordinator.api.prepared.template import FrameTemplate, Run, runs_between
from muster.coordinator.api.registry import Handler
from muster.coordinator.groups.classic.heartbeat import WELL, GenerationMember
from muster.coordinator.groups.offsets.commit_template import CommitTemplate
from muster.coordinator.security.authorizer import Authorizer
from muster.protocol.message import Message
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.offset_commit import OffsetCommitRequest

if TYPE_CHECKING:
    from muster.coordinator.api.routes import Route
    from muster.coordinator.runtime.shard import Shard

Answer = bytes | list[bytes | memoryview]

NOT_PREPARED: Final = b""
"""Nothing was done: the request is to be handled as any other."""

MOST_ROWS: Final = 200
"""Larger commits are not made ready: the bytes kept for them would be too many, for what is saved."""
MOST_BYTES: Final = 16 * 1024
"""Nor are longer requests: names and metadata may have 32 KB each."""
_NUMBERS: Final = {12: "qi", 8: "q"}
"""What varies in a commit: an offset with its leader epoch, or (below v6) alone."""


class PreparedRequest(Protocol):
    """A request made ready. `size`: of its frame; `met`: it has come again."""

    size: int
    met: bool

    def take(self, data: bytes, start: int, requests: AskingConnection) -> Answer | None:
        """Look at a frame of `size` bytes in data[start:], and handle it when it is this one again.

        Returns its answer; None: that comes later; NOT_PREPARED.
        """


class AskingConnection(Protocol):
    """Whose request it is (`dispatch.ConnectionRequests`)."""

    current: Any
    sink: Any

    def open(self, route: Route, correlation: bytes) -> Callable[[Message], None]:
        """A request is at hand, of this kind, that is answered later: by what is returned."""

    def not_awaited(self, route: Route) -> None:
        """An answer came that nobody waits for."""


class PreparedHeartbeat:
    """A member's Heartbeat, word by word."""

    __slots__ = (
        "_after", "_authorizer", "_beating", "_before", "_head", "_permissions", "_route", "_shard", "_tail", "met",
        "size",
    )  # fmt: skip

    def __init__(
        self, authorizer: Authorizer, route: Route, frame: bytes, shard: Shard, beating: GenerationMember
    ) -> None:
        self.met = False
        self.size = len(frame)
        self._head, self._tail = route.head, frame[8:]
        self._authorizer, self._permissions = authorizer, authorizer.version
        self._route, self._shard, self._beating = route, shard, beating
        self._before, self._after = route.around_often(WELL)

    def take(self, data: bytes, start: int, requests: AskingConnection) -> Answer | None:
        """See `PreparedRequest`."""
        if (
            data[start + 8 : start + self.size] != self._tail
            or data[start : start + 4] != self._head
            or self._permissions != self._authorizer.version
        ):
            return NOT_PREPARED
        well = self._shard.beat(self._beating)
        if well is False:
            return NOT_PREPARED
        self.met = True
        correlation = data[start + 4 : start + 8]
        if well:
            return self._before + correlation + self._after
        self._shard.hold(requests.open(self._route, correlation), WELL)
        return None


def prepare_heartbeat(
    node: Node,
    route: Route,
    context: RequestContext,  # noqa: ARG001 - as all makers
    frame: bytes,
    body_at: int,
) -> PreparedHeartbeat | None:
    """None when it is none of a member of this generation."""
    request: HeartbeatRequest = route.decode(frame, body_at, len(frame))
    shard = node.routing.shard(request.group_id)
    beating = shard.beating(request)
    return None if beating is None else PreparedHeartbeat(node.authorizer, route, frame, shard, beating)


class PreparedCommit(FrameTemplate):
    """An OffsetCommit of topics and partitions that exist: its offsets and leader epochs may vary. Its connection has
    one request at a time, so it is also who is answered.
    """

    __slots__ = (
        "_after", "_authorizer", "_before", "_commit", "_correlation", "_image", "_no_epochs", "_permissions",
        "_requests", "_response", "_route", "_shard", "_topics", "met",
    )  # fmt: skip

    def __init__(
        self,
        node: Node,
        route: Route,
        frame: bytes,
        runs: Sequence[Run],
        shard: Shard,
        commit: CommitTemplate,
    ) -> None:
        super().__init__(frame, runs)
        self.met = False
        self._route = route
        self._authorizer, self._permissions = node.authorizer, node.authorizer.version
        self._topics, self._image = node.topics, node.topics.image
        self._shard, self._commit = shard, commit
        self._no_epochs = None if len(runs[0][1]) == 2 else (-1,) * len(runs)
        self._requests: Any = None
        self._correlation = b""
        self._response = commit.response
        self._before, self._after = route.around(commit.response)

    def take(self, data: bytes, start: int, requests: AskingConnection) -> Answer | None:
        """See `PreparedRequest`."""
        parts = self.match(data, start)
        if parts is None or self._topics.image is not self._image or self._permissions != self._authorizer.version:
            return NOT_PREPARED
        self.met = True
        self._correlation = data[start + 4 : start + 8]
        self._requests = requests
        requests.current = self
        if self._no_epochs is None:
            done = self._shard.commit_again(self._commit, parts[4::3], parts[5::3], self)
        else:
            done = self._shard.commit_again(self._commit, parts[3::2], self._no_epochs, self)
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
            requests.sink.answer(self._before + self._correlation + self._after)
        else:
            requests.open(self._route, self._correlation)(response)


def prepare_commit(
    node: Node, route: Route, context: RequestContext, frame: bytes, body_at: int
) -> PreparedCommit | None:
    """None when there is more to a commit than offsets: rows that are refused, tagged fields, offsets that expire."""
    served, version = route.api, route.version
    request: OffsetCommitRequest = served.decode_request(version, frame, body_at)
    count = _set_all(request, 0)
    encoded = frame[:body_at] + served.encode_request(version, request)
    _set_all(request, -1)
    runs = runs_between(encoded, frame[:body_at] + served.encode_request(version, request), _NUMBERS)
    if not 0 < count == len(runs) <= MOST_ROWS or len(encoded) != len(frame):
        return None
    if FrameTemplate(frame, runs).match(encoded, 0) is None:  # there is something in it that the encoder does not say
        return None
    request.topics, refused = sort_out(node, context, request.topics)
    shard = node.routing.shard(request.group_id)
    commit = None if refused else shard.prepare_commit(request)
    return None if commit is None else PreparedCommit(node, route, frame, runs, shard, commit)


def _set_all(request: OffsetCommitRequest, number: int) -> int:
    """Give every row this offset and leader epoch; how many rows there are."""
    rows = [row for topic in request.topics for row in topic.partitions]
    for row in rows:
        row.committed_offset = row.committed_leader_epoch = number
    return len(rows)


Preparer = Callable[[Node, "Route", RequestContext, bytes, int], PreparedRequest | None]
PREPARERS: Final[Mapping[Handler, Preparer]] = {
    handle_heartbeat: prepare_heartbeat,
    handle_offset_commit: prepare_commit,
}
"""By the handler that is spared: maker(node, route, context, frame, body_at); `frame` is without its size, and was
handled before.
"""


def prepare(node: Node, route: Route, context: RequestContext, frame: bytes, body_at: int) -> PreparedRequest | None:
    """Make a request ready that came before and may come again; None when that cannot be done."""
    if len(frame) > MOST_BYTES:
        return None
    try:
        return PREPARERS[route.handler](node, route, context, frame, body_at)
    except ValueError:
        # a form that cannot be taken for granted: other runs of numbers, or what the encoder does not say
        return None
