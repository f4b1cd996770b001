"""The tables of streams groups, from logs of a real Kafka 4.4 and of Muster: the same heartbeats drove both.

`python -m tests.pipeline.streams.record` makes the logs again, and says what happened.
"""

from __future__ import annotations

import json
import tarfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from muster.coordinator.groups.common.events import TASKS_RESTORED
from muster.pipeline.episodes.claims import OF_STREAMS
from muster.pipeline.explain.answer import Span, answer, json_of, text_of
from muster.pipeline.explain.inputs import Log, inputs_of, last_ms, log_of_path
from muster.pipeline.frames import in_this_process
from muster.pipeline.schema import DECODED, RAW
from muster.pipeline.tables.build import build
from muster.pipeline.tables.inputs import EVENTS_TOPIC, Inputs, events
from muster.pipeline.tables.stream_states import MADE, stream_tables
from muster.pipeline.wanted import Wanted
from muster.pipeline.whatif.job import what_if
from muster.pipeline.whatif.settings import DEFAULT_GRID
from tests.pipeline.engines import Engine, collected
from tests.pipeline.streams.written import Written

RECORDED = Path(__file__).parents[1] / "streams"
OF_MEMBERS = ("generations", "memberships", "ownership", "rebalances", "balance")
Tables = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module", params=["kafka", "muster"])
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Log:
    directory = tmp_path_factory.mktemp(request.param)
    with tarfile.open(RECORDED / f"{request.param}.tar.xz") as files:
        files.extractall(directory, filter="data")
    return log_of_path(str(directory))


@pytest.fixture(scope="module")
def tables(log: Log) -> Tables:
    with in_this_process():
        found = build(inputs_of(log), (*MADE, *OF_MEMBERS))
        return {name: rows.toArrow().to_pylist() for name, rows in found.items()}


def of(tables: Tables, table: str, group: str) -> list[dict[str, Any]]:
    order = "from_ms" if table == "topologies" else "end_ms" if table == "rebalances" else "start_ms"
    return sorted((row for row in tables[table] if row["group"] == group), key=lambda row: row[order])


def test_tasks_have_a_role_and_a_member_at_each_time(tables: Tables) -> None:
    rows = of(tables, "tasks", "count")
    last = [row for row in rows if row["end_ms"] is None]
    active = {(row["subtopology"], row["partition"]): row["process_id"] for row in last if row["role"] == "active"}
    assert active == {(part, number): "p" for part in "01" for number in range(3)}
    # the only instance that is left has no copies for itself
    assert [row for row in last if row["role"] != "active"] == []
    assert {row["role"] for row in rows} == {"active", "standby"}
    assert {row["ended"] for row in rows} == {None, "given_up", "role_changed", "member_gone"}
    # the second instance gets tasks that the first one had to give up: a heartbeat or two later
    moved = [row["unowned_ms"] for row in rows if row["process_id"] == "q" and row["role"] == "active"]
    assert moved
    assert all(300 <= one <= 3_000 for one in moved)


def test_no_task_is_active_twice(tables: Tables) -> None:
    spans: dict[tuple[str, str, int], list[tuple[int, float]]] = {}
    for row in tables["tasks"]:
        if row["role"] == "active":
            until_ms = float("inf") if row["end_ms"] is None else row["end_ms"]
            spans.setdefault((row["group"], row["subtopology"], row["partition"]), []).append(
                (row["start_ms"], until_ms)
            )
    for some in spans.values():
        some.sort()
        assert all(end <= begin for (_, end), (begin, _) in pairwise(some))


def test_since_when_the_topics_of_an_application_are_ready(tables: Tables) -> None:
    states = {group: [row["state"] for row in of(tables, "topologies", group)] for group in ("count", "waits", "late")}
    assert states == {"count": ["not_ready", "ready"], "waits": ["not_ready"], "late": ["not_ready", "ready"]}
    (waits,) = of(tables, "topologies", "waits")
    assert (waits["source_topics"], waits["missing"], waits["until_ms"]) == (["nope"], ["nope"], None)
    assert waits["internal_topics"] == ["waits-store-changelog"]
    late, _ = of(tables, "topologies", "late")
    assert 4_000 <= late["until_ms"] - late["from_ms"] <= 9_000
    assert late["missing"] is None  # nobody knows what was missing then
    count = of(tables, "topologies", "count")[-1]
    assert (count["subtopologies"], count["source_topics"]) == (2, ["lines"])
    assert count["internal_topics"] == ["count-store-changelog", "count-words-repartition"]


def test_rebalances_have_causes_and_count_partitions(tables: Tables) -> None:
    rows = of(tables, "rebalances", "count")
    # events have another word for it
    causes = [(row["cause"] or "").replace("topics_changed", "partitions_changed") for row in rows]
    assert causes[:4] == ["member_joined", "partitions_changed", "member_joined", "member_joined"]
    assert rows[1]["gained"] == 6  # three partitions of the source topic, and three of the repartition topic
    assert [row["members_after"] for row in of(tables, "rebalances", "late")] == [1, 1]
    owned = [row for row in of(tables, "ownership", "count") if row["end_ms"] is None]
    assert {(row["topic"], row["partition"]) for row in owned} == {
        (topic, number) for topic in ("lines", "count-words-repartition") for number in range(3)
    }
    assert {row["protocol_type"] for row in tables["generations"]} == {"streams"}
    assert {row["end_cause"] for row in of(tables, "memberships", "ends")} == {"left"}


def test_what_the_verdicts_say(log: Log) -> None:
    with in_this_process():
        inputs = inputs_of(log)
        rows = {row["group"]: row for row in build(inputs, ("verdicts",))["verdicts"].toArrow().to_pylist()}
    has_events = inputs.events is not None
    assert rows["waits"]["kind"] == "topics_not_ready"
    why = ": Source topics nope are missing" if has_events else ", perhaps because the source topic nope is missing"
    assert rows["waits"]["verdict"].endswith(why)
    # the topic came after some seconds
    assert rows["late"]["level"] == "fine"
    # without events, nobody knows that the members left because of an error
    assert rows["ends"]["kind"] == ("application_ended" if has_events else None)
    assert not {claim["rule"] for claim in rows["count"]["claims"]} & {*OF_STREAMS}


def test_explain_says_which_tasks_nobody_had_and_which_topic_is_missing(log: Log) -> None:
    end_ms = last_ms(log) + 1
    count, waits = (answer(log, group, Span(end_ms - 600_000, end_ms, 0)) for group in ("count", "waits"))
    assert count is not None
    assert waits is not None
    assert "topic" in waits.verdict["verdict"]
    assert "nope" in waits.verdict["verdict"]
    lines = [*text_of(count)]
    assert "no change of a setting is advised: the what-if does not replay share groups and streams groups" in lines
    assert {row["role"] for row in json_of(count)["tasks"]} == {"active", "standby"}
    late = count._replace(tasks=({**count.tasks[0], "unowned_ms": 7_000},))
    found = [*text_of(late)]
    assert "1 time in which nobody had a task" in found
    assert any(line.endswith("after 7 s: muster got it") for line in found)
    late = count._replace(tasks=({**count.tasks[0], "role": "standby", "restored_ms": 65_000},))
    found = [*text_of(late)]
    assert "1 time in which a member restored the state of a task" in found
    assert any(line.endswith("at muster: it took at most 1 min 5 s") for line in found)


def test_the_what_if_has_no_streams_groups(log: Log) -> None:
    with in_this_process():
        inputs = inputs_of(log)
        facts = build(inputs, ("memberships", "rebalances", "commits", "silences"))
        found = what_if(inputs, DEFAULT_GRID, **facts)
        assert [rows.toArrow().to_pylist() for rows in found.values()] == [[], [], []]


def test_a_later_part_of_the_log_begins_with_the_last_state(log: Log) -> None:
    with in_this_process():
        every = build(inputs_of(log), MADE)["tasks"].toArrow().to_pylist()
        since_ms = max(row["end_ms"] or 0 for row in every)
        some = inputs_of(log, Wanted(since_ms, groups=("count",)))
        rows = build(some, MADE)["tasks"].toArrow().to_pylist()
        present = [row for row in rows if row["end_ms"] is None]
    assert len(present) == 6
    assert {row["group"] for row in rows} == {"count"}


# ---- made by hand, also for Spark


def restored(at_ms: int, member: str, **row: Any) -> dict[str, Any]:
    """The record of an event: a member has restored a task."""
    value = {"v": 1, "kind": TASKS_RESTORED, "group": "g", "time": at_ms, "count": 1, "tasks": [row]}
    value["member"] = {"member": member, "client_id": member}
    return {"topic": EVENTS_TOPIC, "partition": 0, "offset": 0, "key": b"g", "value": json.dumps(value).encode()}


def made(engine: Engine) -> dict[str, DataFrame]:
    log = Written({"0": ("lines",)})
    log.member("a").epoch(1).has("a", active="0/0+1")
    log.at(1_000).member("b").epoch(2).has("b", warmup="0/1")
    log.at(2_000).has("a", active="0/0")
    log.at(2_500).has("b", active="0/1")
    rows = engine.frame(pa.Table.from_pylist(log.decoded("g"), DECODED))
    done = [
        restored(2_400, "b", task="0_1", role="warmup", took_ms=1_400, behind=9),
        restored(9_000, "b", task="0_1", role="active", took_ms=5_000, behind=9),
        restored(9_000, "a", task="0_1", role="active", took_ms=7_000, behind=9),  # it has not this task any more
    ]
    return stream_tables(Inputs(rows, events(engine.frame(pa.Table.from_pylist(done, RAW)))))


def test_a_warm_up_becomes_the_active_task(engine: Engine) -> None:
    rows = [row.asDict() for row in collected(made(engine)["tasks"])]
    columns = ("partition", "role", "client_id", "start_ms", "end_ms", "ended", "unowned_ms")
    assert sorted((tuple(row[name] for name in columns) for row in rows), key=lambda row: (row[3], row[0])) == [
        (0, "active", "a", 0, None, None, None),
        (1, "active", "a", 0, 2_000, "given_up", None),
        (1, "warmup", "b", 1_000, 2_500, "role_changed", None),
        (1, "active", "b", 2_500, None, None, 500),
    ]
    assert [(row["restored_ms"], row["role"]) for row in rows if row["restored_ms"] is not None] in (
        [(1_400, "warmup"), (5_000, "active")], [(5_000, "active"), (1_400, "warmup")],
    )  # fmt: skip
    (state,) = collected(made(engine)["topologies"])
    assert (state.state, state.from_ms, state.until_ms, state.missing) == ("ready", 0, None, None)
