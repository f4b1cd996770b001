"""Share sessions (KIP-932): the partitions that a member reads, and the epoch of its next request.

A session belongs to a group and a member. Epoch 0 begins a session, and the partitions of the request are its first
ones. Later requests have the next epoch, and name only what changes. Epoch -1 ends the session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from muster.protocol.errors import ErrorCode

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
MAX_EPOCH: Final = 2**31 - 1
MAX_SESSION_ROWS: Final = 20_000
MAX_ROWS: Final = 250_000
"""The most partitions of one session, and of all sessions. Kafka limits only the number of sessions."""


class SessionRefused(Exception):
    """A request that does not fit the member's session."""

    def __init__(self, error_code: int) -> None:
        super().__init__(error_code)
        self.error_code = error_code


class Place(NamedTuple):
    """A partition of a topic."""

    topic_id: bytes
    partition: int


class SessionRow:
    """One partition of a session (Kafka: CachedSharePartition). `topic`: the name when it was added, or None.

    `must_answer`: whether the next answer names the partition, even without records.
    """

    __slots__ = ("must_answer", "place", "topic")

    def __init__(self, place: Place, topic: str | None) -> None:
        self.place = place
        self.topic = topic
        self.must_answer = False

    def note_answer(self, *, has_error: bool, has_records: bool) -> bool:
        """Note what the answer reports. Returns whether the answer must have this row."""
        must = has_records or self.must_answer or has_error
        self.must_answer = has_error
        return must


class ShareSession:
    """The partitions of one member, in the order in which they are served.

    `overtaken`: a function that ends the wait of the newest request. None: that request does not wait.
    """

    __slots__ = ("epoch", "group_id", "member_id", "overtaken", "rows")

    def __init__(self, group_id: str, member_id: str, rows: Iterable[SessionRow]) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.rows = {row.place: row for row in rows}
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.overtaken: Callable[[], object] | None = None

    def overtake(self) -> None:
        """End the wait of the newest request, because another one follows, or the session ends."""
        overtaken, self.overtaken = self.overtaken, None
        if overtaken is not None:
            overtaken()

    def update(self, rows: Iterable[SessionRow], forgotten: Iterable[Place]) -> None:
        """Add and forget partitions. The first answer after this names each added partition."""
        for row in rows:
            if row.place not in self.rows:
                row.must_answer = True
                self.rows[row.place] = row
        for place in forgotten:
            self.rows.pop(place, None)

    def serve_last(self, place: Place) -> None:
        """Move a partition that had records to the end."""
        row = self.rows.pop(place, None)
        if row is not None:
            self.rows[place] = row


def next_epoch(epoch: int) -> int:
    """The epoch after `epoch`. After the largest epoch follows 1, because 0 begins a session."""
    return 1 if epoch == MAX_EPOCH else epoch + 1


class SessionContext:
    """How one ShareFetch is served. `is_incremental`: the session existed before the request.

    `rows`: the partitions to read, which a request that ends its session does not have.
    """

    __slots__ = ("_epoch", "_session", "is_incremental", "rows")

    def __init__(self, rows: Sequence[SessionRow], session: ShareSession | None, *, is_incremental: bool) -> None:
        self.rows = rows
        self.is_incremental = is_incremental
        self._session = session
        self._epoch = INITIAL_EPOCH if session is None else session.epoch

    @property
    def is_over(self) -> bool:
        """Whether a later request used the session while this request waited, or the session has ended."""
        return self._session is not None and self._session.epoch != self._epoch

    @property
    def is_refused(self) -> bool:
        """Whether the answer is INVALID_SHARE_SESSION_EPOCH. As on Kafka, the first request of a session is not."""
        return self.is_incremental and self.is_over

    def when_overtaken(self, end_wait: Callable[[], object] | None) -> None:
        """Call `end_wait` when a later request uses the session, or when the session ends. None: call nothing."""
        if self._session is not None:
            self._session.overtaken = end_wait

    def note_answer(self, row: SessionRow, *, has_error: bool, has_records: bool) -> bool:
        """Note the answer for a partition. Returns whether the answer must have this partition."""
        if not self.is_incremental or self._session is None:
            return True
        if has_records:
            self._session.serve_last(row.place)
        return row.note_answer(has_error=has_error, has_records=has_records)


class ShareSessions:
    """The sessions of this node: at most `limit` (`group.share.max.share.sessions`)."""

    __slots__ = ("_by_key", "_members", "_rows", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._by_key: dict[tuple[str, str], ShareSession] = {}
        self._members: dict[str, int] = {}
        self._rows = 0

    def __len__(self) -> int:
        return len(self._by_key)

    def find(self, group_id: str, member_id: str) -> ShareSession | None:
        """The session of a member, if it has one."""
        return self._by_key.get((group_id, member_id))

    def members(self, group_id: str) -> int:
        """How many members of a group have a session."""
        return self._members.get(group_id, 0)

    def open(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        rows: Sequence[SessionRow],
        forgotten: Sequence[Place],
        *,
        has_acknowledgements: bool,
    ) -> SessionContext:
        """The context of a ShareFetch (Kafka: SharePartitionManager.newContext). Raises SessionRefused."""
        if epoch == FINAL_EPOCH:
            if self.find(group_id, member_id) is None:
                raise SessionRefused(ErrorCode.SHARE_SESSION_NOT_FOUND)
            return SessionContext((), None, is_incremental=False)
        if epoch == INITIAL_EPOCH:
            if has_acknowledgements:
                raise SessionRefused(ErrorCode.INVALID_REQUEST)
            return SessionContext(rows, self._create(group_id, member_id, rows), is_incremental=False)
        session = self._at_epoch(group_id, member_id, epoch)
        before = len(session.rows)
        session.update(rows, forgotten)
        self._rows += len(session.rows) - before
        if self._rows > MAX_ROWS or len(session.rows) > MAX_SESSION_ROWS:
            self.end(group_id, member_id)
            raise SessionRefused(ErrorCode.SHARE_SESSION_NOT_FOUND)
        self._use(session)
        return SessionContext(list(session.rows.values()), session, is_incremental=True)

    def acknowledge(self, group_id: str, member_id: str, epoch: int) -> None:
        """Use the session for a ShareAcknowledge. Raises SessionRefused."""
        if epoch == INITIAL_EPOCH:
            raise SessionRefused(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        if epoch == FINAL_EPOCH:
            if self.find(group_id, member_id) is None:
                raise SessionRefused(ErrorCode.SHARE_SESSION_NOT_FOUND)
            return
        self._use(self._at_epoch(group_id, member_id, epoch))

    def _use(self, session: ShareSession) -> None:
        session.epoch = next_epoch(session.epoch)
        session.overtake()

    def end(self, group_id: str, member_id: str) -> ShareSession | None:
        """End a session, and return it. None means that the member has no session."""
        session = self._by_key.pop((group_id, member_id), None)
        if session is not None:
            self._rows -= len(session.rows)
            left = self._members[group_id] = self._members[group_id] - 1
            if not left:
                del self._members[group_id]
            session.epoch = FINAL_EPOCH
            session.overtake()
        return session

    def _at_epoch(self, group_id: str, member_id: str, epoch: int) -> ShareSession:
        session = self.find(group_id, member_id)
        if session is None:
            raise SessionRefused(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if session.epoch != epoch:
            raise SessionRefused(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        return session

    def _create(self, group_id: str, member_id: str, rows: Sequence[SessionRow]) -> ShareSession:
        self.end(group_id, member_id)
        is_large = len(rows) > MAX_SESSION_ROWS or self._rows + len(rows) > MAX_ROWS
        if is_large or len(self._by_key) >= self.limit:
            raise SessionRefused(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = ShareSession(group_id, member_id, rows)
        if len(session.rows) < len(rows):
            raise SessionRefused(ErrorCode.UNKNOWN_SERVER_ERROR)  # a partition is named twice
        self._by_key[group_id, member_id] = session
        self._members[group_id] = self.members(group_id) + 1
        self._rows += len(rows)
        return session
