"""Events of groups that are inferred from the records of `__consumer_offsets`, for clusters without `__group_events`.

The rules are those of the pipeline (`pipeline/infer/`). An inferred event has `inferred`, and its own `sentence`. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from muster.coordinator.history.words import phrase, plural, seconds, who
from muster.coordinator.http.console.sources import StoredEvent
from muster.pipeline.infer import epoch_image, history
from muster.pipeline.infer.departures import EXPIRED, REPLACED
from muster.pipeline.infer.epoch_causes import Epoch, Raised, raised
from muster.pipeline.infer.epoch_image import OF_SHARE_GROUPS
from muster.pipeline.infer.epochs import fold
from muster.pipeline.infer.evidence import Activity, Member, State
from muster.pipeline.infer.stream_tasks import OF_STREAMS_GROUPS, as_partitions
from muster.protocol.as_json import as_json
from muster.protocol.consumer import PROTOCOL_TYPE, decode_assignment, decode_subscription, subscribed_topics
from muster.protocol.message import MalformedMessage
from muster.protocol.records import OFFSETS, UnknownRecord

OFFSET_COMMIT: Final = (0, 1)
GROUP_METADATA: Final = 2
OF_EPOCHS: Final = frozenset(
    (epoch_image.EPOCH, epoch_image.PARTITION_METADATA, epoch_image.MEMBER, epoch_image.TARGET_EPOCH,
     epoch_image.TARGET, epoch_image.CURRENT, epoch_image.PATTERN)
)  # fmt: skip
_SHARE, _STREAMS = "share", "streams"
KEPT_STATES: Final = 65
"""How many states of a classic group are kept: they show how often its members commit and send heartbeats."""
KEPT_RECORDS: Final = 4_000
"""How many records of a consumer group are kept."""
MAX_GROUPS: Final = 20_000
"""The most groups whose records are kept. The group that was quiet for longest is forgotten first."""
SURE: Final = 0.95


class OffsetsRecord(NamedTuple):
    """A record of `__consumer_offsets`."""

    partition: int
    offset: int
    at_ms: int
    key: bytes
    value: bytes | None


class _Commits:
    """When a member committed."""

    __slots__ = ("count", "first_ms", "last_gap_ms", "last_ms", "max_gap_ms")

    def __init__(self, at_ms: int) -> None:
        self.count = 1
        self.first_ms = self.last_ms = at_ms
        self.max_gap_ms: int | None = None
        self.last_gap_ms: int | None = None

    def add(self, at_ms: int) -> None:
        gap_ms = at_ms - self.last_ms
        if gap_ms > 0:
            self.count += 1
            self.last_ms, self.last_gap_ms = at_ms, gap_ms
            self.max_gap_ms = max(self.max_gap_ms or 0, gap_ms)

    def activity(self) -> Activity:
        gap_ms = (self.last_ms - self.first_ms) // (self.count - 1) if self.count > 1 else None
        return Activity(self.count, self.first_ms, self.last_ms, gap_ms, self.max_gap_ms, self.last_gap_ms)


class _Group:
    """What is kept of a group."""

    def __init__(self) -> None:
        self.states: deque[State | None] = deque(maxlen=KEPT_STATES)
        self.owners: dict[tuple[str, int], str] = {}
        self.assignments: dict[str, list[dict[str, Any]]] = {}
        self.commits: dict[str, _Commits] = {}
        self.records: deque[epoch_image.Record] = deque(maxlen=KEPT_RECORDS)
        self.epoch = -1
        """The last epoch with an event."""
        self.kind = ""
        """The type, if the group is not a consumer group."""

    def activity(self) -> Mapping[str, Activity]:
        return {member_id: one.activity() for member_id, one in self.commits.items()}


class InferredEvents:
    """Takes records in the order of each partition, and gives events. `names`: names of topics by their ids as text."""

    def __init__(self, names: Mapping[str, str], only: str | None = None) -> None:
        """`only`: records of other groups are left out."""
        self.names = names
        self._only = only
        self._groups: dict[str, _Group] = {}

    def take(self, records: Iterable[OffsetsRecord]) -> list[StoredEvent]:
        """The events that these records show, in the order of their time."""
        found: list[StoredEvent] = []
        changed: dict[str, OffsetsRecord] = {}
        for record in records:
            try:
                kind, key = OFFSETS.decode_key(record.key)
                name = _text(key, "group", "group_id")
                if self._only is not None and name != self._only:
                    continue
                if kind in OFFSET_COMMIT:
                    self._commit(name, key, record)
                elif kind == GROUP_METADATA:
                    found += self._classic(name, record)
                elif kind in OF_EPOCHS or kind in OF_SHARE_GROUPS or kind in OF_STREAMS_GROUPS:
                    self._keep(self._of(name), kind, key, record)
                    changed[name] = record
            except (UnknownRecord, MalformedMessage):
                continue
        for name, record in changed.items():
            found += self._epochs(name, record)
        found.sort(key=lambda one: one.value["time"])
        return found

    def _of(self, name: str) -> _Group:
        known = self._groups.pop(name, None)
        if known is None:
            known = _Group()
            if len(self._groups) >= MAX_GROUPS:
                self._groups.pop(next(iter(self._groups)))
        self._groups[name] = known
        return known

    def _commit(self, name: str, key: Any, record: OffsetsRecord) -> None:
        group = self._groups.get(name)
        owner = None if group is None else group.owners.get((key.topic, key.partition))
        if group is not None and owner is not None and record.value is not None:
            known = group.commits.get(owner)
            if known is None:
                group.commits[owner] = _Commits(record.at_ms)
            else:
                known.add(record.at_ms)

    # ---- classic groups

    def _classic(self, name: str, record: OffsetsRecord) -> Iterator[StoredEvent]:
        group = self._of(name)
        before = group.states[-1] if group.states else None
        if before is not None:
            group.states[-1] = before._replace(activity=group.activity())
        if record.value is None:
            group.states.append(None)
            group.owners, group.commits = {}, {}
            yield _event(record, name, "group_deleted", record.at_ms, sentence="the group was deleted")
            return
        _, value = OFFSETS.decode_value(GROUP_METADATA, record.value)
        state = _state(value, record.at_ms)
        is_again = before is not None and before.generation == state.generation and bool(group.states)
        group.states.append(state)
        group.assignments = {one.member_id: _assigned(value, one) for one in value.members}
        group.owners = {
            (row["topic"], partition): member_id
            for member_id, rows in group.assignments.items()
            for row in rows
            for partition in row["partitions"]
        }
        if is_again:
            return
        group.commits = {}
        newest = deque(history.rebalances(group.states), maxlen=1)
        if newest and newest[0].after.generation == state.generation and newest[0].after.at_ms == state.at_ms:
            yield from self._rebalance(name, group, record, newest[0])

    def _rebalance(
        self, name: str, group: _Group, record: OffsetsRecord, one: history.Rebalance
    ) -> Iterator[StoredEvent]:
        after, verdict = one.after, one.verdict
        began_ms = after.joined_ms if one.start is None else min(one.start.likely_ms, after.at_ms)
        for number, gone in enumerate(verdict.gone):
            kind = {EXPIRED: "member_expired", REPLACED: "member_replaced"}.get(gone.how, "member_left")
            words = {EXPIRED: "was silent for its session timeout", REPLACED: "came back under another id"}
            at_ms = min(max(gone.when_ms or began_ms, began_ms), after.at_ms)
            facts = _who(gone.member)
            text = f"{who(facts)} {words.get(gone.how, 'left')}{_sure(gone.certainty)}"
            if kind != "member_replaced":
                yield _event(record, name, kind, at_ms, f"gone{number}", member=facts, sentence=text)
        for number, member in enumerate(verdict.joined):
            facts = _who(member)
            text = f"{who(facts)} joined"
            yield _event(record, name, "member_joined", began_ms, f"joined{number}", member=facts, sentence=text)
        trigger = None if verdict.trigger is None else {**_who(verdict.trigger), "reason": None}
        cause = "its cause is not known"
        if verdict.cause is not None:
            cause = phrase(verdict.cause, "a member" if trigger is None else who(trigger))
        took_ms = after.at_ms - began_ms
        text = f"rebalance {after.generation - 1} → {after.generation}, {seconds(took_ms)}: {cause}"
        text += f"; {plural(len(after.members), 'member')}, {after.protocol or 'no protocol'}{_sure(verdict.certainty)}"
        members = [
            {**_who(member), "joined": None, "assignment": group.assignments.get(member.member_id, [])}
            for member in after.members
        ]
        yield _event(
            record, name, "rebalance_completed" if after.members else "group_emptied", after.at_ms,
            generation=after.generation, cause=verdict.cause, trigger=trigger, took_ms=took_ms,
            join_phase_ms=max(after.joined_ms - began_ms, 0), sync_phase_ms=after.at_ms - after.joined_ms,
            members=members, certainty=verdict.certainty, sentence=text if after.members else "the group is empty",
        )  # fmt: skip

    # ---- groups with epochs

    def _keep(self, group: _Group, kind: int, key: Any, record: OffsetsRecord) -> None:
        value = None
        if record.value is not None:
            version, message = OFFSETS.decode_value(kind, record.value)
            value = as_json(message, version)
        what = _text(key, "member_id", "regular_expression")
        of_type = _SHARE if kind in OF_SHARE_GROUPS else _STREAMS if kind in OF_STREAMS_GROUPS else ""
        if of_type != group.kind:
            group.records.clear()
            group.kind, group.epoch = of_type, -1
        kind = OF_SHARE_GROUPS.get(kind) or OF_STREAMS_GROUPS.get(kind, kind)
        group.records.append(epoch_image.Record(record.offset, record.at_ms, kind, what, value))

    def _epochs(self, name: str, record: OffsetsRecord) -> Iterator[StoredEvent]:
        group = self._groups[name]
        records: Iterable[epoch_image.Record] = group.records
        if group.kind == _STREAMS:
            records = as_partitions(records)
        folded = fold(records, self.names, is_shared=group.kind == _SHARE)
        states = [one for one in folded if isinstance(one, epoch_image.State)]
        epochs = [_epoch(one) for one in states]
        first, places = group.epoch, {one.epoch: one.offset for one in states if one.epoch is not None}
        for one in raised(epochs):
            if one.epoch.number > first:
                yield from _raised(record._replace(offset=places[one.epoch.number]), name, one)
        numbers = [one.epoch for one in states if one.epoch is not None]
        group.epoch = max(numbers, default=-1) if states and states[-1].epoch is not None else -1


def _raised(record: OffsetsRecord, name: str, one: Raised) -> Iterator[StoredEvent]:
    epoch = one.epoch
    there = {member.member_id: member for member in epoch.members}
    for number, member_id in enumerate(one.change.joined):
        if member_id in there:
            facts = _who_of_epoch(there[member_id])
            text = f"{who(facts)} joined"
            yield _event(record, name, "member_joined", epoch.began_ms, f"joined{number}", member=facts,
                         sentence=text)  # fmt: skip
    for number, gone in enumerate(one.departed):
        facts = _who_of_epoch(gone.member)
        kind = "member_expired" if gone.how == EXPIRED else "member_left"
        text = f"{who(facts)} {'was silent for its session timeout' if gone.how == EXPIRED else 'left'}"
        yield _event(record, name, kind, gone.at_ms, f"gone{number}", member=facts, sentence=text)
    trigger = None if one.trigger is None else {**_who_of_epoch(one.trigger), "reason": None}
    cause = "its cause is not known"
    if one.cause is not None:
        cause = phrase(one.cause, "a member" if trigger is None else who(trigger))
    text = f"epoch {epoch.number} began: {cause}; {plural(len(epoch.members), 'member')}{_sure(one.certainty)}"
    yield _event(record, name, "epoch_reconciled", epoch.began_ms, epoch=epoch.number, cause=one.cause,
                 trigger=trigger, took_ms=0, member_count=len(epoch.members), sentence=text)  # fmt: skip


def _epoch(state: epoch_image.State) -> Epoch | None:
    if state.epoch is None:
        return None
    return Epoch(state.epoch, state.began_ms, state.at_ms, state.members, state.change, {})


def _event(record: OffsetsRecord, group: str, kind: str, time_ms: int, more: str = "", **facts: Any) -> StoredEvent:
    place = f"{record.partition}:{record.offset}{':' if more else ''}{more}"
    return StoredEvent(place, {"v": 1, "kind": kind, "group": group, "time": time_ms, "inferred": True, **facts})


def _text(key: Any, *names: str) -> str:
    """The first of these fields that a key has; without one, an empty text."""
    found: str = next((getattr(key, name) for name in names if getattr(key, name, None)), "")
    return found


def _sure(certainty: float) -> str:
    return "" if certainty >= SURE else f" (inferred, {certainty:.0%} sure)"


def _who(member: Member) -> dict[str, Any]:
    return {
        "member": member.member_id,
        "instance": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "session_timeout_ms": member.session_timeout_ms,
    }


def _who_of_epoch(member: epoch_image.Member) -> dict[str, Any]:
    return {
        "member": member.member_id,
        "instance": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "session_timeout_ms": member.session_timeout_ms or 0,
    }


def _state(value: Any, at_ms: int) -> State:
    joined_ms = value.current_state_timestamp if value.current_state_timestamp > 0 else at_ms
    members = tuple(_member(value, one) for one in value.members)
    topics: set[str] = set()
    counts: dict[str, int] = {}
    for one in value.members:
        if value.protocol_type == PROTOCOL_TYPE:
            topics.update(_read(subscribed_topics, one.subscription) or ())
        for row in _assigned(value, one):
            counts[row["topic"]] = counts.get(row["topic"], 0) + len(row["partitions"])
    return State(value.generation, at_ms, min(joined_ms, at_ms), value.protocol, value.leader, members,
                 frozenset(topics), counts)  # fmt: skip


def _member(value: Any, one: Any) -> Member:
    topics = owned = None
    if value.protocol_type == PROTOCOL_TYPE:
        topics = _read(subscribed_topics, one.subscription)
        subscription = _read(decode_subscription, one.subscription)
        owned = None if subscription is None else subscription[1].owned_partitions
    return Member(
        one.member_id,
        one.group_instance_id,
        one.client_id,
        one.client_host,
        one.session_timeout,
        one.rebalance_timeout if one.rebalance_timeout > 0 else one.session_timeout,
        None if topics is None else hash(tuple(sorted(topics))),
        sum(len(row.partitions) for row in owned or ()),
        sum(len(row["partitions"]) for row in _assigned(value, one)),
        hash(bytes(one.subscription)),
    )


def _assigned(value: Any, one: Any) -> list[dict[str, Any]]:
    found = _read(decode_assignment, one.assignment) if value.protocol_type == PROTOCOL_TYPE else None
    rows = () if found is None else found[1].assigned_partitions
    return [{"topic": row.topic, "partitions": list(row.partitions)} for row in rows]


def _read(decode: Any, data: bytes | None) -> Any:
    if not data:
        return None
    try:
        return decode(bytes(data))
    except MalformedMessage:
        return None
