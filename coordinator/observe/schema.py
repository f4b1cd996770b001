"""The JSON of `__group_events`: one record's value for each event, as `docs/events.md` describes it. Pure.

Every value has `v` (the schema's version), `kind`, `group`, `time` (wall ms) and what its kind has. A reader skips
kinds and fields that it does not know; a field is never renamed and never changes its meaning under the same `v`.

Text is put together here rather than by a general encoder: a group of 1,000 members is told of in one value, while
everybody else waits.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from json.encoder import encode_basestring as quote
from typing import Any, Final

from muster.assignors.measures import moves
from muster.coordinator.groups import events
from muster.coordinator.groups.events import MemberFacts, Trigger
from muster.coordinator.groups.interface import Event
from muster.coordinator.groups.members import Protocols
from muster.coordinator.groups.settings import GroupSettings
from muster.coordinator.observe import ownership
from muster.coordinator.observe.ownership import Owned

VERSION: Final = 1
"""Of the schema; it grows only when old readers would misread something."""
PROTOCOLS_KEPT: Final = 64
"""Texts of protocols that are remembered, since most members of a group say the same."""
SETTINGS: Final = (
    "group_initial_rebalance_delay_ms",
    "group_min_session_timeout_ms",
    "group_max_session_timeout_ms",
    "group_max_size",
)
"""The settings that a completed rebalance tells, by their names in `GroupSettings`."""

_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def to_json(event: Event, wall_ms: int) -> bytes:
    """The value of the event's record."""
    tell = _TELL.get(event.kind, _plain)
    head = f'{{"v":{VERSION},"kind":"{event.kind}","group":{quote(event.group_id)},"time":{wall_ms}'
    return f"{head}{tell(event.facts)}}}".encode("utf-8", "surrogatepass")


def plain_json(kind: str, group_id: str | None, wall_ms: int, facts: Mapping[str, object]) -> bytes:
    """The value of an event that is no core's: facts are what JSON knows."""
    head = {"v": VERSION, "kind": kind, "group": group_id, "time": wall_ms}
    return _json(head | dict(facts)).encode("utf-8", "surrogatepass")


# ---- each kind: what follows the head, beginning with a comma


def _plain(facts: dict[str, Any]) -> str:
    return "".join(f",{quote(name)}:{_json(value)}" for name, value in facts.items())


def _joined(facts: dict[str, Any]) -> str:
    reason, protocol_type = _text(facts["reason"]), _text(facts["protocol_type"])
    return f',"member":{_member(facts["member"], None)},"protocol_type":{protocol_type},"reason":{reason}'


def _member_event(facts: dict[str, Any]) -> str:
    rest = _plain({name: value for name, value in facts.items() if name != "member"})
    return f',"member":{_member(facts["member"], None)}{rest}'


def _started(facts: dict[str, Any]) -> str:
    return (
        f',"cause":"{facts["cause"]}","trigger":{_trigger(facts["trigger"])},"generation":{facts["generation"]}'
        f',"members":{facts["members"]},"state":"{facts["state"]}"'
    )


def _failed(facts: dict[str, Any]) -> str:
    members = _members(facts["members"], [None] * len(facts["members"]))
    join_phase_ms = _json(facts["join_phase_ms"])
    return (
        f',"generation":{facts["generation"]},"cause":"{facts["cause"]}","join_phase_ms":{join_phase_ms}'
        f',"took_ms":{facts["took_ms"]},{members}'
    )


def _completed(facts: dict[str, Any]) -> str:
    members: Sequence[MemberFacts] = facts["members"]
    now, then = ownership.read(facts["protocol_type"], members, facts["before"])
    return (
        f',"generation":{facts["generation"]},"protocol_type":{_text(facts["protocol_type"])}'
        f',"protocol":{_text(facts["protocol"])},"votes":{_counts(facts["votes"])},"leader":{_text(facts["leader"])}'
        f',"cause":"{facts["cause"]}","trigger":{_trigger(facts["trigger"])},"join_phase_ms":{facts["join_phase_ms"]}'
        f',"sync_phase_ms":{facts["sync_phase_ms"]},"took_ms":{facts["took_ms"]},"topics":{_counts(facts["topics"])}'
        f',"settings":{_settings(facts["settings"])},"before":[{",".join(map(quote, facts["before"]))}]'
        f',"moves":{"null" if now is None or then is None else _moves(then, now)}'
        f",{_members(members, [None] * len(members) if now is None else now.values())}"
    )


# ---- parts


def _trigger(trigger: Trigger | None) -> str:
    if trigger is None:
        return "null"
    name, instance, client_id, host, reason = trigger
    return (
        f'{{"member":{quote(name)},"instance":{_text(instance)},"client_id":{quote(client_id)},"host":{quote(host)}'
        f',"reason":{_text(reason)}}}'
    )


def _members(members: Sequence[MemberFacts], owned: Iterable[Owned | None]) -> str:
    return f'"members":[{",".join(map(_member, members, owned))}]'


def _member(member: MemberFacts, owned: Owned | None) -> str:
    (name, instance, client_id, host, session_timeout_ms, rebalance_timeout_ms, protocols, joined_ms, synced_ms,
     heard_ms, assignment) = member  # fmt: skip
    has = "null" if owned is None else _owned(owned)
    raw = f'"{b64encode(assignment).decode()}"' if owned is None and assignment else "null"
    return (
        f'{{"member":{quote(name)},"instance":{"null" if instance is None else quote(instance)}'
        f',"client_id":{quote(client_id)},"host":{quote(host)},"session_timeout_ms":{session_timeout_ms}'
        f',"rebalance_timeout_ms":{rebalance_timeout_ms},"joined":{"null" if joined_ms is None else joined_ms}'
        f',"synced":{"null" if synced_ms is None else synced_ms},"heard":{"null" if heard_ms is None else heard_ms}'
        f',"protocols":{_protocols(protocols)},"assignment":{has},"assignment_base64":{raw}}}'
    )


@lru_cache(PROTOCOLS_KEPT)
def _protocols(protocols: Protocols) -> str:
    rows = (f'{{"name":{quote(name)},"metadata":"{b64encode(metadata).decode()}"}}' for name, metadata in protocols)
    return f"[{','.join(rows)}]"


def _owned(owned: Owned) -> str:
    # one list of rows rather than names as keys: readers with fixed schemas (Spark) can take it
    if not owned:
        return "[]"
    rows = [f'{{"topic":{quote(topic)},"partitions":[{",".join(map(str, one))}]}}' for topic, one in owned.items()]
    return f"[{','.join(rows)}]"


def _moves(then: Mapping[str, Owned], now: Mapping[str, Owned]) -> str:
    rows = [
        f'{{"topic":{quote(topic)},"kept":{one.kept},"moved":{one.moved},"gained":{one.gained},"lost":{one.lost}}}'
        for topic, one in moves(then, now).items()
    ]
    return f"[{','.join(rows)}]"


def _counts(counts: Mapping[str, int]) -> str:
    return f"{{{','.join([f'{quote(name)}:{count}' for name, count in counts.items()])}}}"


@lru_cache(1)
def _settings(settings: GroupSettings) -> str:
    return _json({name: getattr(settings, name) for name in SETTINGS})


def _text(text: str | None) -> str:
    return "null" if text is None else quote(text)


_TELL: Final[dict[str, Callable[[dict[str, Any]], str]]] = {
    events.MEMBER_JOINED: _joined,
    events.MEMBER_LEFT: _member_event,
    events.MEMBER_EXPIRED: _member_event,
    events.MEMBER_REMOVED: _member_event,
    events.MEMBER_REPLACED: _member_event,
    events.REBALANCE_STARTED: _started,
    events.REBALANCE_FAILED: _failed,
    events.REBALANCE_COMPLETED: _completed,
}
