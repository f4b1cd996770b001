"""Mutations of logs: what they do to the rows and to the truth."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from muster.pipeline.sources.ends import ENDS
from tests.pipeline import mutations
from tests.pipeline.tables import history
from tests.pipeline.tables.history import START_MS, member


def log(group: str = "g", partition: int = 0) -> mutations.Log:
    made = history.Log(group)
    made.state(0, 1, member("a", {"t": [0]})).commit(10, 0, 5).commit(20, 0, 9).state(30, 2, member("b", {"t": [0]}))
    rows = [
        {**row, "log_partition": partition, "key_type": 1, "key_json": f'{{"groupId":"{group}"}}'} for row in made.rows
    ]
    truth: list[dict[str, Any]] = [
        {"kind": "group", "group": group, "topic": "t", "partitions": 1},
        {"kind": "episode", "group": group, "what": "deaths", "from": START_MS + 15_000, "until": START_MS + 30_000},
        {"kind": "rebalance", "group": group, "acted": START_MS + 5, "settled": START_MS + 30_000,
         "died": [{"client_id": "a", "noticed": START_MS + 29_000, "last_life": START_MS + 10_000}]},
        {"kind": "episode", "group": None, "groups": [group, "other"], "what": "trouble", "from": 0, "until": 1},
    ]  # fmt: skip
    ends = [{"topic": "t", "partition": 0, "end_offset": 9, "time_ms": START_MS + 20_000}]
    table = pa.Table.from_pylist(rows, mutations.DECODED)
    return mutations.Log(table, pa.Table.from_pylist(ends, ENDS), truth)


def seconds(one: mutations.Log) -> list[float]:
    return [(at - START_MS) / 1000 for at in one.rows["log_timestamp_ms"].to_pylist()]


def test_a_silence_moves_all_that_comes_after_it() -> None:
    found = mutations.silent(log(), START_MS + 12_000, 120_000)
    assert seconds(found) == [0, 10, 140, 150]
    assert [at - START_MS for at in found.rows["commit_timestamp_ms"].to_pylist() if at] == [10_000, 140_000]
    assert found.ends["time_ms"].to_pylist() == [START_MS + 140_000]
    assert (found.truth[1]["from"], found.truth[1]["until"]) == (START_MS + 135_000, START_MS + 150_000)
    assert found.truth[2]["died"][0]["last_life"] == START_MS + 10_000
    assert found.truth[-1] == {
        "kind": "silence", "how": "mutation", "from": START_MS + 12_000, "until": START_MS + 132_000,
    }  # fmt: skip


def test_clocks_that_are_ahead_move_all() -> None:
    found = mutations.later(log(), 5_000)
    assert seconds(found) == [5, 15, 25, 35]
    assert found.truth[1]["from"] == START_MS + 20_000


def test_a_missing_partition_takes_its_groups_away() -> None:
    both = mutations.merged(log("g"), mutations.later(log("h"), 777))
    assert seconds(both) == [0, 10, 20, 30] * 2
    found = mutations.without_partition(both, mutations.OTHER_PARTITIONS)
    assert set(found.rows["group"].to_pylist()) == {"g"}
    assert {line["group"] for line in found.truth} == {"g", None}
    assert found.truth[-1]["groups"] == []


def test_compaction_keeps_the_last_record_of_each_key() -> None:
    assert seconds(mutations.compacted(log(), START_MS + 15_000)) == [20, 30]
    assert seconds(mutations.compacted(log(), START_MS + 5_000)) == [10, 20, 30]


def test_a_renamed_group_has_another_name_in_all_places() -> None:
    found = mutations.renamed(log(), "-b")
    assert set(found.rows["group"].to_pylist()) == {"g-b"}
    assert set(found.rows["key_json"].to_pylist()) == {'{"groupId":"g-b"}'}
    assert [line["group"] for line in found.truth] == ["g-b", "g-b", "g-b", None]
    assert found.truth[-1]["groups"] == ["g-b", "other-b"]
