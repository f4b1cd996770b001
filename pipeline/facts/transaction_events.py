"""The transactions of one transactional id, as `__transaction_events` tells them (docs/events.md), and the same put
together with what its records in `__transaction_state` tell. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from muster.coordinator.transactions import events as kinds
from muster.pipeline.facts.schema import EVENTS_LOG
from muster.pipeline.facts.transaction_states import ABORTED, COMMITTED, SURE, Row

Value = Mapping[str, Any]

OFFSETS_TOPIC: Final = "__consumer_offsets"
_ENDED: Final = {kinds.COMMITTED: COMMITTED, kinds.ABORTED: ABORTED}


def read_event(data: bytes | None) -> dict[str, Any] | None:
    """The JSON of an event; None: it is none."""
    try:
        value = json.loads(data or b"")
    except ValueError:
        return None
    return value if isinstance(value, dict) and isinstance(value.get("kind"), str) else None


def transactions_of_events(transactional_id: str, values: Iterable[Value]) -> list[Row]:
    """Rows in the order in which they began; `values` are in the order of the log. Kinds and fields that are not known,
    or of another type, are passed over.
    """
    story = _Story(transactional_id)
    for value in values:
        story.take(value)
    return story.done()


class _Story:
    def __init__(self, transactional_id: str) -> None:
        self._id = transactional_id
        self._rows: dict[int, Row] = {}

    def take(self, value: Value) -> None:
        kind = value["kind"]
        if kind in (kinds.INITIALIZED, kinds.FENCED):
            self._fence(kind, value)
            return
        began = _number(value, "began")
        if began is None:
            return
        row = self._rows.get(began)
        if row is None:
            row = self._rows[began] = self._new(began, value)
        if kind == kinds.BEGUN:
            row |= {name: value.get(name) for name in ("timeout_ms", "client_id", "host")}
        elif kind == kinds.PARTITIONS_ADDED:
            _add(row, value.get("topics"))
        elif kind == kinds.ENDING:
            row["ending_ms"] = _number(value, "time")
            row["outcome"] = COMMITTED if value.get("is_committed") else ABORTED
            row["cause"], row["confidence"] = value.get("cause"), SURE
            row["transaction_version"] = _number(value, "transaction_version")
        elif kind in _ENDED:
            row["end_ms"], row["outcome"] = _number(value, "time"), _ENDED[kind]
            row["transaction_version"] = _number(value, "transaction_version")
            if value.get("cause"):
                row["cause"], row["confidence"] = value["cause"], SURE
            _add(row, value.get("topics"))

    def _new(self, began: int, value: Value) -> Row:
        return {
            "transactional_id": self._id,
            "producer_id": _number(value, "producer_id"),
            "producer_epoch": _number(value, "producer_epoch"),
            "start_ms": began,
            "source": EVENTS_LOG,
            "fenced_requests": 0,
        }

    def _fence(self, kind: str, value: Value) -> None:
        """What concerns the last transaction of the producer that was fenced."""
        if kind == kinds.INITIALIZED:
            who = _number(value, "fenced_producer_id"), _number(value, "fenced_producer_epoch")
        else:
            who = _number(value, "producer_id"), _number(value, "producer_epoch")
        if who[0] is None or who[0] < 0:
            return
        row = self._last_of(*who)
        if row is None:
            return
        if kind == kinds.FENCED:
            row["fenced_requests"] += _number(value, "count") or 0
        row.setdefault("fenced_ms", _number(value, "time"))

    def _last_of(self, producer_id: int | None, epoch: int | None) -> Row | None:
        """The newest transaction of this producer with this epoch or an earlier one."""
        for row in reversed(self._rows.values()):
            if row["producer_id"] == producer_id and (row["producer_epoch"] or 0) <= (epoch or 0):
                return row
        return None

    def done(self) -> list[Row]:
        return [self._rows[began] for began in sorted(self._rows)]


def merged(of_states: Iterable[Row], of_events: Iterable[Row]) -> list[Row]:
    """Rows of both, by when they began: events say more, the state is there when events are not."""
    found = {row["start_ms"]: dict(row) for row in of_states}
    for row in of_events:
        known = found.setdefault(row["start_ms"], {})
        topics = _union(known.get("topics"), row.get("topics"))
        known |= {name: value for name, value in row.items() if value is not None}
        known["topics"] = topics
    return [found[start_ms] for start_ms in sorted(found)]


def _union(one: Mapping[str, set[int]] | None, other: Mapping[str, set[int]] | None) -> dict[str, set[int]] | None:
    if not one or not other:
        return dict(one or other or {}) or None
    return {topic: set(one.get(topic, ())) | set(other.get(topic, ())) for topic in {*one, *other}}


def _add(row: Row, topics: object) -> None:
    if isinstance(topics, dict):
        mine = row.setdefault("topics", {})
        for topic, partitions in topics.items():
            if isinstance(partitions, list):
                mine.setdefault(topic, set()).update(one for one in partitions if isinstance(one, int))


def _number(value: Value, name: str) -> int | None:
    found = value.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) else None
