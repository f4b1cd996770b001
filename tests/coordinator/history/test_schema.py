"""The JSON of events is valid, complete, and as `docs/events.md` says."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.coordinator.groups.common import events
from muster.coordinator.groups.common.events import Event, MemberFacts, Trigger
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.history import counts, journal, schema
from muster.protocol.consumer import encode_assignment
from muster.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
)

DOCUMENT = Path(__file__).parents[3] / "docs" / "events.md"


def assignment(**topics: list[int]) -> bytes:
    rows = [ConsumerProtocolAssignmentTopicPartition(topic, partitions) for topic, partitions in topics.items()]
    return encode_assignment(ConsumerProtocolAssignment(rows), 1)


def member(name: str = "m", has: bytes = b"", instance: str | None = None) -> MemberFacts:
    return MemberFacts(name, instance, "c", "/1.2.3.4", 10_000, 60_000, (("range", b"\0\1"),), 11, None, 12, has)


def completed(protocol_type: str = "consumer", **changes: Any) -> Event:
    facts: dict[str, Any] = {
        "generation": 5, "protocol_type": protocol_type, "protocol": "range", "votes": {"range": 2}, "leader": "a",
        "cause": events.LEFT, "trigger": Trigger("c", "i", "me", "/h", None), "join_phase_ms": 1, "sync_phase_ms": 2,
        "took_ms": 3, "members": (member("a", assignment(t=[0, 1])), member("b", assignment(t=[2], u=[0]))),
        "before": {"a": assignment(t=[0]), "b": assignment(t=[2]), "c": assignment(t=[1], v=[0])},
        "topics": {"t": 3, "u": 1}, "settings": GroupSettings(group_max_size=7),
    }  # fmt: skip
    return Event(events.REBALANCE_COMPLETED, "g", facts | changes)


def read(event: Event) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(schema.to_json(event, 1_000))
    return value


def test_the_event_of_a_completed_rebalance_has_all_fields() -> None:
    value = read(completed())
    row = {"instance": None, "client_id": "c", "host": "/1.2.3.4", "session_timeout_ms": 10_000,
           "rebalance_timeout_ms": 60_000, "joined": 11, "synced": None, "heard": 12,
           "protocols": [{"name": "range", "metadata": b64encode(b"\0\1").decode()}],
           "assignment_base64": None}  # fmt: skip
    assert value == {
        "v": 1, "kind": "rebalance_completed", "group": "g", "time": 1_000, "generation": 5,
        "protocol_type": "consumer", "protocol": "range", "votes": {"range": 2}, "leader": "a",
        "cause": "member_left", "join_phase_ms": 1, "sync_phase_ms": 2, "took_ms": 3, "topics": {"t": 3, "u": 1},
        "trigger": {"member": "c", "instance": "i", "client_id": "me", "host": "/h", "reason": None},
        "settings": {"group_initial_rebalance_delay_ms": 3_000, "group_min_session_timeout_ms": 6_000,
                     "group_max_session_timeout_ms": 1_800_000, "group_max_size": 7},
        "before": ["a", "b", "c"],
        "moves": [{"topic": "t", "kept": 2, "moved": 1, "gained": 0, "lost": 0},
                  {"topic": "v", "kept": 0, "moved": 0, "gained": 0, "lost": 1},
                  {"topic": "u", "kept": 0, "moved": 0, "gained": 1, "lost": 0}],
        "members": [
            {"member": "a", "assignment": [{"topic": "t", "partitions": [0, 1]}], **row},
            {"member": "b", "assignment": [{"topic": "t", "partitions": [2]}, {"topic": "u", "partitions": [0]}],
             **row},
        ],
    }  # fmt: skip


@pytest.mark.parametrize("protocol_type", ["connect", "consumer"])
def test_unreadable_assignments_are_kept_as_base64(protocol_type: str) -> None:
    value = read(completed(protocol_type, members=(member("a", b"\0"), member("b")), before={"a": b"\0"}))
    assert value["moves"] is None
    assert [one["assignment"] for one in value["members"]] == [None, None]
    assert [one["assignment_base64"] for one in value["members"]] == ["AA==", None]


def test_only_the_unreadable_previous_assignment_is_omitted() -> None:
    value = read(completed(before={"a": b"\0"}))
    assert (value["moves"], value["before"]) == (None, ["a"])
    assert value["members"][0]["assignment"] == [{"topic": "t", "partitions": [0, 1]}]


def test_the_event_of_a_rebalance_without_a_trigger_is_valid() -> None:
    event = Event(events.REBALANCE_STARTED, "g", {"cause": events.OVER_CAPACITY, "trigger": None, "generation": 4,
                                                  "members": 9, "state": "Stable"})  # fmt: skip
    assert read(event) == {"v": 1, "kind": "rebalance_started", "group": "g", "time": 1_000, "trigger": None,
                           "cause": "group_over_capacity", "generation": 4, "members": 9,
                           "state": "Stable"}  # fmt: skip


def test_the_event_of_a_failed_rebalance_is_valid() -> None:
    event = Event(events.REBALANCE_FAILED, "g", {"generation": 4, "cause": events.SYNC_TIMEOUT,
                                                 "join_phase_ms": 2, "took_ms": 9,
                                                 "members": (member("a", assignment(t=[0])),)})  # fmt: skip
    value = read(event)
    assert (value["generation"], value["cause"], value["join_phase_ms"], value["took_ms"]) == (4, "sync_timeout", 2, 9)
    assert value["members"][0]["member"] == "a"


@pytest.mark.parametrize(
    ("kind", "facts"),
    [
        (events.MEMBER_JOINED, {"protocol_type": "consumer", "reason": None}),
        (events.MEMBER_LEFT, {"reason": 'a "reason"\n\u2028'}),
        (events.MEMBER_EXPIRED, {}),
        (events.MEMBER_REMOVED, {"cause": events.JOIN_TIMEOUT}),
        (events.MEMBER_REPLACED, {"replaced": "old", "reason": None}),
    ],
)
def test_the_events_of_members_are_valid(kind: str, facts: dict[str, Any]) -> None:
    value = read(Event(kind, "g", {"member": member(instance="i"), **facts}))
    assert value.pop("member")["instance"] == "i"
    assert value == {"v": 1, "kind": kind, "group": "g", "time": 1_000, **facts}


NAMES = st.text(max_size=20)


@given(group=NAMES, name=NAMES, client=NAMES, host=NAMES, instance=st.none() | NAMES, metadata=st.binary(max_size=9))
def test_an_event_is_valid_json_for_any_client_name(
    group: str, name: str, client: str, host: str, instance: str | None, metadata: bytes
) -> None:
    who = MemberFacts(name, instance, client, host, 1, 2, ((name, metadata),), None, None, None, b"")
    value = read(Event(events.MEMBER_LEFT, group, {"member": who, "reason": name}))
    assert (value["group"], value["reason"]) == (group, name)
    assert value["member"]["protocols"] == [{"name": name, "metadata": b64encode(metadata).decode()}]
    assert (value["member"]["instance"], value["member"]["client_id"], value["member"]["host"]) == (
        instance, client, host,
    )  # fmt: skip


def test_an_event_of_the_shard_is_valid() -> None:
    value = json.loads(schema.plain_json("shard_loaded", None, 7, {"groups": 3}))
    assert value == {"v": 1, "kind": "shard_loaded", "group": None, "time": 7, "groups": 3}


def kinds() -> list[str]:
    """Every kind of event that is written."""
    shell = [journal.SHARD_LOADED, journal.REQUESTS_REFUSED, journal.MEMBER_FENCED, journal.PRODUCER_FENCED]
    shell += counts.COUNTED_ENDS.values()
    counted = {events.REQUEST_REFUSED, *counts.COUNTED_ENDS}
    upto = list(vars(events)).index("NEW_MEMBER")
    core = [value for name, value in list(vars(events).items())[:upto] if name.isupper() and isinstance(value, str)]
    return [kind for kind in core if kind not in counted] + shell


def test_every_kind_is_documented() -> None:
    text = DOCUMENT.read_text()
    missing = [kind for kind in kinds() if f"`{kind}`" not in text]
    assert missing == []
    assert len(kinds()) == 34
