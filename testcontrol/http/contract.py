"""The contract of the control, `openapi.json`, in code: fields of a request, and objects of an answer."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple, TypeVar

from muster.coordinator.http.failure import Failure
from muster.coordinator.server.group_views import GroupView, MemberView, Owned
from muster.coordinator.topics.names import INTERNAL_TOPICS
from muster.testcontrol.checks import called, sentence, whole_or_none
from muster.testcontrol.nodes import NodeView
from muster.testcontrol.server_control import ServerControl
from muster.testcontrol.topics import Record

_WORDS: Final = {int: "a whole number", str: "a text", list: "a list", dict: "an object"}

MAX_NAMED: Final = 5
"""The most unknown fields that a refusal names."""
MAX_DIGITS: Final = 18
"""The most digits of a number in a query: such a number always fits in 63 bits."""

T = TypeVar("T")


class Fields:
    """The fields of a JSON object, each taken once; `end` refuses the other fields."""

    def __init__(self, given: Any) -> None:
        if not isinstance(given, dict):
            raise Failure("bad-request", "the body is to be a JSON object")
        self.given: dict[str, Any] = given
        self._read: set[str] = set()

    def optional(self, name: str, kind: type[T], default: Any = None) -> Any:
        """The field, or `default` where it is left out or null. Raises Failure when the field is of another type."""
        self._read.add(name)
        value = self.given.get(name)
        if value is None:
            return default
        if not isinstance(value, kind) or isinstance(value, bool):
            raise Failure("bad-request", sentence(name, value, _WORDS[kind]))
        return value

    def required(self, name: str, kind: type[T]) -> T:
        """The field, which is required. Raises Failure."""
        found: T | None = self.optional(name, kind)
        if found is None:
            raise Failure("bad-request", f"{name} is missing; {_WORDS[kind]} was expected")
        return found

    def number(self, name: str, default: int | None = None, least: int = 0) -> Any:
        """A number that is not less than `least`. Raises Failure or WrongValue."""
        return whole_or_none(name, self.optional(name, int, default), least)

    def any(self, name: str) -> Any:
        """The field, of any type."""
        self._read.add(name)
        return self.given.get(name)

    def end(self) -> None:
        """Raises Failure when the object has fields that were not taken."""
        left = sorted(self.given.keys() - self._read)
        if left:
            raise Failure("bad-request", f"{', '.join(map(called, left[:MAX_NAMED]))} means nothing here")


def query_number(query: Mapping[str, str], name: str, default: int | None) -> Any:
    """A number in the query. Raises Failure."""
    text = query.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > MAX_DIGITS:
        raise Failure("bad-request", sentence(name, text, _WORDS[int]))
    return int(text)


class VerbCall(NamedTuple):
    """A request. `path`: the parameters in the path, by their names in the contract."""

    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Fields


Answer = Mapping[str, Any]
Verb = Callable[[ServerControl, VerbCall], Answer | Awaitable[Answer]]
DONE: Final[Answer] = {"done": True}


@cache
def contract() -> dict[str, Any]:
    """The contract: `openapi.json`."""
    read: dict[str, Any] = json.loads(files(__package__).joinpath("openapi.json").read_text(encoding="utf-8"))
    return read


def topic_json(control: ServerControl, name: str) -> dict[str, Any]:
    """The contract's `Topic`. Raises CannotBeDone when the topic does not exist."""
    starts, ends = control.topics.start_offsets(name), control.topics.end_offsets(name)
    leaders = control.server.cluster.leaders[name]
    return {
        "name": name,
        "internal": name in INTERNAL_TOPICS,
        "partitions": [
            {
                "partition": index,
                "leader": leaders[index].broker_id,
                "start_offset": starts[index],
                "end_offset": ends[index],
            }
            for index in sorted(ends)
        ],
    }


def record_json(one: Record) -> dict[str, Any]:
    """The contract's `Record`."""
    return {
        "partition": one.partition,
        "offset": one.offset,
        "timestamp_ms": one.timestamp_ms,
        "key": _text(one.key),
        "value": _text(one.value),
        "key_base64": _base64(one.key),
        "value_base64": _base64(one.value),
        "headers": {name: _text(value) or "" for name, value in one.headers},
        "headers_base64": [[name, _base64(value)] for name, value in one.headers],
    }


def _text(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def group_json(control: ServerControl, view: GroupView) -> dict[str, Any]:
    """The contract's `Group`."""
    leader = next((one.member_id for one in view.members if one.is_leader), None)
    return {
        "group": view.group_id,
        "type": view.kind or "classic",
        "state": view.state,
        "generation": view.generation,
        "protocol": view.protocol,
        "leader": leader,
        "coordinator": view.node,
        "held": control.joins.holds(view.group_id),
        "members": [_member(one) for one in view.members],
    }


def _member(one: MemberView) -> dict[str, Any]:
    return {
        "member_id": one.member_id,
        "instance_id": one.instance_id,
        "client_id": one.client_id,
        "host": one.host,
        "assignment": _owned(one.assignment),
        "owned": _owned(one.revoking),
        "subscription": list(one.subscribed),
        "epoch": None if one.protocol == "classic" else one.epoch,
        "doing": one.doing,
        "session_timeout_ms": one.session_timeout_ms,
    }


def _owned(owned: Owned) -> list[dict[str, Any]]:
    return [{"topic": name, "partitions": list(partitions)} for name, partitions in sorted(owned.items())]


def offsets_json(view: GroupView) -> dict[str, Any]:
    """The contract's `Offsets`."""
    rows, total = [], 0
    for name, committed in sorted(view.offsets.items()):
        ends: Mapping[int, int] = view.end_offsets.get(name, {})
        for index, offset in sorted(committed.items()):
            end = ends.get(index)
            lag = None if end is None else max(end - offset, 0)
            total += lag or 0
            rows.append({"topic": name, "partition": index, "offset": offset, "end_offset": end, "lag": lag})
    return {"offsets": rows, "lag": total}


def records_json(view: GroupView) -> dict[str, Any]:
    """The contract's `GroupRecords`."""
    rows = [
        {"topic": name, "partition": index, **asdict(its), "held": dict(its.held)}
        for name, partitions in view.records.items()
        for index, its in partitions.items()
    ]
    return {"records": rows, "lag": view.total_lag}


def node_json(view: NodeView) -> dict[str, Any]:
    """The contract's `Node`."""
    fields = asdict(view)
    return {"node": fields.pop("node_id"), **fields}
