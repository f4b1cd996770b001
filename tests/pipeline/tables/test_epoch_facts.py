"""The facts of KIP-848 groups: in a hand-made history, and in a log of a real Kafka 4.3 whose groups scripts drove.
(`tests.pipeline.scripted_processes --protocol consumer`: librdkafka and Java, sessions of 45 s.)
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from muster.pipeline.frames import F
from muster.pipeline.schema import CONSUMER_GROUP, DECODED
from muster.pipeline.tables import keep
from muster.pipeline.tables.build import build
from muster.pipeline.tables.epoch_states import epoch_states, epochs_in, topic_names
from muster.pipeline.tables.inputs import Inputs, events
from muster.pipeline.whatif.job import what_if
from muster.pipeline.whatif.settings import parse
from tests.pipeline.engines import Engine, collected
from tests.pipeline.infer.epoch_model import Server, decoded_row
from tests.pipeline.infer.test_epochs import LOG
from tests.pipeline.scoring import of_table, of_truth, score
from tests.pipeline.tables.history import START_MS, Log, member, raw_events

SCRIPTED = ("confluent-0", "java-2")
"""Groups with a truth."""
CLASSIC = {
    "generations": "generation leader member_count",
    "rebalances": "generation cause trigger_client_id confidence paused_partition_ms",
    "ownership": "partition member_id start_ms end_ms",
    "commits": "partition generation members member_id",
    "moves": "partition kind time_ms paused_ms",
}
"""Columns that are also compared for a classic group."""
LOOKED_AT = (*CLASSIC, "memberships", "balance")


def rows_of(table: DataFrame, *columns: str, group: str = "g") -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in collected(table.where(f"group = '{group}'").select(*columns))), key=str)


def commit(server: Server, at_ms: int, partition: int, offset: int) -> dict[str, Any]:
    """A commit at this position of the log."""
    place = len(server.records) - 0.5
    return {
        "kind": "commit", "group": "g", "log_partition": 0, "log_offset": place, "log_timestamp_ms": START_MS + at_ms,
        "topic": "t", "partition": partition, "committed_offset": offset, "commit_timestamp_ms": START_MS + at_ms,
        "is_tombstone": False, "topic_id": "id-t", "key_type": 1,
    }  # fmt: skip


def inputs_of(
    engine: Engine, server: Server, commits: list[dict[str, Any]], *others: Log, is_told: bool = False
) -> Inputs:
    """`is_told`: there is one event, of the first epoch."""
    rows = sorted([*commits, *map(decoded_row, server.records)], key=lambda row: float(row["log_offset"]))
    rows = [row | {"log_offset": place} for place, row in enumerate(rows)]
    tables = [pa.Table.from_pylist(rows, DECODED), *(one.table() for one in others)]
    decoded = engine.frame(pa.concat_tables(tables))
    event = {"v": 1, "group": "g", "kind": "epoch_bumped", "time": START_MS + 1, "epoch": 2, "cause": "member_joined",
            "trigger": {"member": "a1", "client_id": "a", "host": "/a", "reason": "why"}, "members": 1, "topics": [],
            "state": "Empty"}  # fmt: skip
    happened = events(raw_events(engine, [event])) if is_told else None
    return Inputs(decoded, happened, epochs=epochs_in(decoded, {CONSUMER_GROUP: len(rows)}, dict))


def made(engine: Engine) -> dict[str, DataFrame]:
    """The facts of a group: two members share four partitions, and one of them dies."""
    server, commits = Server({"t": 4}), []
    server.join(0, "a1")
    commits += [commit(server, 500, number, 1) for number in range(4)]
    server.join(1_000, "b1")
    server.beat(2_000, "a1")
    commits += [commit(server, 2_100, 1, 2)]  # the partitions that it has to give up
    server.beat(2_500, "a1")
    server.beat(4_000, "b1")
    commits += [commit(server, 5_000 + 1_000 * second, number, second) for second in range(10) for number in (1, 3)]
    commits += [commit(server, 5_000 + 1_000 * second, number, second) for second in range(55) for number in (0, 2)]
    server.leave(60_000, "b1")
    server.beat(61_000, "a1")
    commits += [commit(server, 62_000, number, 9) for number in range(4)]
    classic = Log("classic").state(0, 0).state(1, 1, member("x", {"t": [0]})).commit(2, 0)
    return build(inputs_of(engine, server, commits, classic, is_told=True), LOOKED_AT)


@pytest.fixture(scope="module")
def facts(engine: Engine) -> dict[str, DataFrame]:
    return {name: keep(table) for name, table in made(engine).items()}


def test_epochs_are_rows_of_rebalances(facts: dict[str, DataFrame]) -> None:
    columns = ("generation", "start_ms", "end_ms", "cause", "trigger_client_id", "kept", "moved", "gained", "lost")
    assert rows_of(facts["rebalances"], *columns) == [
        (2, START_MS, START_MS, "member_joined", "a", 0, 0, 4, 0),
        (3, START_MS + 1_000, START_MS + 4_000, "member_joined", "b", 2, 2, 0, 0),
        (4, START_MS + 60_000, START_MS + 61_000, "session_expired", "b", 2, 2, 0, 0),
    ]
    reported = rows_of(
        facts["rebalances"], "generation", "paused_partition_ms", "members_before", "members_after", "source"
    )
    assert reported == [(2, 0, 0, 1, "events"), (3, 4_000, 1, 2, "inferred"), (4, 2_000, 2, 1, "inferred")]


def test_causes_of_events_replace_inferred_ones(facts: dict[str, DataFrame]) -> None:
    columns = ("generation", "cause", "trigger_member_id", "reason", "confidence", "gained")
    assert rows_of(facts["rebalances"].where("source = 'events'"), *columns) == [
        (2, "member_joined", "a1", "why", 1.0, 4)
    ]


def test_owners_of_partitions_are_known(facts: dict[str, DataFrame]) -> None:
    columns = ("partition", "client_id", "start_ms", "end_ms", "first_generation", "last_generation")
    assert [row for row in rows_of(facts["ownership"], *columns) if row[0] < 2] == [
        (0, "a", START_MS, None, 2, 4),
        (1, "a", START_MS, START_MS + 2_000, 2, 2),
        (1, "a", START_MS + 61_000, None, 4, 4),
        (1, "b", START_MS + 4_000, START_MS + 60_000, 3, 3),
    ]
    moves = rows_of(facts["moves"], "generation", "partition", "kind", "time_ms", "paused_ms")
    assert [row for row in moves if row[1] == 1] == [
        (2, 1, "gained", START_MS, None),
        (3, 1, "moved", START_MS + 4_000, 2_000),
        (4, 1, "moved", START_MS + 61_000, 1_000),
    ]


def test_epochs_are_rows_of_generations_and_memberships(facts: dict[str, DataFrame]) -> None:
    columns = ("generation", "start_ms", "end_ms", "protocol_type", "leader", "member_count")
    assert rows_of(facts["generations"], *columns) == [
        (2, START_MS, START_MS + 4_000, "consumer", None, 1),
        (3, START_MS + 4_000, START_MS + 61_000, "consumer", None, 2),
        (4, START_MS + 61_000, None, "consumer", None, 1),
    ]
    assert rows_of(facts["memberships"], "member_id", "end_ms", "end_cause") == [
        ("a1", None, None),
        ("b1", START_MS + 60_000, "expired"),
    ]
    assert [row[:3] for row in rows_of(facts["balance"], "generation", "least", "most")] == [
        (2, 4, 4), (3, 2, 2), (4, 4, 4),
    ]  # fmt: skip


def test_commits_have_their_owner(facts: dict[str, DataFrame]) -> None:
    found = rows_of(facts["commits"], "time_ms", "partition", "generation", "members", "client_id")
    of_one = [(time_ms - START_MS, *rest) for time_ms, partition, *rest in found if partition == 1]
    # also in the middle of an epoch
    assert of_one[:2] == [(500, 2, 1, "a"), (2_100, 3, 2, "a")]
    assert {row[1:] for row in of_one[2:-1]} == {(3, 2, "b")}
    assert of_one[-1] == (62_000, 4, 1, "a")


def test_classic_groups_have_their_usual_rows(facts: dict[str, DataFrame]) -> None:
    reported = {name: rows_of(facts[name], *columns.split(), group="classic") for name, columns in CLASSIC.items()}
    assert reported == {
        "generations": [(0, None, 0), (1, "x-1", 1)],
        "rebalances": [(1, "member_joined", "x", 0.97, 1_000)],
        "ownership": [(0, "x-1", START_MS + 1_000, None)],
        "commits": [(0, 1, 1, "x-1")],
        "moves": [(0, "gained", START_MS + 1_000, None)],
    }


def test_a_log_without_consumer_groups_plans_no_epochs(engine: Engine) -> None:
    decoded = engine.frame(Log("classic").state(1, 1, member("x")).table())

    def listed() -> dict[str, str]:
        raise AssertionError("nobody is to be asked")

    assert epochs_in(decoded, {"classic": 1}, listed) is None


def test_epochs_of_a_real_kafka_log_are_found(engine: Engine, tmp_path: Path) -> None:
    with tarfile.open(LOG) as files:
        files.extractall(tmp_path, filter="data")
    decoded = keep(engine.decoded(tmp_path))
    inputs = Inputs(decoded, epochs=epoch_states(decoded, topic_names(decoded)))
    tables = build(inputs, ("rebalances", "commits", "regressions"))
    rebalances = keep(tables["rebalances"])
    found = {key: one for key, one in of_table(rebalances).items() if key[0] in SCRIPTED}
    truth = tmp_path / "truth-epochs.jsonl"
    assert {json.loads(line).get("group") for line in truth.read_text().splitlines()} >= set(SCRIPTED)
    result = score(of_truth(truth, found), found)
    assert result.rows == 85
    assert (result.precision, result.recall) == (1, 1), result.text()
    assert min(result.cause, result.mean_over_causes, result.trigger) >= 0.95, result.text()
    # no member committed another member's partitions
    commits = tables["commits"].where(F.col("group").isin(*SCRIPTED) & ~F.col("is_deleted"))
    assert commits.where("member_id is null").count() == 0
    assert tables["regressions"].where(F.col("group").isin(*SCRIPTED)).count() == 0
    causes = rebalances.where(F.col("group").isin("up", "mi", "rt")).orderBy("end_ms", "generation")
    reported: dict[str, list[Any]] = {"up": [], "mi": [], "rt": []}
    for row in collected(causes.select("group", "generation", "cause")):
        reported[row[0]].append(tuple(row)[1:])
    assert reported["rt"] == [(2, "member_joined"), (3, "member_joined"), (4, "revocation_timeout")]
    # a classic group becomes a KIP-848 group: its generation 2 continues as epoch 2
    assert reported["up"][1:] == [
        (3, "member_joined"), (4, "member_left"), (5, "member_joined"), (6, "member_left"), (7, "member_joined"),
    ]  # fmt: skip
    assert reported["mi"][5:7] == [(2, "member_joined"), (3, "member_joined")]
    assert (3, None) not in reported["mi"]
    faithful = what_if(inputs, parse("classic"), rebalances=rebalances)
    judged = {row.group: (row.reproduced, row.generations, row.why) for row in collected(faithful["fidelity"])}
    assert judged["g"] == (7, 7, None)
    assert judged["mi"][2].startswith("only since it is a group of the classic protocol, from ")
    assert {"g", "rt", "sl"} <= {row.group for row in collected(faithful["whatif"].where("rebalances > 0"))}
