"""The values of `__transaction_events` are what docs/events.md says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from muster.coordinator.history.transaction_journal import (
    COUNTED,
    MAX_PARTITIONS,
    plain_transaction_json,
    transaction_json,
)
from muster.coordinator.transactions import events
from muster.coordinator.transactions.events import Event
from tests.coordinator.history import happenings as happened

EACH = [
    happened.initialized(),
    happened.begun(),
    happened.added({"orders": [0]}),
    happened.ending(),
    happened.ended(),
    happened.ended(events.ABORTED, None),
    happened.expired(),
]


@pytest.mark.parametrize("event", EACH, ids=lambda event: event.kind)
def test_every_field_of_every_kind_is_in_the_docs(event: Event) -> None:
    page = (Path(__file__).parents[3] / "docs" / "events.md").read_text(encoding="utf-8")
    page = page.partition("# What transactional ids did")[2]
    row = next(line for line in page.splitlines() if line.startswith("| ") and f"`{event.kind}`" in line)
    value = json.loads(transaction_json(event, 5))
    head = {name: value.pop(name) for name in ("v", "kind", "transactional_id", "time", "producer_id")}
    assert head == {"v": 1, "kind": event.kind, "transactional_id": "pay-1", "time": 5, "producer_id": 4000}
    assert value.pop("producer_epoch") == event.producer_epoch
    assert set(value) <= set(re.findall("`([a-z_]+)`", row))


def test_very_many_partitions_are_shown_as_a_number() -> None:
    value = json.loads(transaction_json(happened.added({"orders": list(range(MAX_PARTITIONS + 1))}), 5))
    assert (value["topics"], value["partitions"]) == (None, MAX_PARTITIONS + 1)
    value = json.loads(transaction_json(happened.ended(), 5))
    assert (value["topics"]["orders"], value["partitions"]) == ([0, 2], 3)


def test_every_kind_of_transaction_event_is_written() -> None:
    assert {one.kind for one in EACH} | COUNTED == set(events.KINDS)


def test_transaction_events_are_valid_for_any_name() -> None:
    event = Event(events.BEGUN, 'ü"\ud800', 1, 2, {})
    assert json.loads(transaction_json(Event(events.BEGUN, 'ü"', 1, 2, {}), 5))["transactional_id"] == 'ü"'
    assert transaction_json(event._replace(facts={"start_ms": 3}), 5).endswith(b',"began":3}')
    assert json.loads(plain_transaction_json("shard_loaded", None, 5, {"partition": 1}))["transactional_id"] is None


@pytest.mark.parametrize("event", EACH, ids=lambda event: event.kind)
def test_the_json_text_equals_a_general_encoders(event: Event) -> None:
    text = transaction_json(event, 5)
    assert text == json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":")).encode()
    facts = json.loads(text)
    for name, value in event.facts.items():
        assert facts[{"start_ms": "began", "version": "transaction_version"}.get(name, name)] == value
