"""Requests that a client repeats with only some numbers changed: they are recognized by their bytes, without decoding.

Cached requests are requests that a connection sends again and again: heartbeats, and commits of the same partitions.

Such a request differs from the previous one in its correlation id. A commit also differs in offsets and leader epochs.
A request that has arrived twice is cached: the parts that do not change are decoded and looked up once. Later requests
are recognized by their bytes. A cached heartbeat takes a quarter of the instructions of an uncached one, a cached
commit half (`tests/budget`).

The dispatcher keeps `RepeatedRequests` for each such kind of request on a connection. They learn of each decoded
request. The connection's `CachedRequests` are found by their constant bytes. The dispatcher looks
there first. The cached request answers. Or it returns `NOT_CACHED` and has changed nothing: then the request is decoded
as usual. `Dispatcher(caches=False)` switches caching off.

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
- the observer: cached requests are counted, one by one (`registry.Repeats`), and some of them are timed.

`tests/coordinator/api/cached_requests/` proves equality. These tests play random histories on two nodes, one of them
without the cache. The tests compare each byte of answers, log and state, and also test each condition by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.exchange import RequestingConnection
from muster.coordinator.api.frame_layout import FrameLayout
from muster.coordinator.api.layers import Answer
from muster.coordinator.api.node import Node
from muster.coordinator.api.registry import Route
from muster.coordinator.security.authorizer import Operation, ResourceType

NOT_CACHED: Final = b""
"""The result when nothing was done: the request must be handled as any other request."""
MAX_BYTES: Final = 16 * 1024
"""The limit, in bytes, for all cached requests of one kind on a connection. One name or metadata may have 32 KB."""
MAX_CACHED: Final = 12
"""The most cached requests of one kind on a connection. A connection usually has one member, or a few."""


class CachedRequest(Protocol):
    """A repeated request, whose constant parts are known."""

    context: RequestContext
    route: Route
    was_repeated: bool
    """Whether an equal request has arrived since this request was cached."""

    @property
    def error_counts(self) -> Mapping[int, int]:
        """The error counts of the answer, for an observer; unused after `RequestingConnection.not_repeated`."""

    def handle(self, data: bytes, start: int, requests: RequestingConnection) -> Answer | None:
        """Handle a frame with this request's constant bytes. `requests.parts` has its numbers. A request that is
        answered without an error is counted in `route.repeats`.

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


def may_read_group(node: Node, context: RequestContext, group_id: str) -> bool:
    """Whether the client may read the group, which holds until `Authorizer.version` changes."""
    return node.authorizer.allows(context, Operation.READ, ResourceType.GROUP, group_id, log_denied=False)
