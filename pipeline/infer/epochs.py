"""The history of a KIP-848 group, from its records: a state for each epoch, and the owners of each partition.

Arguments and results are plain values. This module does not know Spark, and does not infer causes.

Kafka writes the changes of one request or timer as one batch. First come the metadata of members, then the group's
epoch, then target and current assignments. In a new epoch no member stops: each member gives up and gets its partitions
with its own heartbeats. An epoch begins with its record. It ends when all members have reached the epoch, or when the
next epoch begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from muster.pipeline.infer.epoch_image import (
    CLASSIC,
    CURRENT,
    EPOCH,
    FIRST,
    MEMBER,
    PARTITION_METADATA,
    PATTERN,
    SHARED_STATES,
    STABLE,
    TARGET_EPOCH,
    Change,
    Gone,
    Hold,
    Image,
    Place,
    Record,
    State,
    Subscription,
    Take,
    Taken,
)


def fold(records: Iterable[Record], names: Mapping[str, str], *, is_shared: bool = False) -> Iterator[State | Hold]:
    """The states of a group in the order of the log. `is_shared`: it is a share group (KIP-932).

    A hold comes between the states when it has ended: the time in which a member had a partition. `names`: names of
    topics by topic id. A topic without a known name is called by its id.
    """
    group = _Group(names, is_shared=is_shared)
    for operation in operations(records):
        yield from group.play(operation)
    yield from group.end()


def operations(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Splits the records into operations. An operation has the records of one request or one timer.

    They were written at the same time. The first records are causes of a new epoch; then the epoch and its effects
    follow.
    """
    found: list[Record] = []
    has_epoch = False
    for record in records:
        is_new = has_epoch and (record.value is None or record.key_type in (EPOCH, MEMBER, PATTERN, PARTITION_METADATA))
        if found and (record.at_ms != found[-1].at_ms or is_new):
            yield found
            found, has_epoch = [], False
        found.append(record)
        has_epoch = has_epoch or record.key_type == EPOCH
    if found:
        yield found


@dataclass(slots=True)
class _Epoch:
    """The epoch that is being read."""

    number: int
    offset: int
    began_ms: int
    change: Change | None
    owners: list[tuple[Place, int, str]]
    takes: list[Taken] = field(default_factory=list)
    is_open: bool = True


class _Group:
    """A group while the records of its log are read."""

    def __init__(self, names: Mapping[str, str], *, is_shared: bool) -> None:
        self._names = names
        self._is_shared = is_shared
        self._last_ms = 0
        self._converted_ms: int | None = None
        self._reset(is_known=False)

    def _reset(self, *, is_known: bool) -> None:
        """Start with an empty group. `is_known`: the group surely had no records before the next one."""
        self._image = Image(self._names, is_shared=self._is_shared)
        self._target: int | None = None
        self._hash: Any = None
        self._epoch: _Epoch | None = None
        self._is_known = is_known
        self._before: dict[str, Subscription] = {}
        """The subscriptions of the members when the epoch began, by the members' keys."""
        self._gone: list[tuple[str, Gone]] = []
        self._topics_changed = self._has_new_states = False
        self._with_states: Any = []
        """The topics and partitions of a share group that have a state."""

    @property
    def _number(self) -> int | None:
        return None if self._epoch is None else self._epoch.number

    @property
    def _reached(self) -> int:
        """The last epoch that has ended, or has nearly ended."""
        if self._epoch is None:
            return 0
        before = None if self._epoch.change is None else self._epoch.change.before
        return self._epoch.number if not self._epoch.is_open or before is None else before

    def play(self, operation: Sequence[Record]) -> Iterator[State | Hold]:
        """Apply the next operation. Yields the states and the holds that ended."""
        self._last_ms = at_ms = operation[0].at_ms
        bump = next((one for one in operation if one.key_type == EPOCH), None)
        begins = bump is not None and (bump.value is None or bump.value["epoch"] != self._number)
        if begins and self._epoch is not None and self._epoch.is_open:
            yield self._state(at_ms)
        ids = set(self._image.members)
        for record in operation:
            yield from self._apply(record)
        self._image.learn_names(self._number)
        if self._epoch is None:
            return
        if self._epoch.is_open:
            yield from self._settle(at_ms)
        elif not begins and not ids.issuperset(self._image.members):
            # a static member returned under another id, or the pattern of a member was resolved later than its record
            self._begin_again(operation[0].offset, at_ms)
            if self._is_settled():
                yield self._state(at_ms)

    def _settle(self, at_ms: int) -> Iterator[State]:
        if self._is_settled():
            if all(one.away_ms is None for one in self._image.members.values()):
                # partitions that have no owner now get none in this epoch
                self._image.forget_pauses()
            yield self._state(at_ms)

    def end(self) -> Iterator[State | Hold]:
        """Yield the rest at the end of the log."""
        if self._epoch is not None and self._epoch.is_open:
            yield self._state(self._last_ms)
        yield from (self._image.hold(place, None, self._reached) for place in self._image.held)

    # ---- records

    def _apply(self, record: Record) -> Iterator[State | Hold]:
        kind, value = record.key_type, record.value
        if kind == EPOCH and value is not None:
            self._to_epoch(record, value)
        elif kind == EPOCH:
            yield from self._end_of_group(record)
        elif kind == MEMBER:
            yield from self._member(record)
        elif kind == CURRENT:
            yield from self._current(record)
        elif kind == TARGET_EPOCH:
            self._target = None if value is None else value["assignmentEpoch"]
        elif kind == PARTITION_METADATA:
            self._topics_changed = True
        elif kind == PATTERN:
            self._pattern(record)
        elif kind == SHARED_STATES:
            self._states_exist(record)
        elif kind == CLASSIC:
            self._converted_ms = record.at_ms

    def _member(self, record: Record) -> Iterator[Hold]:
        if record.value is not None:
            self._image.update_member(record)
        elif record.key in self._image.members:
            key = self._image.key(record.key)
            for one in self._image.remove_member(record.key, record.at_ms, self._reached):
                if isinstance(one, Hold):
                    yield one
                else:
                    self._gone.append((key, one))

    def _pattern(self, record: Record) -> None:
        topics = () if record.value is None else tuple(record.value.get("topics") or ())
        self._topics_changed |= self._image.patterns.get(record.key, topics) != topics
        self._image.patterns[record.key] = topics

    def _states_exist(self, record: Record) -> None:
        topics = [] if record.value is None else record.value["initializedTopics"]
        self._has_new_states |= bool(topics) and topics != self._with_states
        self._with_states = topics

    def _current(self, record: Record) -> Iterator[Hold]:
        if record.value is None:
            yield from self._image.release(record.key, record.at_ms, self._reached)
            return
        number = record.value["memberEpoch"] if self._epoch is None else self._epoch.number
        for one in self._image.assign(record, number, self._reached):
            if isinstance(one, Hold):
                yield one
            elif self._epoch is not None:
                self._epoch.takes.append(one)

    def _end_of_group(self, record: Record) -> Iterator[State | Hold]:
        yield from (self._image.hold(place, record.at_ms, self._reached) for place in self._image.held)
        yield State(None, record.offset, record.at_ms, record.at_ms, None, (), (), (), None)
        self._reset(is_known=True)

    def _to_epoch(self, record: Record, value: Mapping[str, Any]) -> None:
        number, hashed = value["epoch"], value.get("metadataHash")
        self._topics_changed |= hashed != self._hash
        self._hash = hashed
        if number == self._number:
            return
        image = self._image
        change = self._change(number, record.at_ms)
        if not image.members:
            image.forget_pauses()
        self._epoch = _Epoch(number, record.offset, record.at_ms, change, self._owners())
        self._before = {image.key(one): image.members[one].subscription for one in image.members}
        self._gone, self._topics_changed, self._has_new_states = [], False, False

    def _change(self, number: int, at_ms: int) -> Change:
        members = self._image.members
        # the members of a classic group continue in the KIP-848 group
        is_conversion = self._epoch is None and self._converted_ms == at_ms
        is_conversion &= all(one.value.get("classicMemberMetadata") for one in members.values())
        before = self._number
        if before is None and (is_conversion or self._is_known or number <= FIRST):
            before = number - 1
        has = {self._image.key(one): one for one in members}
        return Change(
            before,
            len(self._before),
            self._joined(has) if before is not None else (),
            # a static member that returned under another id is not missing. If it leaves later too, it counts once
            tuple({key: one for key, one in self._gone if key not in has}.values()),
            self._resubscribed(has),
            self._topics_changed,
            self._has_new_states,
            is_conversion,
        )

    def _joined(self, has: Mapping[str, str]) -> tuple[str, ...]:
        # a member whose metadata record is not in the log any more has not joined now
        return tuple(one for key, one in has.items() if key not in self._before and self._image.members[one].value)

    def _resubscribed(self, has: Mapping[str, str]) -> tuple[str, ...]:
        before, members = self._before, self._image.members
        return tuple(one for key, one in has.items() if key in before and before[key] != members[one].subscription)

    # ---- states

    def _is_settled(self) -> bool:
        """Does each member have its whole assignment? Absent static members do not count: nobody waits for them."""
        members = self._image.members.values()
        there = (one.away_ms is not None or (one.epoch == self._number and one.state == STABLE) for one in members)
        return all(there) and (not members or self._target == self._number)

    def _state(self, at_ms: int) -> State:
        epoch, image = self._epoch, self._image
        assert epoch is not None
        epoch.is_open = False
        owners = [*epoch.owners, *((one.place, one.offset, one.member_id) for one in epoch.takes)]
        return State(
            epoch.number,
            epoch.offset,
            epoch.began_ms,
            at_ms,
            image.assignor(),
            tuple(image.seen(one) for one in image.members),
            tuple((image.name(place[0]), place[1], offset, who) for place, offset, who in owners),
            tuple(Take(image.name(one.place[0]), one.place[1], *one[1:]) for one in epoch.takes),
            epoch.change,
        )

    def _begin_again(self, offset: int, at_ms: int) -> None:
        """Begin the same epoch again, in which members have other ids.

        Members that were away may still get or revoke partitions.
        """
        assert self._epoch is not None
        there = {self._image.key(one) for one in self._image.members}
        self._gone = [(key, one) for key, one in self._gone if key not in there]
        self._epoch = _Epoch(self._epoch.number, offset, at_ms, None, self._owners())

    def _owners(self) -> list[tuple[Place, int, str]]:
        """The owners of partitions when an epoch begins. Nobody commits offsets in a share group."""
        if self._is_shared:
            return []
        return [((slot[0], slot[1]), 0, held.member_id) for slot, held in self._image.held.items()]
