"""Requests that a client repeats with only some numbers changed: they are recognized by their bytes, without decoding.

A `FrameLayout` has the places of the numbers that may vary. Every other byte but the correlation id must be equal. Then
a frame would decode to the same message with other numbers.

Cached requests are requests that a connection sends again and again: heartbeats, and commits of the same partitions.

Such a request differs from the previous one in its correlation id. A commit also differs in offsets and leader epochs.
A request that has arrived twice is cached: the parts that do not change are decoded and looked up once. Later requests
are recognized by their bytes. A cached heartbeat takes a quarter of the instructions of an uncached one, a cached
commit half (`tests/budget`).

The dispatcher keeps one `ConnectionRoute` for each kind of request on a connection, and reports each decoded request to
it. The connection's `CachedRequests` are found by their constant bytes. The dispatcher looks there first. The cached
request answers. Or it returns `NOT_CACHED` and has changed nothing: then the request is decoded as usual.
`Dispatcher(caches=False)` switches caching off.

**What may be skipped**, since equal bytes give equal results:
- to decode the request and to build its message;
- to look up the shard, group, member and topics by name, while the same objects are in force;
- to build and encode the answer, when it is the expected one;
- to encode the bytes of a record that do not vary.

**What may never be skipped**, whatever its cost:
- the decision: the state machine decides about each request again, with the same rules (`GenerationMember.heartbeat`,
  `SteadyMember.heartbeat`, `commit_prepared`). Unusual requests are decoded as usual;
- permission: the version of the permissions is compared with the version when the request was cached;
- the topics: a commit is cached for one image of the topics;
- leadership: the shard is asked each time whether it is active; records get the present leader epoch;
- durability: answers wait for the log;
- order: records use the same batches, and a connection has one request at a time;
- the interceptor: a request that the interceptor wants is decoded as usual;
- the observer: an observer also gets cached requests.

`tests/coordinator/api/cached_requests/` proves equality. These tests play random histories on two nodes, one of them
without the cache. The tests compare each byte of answers, log and state, and also test each condition by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from struct import Struct
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.exchange import RequestingConnection
from muster.coordinator.api.groups.offset_commit import existing_rows
from muster.coordinator.api.layers import Answer
from muster.coordinator.api.node import Node
from muster.coordinator.api.registry import Route
from muster.coordinator.groups.classic.sessions import SUCCESS, GenerationMember
from muster.coordinator.groups.offsets.commit import CommitTemplate, commit_prepared
from muster.coordinator.runtime.group_coordinator.shard import GroupShard
from muster.coordinator.security.authorizer import Operation, ResourceType
from muster.protocol.api import ApiKey
from muster.protocol.message import Message
from muster.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.protocol.messages.offset_commit import OffsetCommitRequest

if TYPE_CHECKING:
    from muster.coordinator.groups.consumer.heartbeat import SteadyMember

Run = tuple[int, str]
"""The place in a frame where varying numbers begin, and their types: `struct` codes, big-endian."""

_ID_AT: Final = 4
"""The place of the correlation id in a frame: after API key and version."""
_ID: Final = {1: "4s", 2: "2s2s"}
"""The types of the correlation id, by the number of numbers in a run. The id is cut into as many parts as a run."""
_VARIED: Final = re.compile(b"\xff+")


class FrameLayout:
    """The places of the numbers that may vary in frames of one size. All other bytes but the correlation id are
    constant. Connections share layouts (`layout_of`).
    """

    __slots__ = ("every", "size", "unpack")

    def __init__(self, size: int, runs: Sequence[Run]) -> None:
        """`runs`: one or more runs after the header, in order, at least a byte apart. Raises ValueError unless all runs
        have the same one or two codes.
        """
        kinds = {codes for _, codes in runs}
        codes = kinds.pop() if len(kinds) == 1 else ""
        if len(codes) not in _ID:
            raise ValueError("the runs must all have the same one or two types")
        self.size = size
        layout, at = ">", 0
        for where, what in ((_ID_AT, _ID[len(codes)]), *runs):
            layout += f"{where - at}s{what}"
            at = where + Struct(f">{what}").size
        layout += f"{size - at}s"
        self.unpack: Callable[[bytes, int], tuple[Any, ...]] = Struct(layout).unpack_from
        """The parts of a frame. Constant bytes and the numbers of a run alternate. The first run is the correlation id.
        """
        self.every = len(codes) + 1
        """Each part with this distance is constant."""

    def constants(self, frame: bytes) -> bytes:
        """The constant bytes of a frame. Frames with equal constants differ only in their numbers."""
        return b"".join(self.unpack(frame, 0)[:: self.every])


@lru_cache(maxsize=1_000)
def layout_of(size: int, runs: tuple[Run, ...]) -> FrameLayout:
    """The shared layout, see `FrameLayout`."""
    return FrameLayout(size, runs)


def runs_between(low: bytes, high: bytes, codes: dict[int, str]) -> list[Run]:
    """The runs in which `low` (numbers: 0) and `high` (-1) differ. `codes`: by length in bytes. Raises ValueError."""
    if len(low) != len(high):
        raise ValueError("the encodings are not of one length")
    difference = int.from_bytes(low, "big") ^ int.from_bytes(high, "big")
    runs: list[Run] = []
    for found in _VARIED.finditer(difference.to_bytes(len(low), "big")):
        code = codes.get(found.end() - found.start())
        if code is None:
            raise ValueError(f"{found.end() - found.start()} bytes vary at {found.start()}")
        runs.append((found.start(), code))
    return runs


NOT_CACHED: Final = b""
"""The result when nothing was done: the request must be handled as any other request."""
MAX_BYTES: Final = 16 * 1024
"""The limit, in bytes, for all cached requests of one kind on a connection. One name or metadata may have 32 KB."""
MAX_CACHED: Final = 12
"""The most cached requests of one kind on a connection. A connection usually has one member, or a few."""
MAX_ROWS: Final = 200
"""The most rows of a commit that is cached. The bytes of a larger commit would take too much memory."""
_NUMBERS: Final = {12: "qi", 8: "q"}
"""The types of the numbers in a commit's row: an offset and a leader epoch, or (below v6) an offset."""

_EPOCHS: Final = slice(5, None, 3)
"""The places of the leader epochs in the parts of a frame."""


class CachedRequest(Protocol):
    """A repeated request, whose constant parts are known."""

    context: RequestContext
    route: Route
    was_repeated: bool
    """Whether an equal request has arrived since this request was cached."""

    @property
    def error_counts(self) -> Mapping[int, int]:
        """The error counts of the answer, for an observer; unused when `RequestingConnection.open` answers."""

    def handle(self, data: bytes, start: int, requests: RequestingConnection) -> Answer | None:
        """Handle a frame with this request's constant bytes. `requests.parts` has its numbers.

        Returns the answer, None (the answer follows later) or NOT_CACHED.
        """


Made = tuple[CachedRequest, bytes, FrameLayout | None]
"""A cached request, its constant bytes, and the layout of its frame; None means that no number varies."""


class CachedRequests:
    """The cached requests of one connection, in tables. `sizes`: the sizes of their frames, in bytes.

    A frame is looked up in `exact` by all bytes behind its correlation id. Otherwise `layouts` has the layout of frames
    of its size, and `numbered` the requests by their constant bytes.
    """

    __slots__ = ("exact", "layouts", "numbered", "sizes")

    def __init__(self) -> None:
        self.sizes: set[int] = set()
        self.exact: dict[bytes, CachedRequest] = {}
        self.layouts: dict[int, FrameLayout] = {}
        self.numbered: dict[bytes, CachedRequest] = {}

    def keep(self, made: Made, size: int) -> None:
        """Keep a request whose frames have `size` bytes. Another layout of this size is not used any more."""
        cached, constants, layout = made
        if len(self.sizes) >= 4 * MAX_CACHED:
            self.clear()
        self.sizes.add(size)
        if layout is None:
            self.exact[constants] = cached
        else:
            self.layouts[size] = layout
            self.numbered[constants] = cached

    def get(self, constants: bytes) -> CachedRequest | None:
        """The request with these constant bytes, if it is cached."""
        return self.exact.get(constants) or self.numbered.get(constants)

    def remove(self, constants: bytes) -> None:
        """Forget the request with these constant bytes, and the layout if it is the last one."""
        self.exact.pop(constants, None)
        self.numbered.pop(constants, None)
        if not self.numbered:
            self.layouts.clear()

    def clear(self) -> None:
        """Forget all requests."""
        self.sizes.clear()
        for table in (self.exact, self.layouts, self.numbered):
            table.clear()


# ---- heartbeats


class CachedHeartbeat:
    """A heartbeat of a member. Only the correlation id varies."""

    __slots__ = (
        "_after_id", "_authorizer", "_before_id", "_clock", "_head", "_member", "_permissions", "_response", "_runtime",
        "context", "route", "was_repeated",
    )  # fmt: skip

    error_counts: ClassVar[Mapping[int, int]] = MappingProxyType({0: 1})

    def __init__(
        self,
        node: Node,
        route: Route,
        context: RequestContext,
        shard: GroupShard,
        member: GenerationMember | SteadyMember,
        response: Message,
    ) -> None:
        """`response`: the answer to each of these requests."""
        self.was_repeated = False
        self.route, self.context, self._head = route, context, route.head
        self._authorizer, self._permissions = node.authorizer, node.authorizer.version
        self._runtime, self._member, self._clock = shard.runtime, member, node.clock
        self._response = response
        self._before_id, self._after_id = route.around(response)

    def handle(self, data: bytes, start: int, requests: RequestingConnection) -> Answer | None:
        """See `CachedRequest`. The key has no head: the version may differ."""
        runtime = self._runtime
        if (
            not data.startswith(self._head, start)
            or self._permissions != self._authorizer.version
            or runtime.core is None
            or not self._member.heartbeat(self._clock.mono_ms())
        ):
            return NOT_CACHED
        self.was_repeated = True
        if runtime.queue.batches or runtime.replies.parked:
            runtime.hold(requests.open(self.route, data[start + 4 : start + 8]), self._response)
            return None
        return self._before_id + data[start + 4 : start + 8] + self._after_id


def _cache_heartbeat(node: Node, route: Route, context: RequestContext, frame: bytes, body: int) -> Made | None:
    """The cached heartbeat. None unless the sender is a permitted member of the group's generation."""
    request: HeartbeatRequest = route.decode(frame, body, len(frame))
    if not _may_read_group(node, context, request.group_id):
        return None
    shard = node.routing.shard(request.group_id)
    member = shard.prepare_heartbeat(request)
    return None if member is None else (CachedHeartbeat(node, route, context, shard, member, SUCCESS), frame[8:], None)


def _cache_consumer_heartbeat(
    node: Node, route: Route, context: RequestContext, frame: bytes, body: int
) -> Made | None:
    """The cached heartbeat. None unless the sender is permitted, owns its target assignment, and changes nothing."""
    # imported late: the first heartbeat of a consumer group has loaded the module
    from muster.coordinator.api.groups.consumer_groups import may_send_heartbeat

    request: ConsumerGroupHeartbeatRequest = route.decode(frame, body, len(frame))
    if not may_send_heartbeat(node, context, request, log_denied=False):
        return None
    shard = node.routing.shard(request.group_id)
    member = shard.prepare_consumer_heartbeat(request, context.client)
    if member is None:
        return None
    return CachedHeartbeat(node, route, context, shard, member, member.response), frame[8:], None


# ---- commits


class CachedCommit:
    """A cached OffsetCommit. All topics and partitions of the request exist. The answer is already known.

    This object is also the `Respond` of the request. With one more object on each connection, 1,000 connections that
    commit in turn use 6 % more CPU (`bench.scenarios.commits`).
    """

    __slots__ = (
        "_after_id", "_authorizer", "_before_id", "_clock", "_commit", "_correlation", "_image", "_no_epochs",
        "_offsets", "_permissions", "_requests", "_response", "_runtime", "_topics", "context", "route", "was_repeated",
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
        self._requests: Any = None
        self._correlation = b""
        self._before_id, self._after_id = route.around(commit.response)

    @property
    def error_counts(self) -> dict[int, int]:
        """See `CachedRequest`. No row has an error."""
        return {0: len(self._commit.rows)}

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
            requests.sink.answer(self._before_id + self._correlation + self._after_id)
        else:
            requests.open(self.route, self._correlation)(response)


def _cache_commit(node: Node, route: Route, context: RequestContext, frame: bytes, body: int) -> Made | None:
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
    if not _may_read_group(node, context, request.group_id):
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


def _may_read_group(node: Node, context: RequestContext, group_id: str) -> bool:
    """Whether the client may read the group, which holds until `Authorizer.version` changes."""
    return node.authorizer.allows(context, Operation.READ, ResourceType.GROUP, group_id, log_denied=False)


class Cache(NamedTuple):
    """How the requests of one API are cached."""

    make: Callable[[Node, Route, RequestContext, bytes, int], Made | None]
    """Caches a request, if possible. The frame (bytes) is without its size. Last argument: the place of the body."""
    key: Callable[[bytes, int, int], Hashable]
    """A function of a frame in data[start:end]. Frames of one cached request have equal results; others may too."""


def _all_but_id(data: bytes, start: int, end: int) -> bytes:
    """The bytes after the correlation id, which are constant in a heartbeat."""
    return data[start + 8 : end]


def _size(data: bytes, start: int, end: int) -> int:  # noqa: ARG001  # as any `Cache.key`
    """The size of the frame, which is constant while only numbers vary."""
    return end - start


CACHES: Final[Mapping[int, Cache]] = {
    ApiKey.HEARTBEAT: Cache(_cache_heartbeat, _all_but_id),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Cache(_cache_consumer_heartbeat, _all_but_id),
    ApiKey.OFFSET_COMMIT: Cache(_cache_commit, _size),
}
"""The APIs whose requests are cached."""
