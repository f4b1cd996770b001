"""The tables of share groups, from logs of a real Kafka 4.4 and of Muster: the same program drove both groups.

`python -m tests.pipeline.shares.record` makes the logs again (tests/pipeline/shares/Shares.java says what happened).
"""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from muster.pipeline.explain.inputs import Log, inputs_of, log_of_path
from muster.pipeline.frames import in_this_process
from muster.pipeline.schema import DECODED, RAW
from muster.pipeline.tables.build import build, unusable
from muster.pipeline.tables.share_states import MADE, STATE_TOPIC, ShareInputs, share_tables
from muster.pipeline.wanted import ALL, Wanted
from muster.pipeline.whatif.job import what_if
from muster.pipeline.whatif.settings import DEFAULT_GRID
from muster.protocol.records import SHARE_STATE, encode_record
from tests.coordinator.share_state.harness import StateHarness
from tests.pipeline.engines import Engine, collected

RECORDED = Path(__file__).parents[1] / "shares"
SECOND_MS = 1_000


@pytest.fixture(scope="module", params=["kafka", "muster"])
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Log:
    directory = tmp_path_factory.mktemp(request.param)
    with tarfile.open(RECORDED / f"{request.param}.tar.xz") as files:
        files.extractall(directory, filter="data")
    return log_of_path(str(directory))


KINDS = {
    "steady": None,
    "rejected": None,
    "poison": "poison_record",
    "letters": "poison_record",
    "failing": "most_records_fail",
    "slow": "lock_too_short",
    "stuck": "stuck_worker",
    "starved": "starved_worker",
}
"""The trouble of each group."""
OF_MEMBERS = ("generations", "memberships", "ownership", "rebalances", "moves", "balance")


@pytest.fixture(scope="module")
def tables(log: Log) -> dict[str, list[dict[str, Any]]]:
    with in_this_process():
        found = build(inputs_of(log), (*MADE, *OF_MEMBERS, "verdicts"))
        return {name: rows.toArrow().to_pylist() for name, rows in found.items()}


def only(rows: list[dict[str, Any]], group: str, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in columns) for row in rows if row["group"] == group)


def test_each_partition_has_its_state_its_lag_and_its_sums(tables: dict[str, list[dict[str, Any]]]) -> None:
    sums = ("topic", "partition", "accepted", "archived", "ended", "waiting", "lag")
    rows = tables["share_partitions"]
    assert only(rows, "steady", *sums) == [("steady", 0, 120, 0, 0, 0, 0)]
    assert only(rows, "poison", *sums) == [("poison", 0, 119, 1, 4, 0, 0)]
    assert only(rows, "failing", *sums) == [("failing", 0, 0, 20, 80, 0, 0)]
    # one of two workers hung: in the partition that only it had, its lock was over, and nothing else happened
    assert only(rows, "stuck", "accepted", "ended", "waiting", "lag")[0] == (0, 1, 1, 50)
    state = next(row for row in rows if row["group"] == "poison")
    # the last records are done, though the group's offset is still before them
    assert state["start_offset"] + state["done_count"] == state["end_offset"] == 120


def test_records_that_were_not_accepted_at_once_are_episodes(tables: dict[str, list[dict[str, Any]]]) -> None:
    columns = ("outcome", "deliveries", "records", "first_offset", "last_offset")
    rows = tables["deliveries"]
    assert only(rows, "steady", *columns) == []
    assert only(rows, "poison", *columns) == [("archived", 5, 1, 42, 42)]
    assert only(rows, "rejected", *columns) == [("archived", 1, 1, 10, 10)]
    assert only(rows, "letters", *columns) == [("dead_letter", 2, 1, 7, 7)]
    assert only(rows, "failing", *columns) == [("archived", 5, 20, 0, 19)]
    assert [row[1] for row in only(rows, "poison", "group", "moments")] == [5]
    # the lock of two seconds was over again and again before the work of three seconds was done
    (slow,) = [row for row in rows if row["group"] == "slow"]
    assert (slow["outcome"], slow["deliveries"]) == ("accepted", 2)
    assert slow["moments"] >= 3
    assert 1_000 < slow["held_ms"] < 2_100


def test_each_group_has_the_verdict_of_its_story(tables: dict[str, list[dict[str, Any]]]) -> None:
    assert {row["group"]: row["kind"] for row in tables["verdicts"]} == KINDS
    words = {row["group"]: row["verdict"] for row in tables["verdicts"]}
    assert words["poison"].startswith("record 42 of poison-0 was archived after 5 deliveries")
    assert words["letters"].startswith("record 7 of letters-0 went to the dead-letter queue after 2 deliveries")
    assert words["failing"].startswith("workers gave up 20 records of failing-0 and accepted 0 from ")
    # only Muster has events
    is_guess = {row["locks_over"] for row in tables["deliveries"]} == {None}
    assert words["slow"].endswith(": perhaps the lock is too short" if is_guess else ": it is too short")
    assert "perhaps hangs: it alone has stuck-" in words["stuck"]
    assert " had no work since " in words["starved"]


def test_the_progress_has_all_records(tables: dict[str, list[dict[str, Any]]]) -> None:
    rows = [row for row in tables["share_progress"] if row["group"] == "slow"]
    assert sum(row["accepted"] for row in rows) == 120
    assert sum(row["ended"] for row in rows) == sum(
        row["records"] for row in tables["deliveries"] if row["group"] == "slow"
    )


def test_members_epochs_and_causes_are_those_of_groups_with_epochs(tables: dict[str, list[dict[str, Any]]]) -> None:
    mine = {name: [row for row in tables[name] if row["group"] == "slow"] for name in OF_MEMBERS}
    assert {row["protocol_type"] for row in mine["generations"]} == {"share"}
    assert sorted(row["client_id"] for row in mine["memberships"]) == ["slow-a", "slow-b"]
    assert {row["end_cause"] for row in mine["memberships"]} == {"left"}
    causes = [row["cause"] for row in sorted(mine["rebalances"], key=lambda row: row["generation"])]
    # Kafka creates the states of the partitions in an epoch of their own
    assert [one for one in causes if one != "partitions_ready"] == ["member_joined"] * 2 + ["member_left"] * 2
    assert {row["silent_partition_ms"] for row in mine["rebalances"]} == {None}


def test_members_own_a_partition_together(tables: dict[str, list[dict[str, Any]]]) -> None:
    held = [row for row in tables["ownership"] if row["group"] == "slow"]
    assert sorted((row["client_id"], row["topic"], row["partition"]) for row in held) == [
        ("slow-a", "slow", 0), ("slow-b", "slow", 0),
    ]  # fmt: skip
    first, second = sorted(held, key=lambda row: row["start_ms"])
    assert first["end_ms"] > second["start_ms"]
    assert tables["moves"] == tables["balance"] == []  # nobody takes a partition away from another member


def test_the_what_if_has_no_share_groups(log: Log) -> None:
    with in_this_process():
        inputs = inputs_of(log)
        facts = build(inputs, ("memberships", "rebalances", "commits", "silences"))
        found = what_if(inputs, DEFAULT_GRID, **facts)
        assert [rows.toArrow().to_pylist() for rows in found.values()] == [[], [], []]


def test_other_groups_and_times_are_left_out(log: Log) -> None:
    with in_this_process():
        inputs = inputs_of(log)
        every = build(inputs, MADE)["deliveries"].toArrow().to_pylist()
        since_ms = max(row["until_ms"] for row in every)
        some = inputs._replace(shares=inputs.shares._replace(wanted=Wanted(since_ms, None, ("s*",))))
        kept = build(some, MADE)
        assert {row["group"] for row in kept["share_partitions"].toArrow().to_pylist()} == {
            "slow",
            "starved",
            "steady",
            "stuck",
        }
        assert [row["until_ms"] for row in kept["deliveries"].toArrow().to_pylist()] == [since_ms]


# ---- made by hand, also for Spark


def raw_rows(harness: StateHarness, *others: dict[str, Any]) -> pa.Table:
    """The records of a core as raw rows, with a second between two rows."""
    rows = [encode_record(SHARE_STATE, record) for record in harness.records]
    place = {"topic": STATE_TOPIC, "partition": 0}
    return pa.Table.from_pylist(
        [
            *({**place, "offset": at, "timestamp_ms": SECOND_MS * at, "key": key, "value": value}
              for at, (key, value) in enumerate(rows)),
            *({**place, **row} for row in others),
        ],
        RAW,
    )  # fmt: skip


def made(engine: Engine) -> dict[str, DataFrame]:
    harness = StateHarness()
    harness.initialize()
    harness.write((0, 4, 0, 1), (5, 9, 2, 1))
    harness.write((0, 1, 2, 2), (2, 2, 4, 2))
    found = share_tables(ShareInputs(engine.frame(raw_rows(harness)), {}, {}, ALL))
    assert found is not None
    return found


def test_a_log_without_states_has_no_rows() -> None:
    assert share_tables(ShareInputs()) is None


def test_what_a_record_waits_for(engine: Engine) -> None:
    (row,) = (one.asDict(recursive=True) for one in collected(made(engine)["share_partitions"]))
    assert row["topic"] == "AAAAAAAAAAAAAAAAAAAAAQ"  # without a name, the topic is called by its id
    assert (row["waiting"], row["most_deliveries"], row["oldest_ms"]) == (2, 1, SECOND_MS)
    assert [tuple(one.values()) for one in row["in_flight"]] == [(2, 2, "archived", 2), (3, 4, "available", 1)]
    assert row["lag"] is None


def test_unreadable_records_are_rows_of_malformed(engine: Engine) -> None:
    bad = {"offset": 9, "timestamp_ms": 9, "key": b"\0\x07", "value": b""}
    damaged = {"offset": 10, "damage": "a torn batch"}
    harness = StateHarness()
    harness.initialize()
    inputs = ShareInputs(engine.frame(raw_rows(harness, bad, damaged)))
    assert share_tables(inputs) is not None
    decoded = engine.frame(pa.Table.from_pylist([], DECODED))
    rows = collected(unusable(decoded, None, of_shares=inputs)["malformed"])
    assert sorted((row.log_topic, row.log_offset, row.reason) for row in rows) == [
        (STATE_TOPIC, 9, "__share_group_state: unknown record type 7"), (STATE_TOPIC, 10, "a torn batch"),
    ]  # fmt: skip
