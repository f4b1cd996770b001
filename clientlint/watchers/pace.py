"""How fast a client asks: against a throttle time, again after an error, and for metadata."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

from muster.clientlint.calls import KNOWN_MS, Call, Certainty, Connection
from muster.clientlint.watcher import MAX_ROWS, Broken, Kept, Watcher, broken, named, seconds
from muster.protocol.api import ApiKey
from muster.protocol.errors import is_retriable

THROTTLED_SINCE: Final[Mapping[int, int]] = {
    ApiKey.PRODUCE: 6, ApiKey.FETCH: 8, ApiKey.LIST_OFFSETS: 3, ApiKey.METADATA: 6, ApiKey.OFFSET_COMMIT: 4,
    ApiKey.OFFSET_FETCH: 4, ApiKey.FIND_COORDINATOR: 2, ApiKey.JOIN_GROUP: 3, ApiKey.HEARTBEAT: 2,
    ApiKey.LEAVE_GROUP: 2, ApiKey.SYNC_GROUP: 2, ApiKey.DESCRIBE_GROUPS: 2, ApiKey.LIST_GROUPS: 2,
    ApiKey.API_VERSIONS: 2, ApiKey.CREATE_TOPICS: 3, ApiKey.DELETE_TOPICS: 2, ApiKey.DELETE_RECORDS: 1,
    ApiKey.INIT_PRODUCER_ID: 1, ApiKey.ADD_PARTITIONS_TO_TXN: 1, ApiKey.ADD_OFFSETS_TO_TXN: 1, ApiKey.END_TXN: 1,
    ApiKey.TXN_OFFSET_COMMIT: 1, ApiKey.DESCRIBE_CONFIGS: 2,
}  # fmt: skip
"""The first version of each API whose client waits by itself for the throttle time (KIP-219)."""
_SURE_TIMES: Final = 3


class _Wait:
    """A connection that has to wait."""

    __slots__ = ("ms", "since_ms", "times")

    def __init__(self) -> None:
        self.ms = self.since_ms = self.times = 0


class Throttles(Watcher):
    """Requests within a throttle time that the client knew.

    A broker with quotas does not read such requests before their time, so that they are seen with faults only.
    """

    def __init__(self) -> None:
        self._waits: Kept[int, _Wait] = Kept()

    def asked(self, call: Call) -> Iterator[Broken]:
        """See `Watcher`."""
        wait = self._waits.find(call.connection.number) if len(self._waits) else None
        if wait is None:
            return
        after_ms = call.sent_ms - wait.since_ms
        if KNOWN_MS <= after_ms < wait.ms - KNOWN_MS:
            wait.times += 1
            sure = Certainty.SURE if wait.times >= _SURE_TIMES else Certainty.PERHAPS
            words = f"{call.api} {seconds(after_ms)} after an answer with throttle_time_ms={wait.ms}"
            yield broken("throttle-ignored", call, words, sure)

    def answered(self, call: Call) -> Iterator[Broken]:
        """See `Watcher`."""
        ms = getattr(call.answer, "throttle_time_ms", 0)
        if ms > KNOWN_MS and call.version >= THROTTLED_SINCE.get(call.api_key, 0):
            wait = self._waits.make(call.connection.number, _Wait)
            if call.answered_ms + ms > wait.since_ms + wait.ms:
                wait.ms, wait.since_ms = ms, call.answered_ms
        yield from ()

    def closed(self, connection: Connection) -> None:
        """See `Watcher`."""
        self._waits.drop(connection.number)


SOON_MS: Final = 20
"""A request within this time after the refusal of the same request is a retry without a back-off."""
RETRIES: Final = 10
PIPELINED_RETRIES: Final = 100
"""The limit for Produce and Fetch: a client may have several of these in flight."""
_PIPELINED: Final = (ApiKey.PRODUCE, ApiKey.FETCH)


class _Row:
    """Refusals in a row of one API on one connection. `what`: what was asked, by `_what`."""

    __slots__ = ("count", "error", "first_ms", "last_ms", "what")

    def __init__(self) -> None:
        self.count = self.error = self.first_ms = self.last_ms = 0
        self.what: tuple[object, ...] = ()


class Retries(Watcher):
    """Requests that are sent again at once, again and again, although their error asks for a retry later."""

    def __init__(self) -> None:
        self._rows: Kept[tuple[int, int], _Row] = Kept()

    def answered(self, call: Call) -> Iterator[Broken]:
        """See `Watcher`."""
        key = call.connection.number, call.api_key
        error = call.error
        if not is_retriable(error):
            if len(self._rows):
                self._rows.drop(key)
            return
        row = self._rows.make(key, _Row)
        what = _what(call)
        if (row.error, row.what) == (error, what) and call.asked_ms - row.last_ms <= SOON_MS:
            row.count += 1
        else:
            row.count, row.error, row.first_ms, row.what = 1, error, call.asked_ms, what
        row.last_ms = call.answered_ms
        limit = PIPELINED_RETRIES if call.api_key in _PIPELINED else RETRIES
        if row.count == limit:
            words = f"{limit} requests in {seconds(call.answered_ms - row.first_ms)}, each answered {named(error)}"
            yield broken("retry-without-backoff", call, words, Certainty.SURE)


def _what(call: Call) -> tuple[object, ...]:
    """What a request asks for: its ids and names. A program that asks for many things in turn does not retry."""
    if call.api_key in _PIPELINED:
        return ()
    request = call.request
    found: list[object] = []
    for name in request.__slots__:
        value = getattr(request, name)
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += [_named(row) for row in value[:FEW_ROWS]]
    return tuple(found)


def _named(row: Any) -> object:
    if isinstance(row, str):
        return row
    names = [getattr(row, one) for one in ("name", "group_id", "transactional_id") if hasattr(row, one)]
    return next(filter(None, names), None)


FEW_ROWS: Final = 20
"""The rows whose names say what a request asks for."""
STORM: Final = 20
STORM_MS: Final = 1_000


class MetadataRequests(Watcher):
    """The same Metadata request many times within a second on one connection."""

    apis = (ApiKey.METADATA,)

    def __init__(self) -> None:
        self._asked: Kept[int, tuple[Any, deque[int]]] = Kept()

    def asked(self, call: Call) -> Iterator[Broken]:
        """See `Watcher`."""
        topics = call.request.topics
        what = None if topics is None else tuple((row.topic_id, row.name) for row in topics[:MAX_ROWS])
        known = self._asked.find(call.connection.number)
        if known is None or known[0] != what:
            self._asked.put(call.connection.number, (what, deque([call.asked_ms], maxlen=STORM)))
            return
        times = known[1]
        times.append(call.asked_ms)
        lasted_ms = call.asked_ms - times[0]
        if len(times) == STORM and lasted_ms <= STORM_MS:
            times.clear()
            named_topics = "all topics" if what is None else f"{len(what)} topics" if len(what) != 1 else "one topic"
            words = f"{STORM} Metadata requests for the same topics ({named_topics}) in {seconds(lasted_ms)}"
            # a program that asks for the topics in a loop looks the same
            yield broken("metadata-storm", call, words, Certainty.PERHAPS)

    def closed(self, connection: Connection) -> None:
        """See `Watcher`."""
        self._asked.drop(connection.number)
