"""The rows that are selected from the tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from muster.pipeline.kept import ParquetTable, of_folder
from muster.pipeline.report import select_groups as module
from muster.pipeline.report.content import About, Chosen
from muster.pipeline.report.page import PAGE, pages
from muster.pipeline.report.select import select
from muster.pipeline.report.summary import text
from muster.pipeline.tables.schema import TABLES

START = 1_750_000_000_000
ABOUT = About("a log", {"commit": 3, "malformed": 1}, True, True)


def tables(folder: Path, **rows: list[dict[str, Any]]) -> dict[str, ParquetTable]:
    """Every table, with these rows, in two files each; missing columns are null."""
    made = {}
    for name, schema in TABLES.items():
        whole = [dict.fromkeys(schema.names) | row for row in rows.get(name, [])]
        place = folder / name
        place.mkdir(parents=True)
        for part, some in enumerate((whole[::2], whole[1::2])):
            table = pa.Table.from_pylist(some, schema)
            parquet.write_table(table, place / f"part-{part}.parquet", row_group_size=2)
        made[name] = of_folder(place, schema)
    return made


def member(name: str, partitions: list[int]) -> dict[str, Any]:
    return {
        "member_id": f"{name}-id",
        "client_id": name,
        "host": "/10.0.0.1",
        "assigned": [{"topic": "t", "partitions": partitions}],
    }


def generation(group: str, number: int, start: int, end: int | None, *members: dict[str, Any]) -> dict[str, Any]:
    return {
        "group": group,
        "generation": number,
        "start_ms": START + start,
        "end_ms": None if end is None else START + end,
        "member_count": len(members),
        "members": list(members),
        "log_offset": number,
    }


def rebalance(group: str, number: int, cause: str, paused_ms: int) -> dict[str, Any]:
    return {
        "group": group,
        "generation": number,
        "start_ms": START + number * 1_000,
        "end_ms": START + number * 1_000 + 100,
        "cause": cause,
        "moved": 2,
        "took_ms": 100,
        "paused_partition_ms": paused_ms,
        "confidence": 1.0,
    }


def whatif(
    group: str, setting: str, rebalances: int | None, paused_s: float | None, silent_s: float = 1.0
) -> dict[str, Any]:
    actual = {
        "actual_rebalances": 4,
        "actual_moved_partitions": 8,
        "actual_paused_partition_s": 9.0,
        "actual_silent_partition_s": 1.0,
    }
    return {
        "group": group,
        "setting": setting,
        "settings_json": "{}",
        "rebalances": rebalances,
        "moved_partitions": rebalances,
        "paused_partition_s": paused_s,
        "silent_partition_s": None if paused_s is None else silent_s,
        **actual,
    }


def transaction(name: str | None, outcome: str | None, cause: str | None, took_ms: int | None) -> dict[str, Any]:
    start_ms = START + (1 if name == "b" else 0)
    return {"transactional_id": name, "producer_id": 7, "start_ms": start_ms, "outcome": outcome, "cause": cause,
            "took_ms": took_ms, "topics": [], "partitions": 0, "groups": []}  # fmt: skip


@pytest.fixture(scope="module")
def chosen(tmp_path_factory: pytest.TempPathFactory) -> Chosen:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "kept", lambda kind, _place, _groups: {"rebalances": 2, "shares": 3}[kind])
        return select(
            tables(
                tmp_path_factory.mktemp("tables"),
                commits=[
                    *({"group": "calm", "time_ms": START + at, "is_deleted": False} for at in (0, 5, 90_000)),
                    {"group": "gone", "time_ms": START + 9, "is_deleted": True},
                ],
                generations=[
                    generation("calm", 1, 0, None, member("c", [0])),
                    generation("wild", 1, 0, 1_000, member("a", [0, 1, 2])),
                    generation("wild", 2, 1_000, 2_000, member("a", [0]), member("b", [1, 2])),
                    generation("wild", 3, 2_000, None, member("b", [0, 1, 2])),
                    generation("quiet", 1, 0, None, member("q", [0])),
                ],
                rebalances=[
                    *(rebalance("wild", number, "member_joined", 300) for number in (1, 2)),
                    rebalance("wild", 3, "member_left", 300),
                    rebalance("calm", 1, "member_joined", 0),
                ],
                regressions=[
                    {"group": "wild", "topic": "t", "partition": 0, "back": back, "cause": "rewind"} for back in (1, 7)
                ],
                stalls=[
                    {"group": "wild", "topic": "t", "partition": 0, "status": status, "start_ms": START}
                    for status in ("OK", "STOP")
                ],
                lag=[{"group": "calm", "topic": "t", "partition": 0, "lag": lag} for lag in (0, 3)],
                static_candidates=[{"group": "wild", "returns": 3} for _ in range(50)],
                flapping=[{"group": "wild", "score": 50.0, "top_trigger_client_id": "a", "top_trigger_share": 0.5}],
                whatif=[
                    whatif("wild", "static", 1, 2.0),
                    whatif("wild", "patient", 4, 8.0),
                    whatif("wild", "deaf", 0, 0.0, silent_s=20.0),
                    whatif("half", "static", 1, 2.0),
                    whatif("half", "patient", None, None),
                ],
                advice=[
                    {"group": "wild", "gain_s": 2.0, "spared": 3, "sentence": "static ids would have helped"},
                    {"group": "half", "gain_s": 9.0, "spared": 1, "sentence": "patience would have helped"},
                ],
                verdicts=[
                    {"group": "wild", "level": "help", "verdict": "wild flaps", "kind": "flapping", "cost_ms": 900},
                    {"group": "quiet", "level": "help", "verdict": "t-0 stands still", "kind": "stalled"},
                    {"group": "calm", "level": "fine", "verdict": "fine"},
                ],
                episodes=[
                    {
                        "group": "wild",
                        "kind": "first_formation",
                        "from_ms": START,
                        "until_ms": START + 1_100,
                        "confidence": 1.0,
                    },
                    {
                        "group": "wild",
                        "kind": "crash_loop",
                        "from_ms": START + 2_000,
                        "until_ms": START + 3_200,
                        "confidence": 0.9,
                    },
                ],
                progress=[
                    {"group": "calm", "start_ms": START + at, "until_ms": START + at + 5_000, "commits": at}
                    for at in (5_000, 0)
                ],
                fidelity=[
                    {
                        "group": "wild",
                        "source": "events",
                        "generations": 4,
                        "reproduced": 4,
                        "withheld": False,
                        "unadvised": "too dear",
                    },
                    *(
                        {"group": one, "source": "log", "withheld": False, "unadvised": "at rest"}
                        for one in ("calm", "quiet")
                    ),
                    {"group": "odd", "source": "events", "generations": 2, "reproduced": 1, "withheld": True},
                ],
                transactions=[
                    transaction("a", "committed", "client", 5),
                    transaction("a", "aborted", "timeout", 900),
                    transaction("b", "aborted", "new_producer", 7),
                    transaction(None, "committed", "client", 3),
                    transaction("b", None, None, None),
                ],
                malformed=[{"reason": "no key"}],
            ),
            ABOUT,
        )


def test_the_time_range_of_the_report_is_found(chosen: Chosen) -> None:
    assert (chosen.first_ms, chosen.last_ms) == (START, START + 90_000)
    assert (chosen.commits, chosen.bucket_ms) == (3, 5_000)


def test_the_worst_groups_come_first(chosen: Chosen) -> None:
    assert [row["group"] for row in chosen.groups.rows] == ["wild", "quiet", "calm", "gone"]
    wild, quiet, calm, gone = chosen.groups.rows
    assert [wild[name] for name in ("cost_ms", "advice")] == [900, "static ids would have helped"]
    # no setting helps a partition that stands still, and a healthy group needs none
    assert [row["unadvised"] for row in chosen.groups.rows] == ["too dear", None, None, None]
    assert wild["longest"] == {"took_ms": 100, "took_least_ms": None, "took_most_ms": None}
    reported = ("members", "rebalances", "paused_partition_ms", "moved", "top_cause", "score", "lag")
    assert [wild[name] for name in reported] == [2, 3, 900, 6, None, 50.0, None]
    assert [calm[name] for name in reported] == [1, 1, 0, 2, None, None, 3]
    assert [gone[name] for name in reported] == [None, 0, None, None, None, None, None]
    assert [quiet[name] for name in reported] == [1, 0, None, None, None, None, None]


def test_a_group_that_only_formed_has_no_usual_cause() -> None:
    rows = [
        {"group": group, "cause": cause, "rebalances": count, "planned": planned}
        for group, cause, count, planned in (
            ("formed", "member_joined", 4, 4), ("looped", "member_joined", 9, 8), ("looped", "session_expired", 5, 0),
            ("twice", "member_left", 2, 0), ("unknown", None, 9, 0),
        )
    ]  # fmt: skip
    assert module.top_causes(pa.Table.from_pylist(rows)) == {"looped": "session_expired"}


def test_all_groups_together_are_counted_over_time(tmp_path: Path) -> None:
    step = {"until_ms": START + 5_000, "records": 5}
    found = select(
        tables(
            tmp_path,
            progress=[
                step | {"group": "a", "start_ms": START, "commits": 2, "lag": 7},
                step | {"group": "a", "start_ms": START + 5_000, "until_ms": START + 10_000, "commits": 1, "lag": 9},
                step | {"group": "b", "start_ms": START, "commits": 3, "lag": 90},
                step | {"group": "b", "start_ms": START + 5_000, "until_ms": START + 10_000, "commits": 3},
            ],
            rebalances=[rebalance(group, at, "member_left", 0) for group, at in (("a", 1), ("b", 1), ("b", 2))],
        ),
        ABOUT,
    )
    assert [(row["commits"], row["records"], row["lag"]) for row in found.progress] == [(5, 10, 7), (4, 10, 9)]
    (bar,) = found.buckets
    assert (bar["group"], bar["rebalances"]) == ("b", 3)
    assert found.silences.total == 0


def test_causes_are_counted(chosen: Chosen) -> None:
    assert [(row["cause"], row["rebalances"]) for row in chosen.causes] == [("member_joined", 3), ("member_left", 1)]
    planned = [(row["is_planned"], row["rebalances"]) for row in chosen.buckets]
    assert sum(count for is_planned, count in planned if is_planned) == 1, "the first formation of wild"
    assert sum(count for _, count in planned) == 4


def test_a_long_history_is_shown_from_its_end(chosen: Chosen) -> None:
    wild, quiet, calm, gone = chosen.stories
    assert [one.group for one in chosen.stories] == ["wild", "quiet", "calm", "gone"]
    assert [one.is_cut for one in chosen.stories] == [True, False, False, False]
    assert (gone.shares, [row["client_id"] for row in quiet.shares]) == ((), ["q"])
    assert [row["kind"] for row in wild.episodes.rows] == ["crash_loop", "first_formation"]
    assert [row["commits"] for row in calm.progress] == [0, 5_000]
    assert wild.about["verdict"] == "wild flaps"
    assert sorted((row["generation"], row["client_id"], row["partitions"]) for row in wild.shares) == [
        (2, "a", 1),
        (2, "b", 2),
        (3, "b", 3),
    ]
    assert [row["generation"] for row in wild.rebalances.rows] == [3, 2]
    assert (wild.rebalances.total, wild.rebalances.left) == (3, 1)


def test_offset_findings_are_selected(chosen: Chosen) -> None:
    assert [row["back"] for row in chosen.regressions.rows] == [7, 1]
    assert [row["status"] for row in chosen.stalls.rows] == ["STOP"]
    assert [row["lag"] for row in chosen.lag.rows] == [3]
    assert (len(chosen.static_candidates.rows), chosen.static_candidates.total) == (40, 50)


def test_settings_are_compared_over_the_same_groups(chosen: Chosen) -> None:
    assert [(row["setting"], row["groups"], row["rebalances"]) for row in chosen.grid] == [
        ("static", 1, 1),
        ("patient", 1, 4),
        ("deaf", 1, 0),  # no pause at all, and dead owners for twice as long: that helps nobody
    ]
    counted = [(row["fewer"], row["more"], row["less"], row["longer"]) for row in chosen.grid]
    assert counted == [(1, 0, 1, 0), (0, 0, 1, 0), (1, 0, 0, 1)]
    assert [row["group"] for row in chosen.advice.rows] == ["half", "wild"]
    assert chosen.answers.rows == ()
    assert [(row["groups"], row["generations"], row["reproduced"], row["withheld"]) for row in chosen.fidelity] == [
        (2, 6, 5, 1),
        (2, None, None, 0),
    ]
    assert [row["group"] for row in chosen.withheld.rows] == ["odd"]


def test_transactions_are_selected(chosen: Chosen) -> None:
    assert [(row["outcome"], row["transactions"], row["took_ms"]) for row in chosen.transaction_ends] == [
        ("committed", 2, 4.0),
        (None, 1, None),
        ("aborted", 1, 7.0),
        ("aborted", 1, 900.0),
    ]
    ids = [(row["transactional_id"], row["aborted"], row["timed_out"], row["taken_over"], row["longest_ms"])
           for row in chosen.transactional_ids.rows]  # fmt: skip
    assert ids == [("a", 1, 1, 0, 900), ("b", 1, 0, 1, 7), (None, 0, 0, 0, 3)]
    assert [row["took_ms"] for row in chosen.longest.rows] == [900, 7, 5, 3]
    assert [row["took_ms"] for row in chosen.aborted.rows] == [7, 900]


def test_malformed_rows_are_counted(chosen: Chosen) -> None:
    assert chosen.odd_rows == {"malformed": 1, "unknown": 0}
    assert [(row["kind"], row["reason"], row["rows"]) for row in chosen.odd_reasons] == [("malformed", "no key", 1)]


def test_a_selection_can_be_rendered(chosen: Chosen) -> None:
    assert "wild" in "".join(pages(chosen).values())
    assert "wild" in text(chosen)


def test_few_settings_are_answered_group_by_group(tmp_path: Path) -> None:
    about = ABOUT._replace(what_if=("static",))
    rows = [whatif("a", "static", 4, 9.0), whatif("b", "static", 1, 2.0), whatif("c", "static", None, None)]
    answers = select(tables(tmp_path, whatif=rows, fidelity=[], commits=[]), about).answers
    assert [row["group"] for row in answers.rows] == ["b", "a", "c"]


def test_an_empty_log_is_selected(tmp_path: Path) -> None:
    made = tables(tmp_path)
    del made["whatif"], made["fidelity"]
    empty = select(made, ABOUT)
    assert (empty.first_ms, empty.groups.total, empty.stories, empty.grid) == (None, 0, [], [])
    assert "has no group" in pages(empty)[PAGE]


def test_the_worst_groups_get_more_rows() -> None:
    assert [module.kept("rebalances", place, 19) for place in (0, 18)] == [1_000, 1_000]
    assert [module.kept("shares", place, 250) for place in (0, 99, 100, 249)] == [400, 400, 40, 40]
    most = sum(module.kept("rebalances", place, module.GROUPS) for place in range(module.GROUPS))
    assert most <= 50_000
