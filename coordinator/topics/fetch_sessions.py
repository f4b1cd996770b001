"""Incremental fetch sessions (KIP-227), as Kafka's FetchManager, FetchSession and FetchSessionCacheShard. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from muster.protocol.errors import ErrorCode

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MAX_EPOCH = 2**31 - 1
EVICTION_MS = 120_000
"""The age at which a larger session may get a session's slot (Kafka's MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS)."""

MAX_BYTES = 64 << 20
"""The limit of memory for all sessions. Kafka limits only the number of sessions; each may name 250,000 partitions."""
MAX_SESSION_BYTES = MAX_BYTES // 4
ROW_BYTES = 400

Key = tuple[str, bytes, int]
"""Topic name ("" when the request names topics by id), topic id (zeros when by name), partition."""


@dataclass(slots=True, eq=False)
class FetchRow:
    """One partition that a reader asks for, and the last answer about the partition (Kafka's CachedPartition)."""

    key: Key
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    high_watermark: int = field(default=-1, init=False)
    log_start_offset: int = field(default=-1, init=False)
    topic: str | None = field(default=None, init=False)
    """The present or last name of the topic with the key's id."""

    def ask(self, other: FetchRow) -> None:
        """Take the reader's newest offsets and limits from the row of a later request."""
        self.fetch_offset = other.fetch_offset
        self.max_bytes = other.max_bytes
        self.current_leader_epoch = other.current_leader_epoch
        self.last_fetched_epoch = other.last_fetched_epoch

    def note_answer(self, error_code: int, high_watermark: int, log_start_offset: int, worth: bool) -> bool:
        """Note what the answer reports. Returns whether the answer must have this row. `worth`: the row has records."""
        must = worth or error_code != 0
        if high_watermark != self.high_watermark:
            self.high_watermark = high_watermark
            must = True
        if log_start_offset != self.log_start_offset:
            self.log_start_offset = log_start_offset
            must = True
        if error_code:
            self.high_watermark = -1
        return must


def bytes_of(rows: Iterable[FetchRow]) -> int:
    """The bytes of the rows of a request, which has the name of a topic once for all its rows."""
    size, last = 0, ""
    for row in rows:
        name = row.key[0]
        size += ROW_BYTES
        if name is not last:
            size += len(name) if name.isascii() else 4 * len(name)
            last = name
    return size


class FetchSession:
    """The partitions of one reader, in the order in which they are served."""

    __slots__ = ("bytes", "cached_size", "created_ms", "epoch", "rows", "session_id", "used_ms", "uses_topic_ids")

    def __init__(self, session_id: int, uses_topic_ids: bool, rows: Sequence[FetchRow], now_ms: int) -> None:
        self.bytes = bytes_of(rows)
        self.session_id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.rows = {row.key: row for row in rows}
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.created_ms = self.used_ms = now_ms
        self.cached_size = len(self.rows)

    def update(self, rows: Iterable[FetchRow], forgotten: Iterable[Key]) -> None:
        """Add, change and forget partitions as an incremental request says."""
        known, new = self.rows, []
        for row in rows:
            old = known.get(row.key)
            if old is None:
                known[row.key] = row
                new.append(row)
            else:
                old.ask(row)
        for key in forgotten:
            known.pop(key, None)
        if new or forgotten:
            self.bytes = bytes_of(known.values()) if forgotten else self.bytes + bytes_of(new)

    def serve_last(self, key: Key) -> None:
        """Move a partition that had records to the end, so that one busy partition starves no other."""
        row = self.rows.pop(key, None)
        if row is not None:
            self.rows[key] = row


def may_have_session(rows: int) -> bool:
    """Whether the memory limit allows a session with these partitions."""
    return rows * ROW_BYTES <= MAX_SESSION_BYTES


def next_epoch(epoch: int) -> int:
    """The epoch after `epoch`. After the largest epoch follows 1, because 0 asks for a new session."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == MAX_EPOCH else epoch + 1


class FetchContext:
    """How one Fetch request is served. `error_code`: the error of the whole request, which then has no rows."""

    __slots__ = ("_session", "_wanted_epoch", "error_code", "incremental", "rows", "wants_session")

    def __init__(
        self,
        rows: Sequence[FetchRow],
        *,
        session: FetchSession | None = None,
        wants_session: bool = False,
        error_code: int = 0,
    ) -> None:
        self.rows = rows
        self.error_code = error_code
        self.wants_session = wants_session
        self.incremental = session is not None
        self._session = session
        self._wanted_epoch = session.epoch if session is not None else INITIAL_EPOCH

    @property
    def session_id(self) -> int:
        """The session id for the answer of an incremental request, else 0."""
        return NO_SESSION if self._session is None else self._session.session_id

    def overtaken(self) -> bool:
        """Whether another request used the session while this request was parked (INVALID_FETCH_SESSION_EPOCH)."""
        return self._session is not None and self._session.epoch != self._wanted_epoch

    def note_records(self, row: FetchRow) -> None:
        """Note that `row` was answered with records."""
        if self._session is not None:
            self._session.serve_last(row.key)


class FetchSessions:
    """All sessions of this node: at most `slots` of them, with `MAX_BYTES` together."""

    __slots__ = ("_by_id", "_bytes", "_draw_id", "_slots")

    def __init__(self, slots: int, draw_id: Callable[[], int]) -> None:
        """`slots`: max.incremental.fetch.session.cache.slots. `draw_id`: returns a random id in 1 .. 2^31-1."""
        self._slots = slots
        self._draw_id = draw_id
        self._bytes = 0
        self._by_id: dict[int, FetchSession] = {}
        """The least recently used session is the first."""

    def find(self, session_id: int) -> FetchSession | None:
        """The session of an id, if it is kept."""
        return self._by_id.get(session_id)

    def __len__(self) -> int:
        return len(self._by_id)

    def open(
        self,
        session_id: int,
        epoch: int,
        rows: Sequence[FetchRow],
        forgotten: Sequence[Key],
        uses_topic_ids: bool,
        now_ms: int,
    ) -> FetchContext:
        """The context of a request (FetchManager.newContext)."""
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session_id != NO_SESSION:
                self._end(session_id)
            return FetchContext(rows, wants_session=epoch == INITIAL_EPOCH)
        session = self._by_id.get(session_id)
        if session is None:
            return FetchContext((), error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            return FetchContext((), error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            return FetchContext((), error_code=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        if rows or forgotten:
            before = session.bytes
            session.update(rows, forgotten)
            self._bytes += session.bytes - before
            if session.bytes > MAX_SESSION_BYTES or self._bytes > MAX_BYTES:
                # the session ends, as if evicted: the reader names all its partitions, and continues without a session
                self._end(session_id)
                return FetchContext((), error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if not session.rows:
            self._end(session_id)
            return FetchContext(rows)
        self._touch(session, now_ms)
        session.epoch = next_epoch(epoch)
        return FetchContext(list(session.rows.values()), session=session)

    def create(self, rows: Sequence[FetchRow], uses_topic_ids: bool, now_ms: int) -> int:
        """Create a session; return its id, or 0 when no slot or memory is free."""
        if not may_have_session(len(rows)):
            return NO_SESSION
        size = bytes_of(rows)
        if self._slots <= 0 or size > MAX_SESSION_BYTES or not self._find_bytes(size, now_ms):
            return NO_SESSION
        if len(self._by_id) >= self._slots and not self._evict_for(len(rows), now_ms):
            return NO_SESSION
        session_id = self._draw_id()
        while session_id == NO_SESSION or session_id in self._by_id:
            session_id = self._draw_id()
        self._by_id[session_id] = session = FetchSession(session_id, uses_topic_ids, rows, now_ms)
        self._bytes += session.bytes
        return session_id

    def _end(self, session_id: int) -> None:
        session = self._by_id.pop(session_id, None)
        if session is not None:
            self._bytes -= session.bytes

    def _find_bytes(self, size: int, now_ms: int) -> bool:
        """Free memory: evict stale sessions first, then the largest sessions with more than `size` bytes."""
        while self._bytes + size > MAX_BYTES:
            evicted = next(iter(self._by_id.values()))
            if now_ms - evicted.used_ms <= EVICTION_MS:
                evicted = max(self._by_id.values(), key=lambda session: session.bytes)
                if evicted.bytes <= size:
                    return False
            self._end(evicted.session_id)
        return True

    def _touch(self, session: FetchSession, now_ms: int) -> None:
        session.used_ms = now_ms
        session.cached_size = len(session.rows)
        del self._by_id[session.session_id]
        self._by_id[session.session_id] = session

    def _evict_for(self, size: int, now_ms: int) -> bool:
        """Free a slot: evict a stale session, or else the smallest old session with fewer than `size` partitions."""
        oldest = next(iter(self._by_id.values()))
        if now_ms - oldest.used_ms <= EVICTION_MS:
            evictable = [s for s in self._by_id.values() if now_ms - s.created_ms > EVICTION_MS]
            if not evictable:
                return False
            oldest = min(evictable, key=lambda s: (s.cached_size, s.session_id))
            if oldest.cached_size >= size:
                return False
        self._end(oldest.session_id)
        return True
