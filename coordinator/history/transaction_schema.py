"""The JSON of `__transaction_events`: one record's value for each event, as `docs/events.md` describes it. Pure.

Every value has `v` (the schema's version), `kind`, `transactional_id`, `time` (wall ms), `producer_id`,
`producer_epoch` and the fields of its kind. A reader ignores kinds and fields that it does not know. A field is never
renamed and never changes its meaning under the same `v`.
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
"""Of the schema; it grows only when old readers would misread something."""

MOST_PARTITIONS: Final = 2_000
"""An event names its partitions if they are no more than these; else it only says how many they are."""

_RENAMED: Final = {"start_ms": "began", "version": "transaction_version"}
"""Facts of the core that have other names here: times (ms since 1970) have no `_ms`, durations have."""

_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def to_json(event: Event, wall_ms: int) -> bytes:
    """The value of the event's record. The text is built here: a general encoder takes twice the time, and each
    transaction has five events.
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
    """What does not vary in an event of this kind, with these facts: one with a %s for each value."""
    names = "".join(f',"{_RENAMED.get(fact, fact)}":%s' for fact in facts)
    return (
        f'{{"v":{VERSION},"kind":"{kind}","transactional_id":%s,"time":%s,"producer_id":%s,"producer_epoch":%s{names}}}'
    )


def _topics(partitions: Any, is_counted: bool) -> str:
    """Partitions by topic, if they are not too many, and how many they are, unless another fact says that
    (`is_counted`).
    """
    count = sum(map(len, partitions.values()))
    rows = "null"
    if count <= MOST_PARTITIONS:
        rows = ",".join([f"{quote(topic)}:[{','.join(map(str, ids))}]" for topic, ids in partitions.items()])
        rows = f"{{{rows}}}"
    return rows if is_counted else f'{rows},"partitions":{count}'


def partitions_of(event: Event) -> int:
    """How many partitions it would name."""
    topics: Any = event.facts.get("topics")
    return sum(map(len, topics.values())) if topics else 0


def plain_json(kind: str, transactional_id: str | None, wall_ms: int, facts: Mapping[str, Any]) -> bytes:
    """The value of an event that is no core's: facts are what JSON knows."""
    head = {"v": VERSION, "kind": kind, "transactional_id": transactional_id, "time": wall_ms}
    return _json(head | dict(facts)).encode("utf-8", "surrogatepass")


COUNTED: Final = frozenset((events.FENCED, events.REQUEST_REFUSED))
"""Kinds that clients repeat as often as they like: the journal counts them."""
