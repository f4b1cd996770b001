"""The JSON of `__transaction_events`: one record's value for each event, as `docs/events.md` describes it. Pure.

Every value has `v` (the schema's version), `kind`, `transactional_id`, `time` (wall ms), `producer_id`,
`producer_epoch` and the fields of its kind. A reader ignores unknown kinds and fields. A field is never renamed and
never changes its meaning under the same `v`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from json.encoder import encode_basestring as quote
from typing import Any, Final

from muster.coordinator.transactions import events
from muster.coordinator.transactions.events import Event

VERSION: Final = 1
"""The version of the schema. It grows only when old readers would misread something."""

MOST_PARTITIONS: Final = 2_000
"""An event with at most this many partitions names them. Else it only has their number."""

_RENAMED: Final = {"start_ms": "began", "version": "transaction_version"}
"""Facts of the core with other names here. Names of times (ms since 1970) have no `_ms`; names of durations have it."""

_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def to_json(event: Event, wall_ms: int) -> bytes:
    """The value of the event's record.

    The text is built here: a general encoder takes twice the time, and each transaction has five events.
    """
    kind, name, producer_id, producer_epoch, facts = event
    values = [
        value
        if type(value) is int
        else quote(value)
        if type(value) is str
        else _topics(value, "partitions" in facts)
        if fact == "topics"
        else "true"
        if value is True
        else _json(value)
        for fact, value in facts.items()
    ]
    text: str = _form(kind, *facts) % (quote(name), wall_ms, producer_id, producer_epoch, *values)
    return text.encode("utf-8", "surrogatepass")


@lru_cache(maxsize=100)
def _form(kind: str, *facts: str) -> str:
    """The constant text of an event of this kind with these facts. It has a %s for each value."""
    names = "".join(f',"{_RENAMED.get(fact, fact)}":%s' for fact in facts)
    return (
        f'{{"v":{VERSION},"kind":"{kind}","transactional_id":%s,"time":%s,"producer_id":%s,"producer_epoch":%s{names}}}'
    )


def _topics(partitions: Any, is_counted: bool) -> str:
    """Partitions by topic, if they are not too many, and their number.

    With `is_counted` another fact has the number.
    """
    count = sum(map(len, partitions.values()))
    rows = "null"
    if count <= MOST_PARTITIONS:
        rows = ",".join([f"{quote(topic)}:[{','.join(map(str, ids))}]" for topic, ids in partitions.items()])
        rows = f"{{{rows}}}"
    return rows if is_counted else f'{rows},"partitions":{count}'


def partitions_of(event: Event) -> int:
    """How many partitions the event would name."""
    topics: Any = event.facts.get("topics")
    return sum(map(len, topics.values())) if topics else 0


def plain_json(kind: str, transactional_id: str | None, wall_ms: int, facts: Mapping[str, Any]) -> bytes:
    """The value of an event that the core does not report. Its facts are JSON values."""
    head = {"v": VERSION, "kind": kind, "transactional_id": transactional_id, "time": wall_ms}
    return _json(head | dict(facts)).encode("utf-8", "surrogatepass")


COUNTED: Final = frozenset((events.FENCED, events.REQUEST_REFUSED))
"""Kinds that clients can repeat as often as they like: the journal counts them."""
