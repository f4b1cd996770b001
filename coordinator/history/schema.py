"""The JSON of `__group_events`: the record value of each event, as described in `docs/events.md`.

Every value has `v` (the schema's version), `kind`, `group`, `time` (wall ms) and the fields of its kind. A field is
never renamed and never changes its meaning under the same `v`. One value may have 1,000 members. So the text is made in
pieces of less than a millisecond, without a general encoder. A text of more than `MAX_BYTES` is refused.
"""

from __future__ import annotations

import json
from binascii import b2a_base64
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import nsmallest
from itertools import islice
from json.encoder import encode_basestring as quote
from typing import Any, Final

from muster.assignors.measures import Moves, moves_in_steps
from muster.coordinator.groups.classic.group import CONSUMER
from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event, MemberFacts, Trigger
from muster.coordinator.groups.common.group import Protocols
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.history import ownership
from muster.coordinator.history.ownership import Owned

VERSION: Final = 1
"""The version of the schema, which grows only if old readers would misread a value."""
PROTOCOLS_KEPT: Final = 64
"""How many texts of members' protocols are cached, since most members of a group have the same protocols."""
LONGEST_KEPT: Final = 1_024
"""The text of longer metadata is not cached: it would stay in memory when no member has the metadata."""
FEW_PROTOCOLS: Final = 16
"""The text of more protocols of one member is not cached."""
MAX_METADATA: Final = 64 * 1024
"""The limit for one member's metadata in an event, in bytes. Above the limit, the event has only the size."""
MAX_METADATA_OF_ALL: Final = 4 * 1024 * 1024
"""The limit for the metadata of all members together. Cached metadata does not count."""
LONGEST_NAME: Final = 249
"""The longest name of a protocol, in characters. A longer name is cut, and ends with "…"."""
MAX_BYTES: Final = 16 * 1024 * 1024 - 1024
"""The largest event, in bytes. An event is one record, which must fit into a segment and into a consumer's memory."""
BYTES_A_PIECE: Final = 8 * 1024
"""How many bytes of text about members are made in one piece, in half a millisecond."""
ENTRIES_A_PIECE: Final = 200
"""How many rows of a list or of an object are made in one piece."""
LEAST_MEMBER_BYTES: Final = 200
"""A lower bound for the bytes of a member's text, without names, metadata and assignment."""
PARTITIONS_A_PIECE: Final = 2_000
"""How many partitions of targets are handled in one piece, in half a millisecond."""
A_TOPIC: Final = 8
"""One topic of a target takes as much time as this number of partitions."""
MAX_TOPICS: Final = 20
"""How many topics have a row of moved partitions in TARGET_ASSIGNED."""
FACTS_OF_CLASSIC: Final = 3
"""The number of facts in MEMBER_JOINED of a classic group. A consumer group's event has more facts."""
SETTINGS: Final = (
    "group_initial_rebalance_delay_ms",
    "group_min_session_timeout_ms",
    "group_max_session_timeout_ms",
    "group_max_size",
)
"""The settings in REBALANCE_COMPLETED, by their names in `GroupSettings`."""

_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class TooLarge(ValueError):
    """An event that would be longer than `MAX_BYTES`."""

    def __init__(self, size: int) -> None:
        super().__init__(f"{size} bytes or more, and {MAX_BYTES} is the most")


def to_json(event: Event, wall_ms: int) -> bytes:
    """The record value of an event. Raises TooLarge."""
    return "".join(filter(None, pieces(event, wall_ms))).encode("utf-8", "surrogatepass")


def short_json(event: Event, wall_ms: int) -> bytes | None:
    """The record value of an event with at most one member. None for other events, which need `pieces`."""
    whole = _WHOLE.get(event.kind)
    if whole is None:
        return None
    return f"{_head(event, wall_ms)}{whole(event.facts)}}}".encode("utf-8", "surrogatepass")


def pieces(event: Event, wall_ms: int) -> Iterator[str | None]:
    """The text of an event's value, in pieces. None means a piece of work without text. Raises TooLarge."""
    yield _head(event, wall_ms)
    whole = _WHOLE.get(event.kind)
    if whole is not None:
        yield whole(event.facts)
    else:
        yield from _IN_PIECES.get(event.kind, _plain_pieces)(event.facts)
    yield "}"


def _head(event: Event, wall_ms: int) -> str:
    return f'{{"v":{VERSION},"kind":"{event.kind}","group":{quote(event.group_id)},"time":{wall_ms}'


def plain_json(kind: str, group_id: str | None, wall_ms: int, facts: Mapping[str, object]) -> bytes:
    """The record value of an event that the core does not report. `facts` are JSON values."""
    head = {"v": VERSION, "kind": kind, "group": group_id, "time": wall_ms}
    return _json(head | dict(facts)).encode("utf-8", "surrogatepass")


# ---- the text of each kind of event after the head, beginning with a comma


def _plain(facts: dict[str, Any]) -> str:
    return "".join(f",{quote(name)}:{_json(value)}" for name, value in facts.items())


def _plain_pieces(facts: dict[str, Any]) -> Iterator[str]:
    for name, value in facts.items():
        if isinstance(value, dict):
            yield f",{quote(name)}:{{"
            comma = ""
            for some in _portions(value):
                yield comma + _json(some)[1:-1]
                comma = ","
            yield "}"
        else:
            yield f",{quote(name)}:{_json(value)}"


def _portions(rows: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows in portions of one piece each, limited by the number of rows or of their partitions."""
    some: dict[str, Any] = {}
    weight = 0.0
    for name, value in rows.items():
        partitions = len(value) if isinstance(value, list | tuple) else 0
        weight += 1 / ENTRIES_A_PIECE + partitions / PARTITIONS_A_PIECE
        some[name] = value
        if weight >= 1:
            yield some
            some, weight = {}, 0.0
    if some:
        yield some


def _joined(facts: dict[str, Any]) -> str:
    reason, protocol_type = _text(facts["reason"]), _text(facts["protocol_type"])
    fields = f',"member":{_member(facts["member"], None)},"protocol_type":{protocol_type},"reason":{reason}'
    return (
        fields
        if len(facts) == FACTS_OF_CLASSIC
        else fields + _plain(dict(islice(facts.items(), FACTS_OF_CLASSIC, None)))
    )


def _member_event(facts: dict[str, Any]) -> str:
    rest = _plain({name: value for name, value in facts.items() if name != "member"})
    return f',"member":{_member(facts["member"], None)}{rest}'


def _with_trigger(facts: dict[str, Any]) -> str:
    rest = {name: value for name, value in facts.items() if name != "trigger"}
    return f',"trigger":{_trigger(facts["trigger"])}{_plain(rest)}'


def _target(facts: dict[str, Any]) -> Iterator[str | None]:
    """The text of TARGET_ASSIGNED. This function counts the moved partitions, because no request waits for it."""
    changes, image = facts["changes"], facts["names"]
    yield _plain({name: value for name, value in facts.items() if name not in ("changes", "names")})
    yield f',"changed":{len(changes)}'
    given: dict[bytes, set[int]] = {}
    taken: dict[bytes, set[int]] = {}
    weight = 0
    for _, before, after in changes:
        had, has = dict(before), dict(after)
        for topic_id in had.keys() | has.keys():
            old, new = had.get(topic_id, ()), has.get(topic_id, ())
            weight += len(old) + len(new) + A_TOPIC
            if old != new:
                given.setdefault(topic_id, set()).update(set(new).difference(old))
                taken.setdefault(topic_id, set()).update(set(old).difference(new))
            if weight > PARTITIONS_A_PIECE:
                weight = 0
                yield None
    rows, sums = [], [0, 0, 0]
    for topic_id in given.keys() | taken.keys():
        new, old = given.get(topic_id, set()), taken.get(topic_id, set())
        moved = len(new & old)
        if new or old:
            topic = image.by_id.get(topic_id)
            name = image.deleted.get(topic_id) if topic is None else topic.name
            row = (name, moved, len(new) - moved, len(old) - moved)
            rows.append(row)
            sums = [before + more for before, more in zip(sums, row[1:], strict=True)]
        weight += len(old) + len(new) + A_TOPIC
        if weight > PARTITIONS_A_PIECE:
            weight = 0
            rows = _most_moved(rows)
            yield None
    yield f',"moved":{sums[0]},"gained":{sums[1]},"lost":{sums[2]}'
    names = ("topic", "moved", "gained", "lost")
    yield f',"moves":{_json([dict(zip(names, row, strict=True)) for row in _most_moved(rows)])}'


def _most_moved(rows: list[tuple[str | None, int, int, int]]) -> list[tuple[str | None, int, int, int]]:
    return nsmallest(MAX_TOPICS, rows, key=lambda row: (-row[1], row[0] or ""))


def _started(facts: dict[str, Any]) -> str:
    return (
        f',"cause":"{facts["cause"]}","trigger":{_trigger(facts["trigger"])},"generation":{facts["generation"]}'
        f',"members":{facts["members"]},"state":"{facts["state"]}"'
    )


def _failed(facts: dict[str, Any]) -> Iterator[str | None]:
    members: Sequence[MemberFacts] = facts["members"]
    yield (
        f',"generation":{facts["generation"]},"cause":"{facts["cause"]}","join_phase_ms":{_json(facts["join_phase_ms"])}'
        f',"took_ms":{facts["took_ms"]},"members":['
    )
    yield from _listed((yield from _members(members, None)))


def _completed(facts: dict[str, Any]) -> Iterator[str | None]:
    members: Sequence[MemberFacts] = facts["members"]
    now = then = None
    if facts["protocol_type"] == CONSUMER:
        now = yield from ownership.read((one.member, one.assignment) for one in members)
        then = yield from ownership.read(facts["before"].items())
    texts = yield from _members(members, now)
    moved = None if now is None or then is None else (yield from moves_in_steps(then, now))
    yield (
        f',"generation":{facts["generation"]},"protocol_type":{_text(facts["protocol_type"])}'
        f',"protocol":{_text(facts["protocol"])},"votes":{_counts(facts["votes"])},"leader":{_text(facts["leader"])}'
        f',"cause":"{facts["cause"]}","trigger":{_trigger(facts["trigger"])},"join_phase_ms":{facts["join_phase_ms"]}'
        f',"sync_phase_ms":{facts["sync_phase_ms"]},"took_ms":{facts["took_ms"]},"topics":{{'
    )
    comma = ""
    for some in _portions(facts["topics"]):
        yield comma + _counts(some)[1:-1]
        comma = ","
    yield (f'}},"settings":{_settings(facts["settings"])},"before":[{",".join(map(quote, facts["before"]))}],"moves":')
    if moved is None:
        yield "null"
    else:
        yield "["
        yield from _listed(_moves(moved))
    yield ',"members":['
    yield from _listed(texts)


# ---- parts of several kinds


def _trigger(trigger: Trigger | None) -> str:
    if trigger is None:
        return "null"
    name, instance, client_id, host, reason = trigger
    return (
        f'{{"member":{quote(name)},"instance":{_text(instance)},"client_id":{quote(client_id)},"host":{quote(host)}'
        f',"reason":{_text(reason)}}}'
    )


def _members(members: Sequence[MemberFacts], owned: Mapping[str, Owned] | None) -> Generator[None, None, Sequence[str]]:
    """The texts of members, a few in each step. Raises TooLarge as soon as the limit is exceeded."""
    least = len(members) * LEAST_MEMBER_BYTES
    if least > MAX_BYTES:
        raise TooLarge(least)
    texts: list[str] = []
    some: list[str] = []
    size = left = 0
    metadata = MAX_METADATA_OF_ALL
    for member in members:
        text = _member(member, None if owned is None else owned[member.member], min(metadata, MAX_METADATA))
        some.append(text)
        if len(text) > LONGEST_KEPT:
            metadata = max(metadata - len(text) * 3 // 4, 0)
        left += len(text) + LEAST_MEMBER_BYTES
        if left > BYTES_A_PIECE:
            size += left
            if size > MAX_BYTES:
                raise TooLarge(size)
            texts.append(",".join(some))
            some, left = [], 0
            yield
    if some:
        texts.append(",".join(some))
    return texts


def _member(member: MemberFacts, owned: Owned | None, most_metadata: int = MAX_METADATA) -> str:
    (name, instance, client_id, host, session_timeout_ms, rebalance_timeout_ms, protocols, joined_ms, synced_ms,
     heard_ms, assignment) = member  # fmt: skip
    has = "null" if owned is None else _owned(owned)
    raw = f'"{_base64(assignment)}"' if owned is None and assignment else "null"
    return (
        f'{{"member":{quote(name)},"instance":{"null" if instance is None else quote(instance)}'
        f',"client_id":{quote(client_id)},"host":{quote(host)},"session_timeout_ms":{session_timeout_ms}'
        f',"rebalance_timeout_ms":{rebalance_timeout_ms},"joined":{"null" if joined_ms is None else joined_ms}'
        f',"synced":{"null" if synced_ms is None else synced_ms},"heard":{"null" if heard_ms is None else heard_ms}'
        f',"protocols":{_protocols(protocols, most_metadata)},"assignment":{has},"assignment_base64":{raw}}}'
    )


def _protocols(protocols: Protocols, most: int) -> str:
    if len(protocols) > FEW_PROTOCOLS:
        return _long_protocols(protocols, most)
    for _, metadata in protocols:
        if len(metadata) > LONGEST_KEPT:
            return _long_protocols(protocols, most)
    return _short_protocols(protocols)


def _long_protocols(protocols: Protocols, most: int = MAX_METADATA) -> str:
    left, rows = most, []
    for name, metadata in protocols:
        if len(name) > LONGEST_NAME:
            name = name[: LONGEST_NAME - 1] + "…"
        if len(metadata) <= left:
            left -= len(metadata)
            rows.append(f'{{"name":{quote(name)},"metadata":"{_base64(metadata)}"}}')
        else:
            rows.append(f'{{"name":{quote(name)},"metadata":null,"metadata_bytes":{len(metadata)}}}')
    return f"[{','.join(rows)}]"


_short_protocols = lru_cache(PROTOCOLS_KEPT)(_long_protocols)


def _base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode("ascii")


def _owned(owned: Owned) -> str:
    # A list of rows, without names as keys, can be read with a fixed schema (Spark).
    if not owned:
        return "[]"
    rows = [f'{{"topic":{quote(topic)},"partitions":[{",".join(map(str, one))}]}}' for topic, one in owned.items()]
    return f"[{','.join(rows)}]"


def _moves(moved: Mapping[str, Moves]) -> Iterator[str]:
    rows = iter(moved.items())
    while some := tuple(islice(rows, ENTRIES_A_PIECE)):
        yield ",".join(
            f'{{"topic":{quote(topic)},"kept":{one.kept},"moved":{one.moved},"gained":{one.gained},"lost":{one.lost}}}'
            for topic, one in some
        )


def _listed(texts: Iterable[str]) -> Iterator[str]:
    """The text of a list's rows in pieces of some rows, and then the closing bracket."""
    comma = ""
    for text in texts:
        yield comma + text
        comma = ","
    yield "]"


def _counts(counts: Mapping[str, int]) -> str:
    return f"{{{','.join([f'{quote(name)}:{count}' for name, count in counts.items()])}}}"


@lru_cache(1)
def _settings(settings: GroupSettings) -> str:
    return _json({name: getattr(settings, name) for name in SETTINGS})


def _text(text: str | None) -> str:
    return "null" if text is None else quote(text)


_WHOLE: Final[dict[str, Callable[[dict[str, Any]], str]]] = {
    events.GROUP_CREATED: _plain,
    events.GROUP_EMPTIED: _plain,
    events.GROUP_DELETED: _plain,
    events.MEMBER_JOINED: _joined,
    events.MEMBER_LEFT: _member_event,
    events.MEMBER_EXPIRED: _member_event,
    events.MEMBER_REMOVED: _member_event,
    events.MEMBER_REPLACED: _member_event,
    events.REBALANCE_STARTED: _started,
    events.MEMBER_AWAY: _member_event,
    events.EPOCH_BUMPED: _with_trigger,
    events.TARGET_FAILED: _plain,
    events.MEMBER_RECONCILED: _plain,
    events.EPOCH_RECONCILED: _with_trigger,
    events.GROUP_UPGRADED: _with_trigger,
    events.GROUP_DOWNGRADED: _with_trigger,
    events.DELIVERIES_FAILED: _plain,
    events.TOPICS_NOT_READY: _plain,
    events.TOPICS_READY: _plain,
    events.TASKS_RESTORING: _member_event,
    events.TASKS_RESTORED: _member_event,
    events.APPLICATION_SHUTDOWN: _member_event,
}
"""The functions for kinds of events with few members or none, whose text is one piece."""
_IN_PIECES: Final[dict[str, Callable[[dict[str, Any]], Iterator[str | None]]]] = {
    events.REBALANCE_FAILED: _failed,
    events.REBALANCE_COMPLETED: _completed,
    events.TARGET_ASSIGNED: _target,
}
