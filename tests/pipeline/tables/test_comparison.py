"""The table `comparison`: two analyses, and one analysis that is divided at a time."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from muster.pipeline.tables.comparison import Side, comparison, split
from muster.pipeline.tables.schema import TABLES
from tests.pipeline.engines import Engine
from tests.pipeline.tables.rows import ms, table_of

HOUR_S = 3_600


def side(spark: SparkSession, seen: dict[str, float], episodes: list[tuple[str, str, int, int]]) -> Side:
    """`seen`: hours of each group; `episodes`: group, kind, rebalances, how long it lasted in seconds."""
    rows = [
        {"group": group, "kind": kind, "rebalances": count, "cost_ms": 10 * count, "from_ms": ms(0),
         "until_ms": ms(lasted_s)}
        for group, kind, count, lasted_s in episodes
    ]  # fmt: skip
    spans = [{"group": group, "first_ms": ms(0), "last_ms": ms(hours * HOUR_S)} for group, hours in seen.items()]
    return Side(table_of(Engine(spark), "episodes", rows), table_of(Engine(spark), "verdicts", spans))


def rows_of(table: DataFrame) -> dict[str, dict[str, Any]]:
    return {row["group"]: row.asDict() for row in table.collect()}


def test_significant_and_chance_differences_are_distinguished(spark: SparkSession) -> None:
    loops = [("wild", "crash_loop", 40, 12 * HOUR_S), ("bad-build", "crash_loop", 40, HOUR_S)]
    others = [("calm", "scale_out", 2, 9), ("gone", "other", 1, 9), *[("busy", "scale_out", 1, 9)] * 3]
    before = side(spark, {"wild": 12, "calm": 12, "gone": 1, "busy": 12, "bad-build": 12}, loops + others)
    formed = [("wild", "first_formation", 3, 9), *[("busy", "scale_in", 1, 9)] * 3]
    after = side(spark, {"wild": 12, "calm": 6, "new": 3, "busy": 12, "bad-build": 12}, formed)
    table = comparison(before, after)
    assert table.columns == TABLES["comparison"].names
    found = rows_of(table)
    wild = found["wild"]
    assert (wild["hours_before"], wild["rebalances_before"], wild["happenings_before"]) == (12.0, 40, 20)
    assert (wild["rebalances_after"], wild["cost_ms_before"], wild["cost_ms_after"]) == (0, 400, 0)
    assert (wild["episodes_before"], wild["episodes_after"], wild["is_significant"]) == (["1 crash_loop"], [], True)
    assert wild["p"] < 1e-5
    assert (found["calm"]["p"], found["calm"]["is_significant"]) == (1.0, False)
    judged = {name: row["judgement"] for name, row in found.items()}
    assert judged == {
        "wild": "significant", "busy": "chance", "calm": "too_few", "bad-build": "too_few", "gone": "one_side",
        "new": "one_side",
    }  # fmt: skip
    assert [found[name]["p"] for name in ("gone", "new")] == [None, None]


def test_one_analysis_is_divided_at_a_time(spark: SparkSession) -> None:
    """A member restarts every ten minutes until it is repaired after an hour."""
    rebalances, memberships = [], [{"group": "g", "member_id": "b", "client_id": "b", "host": "/h", "start_ms": ms(0)}]
    for number in range(8):
        come_s, go_s = 600 * number + 60, 600 * number + 600
        member = {"group": "g", "member_id": f"a{number}", "client_id": "a", "host": "/h"}
        stay = {"start_ms": ms(come_s), "first_generation": 2 * number, "last_generation": 2 * number}
        memberships.append({**member, **stay, "end_ms": ms(go_s), "end_cause": "left"})
        for step, at_s in ((0, come_s), (1, go_s)):
            generation = 2 * number + step
            rebalances.append(
                {"group": "g", "generation": generation, "before_generation": generation - 1, "start_ms": ms(at_s),
                 "end_ms": ms(at_s + 1), "cause": "member_left" if step else "member_joined", "members_before": 1,
                 "trigger_member_id": f"a{number}", "paused_partition_ms": 1_000, "confidence": 1.0}
            )  # fmt: skip
    tables = {
        "rebalances": table_of(Engine(spark), "rebalances", rebalances),
        "memberships": table_of(Engine(spark), "memberships", memberships),
        "generations": table_of(Engine(spark), "generations", []),
        "commits": table_of(Engine(spark), "commits", []),
        "flapping": table_of(Engine(spark), "flapping", []),
        "silences": table_of(Engine(spark), "silences", []),
        "verdicts": table_of(
            Engine(spark), "verdicts", [{"group": "g", "first_ms": ms(0), "last_ms": ms(10 * HOUR_S)}]
        ),
    }
    (row,) = rows_of(comparison(*split(tables, ms(HOUR_S)))).values()
    assert (row["hours_before"], row["hours_after"]) == (1.0, 9.0)
    assert row["rebalances_before"] + row["rebalances_after"] == 16
    assert row["rebalances_before"] >= 11
    assert row["episodes_before"][-1] == "1 crash_loop"
    assert row["is_significant"]
