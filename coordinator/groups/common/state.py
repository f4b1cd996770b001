"""The state of one core, and a step: one call of the core. This module decides nothing.

Records change the state in one way, the same live and in replay (`State.evolve`). A step collects the output of the
call. The records of a step are one batch of at most `max.message.bytes` of `__consumer_offsets`. A request for a larger
batch is refused, before anything has changed. Records without a request are not limited.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, Final, TypeVar

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.committed_offsets import Offsets
from muster.coordinator.groups.common.events import Event
from muster.coordinator.groups.common.group import Group, Protocols
from muster.coordinator.groups.common.image import TopicsImage
from muster.coordinator.groups.common.settings import GroupConfigs, GroupSettings
from muster.coordinator.state_machine.deadlines import NO_LATE_ANSWERS, Deadlines, Due, LateAnswers
from muster.coordinator.state_machine.interface import (
    HEADER,
    NO_LIMIT,
    Command,
    Now,
    Producer,
    Record,
    Reply,
    Respond,
    TransactionalBatch,
)
from muster.coordinator.state_machine.output import Output
from muster.protocol.message import ZERO_UUID, Message
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from muster.protocol.records import OFFSETS, encode_record, pack_record
from muster.protocol.wire import uv

_Value = TypeVar("_Value", bound=Hashable)

KEPT: Final = 10_000
"""The largest number of shared values. At this number the table is cleared, and later members share new values."""
MAX_SHARED_LENGTH: Final = 1_024
"""Longer metadata and names are not shared: they would stay in memory when no member has them any more."""


class SharedValues:
    """Equal values of members as one object: `of(x)` returns the first value that was equal to `x`."""

    __slots__ = ("_known", "_moment")

    def __init__(self) -> None:
        self._moment = 0
        self._known: dict[Any, Any] = {}

    def of(self, value: _Value) -> _Value:
        """The shared value that equals `value`, else `value`, which is then shared; never a boolean or a float."""
        known = self._known
        found: _Value | None = known.get(value)
        if found is not None:
            return found
        if isinstance(value, str) and len(value) > MAX_SHARED_LENGTH:
            return value
        if len(known) >= KEPT:
            known.clear()
        known[value] = value
        return value

    def known(self, value: _Value) -> _Value | None:
        """The shared value that equals `value`; None when `value` is not shared yet."""
        found: _Value | None = self._known.get(value)
        return found

    def moment(self, wall_ms: int) -> int:
        """`wall_ms` as a shared integer: all callers within one millisecond get the same object."""
        if wall_ms != self._moment:
            self._moment = wall_ms
        return self._moment

    def one_protocol(self, name: str, metadata: bytes) -> Protocols:
        """The `protocols` of a member if only the chosen one is known. Members with equal metadata share the value."""
        offered = ((name, metadata),)
        # Long metadata is not looked up, because a hash would read all bytes.
        known: Protocols | None = self._known.get(offered) if len(metadata) <= MAX_SHARED_LENGTH else None
        return self.protocols(offered) if known is None else known

    def protocols(self, offered: Iterable[tuple[str, bytes]]) -> Protocols:
        """The protocols that a member offers, made of shared values."""
        of, given = self.of, tuple(offered)
        if sum([len(data) for _, data in given]) > MAX_SHARED_LENGTH:
            return tuple([(of(name), of(data) if len(data) <= MAX_SHARED_LENGTH else data) for name, data in given])
        known: Protocols | None = self._known.get(given)
        return of(tuple([(of(name), of(data)) for name, data in given])) if known is None else known


Replay = Callable[["State", Any, Any], None]
"""A function that applies one record (key, value) to the state."""
ReplayTransactional = Callable[["State", TransactionalBatch], int]
"""A function that applies records of an open transaction to the state. Returns the number of records."""


class State:
    """The groups of one partition of `__consumer_offsets`, of all types in one map, with offsets and deadlines."""

    __slots__ = (
        "_replay", "_replay_other", "_replay_transactional", "abandoned", "configs", "deadlines", "downgrade", "groups",
        "helpers", "image", "offsets", "settings", "shared", "topic_deletion",
    )  # fmt: skip

    def __init__(
        self,
        settings: GroupSettings,
        image: TopicsImage,
        replay: Mapping[type[Message], Replay],
        replay_other: Replay,
        replay_transactional: ReplayTransactional,
        helpers: Any = None,
        downgrade: Any = None,
        configs: GroupConfigs | None = None,
    ) -> None:
        """`replay`: functions by type of the record's key; `replay_other`: the function for other types.

        `helpers`: what does large work (`common.helpers.Helpers`); None: all work is done directly. `downgrade`: how
        consumer groups become classic groups (`consumer.commands.Downgrade`). `configs`: the configs of groups.
        """
        self._replay, self._replay_other, self._replay_transactional = replay, replay_other, replay_transactional
        self.settings = settings
        self.configs = configs or GroupConfigs(settings)
        self.helpers = helpers
        self.downgrade = downgrade
        self.image = image
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        self.deadlines = Deadlines()
        self.shared = SharedValues()
        self.topic_deletion: Any = None
        """The `offsets.deletion.TopicDeletion` that is running, or None."""
        self.abandoned: dict[Due, Reply] = {}
        """Abandoned requests, with their answers (`classic.rebalance`)."""

    def evolve(self, key: Message, value: Message | None) -> None:
        """Replay one record. A record of an unknown type, of a later Kafka, changes nothing."""
        self._replay.get(type(key), self._replay_other)(self, key, value)

    def evolve_transactional(self, batch: TransactionalBatch) -> int:
        """Replay records of an open transaction. Returns the number of records."""
        return self._replay_transactional(self, batch)

    def evolve_all(self, records: Iterable[tuple[Message, Message | None]]) -> int:
        """`evolve` for millions of records. Returns the number of records."""
        replay, other = self._replay.get, self._replay_other
        count = 0
        for key, value in records:
            replay(type(key), other)(self, key, value)
            count += 1
        return count


class Step(Output):
    """The input of one step (state, time, late answers, most bytes of a batch) and its replies, records and events."""

    __slots__ = ("late_answers", "max_bytes", "now", "state")

    def __init__(
        self, state: State, now: Now, max_bytes: int = NO_LIMIT, late_answers: LateAnswers = NO_LATE_ANSWERS
    ) -> None:
        self.state = state
        self.now = now
        self.max_bytes = max_bytes
        self.late_answers = late_answers
        self.replies = []
        self.records = []
        self.events = []

    def reply(self, respond: Respond, response: Message) -> None:
        """Answer a request, when the records are durable."""
        self.replies.append((respond, response))

    def record(self, record: Record) -> None:
        """Add a record to the output, for the log, and apply it to the state."""
        self.records.append(record)
        self.state.evolve(record.key, record.value)

    def record_all(self, records: list[Record]) -> None:
        """Do the same as `record` for each record."""
        self.records += records
        evolve = self.state.evolve
        for key, value, _ in records:
            evolve(key, value)

    def record_in_transaction(self, records: list[Record], producer: Producer) -> None:
        """`record_all` in the transaction of this producer. The records count once the transaction is committed."""
        self.records += records
        pairs = [(key, value) for key, value, _ in records]
        self.state.evolve_transactional(TransactionalBatch(*producer, self.now.wall_ms, pairs))

    def put_off(self, deadline: Due, since_ms: int, timeout_ms: int, *, is_own: bool = True) -> bool:
        """If late answers prolong the timeout since `since_ms`, move the deadline. Returns whether this was done."""
        until_ms = self.late_answers.until(since_ms, timeout_ms, self.now.mono_ms, is_own=is_own)
        if until_ms <= self.now.mono_ms:
            return False
        self.state.deadlines.set(deadline, until_ms)
        return True

    def event(self, kind: str, group_id: str, **facts: object) -> None:
        """Report an event for the history; `events` has the kinds and their facts."""
        self.events.append(Event(kind, group_id, facts))

    def refused(self, command: Command, group_id: str, error: int, member_id: str, instance_id: str | None) -> None:
        """Report for the history that a member's request was refused."""
        self.events.append(
            events.request_refused(command.request, command.client, group_id, error, member_id, instance_id)
        )


_OFFSET_VERSION: Final = 4
_EXPIRING_OFFSET_VERSION: Final = 1
"""The only version with an expire timestamp."""


class PackedRecord(Record):
    """A record with its bytes. `row`: the result of `pack`."""

    row: bytes


def pack(record: Record) -> bytes:
    """The bytes that a record of `__consumer_offsets` has in a batch."""
    if type(record) is PackedRecord:
        return record.row
    return pack_record(OFFSETS, record)


def with_bytes(record: Record) -> PackedRecord:
    """The record with its bytes."""
    if type(record) is PackedRecord:
        return record
    made = PackedRecord(*record)
    made.row = pack(record)
    return made


def tombstone(key: Message) -> Record:
    """The tombstone that deletes the record of this key."""
    return Record(key, None, 0)


def tombstones(group: Group) -> list[Record]:
    """The tombstones that delete a group. The tombstones of the group's offsets are not included."""
    return [tombstone(key) for key in group.record_keys()]


def offset_commit(
    group_id: str,
    topic: str,
    partition: int,
    offset: int,
    leader_epoch: int,
    metadata: str,
    commit_timestamp_ms: int,
    expire_timestamp_ms: int,
    topic_id: bytes,
) -> Record:
    """The record of a committed offset; with an expire timestamp (OffsetCommit v2-4) without epoch and topic id."""
    key = OffsetCommitKey(group_id, topic, partition)
    if expire_timestamp_ms != -1:
        value = OffsetCommitValue(offset, -1, metadata, commit_timestamp_ms, expire_timestamp_ms, ZERO_UUID)
        return Record(key, value, _EXPIRING_OFFSET_VERSION)
    value = OffsetCommitValue(offset, leader_epoch, metadata, commit_timestamp_ms, -1, topic_id)
    if metadata or len(topic) > MAX_SHARED_LENGTH or len(group_id) > MAX_SHARED_LENGTH:
        return Record(key, value, _OFFSET_VERSION)
    record = PackedRecord(key, value, _OFFSET_VERSION)
    pack_row, before, between, after = _offsets_of(group_id, topic, topic_id)
    record.row = pack_row(before, partition, between, offset, leader_epoch, _NO_METADATA, commit_timestamp_ms, after)
    return record


_NO_METADATA: Final = b"\1"
_TIME_END: Final = 23
"""Where the commit timestamp of a value without metadata ends. Tags follow."""


@lru_cache(1_000)
def _offsets_of(group_id: str, topic: str, topic_id: bytes) -> tuple[Callable[..., bytes], bytes, bytes, bytes]:
    """A function that packs the records of a topic's offsets without metadata, and the three parts that they share.

    To encode each record by itself takes ten times as many instructions.
    """
    first = OffsetCommitKey(group_id, topic), OffsetCommitValue(topic_id=topic_id), _OFFSET_VERSION
    key, value = encode_record(OFFSETS, first)
    assert value is not None
    before, between = uv(2 * len(key)) + key[:-4], uv(2 * len(value)) + value[:2]
    after = value[_TIME_END:] + b"\0"
    return Struct(f">{len(before)}si{len(between)}sqi1sq{len(after)}s").pack, before, between, after


def offset_tombstone(group_id: str, topic: str, partition: int) -> Record:
    """The tombstone of an offset that is deleted or has expired, or whose topic was deleted."""
    return Record(OffsetCommitKey(group_id, topic, partition), None, 0)


RECORD_BYTES: Final = 120
"""An upper bound for the bytes of a record, without names, metadata and assignments."""


def is_too_large(
    step: Step, records: Sequence[Record], texts: int, made: Sequence[Record] = (), times: int = 1, least: int = 0
) -> bool:
    """Whether the `records` of one command, and `made` repeated `times` times, exceed the step's `max_bytes`.

    `texts`: an upper bound for the characters and bytes in `records`, or in `made` if given. `least`: a lower bound for
    the bytes. The exact size is computed only near the limit: 31 MB take 30 ms.
    """
    most, count = step.max_bytes, len(records) + times * len(made)
    if HEADER + count * RECORD_BYTES + 4 * times * texts <= most:
        return False
    if least > most:
        return True
    # A repeated record is packed once.
    return size_of([*map(pack, records), *[pack(one) for one in made] * times]) > most


def size_of(rows: Sequence[bytes]) -> int:
    """The bytes of a batch with these rows, each the result of `pack`."""
    size = HEADER
    for number, row in enumerate(rows):
        body = len(row) + 2 + len(uv(2 * number))
        size += len(uv(2 * body)) + body
    return size
