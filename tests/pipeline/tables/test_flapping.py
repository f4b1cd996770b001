from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame

from muster.pipeline.tables.commits import walked
from muster.pipeline.tables.flapping import flapping
from muster.pipeline.tables.schema import TABLES
from tests.pipeline.engines import Engine, collected
from tests.pipeline.tables.rows import Commits, ms, table_of

DAY_S = 86_400
Row = dict[str, Any]


def rebalances(group: str, times_s: list[float], triggers: list[str | None], **other: Any) -> list[Row]:
    """One rebalance for each time, caused by the clients in turn."""
    rows = []
    for index, at_s in enumerate(times_s):
        client = triggers[index % len(triggers)]
        who = {"trigger_client_id": client, "trigger_host": client and "/h", "trigger_member_id": client and f"{index}"}
        rows.append({"group": group, "generation": index + 1, "end_ms": ms(at_s), **who, **other})
    return rows


def generations(group: str, times_s: list[float], members: int = 3, until_s: float | None = None) -> list[Row]:
    """The generations, each until the next one; the last one is in force, or ends."""
    ends = [*times_s[1:], until_s]
    return [
        {"group": group, "start_ms": ms(start), "end_ms": None if end is None else ms(end), "member_count": members}
        for start, end in zip(times_s, ends, strict=True)
    ]


STEADY = [0.0]
FLAPPING = [300.0 * index for index in range(288)]
"""A rebalance every five minutes, all day."""
DEPLOY = [40_000 + 20.0 * index for index in range(40)]
"""Twenty members, one after the other, once."""
STATIC = [600.0 * index for index in range(12)]


def made(engine: Engine) -> DataFrame:
    changes = [
        *rebalances("steady", STEADY, ["a"]),
        *rebalances("flapping", FLAPPING, ["bad"]),
        *rebalances("deploy", [0.0, *DEPLOY], [f"m{index}" for index in range(20)]),
        *rebalances("static", STATIC, ["a", "b"], trigger_instance_id="i"),
        *rebalances("nobody", [0.0, 10.0], [None]),
        *rebalances("ended", [0.0, 10.0, 7_200.0], ["a", "b", "c"]),
        *rebalances("stopped", [0.0, 7_200.0], ["a", "b"]),
    ]
    stays = [
        *generations("steady", STEADY),
        # a second below the limit of a short generation
        *generations("flapping", [at_s * 0.99 for at_s in FLAPPING]),
        *generations("deploy", [0.0, *DEPLOY]),
        *generations("static", STATIC, until_s=DAY_S),
        *generations("nobody", [0.0, 10.0], members=0),
        *generations("ended", [0.0, 10.0, 7_200.0], until_s=14_400),
        *generations("stopped", [0.0], until_s=7_200),
        *generations("stopped", [7_200.0], members=0),  # in force until the end of the log
    ]
    commits = Commits("steady").by("a", (0, 1), (DAY_S, 2)).rows
    return flapping(
        table_of(engine, "rebalances", changes),
        table_of(engine, "generations", stays),
        walked(table_of(engine, "commits", commits), None),
    )


@pytest.fixture(scope="module")
def found(engine: Engine) -> dict[str, Row]:
    """The rows by group."""
    table = made(engine)
    assert table.columns == TABLES["flapping"].names
    return {row.group: row.asDict() for row in collected(table)}


def test_a_group_that_rebalances_all_day_for_one_member_is_far_ahead_of_the_others(found: dict[str, Row]) -> None:
    scores = {group: row["score"] for group, row in found.items()}
    assert scores["flapping"] == pytest.approx(100 * 12 / 18, abs=0.1)
    assert scores["steady"] < 1
    assert scores["steady"] < scores["deploy"] < 20 < scores["flapping"]


def test_the_score_has_its_documented_parts(found: dict[str, Row]) -> None:
    row = found["deploy"]
    assert (row["rebalances"], row["hours"], row["short_generations"]) == (41, 24.0, 39)
    assert row["rebalances_per_hour"] == pytest.approx(41 / 24)
    assert (row["distinct_triggers"], row["top_trigger_client_id"]) == (20, "m0")
    assert row["top_trigger_share"] == pytest.approx(3 / 41)
    rate, short, repeats = (41 / 24) / (41 / 24 + 6), 39 / 41, (41 - 20) / 40
    assert row["score"] == pytest.approx(100 * rate * (0.4 + 0.3 * short + 0.3 * repeats), abs=0.1)


def test_a_static_member_is_one_trigger_whatever_its_client_id(found: dict[str, Row]) -> None:
    assert (found["static"]["distinct_triggers"], found["static"]["top_trigger_share"]) == (1, 1.0)


def test_a_group_without_known_triggers_or_members(found: dict[str, Row]) -> None:
    row = found["nobody"]
    assert (row["distinct_triggers"], row["top_trigger_client_id"], row["top_trigger_share"]) == (0, None, None)
    assert row["short_generations"] == 0


def test_the_hours_of_a_group_are_those_in_the_log(found: dict[str, Row]) -> None:
    assert [found[group]["hours"] for group in ("steady", "ended", "stopped")] == [24.0, 4.0, 2.0]
