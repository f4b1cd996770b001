"""The tables `episodes` and `verdicts`, made from the other tables."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from muster.pipeline.schema import columns
from muster.pipeline.tables.commits import walked
from muster.pipeline.tables.episodes import episodes_and_verdicts
from muster.pipeline.tables.schema import TABLES
from muster.pipeline.tables.silences import silences
from tests.pipeline.engines import Engine, collected
from tests.pipeline.tables.rows import Commits, ms, table_of

Row = dict[str, Any]
QUIET = [
    {"from_ms": ms(300), "until_ms": ms(310), "groups": 9},
    {"from_ms": ms(400), "until_ms": ms(440), "groups": 2, "only": ["alone", "slow"]},
]
DEAD = ("one", "two", "three")
"""Groups in which most of the members, two of three, die at the same moment."""


def _who(name: str) -> Row:
    return {"member_id": f"{name}-1", "client_id": name, "host": "/h"}


def _rebalance(group: str, generation: int, at_s: float, cause: str, name: str) -> Row:
    return {
        "group": group, "generation": generation, "before_generation": generation - 1, "start_ms": ms(at_s),
        "end_ms": ms(at_s + 1), "cause": cause, "trigger_member_id": f"{name}-1", "members_before": generation - 1,
        "members_after": 1, "kept": 3, "moved": 1, "gained": 0, "lost": 0, "paused_partition_ms": 4_000,
        "confidence": 1.0,
    }  # fmt: skip


def _member(group: str, name: str, start_s: float, first: int, end_s: float | None = None, how: str | None = None,
            last: int | None = None) -> Row:  # fmt: skip
    return {
        "group": group, **_who(name), "start_ms": ms(start_s), "end_ms": None if end_s is None else ms(end_s),
        "first_generation": first, "last_generation": last, "end_cause": how,
    }  # fmt: skip


def made(engine: Engine) -> dict[str, DataFrame]:
    rebalances, memberships = [], []
    for number, group in enumerate((*DEAD, "alone")):
        at_s = 1_000 + 4 * number + (5_000 if group == "alone" else 0)
        memberships += [_member(group, "a", 0, 1), _member(group, "b", 0, 1, at_s, "expired", 1)]
        if group in DEAD:
            memberships.append(_member(group, "c", 0, 1, at_s, "expired", 1))
        rebalances += [
            _rebalance(group, 1, 1, "member_joined", "a"),
            _rebalance(group, 2, at_s, "session_expired", "b"),
        ]
    memberships.append(_member("gone", "a", 0, 1, 7_000, "expired", 1))
    last = {"members_after": 0, "kept": 0, "moved": 0, "lost": 4}
    rebalances += [
        _rebalance("gone", 1, 1, "member_joined", "a"), _rebalance("gone", 2, 7_000, "session_expired", "a") | last
    ]  # fmt: skip
    slow = [(1_000, 1_400), (1_500, 1_900), (2_000, None)]
    for number, (start_s, end_s) in enumerate(slow):
        memberships.append(_member("slow", "s", start_s, 2 * number + 1, end_s, end_s and "left", 2 * number + 1)
                           | {"member_id": f"s-{number}"})  # fmt: skip
        rebalances.append(_rebalance("slow", 2 * number + 1, start_s, "member_joined", "s"))
        if end_s:
            rebalances.append(_rebalance("slow", 2 * number + 2, end_s, "member_left", "s"))
    memberships.append(_member("slow", "other", 0, 0))
    generations = [
        {"group": "slow", "generation": 1, "start_ms": ms(1_000), "member_count": 1,
         "members": [{**_who("s"), "member_id": f"s-{number}", "rebalance_timeout_ms": 300_000} for number in range(2)]}
    ]  # fmt: skip
    generations += [
        {"group": group, "generation": 1, "start_ms": ms(1), "member_count": 0, "members": []}
        for group in (*DEAD, "alone", "gone")
    ]
    stalls = [
        {"group": "only commits", "topic": "t", "partition": number, "start_ms": ms(3_000), "end_ms": None,
         "status": status, "lag": 7}
        for number, status in enumerate(("STALL", "WARN"))
    ]  # fmt: skip
    regressions = [{"group": "alone", "cause": "second_application", "time_ms": ms(100), "until_ms": ms(200),
                    "commits": 12}]  # fmt: skip
    stalls.append(stalls[0] | {"group": "busy", "client_id": "o", "lag": 900})
    lags = [
        {"group": "busy", "topic": "t", "partition": number, "committed_offset": 1, "committed_ms": ms(at_s),
         "lag": 900 - number, "client_id": "o"}
        for number, at_s in enumerate((3_000, 3_990))
    ]  # fmt: skip
    commits = [*Commits("only commits").by("x", (4_000, 1)).rows, *Commits("busy").by("o", (3_990, 1)).rows]
    for number, (start_s, _) in enumerate(slow):
        commits += Commits("slow").by("s", (start_s + 20, number), member_id=f"s-{number}").rows
    given = {
        name: table_of(engine, name, rows)
        for name, rows in {
            "rebalances": rebalances, "memberships": memberships, "generations": generations, "commits": commits,
            "flapping": [], "silences": QUIET, "stalls": stalls, "regressions": regressions,
            "progress": [], "skips": [], "lag": lags,
        }.items()
    }  # fmt: skip
    given["commits"] = walked(given["commits"], None)
    return episodes_and_verdicts(*given.values())


@pytest.fixture(scope="module")
def found(engine: Engine) -> dict[str, list[Row]]:
    tables = made(engine)
    assert all(rows.columns == TABLES[name].names for name, rows in tables.items())
    return {name: [row.asDict() for row in collected(rows)] for name, rows in tables.items()}


def _kinds(found: dict[str, list[Row]], group: str) -> list[str]:
    rows = [row for row in found["episodes"] if row["group"] == group]
    return [row["kind"] for row in sorted(rows, key=lambda row: row["from_ms"])]


def test_simultaneous_deaths_in_several_groups_are_distinguished_from_one_death(found: dict[str, list[Row]]) -> None:
    for group in DEAD:
        assert _kinds(found, group) == ["first_formation", "coordinator_or_network_trouble"]
    assert _kinds(found, "alone") == ["first_formation", "member_died"]


def test_commits_show_that_a_member_that_left_twice_was_slow(found: dict[str, list[Row]]) -> None:
    assert "slow_poller" in _kinds(found, "slow")


def test_each_group_has_a_verdict(found: dict[str, list[Row]]) -> None:
    reported = {row["group"]: row for row in found["verdicts"]}
    assert reported["alone"]["verdict"].startswith("b was lost and nobody took its place: 1 rebalance, 4 s unread")
    assert {group: row["level"] for group, row in reported.items()} == {
        **dict.fromkeys((*DEAD, "gone"), "help"), "alone": "look", "slow": "help",
        "only commits": "help", "busy": "fine",
    }  # fmt: skip
    # no member took its partitions: they count all the same
    assert ": 1 rebalance, 4 s unread in all" in reported["gone"]["verdict"]
    assert reported["only commits"]["verdict"] == "t-0 stands still since 23:03:20, 7 records behind"
    (claim,) = reported["only commits"]["claims"]
    assert (claim.rule, claim.who, claim.evidence[0].table) == ("stalled", ["t-0"], "stalls")
    assert "; a second application commits under the same group id (12 commits" in reported["alone"]["verdict"]
    assert (reported["alone"]["trouble_ms"], reported["alone"]["cost_ms"], reported["alone"]["rebalances"]) == (
        4_000,
        8_000,
        2,
    )


def made_silences(engine: Engine, *, of_one: bool = False) -> DataFrame:
    """Three groups commit all the time except for 20 s. Before, one of them rests for as long; later there is only
    one. Two more groups rest for 40 s, while the others go on. `of_one`: of the other groups only the times of commits
    are known (`--group a`).
    """
    rows: list[Row] = []
    for number, name in enumerate("abc"):
        seconds = [at for at in range(200) if not 100 <= at < 120 and not (name == "a" and 60 <= at < 80)]
        rows += Commits(name).by(name, *((at + number / 10, at) for at in seconds)).rows
    rows += Commits("a").by("a", *((at, at) for at in range(240, 300))).rows
    for number, name in enumerate("de"):
        seconds = [at for at in range(200) if not 100 <= at < 120 and not 140 <= at < 180]
        rows += Commits(name).by(name, *((at + number / 10, at) for at in seconds)).rows
    nobody = table_of(engine, "memberships", [])
    if not of_one:
        return silences(walked(table_of(engine, "commits", rows), None), nobody)
    of_a, of_others = ([row for row in rows if (row["group"] == "a") is is_a] for is_a in (True, False))
    times = [{"group": row["group"], "log_timestamp_ms": row["time_ms"]} for row in of_others]
    others = engine.frame(pa.Table.from_pylist(times, pa.schema(columns("group string, log_timestamp_ms long"))))
    return silences(walked(table_of(engine, "commits", of_a), None), nobody, others)


@pytest.mark.parametrize("of_one", [False, True])
def test_a_time_without_any_commits_is_a_silence(engine: Engine, of_one: bool) -> None:
    found = collected(made_silences(engine, of_one=of_one))
    assert [(row.from_ms, row.until_ms, row.groups, row.only) for row in found] == [
        (ms(99.2), ms(120), 5, None),
        (ms(139.1), ms(180), 2, ["d", "e"]),
    ]
