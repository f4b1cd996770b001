from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame

from muster.pipeline.schema import CONSUMER_GROUP
from muster.pipeline.tables.commits import placed, walk_of
from muster.pipeline.tables.inputs import Inputs
from muster.pipeline.tables.schema import TABLES, conform
from tests.pipeline.engines import Engine, collected
from tests.pipeline.tables.history import Log, decoded, member
from tests.pipeline.tables.rows import ms

Row = dict[str, Any]

A, B = member("a", {"t": [0, 1]}), member("b", {"t": [1]}, group_instance_id="i")

CLASSIC = (
    Log("classic")
    .commit(0, 0, 5)
    .state(1, 1, A)
    .commit(2, 0, 10, commit_timestamp_ms=ms(1.9), leader_epoch=3, metadata="m")
    .commit(2, 7, 10)
    .state(3, 2, member("a", {"t": [0]}), B)
    .commit(4, 1, 20)
    .commit(4, 0, 20, commit_timestamp_ms=None)
    .state(5, 3)
    .commit(6, 0, 30)
    .commit(7, 0, is_tombstone=True, committed_offset=None, commit_timestamp_ms=None)
    .gone(8)
    .commit(9, 0, 1)
    .state(10, 1, member("z", {"t": [0]}))
    .commit(11, 0, 2)
)
SIMPLE = (
    Log("simple")
    .commit(0, 0, 5)
    .commit(1, 1, 5, topic="u")
    # old clients send the time
    .commit(2, 2, 5, commit_timestamp_ms=2**63 - 1)
    .commit(3, 2, 6, commit_timestamp_ms=-7)
    .commit(4, 2, 7, commit_timestamp_ms=ms(0))
    .commit(5, 2, 8, commit_timestamp_ms=0)
    # nor does the log have a time
    .commit(6, 2, 9, log_timestamp_ms=-1, commit_timestamp_ms=ms(6))
    .commit(7, 2, 9, log_timestamp_ms=-1, commit_timestamp_ms=-1)
)


def epochs() -> Log:
    log = Log("epochs")
    for at_s, value in ((1, '{"epoch":7,"metadataHash":1}'), (5, None)):
        log.rows.append(
            {
                "kind": CONSUMER_GROUP,
                "key_type": 3,
                "group": log.group,
                "value_json": value,
                "is_tombstone": value is None,
                "log_partition": 0,
                "log_offset": len(log.rows),
                "log_timestamp_ms": ms(at_s),
            }
        )
        log.commit(at_s + 1, 0, 5)
    return log


def made(engine: Engine) -> DataFrame:
    return conform(placed(walk_of(Inputs(decoded(engine, CLASSIC, SIMPLE, epochs())))), "commits")


@pytest.fixture(scope="module")
def found(engine: Engine) -> dict[str, list[Row]]:
    """The rows by group, in the order of the log."""
    table = made(engine)
    assert table.columns == TABLES["commits"].names
    rows = sorted((row.asDict() for row in collected(table)), key=lambda row: row["log_offset"])
    return {group: [row for row in rows if row["group"] == group] for group in ("classic", "simple", "epochs")}


def values(rows: list[Row], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


def test_the_generation_of_a_commit_is_that_of_the_last_record_before(found: dict[str, list[Row]]) -> None:
    assert values(found["classic"], "generation", "members") == [
        (None, None),
        (1, 1),
        (1, 1),
        (2, 2),
        (2, 2),
        (3, 0),
        (3, 0),
        (None, 0),
        (1, 1),
    ]


def test_the_owner_of_a_commit_had_the_partition_in_that_generation(found: dict[str, list[Row]]) -> None:
    a, nobody = ("a-1", None, "a"), (None, None, None)
    assert values(found["classic"], "member_id", "instance_id", "client_id") == [
        nobody,
        a,
        nobody,
        ("b-1", "i", "b"),
        a,
        nobody,
        nobody,
        nobody,
        ("z-1", None, "z"),
    ]


def test_the_time_of_a_commit_is_that_of_its_record(found: dict[str, list[Row]]) -> None:
    times = [ms(at_s) for at_s in (0, 2, 2, 4, 4, 6, 7, 9, 11)]
    assert [row["time_ms"] for row in found["classic"]] == times
    assert {row["stated_ms"] for row in found["classic"]} == {None}


def test_committed_offsets_and_deletions_are_rows(found: dict[str, list[Row]]) -> None:
    names = ("topic", "partition", "committed_offset", "leader_epoch", "metadata", "is_deleted", "log_offset")
    assert values(found["classic"][1:2], *names) == [("t", 0, 10, 3, "m", False, 2)]
    assert values(found["classic"][6:7], *names) == [("t", 0, None, None, None, True, 9)]


def test_a_group_without_records_never_had_members(found: dict[str, list[Row]]) -> None:
    assert values(found["simple"], "topic", "generation", "members", "client_id") == [
        ("t", None, 0, None),
        ("u", None, 0, None),
        *[("t", None, 0, None)] * 6,
    ]


def test_an_impossible_commit_time_of_a_client_is_shown(found: dict[str, list[Row]]) -> None:
    assert values(found["simple"][2:], "time_ms", "stated_ms") == [
        (ms(2), 2**63 - 1),
        (ms(3), -7),
        (ms(4), None),
        (ms(5), 0),
        (ms(6), None),
        (-1, None),
    ]


def test_groups_of_the_newer_protocols_have_epochs(found: dict[str, list[Row]]) -> None:
    assert values(found["epochs"], "generation", "members") == [(7, None), (None, 0)]
