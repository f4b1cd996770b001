"""The job: two groups from events, one from the offsets log, in one run."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from muster.pipeline.frames import F
from muster.pipeline.schema import DECODED
from muster.pipeline.tables.inputs import Inputs
from muster.pipeline.tables.schema import EVENTS, TABLES
from muster.pipeline.whatif.job import played, what_if
from muster.pipeline.whatif.settings import parse
from tests.pipeline.engines import Engine, collected
from tests.pipeline.whatif.reality import Consumer, Reality

PARTITIONS = 9
TOOK_MS = 500
"""The length that each rebalance of the group without events gets."""


def restarted() -> Reality:
    """Three members: one member restarts, and one member dies."""
    world = Reality(partitions=PARTITIONS)
    members = [Consumer(world, name) for name in ("a", "b", "c")]
    for member in members:
        member.start()
    world.run(60_000)
    members[1].stop()
    world.run(5_000)
    members[1].start()
    world.run(60_000)
    members[2].crash()
    world.run(60_000)
    return world


def event_rows(world: Reality, group: str) -> list[dict[str, Any]]:
    rows = []
    for offset, value in enumerate(world.events):
        reported = {**value, "group": group}
        rows.append({"group": group, "log_offset": offset, "kind": value["kind"], "time_ms": value["time"],
                     "value": json.dumps(reported)})  # fmt: skip
    return rows


def log_rows(world: Reality, group: str) -> list[dict[str, Any]]:
    rows = []
    for offset, record in enumerate(world.records):
        members = [
            {**one, "group_instance_id": one["instance_id"], "client_host": one["host"], "subscription": b""}
            for one in record["members"]
        ]
        rows.append({**record, "members": members, "kind": "classic", "group": group, "log_offset": offset,
                     "log_timestamp_ms": record["at_ms"]})  # fmt: skip
    return rows


def frame(engine: Engine, rows: list[dict[str, Any]], schema: pa.Schema) -> DataFrame:
    return engine.frame(pa.Table.from_pylist(rows, schema))


def made(engine: Engine, silences: list[tuple[int, int]] | None = None) -> dict[str, DataFrame]:
    """The tables of a run with three groups."""
    world = restarted()
    log = log_rows(world, "one") + log_rows(world, "only-in-the-log")
    log.append({"kind": "commit", "group": "one", "log_offset": 99, "log_timestamp_ms": world.ms + 60_000})
    events = event_rows(world, "one") + event_rows(world, "two")
    expired = [value["member"]["member"] for value in world.events if value["kind"] == "member_expired"]
    ends = [{"group": "only-in-the-log", "member_id": one, "end_cause": "expired", "source": "log"} for one in expired]
    inputs = Inputs(frame(engine, log, DECODED), frame(engine, events, EVENTS))
    memberships = frame(engine, ends, TABLES["memberships"])
    starts = [
        {"group": "only-in-the-log", "generation": one["generation"], "end_ms": one["at_ms"],
         "start_ms": one["at_ms"] - TOOK_MS, "source": "inferred"}
        for one in world.records if one["members"]
    ]  # fmt: skip
    rebalances = frame(engine, starts, TABLES["rebalances"])
    grid = parse('[{}, {"static": true}, {"session.timeout.ms": 45000}]')
    quiet = None
    if silences is not None:
        rows = [{"from_ms": from_ms, "until_ms": until_ms, "groups": 5} for from_ms, until_ms in silences]
        quiet = frame(engine, rows, TABLES["silences"])
    return what_if(inputs, grid, memberships, rebalances, silences=quiet)


@pytest.fixture(scope="module")
def tables(engine: Engine) -> dict[str, list[dict[str, Any]]]:
    found = made(engine)
    assert {name: rows.columns for name, rows in found.items()} == {
        name: TABLES[name].names for name in ("fidelity", "whatif", "advice")
    }
    return {
        name: [row.asDict() for row in collected(rows.orderBy("group", *(["setting"] if name == "whatif" else [])))]
        for name, rows in found.items()
    }


def test_fidelity_says_what_each_group_was_read_from(tables: dict[str, list[dict[str, Any]]]) -> None:
    same = {"generations": 4, "reproduced": 4, "share": 1.0, "withheld": False, "why": None}
    sources = {"one": "events", "only-in-the-log": "log", "two": "events"}
    judged = [{"group": group, "source": source, **same} for group, source in sources.items()]
    assert [{name: row[name] for name in judged[0]} for row in tables["fidelity"]] == judged
    # the report has an advice, or the reason why it has none
    reported = {row["group"] for row in tables["advice"]}
    assert {row["group"] for row in tables["fidelity"] if row["unadvised"] is None} == reported


def test_every_group_has_every_setting(tables: dict[str, list[dict[str, Any]]]) -> None:
    rows = tables["whatif"]
    assert [(row["group"], row["setting"]) for row in rows] == [
        (group, setting)
        for group in ("one", "only-in-the-log", "two")
        for setting in ("as it was", "session 45 s", "static")
    ]
    for row in rows:
        assert (row["actual_rebalances"], row["actual_detect_ms"], row["why"]) == (4, 10_000, None)
    by_setting = {row["setting"]: row for row in rows if row["group"] == "one"}
    assert json.loads(by_setting["session 45 s"]["settings_json"]) == {"session.timeout.ms": 45_000}
    assert [by_setting[name]["rebalances"] for name in ("as it was", "session 45 s", "static")] == [4, 4, 2]
    assert by_setting["session 45 s"]["detect_ms"] == 45_000
    assert by_setting["as it was"]["paused_partition_s"] == by_setting["as it was"]["actual_paused_partition_s"] > 0


def test_advice_comes_from_one_of_the_settings(tables: dict[str, list[dict[str, Any]]]) -> None:
    by_group = {row["group"]: row for row in tables["whatif"] if row["setting"] == "static"}
    # the times of the third group are estimates, and the gain is not greater than their possible error
    assert [row["group"] for row in tables["advice"]] == ["one", "two"]
    for row in tables["advice"]:
        would = by_group[row["group"]]
        assert (row["setting"], row["spared"]) == ("static", would["actual_rebalances"] - would["rebalances"])
        assert row["sentence"].startswith("static ids would have spared 2 of 4 rebalances")


def test_rebalances_that_follow_a_silence_are_no_reason_for_advice(engine: Engine) -> None:
    assert collected(made(engine, [(0, 2**45)])["advice"]) == []


def test_actual_figures_equal_the_tables(tables: dict[str, list[dict[str, Any]]]) -> None:
    paused = {row["actual_paused_partition_s"] for row in tables["whatif"] if row["group"] == "only-in-the-log"}
    assert paused == {4 * PARTITIONS * TOOK_MS / 1000}


def test_a_malformed_history_affects_no_other_group() -> None:
    """The function of a task, called directly: events lack fields of their kind."""
    events = [{"kind": "group_created", "time": 1}, {"kind": "rebalance_completed", "time": 2}]
    rows = [
        {"group": "g", "source": "events", "log_offset": at, "value": json.dumps(value), "end_ms": 9}
        for at, value in enumerate(events)
    ]
    (row,) = played(pa.Table.from_pylist(rows), parse("static"))
    assert (row["table"], row["withheld"]) == ("fidelity", True)
    assert row["why"] == "its history cannot be replayed: KeyError: 'protocol_type'"


def test_the_newest_part_of_a_long_history_is_played(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    world = restarted()
    events = frame(engine, event_rows(world, "one"), EVENTS)
    size = collected(events.agg(F.sum(F.length("value"))))[0][0]
    monkeypatch.setattr("muster.pipeline.whatif.job.LONGEST_HISTORY", size // 2)
    found = what_if(Inputs(frame(engine, [], DECODED), events), parse("static"))
    (row,) = collected(found["fidelity"])
    assert row.generations == row.reproduced < 4
