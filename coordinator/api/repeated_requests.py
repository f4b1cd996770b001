"""What a connection repeats: when a request is cached (`RepeatedRequests`), and how, by its API (`CACHES`)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from muster.coordinator.api.cached_commits import cache_commit
from muster.coordinator.api.cached_heartbeats import cache_consumer_heartbeat, cache_heartbeat, cache_streams_heartbeat
from muster.coordinator.api.cached_requests import MAX_BYTES, MAX_CACHED, CachedRequests, Made
from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.node import Node
from muster.coordinator.api.registry import Route
from muster.protocol.api import ApiKey

_MAX_AWAITED: Final = 1_024
"""The most equal requests that must arrive before the next attempt to cache a request."""


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
    ApiKey.HEARTBEAT: Cache(cache_heartbeat, _all_but_id),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Cache(cache_consumer_heartbeat, _all_but_id),
    ApiKey.STREAMS_GROUP_HEARTBEAT: Cache(cache_streams_heartbeat, _all_but_id),
    ApiKey.OFFSET_COMMIT: Cache(cache_commit, _size),
}
"""The APIs whose requests are cached."""


class _Repeated:
    """Requests that may be equal. `wanted`: how many of these precede the next attempt to cache a request.

    `cached`: the constant bytes of those that are cached.
    """

    __slots__ = ("cached", "count", "wanted")

    def __init__(self) -> None:
        self.cached: tuple[bytes, ...] = ()
        self.count, self.wanted = 0, 1


class RepeatedRequests:
    """Notes what a connection repeats of one route, whose API is in `CACHES`.

    A request is cached when an equal request has arrived before. Each cached request that was not repeated doubles the
    number of requests before the next attempt. So clients that never repeat themselves cost very little.
    """

    __slots__ = ("_bytes", "_cache", "_cached", "_context", "_repeated", "_route")

    def __init__(self, route: Route, context: RequestContext, cached: CachedRequests) -> None:
        """`cached`: the connection's cached requests, of all routes."""
        self._route = route
        self._context = context
        self._cache = CACHES[route.api.key]
        self._cached = cached
        self._bytes = 0
        self._repeated: dict[Hashable, _Repeated] = {}

    def handled(self, node: Node, data: bytes, start: int, body: int, end: int) -> None:
        """Note that a request was handled without a cache. The next request like it may be cached."""
        size = end - start
        if size > MAX_BYTES:
            return
        key = self._cache.key(data, start, end)
        repeated = self._repeated.get(key)
        if repeated is None:
            if len(self._repeated) >= MAX_CACHED:
                self._forget()
            self._count(size)
            self._repeated[key] = _Repeated()
            return
        repeated.count += 1
        was_repeated = self._was_repeated(repeated)
        if not was_repeated and repeated.count < repeated.wanted:
            return
        repeated.count = 0
        repeated.wanted = 1 if was_repeated else min(repeated.wanted * 2, _MAX_AWAITED)
        with suppress(ValueError):  # the frame is unusual: other runs of numbers, or bytes that no encoder writes
            made = self._cache.make(node, self._route, self._context, data[start:end], body - start)
            if made is None:
                return
            constants = made[1]
            if constants not in repeated.cached:
                if len(repeated.cached) >= MAX_CACHED:
                    self._forget()
                elif repeated.cached:
                    self._count(size)
                self._repeated[key] = repeated
                repeated.cached += (constants,)
            self._cached.keep(made, size)

    def _was_repeated(self, repeated: _Repeated) -> bool:
        """Whether a request was answered from the cache since the last call."""
        found = False
        for constants in repeated.cached:
            cached = self._cached.get(constants)
            if cached is not None:
                found = found or cached.was_repeated
                cached.was_repeated = False
        return found

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._bytes > MAX_BYTES:
            self._forget()
            self._bytes = size

    def _forget(self) -> None:
        for repeated in self._repeated.values():
            for constants in repeated.cached:
                self._cached.remove(constants)
            repeated.cached = ()
        self._repeated.clear()
        self._bytes = 0
