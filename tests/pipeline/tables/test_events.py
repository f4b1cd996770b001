from __future__ import annotations

from typing import Any

from muster.coordinator.groups.common import events as core
from muster.coordinator.groups.common.events import Event, MemberFacts
from muster.coordinator.history.schema import plain_json, to_json
from muster.pipeline.tables.inputs import events, malformed_events
from muster.pipeline.tables.schema import EVENTS
from tests.pipeline.engines import Engine, collected
from tests.pipeline.tables.history import START_MS, raw_events

HEAD = {"v": 1, "group": "g", "time": START_MS + 5}
ONE = MemberFacts("m-1", None, "m", "/m", 10_000, 300_000, (("range", b"\0\1"),), 1, 2, 3, b"")


def read(engine: Engine, *values: Any) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in collected(events(raw_events(engine, values)).orderBy("log_offset"))]


def test_events_of_the_server_are_read(engine: Engine) -> None:
    started = {"cause": "member_joined", "trigger": core.Trigger("m-1", None, "m", "/m", "why"), "generation": 4}
    joined = Event(core.MEMBER_JOINED, "g", {"member": ONE, "protocol_type": "consumer", "reason": None})
    first, second, third, fourth = read(
        engine,
        to_json(Event(core.REBALANCE_STARTED, "g", {**started, "members": 3, "state": "Stable"}), START_MS),
        to_json(joined, START_MS + 1),
        plain_json("offsets_deleted", "g", START_MS + 2, {"cause": "asked", "topics": {"t": [1, 2]}}),
        plain_json("shard_loaded", None, START_MS + 3, {"partition": 1, "groups": 2, "records": 3, "took_ms": 4}),
    )
    assert (first["kind"], first["cause"], first["generation"], first["member_count"]) == (
        "rebalance_started", "member_joined", 4, 3,
    )  # fmt: skip
    assert first["trigger"]["client_id"] == "m"
    assert first["members"] is None
    assert second["member"]["session_timeout_ms"] == 10_000
    assert second["member"]["protocols"] == [{"name": "range", "metadata": "AAE="}]
    assert third["topic_partitions"] == {"t": [1, 2]}
    assert third["topic_counts"] is None
    assert (fourth["group"], fourth["records"], fourth["time_ms"]) == ("g", 3, START_MS + 3)


def test_a_completed_rebalance_is_read(engine: Engine) -> None:
    row = read(
        engine,
        {
            **HEAD,
            "kind": "rebalance_completed",
            "generation": 7,
            "votes": {"range": 1},
            "topics": {"t": 2},
            "settings": {"group_max_size": 5},
            "before": ["m-0"],
            "moves": [{"topic": "t", "kept": 0, "moved": 1, "gained": 1, "lost": 0}],
            "members": [{"member": "m-1", "assignment": [{"topic": "t", "partitions": [0, 1]}]}],
        },
    )[0]
    assert row["topic_counts"] == {"t": 2}
    assert row["settings"] == {"group_max_size": 5}
    assert row["members"][0]["assignment"] == [{"topic": "t", "partitions": [0, 1]}]
    assert row["moves"][0]["gained"] == 1


def test_unknown_events_are_kept(engine: Engine) -> None:
    new, changed = read(
        engine,
        {**HEAD, "kind": "moon_rose", "height": 3, "v": 9},
        {**HEAD, "kind": "member_left", "v": 2, "member": "only a name now", "reason": "tired"},
    )
    assert (new["kind"], new["v"], new["time_ms"]) == ("moon_rose", 9, START_MS + 5)
    assert '"height": 3' in new["value"]
    assert (changed["member"], changed["reason"]) == (None, "tired")


def test_values_that_are_no_events_are_malformed(engine: Engine) -> None:
    values = [b'{"v":1,"kind":"member_left","gro', None, b"[]", b'{"v":1}', {**HEAD, "kind": "group_created"}]
    assert len(read(engine, *values)) == 1
    rows = collected(malformed_events(raw_events(engine, values)).orderBy("log_offset"))
    assert [row.reason for row in rows] == [
        "the value is no JSON",
        "an event without a value",
        "the value has no kind",
        "the value has no kind",
    ]
    assert rows[0].raw_value == b'{"v":1,"kind":"member_left","gro'
    assert rows[0].log_topic == "__group_events"


def test_no_rows_have_the_same_columns(engine: Engine) -> None:
    assert EVENTS.names == events(raw_events(engine, [])).columns
