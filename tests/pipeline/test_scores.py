"""The figures of `make score` count what they claim, and the kept logs can be read."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.recording.truths import Drop, _regressions
from tests.pipeline.scores import HOLD_OUT, KEPT, shown
from tests.pipeline.scores_episodes import happenings
from tests.pipeline.scores_parts import Figure, Row, Tables, advice, episodes, rebalances, regressions, stalls

MAX_BYTES = 300_000
WANTED = {
    "formation", "rolling_restart", "scale_out", "scale_in", "crash_loop", "flapping", "overlapping_deploy",
    "slow_poller", "deaths", "whole_stop", "trouble",
}  # fmt: skip


def summarized(figures: list[Figure]) -> dict[str, str]:
    return {figure.title.strip(): str(figure) for figure in figures}


def rebalance(generation: int, start_ms: int, **other: Any) -> Row:
    row = {"group": "g", "generation": generation, "start_ms": start_ms, "end_ms": 2_000, "took_ms": 2_000 - start_ms}
    bounds = {"start_earliest_ms": start_ms - 100, "start_latest_ms": start_ms + 100}
    bounds |= {"took_least_ms": 1_900 - start_ms, "took_most_ms": 2_100 - start_ms}
    return {**row, **bounds, "cause": "member_left", "confidence": 1.0, "died": [], "silent_from_ms": None, **other}


def true(generation: int, acted: int, **other: Any) -> dict[str, Any]:
    line = {"kind": "rebalance", "group": "g", "generation": generation, "cause": "member_left", "acted": acted}
    return {**line, "settled": 2_000, "died": [], **other}


def test_rebalances_are_scored() -> None:
    dead = [{"client_id": "a", "noticed": 1_000, "last_life": 400}]
    truth = [
        true(1, 1_000),
        true(2, 1_500, cause="session_expired", died=dead),
        true(3, 1_000),
        {"kind": "unsure", "group": "g", "first": 9, "last": None},
    ]
    rows = [
        rebalance(1, 1_050),
        rebalance(2, 1_000, died=[{"client_id": "a"}], silent_from_ms=300),
        rebalance(7, 1_000),
        rebalance(9, 1_000),
    ]
    found = summarized(rebalances({"rebalances": rows}, truth))
    assert (found["rebalances found"], found["rebalances false"], found["cause right"]) == ("2/3", "1", "1/2")
    assert (found["start, median error"], found["length, median error"]) == ("275 ms", "52 %")
    assert (found["start inside the told range"], found["length inside the told range"]) == ("1/2", "1/2")
    assert (found["all who died named"], found["last sign of life, median error"]) == ("1/1", "100 ms")


def test_regressions_are_scored() -> None:
    truth = [
        {"kind": "regression", "group": "g", "cause": "reset", "by": None, "from": 1_000, "until": 1_500},
        {"kind": "regression", "group": "g", "cause": "rewind", "by": None, "from": 5_000, "until": 5_000},
        {"kind": "regression", "group": "g", "cause": None, "by": None, "from": 7_000, "until": 7_000},
    ]
    rows: list[Row] = [{"group": "g", "time_ms": at, "cause": cause} for at, cause in (
        (1_000, "reset"), (1_400, "reset"), (5_000, "zombie"), (7_000, "rewind"), (9_000, "rewind"),
    )]  # fmt: skip
    found = summarized(regressions({"regressions": rows}, truth))
    assert (found["regressions right"], found["rows with the right cause"]) == ("1/2", "2/3")
    assert (found["rows for one happening"], found["rows of nothing known"]) == ("2", "1")


def test_stalls_and_episodes_are_scored() -> None:
    truth = [
        {"kind": "stall", "group": "g", "topic": "t", "partitions": [0, 1], "how": "pause", "from": 0, "until": 60_000},
        {"kind": "episode", "group": "g", "what": "formation", "from": 0, "until": 9, "members": []},
        {
            "kind": "episode",
            "group": None,
            "what": "trouble",
            "from": 50_000,
            "until": 60_000,
            "groups": ["g", "h"],
            "members": [],
        },
    ]

    def row(partition: int, start_ms: int, end_ms: int | None, status: str = "STOP") -> Row:
        return {"group": "g", "topic": "t", "partition": partition, "start_ms": start_ms, "end_ms": end_ms,
                "status": status}  # fmt: skip

    standing = [row(0, 10_000, None), row(1, 50_000, 60_000), row(2, 0, 60_000), row(2, 0, 60_000, "OK")]
    truth += [true(1, 5), true(2, 52_000), {**true(2, 53_000), "group": "h"}]
    truth[-2]["settled"] = truth[-1]["settled"] = 54_000
    happened = [
        {"group": "g", "kind": "first_formation", "from_ms": 0, "until_ms": 9},
        {"group": "g", "kind": "scale_out", "from_ms": 20_000, "until_ms": 21_000},
        {"group": "h", "kind": "coordinator_or_network_trouble", "from_ms": 55_000, "until_ms": 56_000},
        {"group": "h", "kind": "restart", "from_ms": 55_000, "until_ms": 56_000},
    ]
    tables: Tables = {"stalls": standing, "episodes": happened}
    assert summarized(stalls(tables, truth)) == {"stalls found": "1/2", "false": "1"}
    assert summarized(episodes(tables, truth)) == {
        "episodes right": "2/3",
        "formation": "1/1",
        "trouble": "1/2",
        "episodes false": "1",
    }
    assert "hidden" not in shown({HOLD_OUT: [Figure("f", 0, 1, misses=("hidden",))]}, misses=True)


def test_actions_of_a_script_count_if_the_broker_saw_them() -> None:
    def script(what: str, since: int, until: int, members: list[str], group: str | None = "g") -> dict[str, Any]:
        reported_of = {} if group else {"groups": ["g"]}
        return {"kind": "episode", "group": group, "what": what, "from": since, "until": until, "members": members,
                **reported_of}  # fmt: skip

    def seen(acted: int, group: str = "g", **other: Any) -> dict[str, Any]:
        known = {"cause": None, "trigger": None, "settled": acted + 1_000, "died": [], "left": [], "came": []}
        return {"kind": "rebalance", "group": group, "generation": acted, "acted": acted, **known, **other}

    truth = [
        script("formation", 0, 10_000, ["a", "b"]),
        seen(50_000, came=["b"]),
        script("overlapping_deploy", 100_000, 110_000, ["a", "b", "c"]),
        seen(102_000, left=["a"]),
        seen(105_000, cause="member_joined", trigger={"client_id": "c"}),
        script("overlapping_deploy", 150_000, 160_000, ["c", "d"]),
        seen(151_000, came=["d"]),
        seen(153_000, cause="member_left", trigger={"client_id": "c"}),
        script("deaths", 200_000, 210_000, ["d"]),
        seen(205_000, died=[{"client_id": "d"}]),
        script("scale_out", 220_000, 230_000, ["d"]),
        seen(221_000, came=["d"]),
        script("trouble", 300_000, 310_000, [], None),
        seen(305_000, "h", died=[{"client_id": "x"}]),
    ]
    found = [(one.group, one.what, one.until_ms, one.confirmed) for one in happenings(truth)]
    assert found == [
        ("g", "formation", 51_000, True), ("g", "overlapping_deploy", 110_000, False),
        ("g", "overlapping_deploy", 160_000, True), ("g", "deaths", 210_000, True),
        ("g", "scale_out", 230_000, True), ("g", "trouble", 310_000, False), ("h", "trouble", 310_000, True),
    ]  # fmt: skip
    assert [one.also for one in happenings(truth)][4] == {"member_died"}


def test_advice_is_useful_if_it_is_about_what_happened() -> None:
    def script(group: str, what: str, **other: Any) -> dict[str, Any]:
        return {"kind": "episode", "group": group, "what": what, "from": 0, "until": 9_000, "members": [], **other}

    def row(group: str, settings: str) -> Row:
        return {"group": group, "settings_json": settings, "sentence": settings}

    names = ("rolls", "slow", "static", "smooth", "untold", "forms", "killed")
    truth = [{"kind": "group", "group": name, "static": name == "static",
              "assignor": "cooperative-sticky" if name == "smooth" else "range"} for name in names]  # fmt: skip
    truth += [{**true(1, 1_000), "group": name} for name in names]
    truth += [{**true(number, 1_000 * number), "group": "slow", "left": ["a"]} for number in (2, 3, 4)]
    for name, what in zip(names, ("rolling_restart", "slow_poller", "rolling_restart", "scale_in", "flapping",
                                  "formation", "formation"), strict=True):  # fmt: skip
        truth.append(script(name, what, static=name == "static", members=["a"]))
    truth.append({**true(2, 2_000), "group": "killed", "died": [{"client_id": "a"}]})
    reported_of = [
        row("killed", '{"static":true}'),
        row("rolls", '{"static":true,"session.timeout.ms":60000}'), row("slow", '{"max.poll.interval.ms":300000}'),
        row("slow", '{"static":true}'), row("static", '{"static":true}'), row("smooth", '{"assignor":"sticky"}'),
        row("forms", '{"group.protocol":"consumer"}'),
    ]  # fmt: skip
    found = advice({"advice": reported_of}, truth)
    assert summarized(found) == {"advice useful": "3/7", "given where it was wanted": "2/3"}
    assert found[1].misses == ("untold",)
    assert advice({}, truth) == []


def test_figures_are_compared_with_their_goals() -> None:
    some = [
        Figure("all", 19, 20, goal=0.95),
        Figure("few", 18, 20, goal=0.95),
        Figure("late", 301, unit="ms", goal=300),
        Figure("soon", 300, unit="ms", goal=300),
        Figure("nothing", None, goal=0),
        Figure("free", 7),
    ]
    assert [one.reached for one in some] == [True, False, False, True, None, None]
    lines = shown({"log": some}, misses=False).splitlines()
    assert lines[-1].startswith("2 of 4 goals reached")
    assert [line.split()[0] for line in lines if "! " in line and "goals" not in line] == ["few", "late"]
    assert lines[3].split() == ["late", "!", "301", "ms", "<=", "300", "ms"]


def test_commits_that_go_back_belong_to_what_a_script_did() -> None:
    made = [{"group": "g", "cause": "rewind", "by": "g-1", "from": 1_000, "until": 2_000}]
    drops = [Drop("g", "t", number, at_ms, 10, 5) for number, at_ms in enumerate((1_500, 1_600, 90_000, 300_000))]
    own = [Drop("own", "t", 0, 500, 10, 5), Drop("own", "t", 1, 700, 10, 5)]
    lines = list(_regressions(made, [*drops, *own], {"g": 200_000, "own": 200_000}, {"own"}))
    assert [(line["group"], line["cause"], line["by"], line["commits"]) for line in lines] == [
        ("g", "rewind", "g-1", 2),
        ("own", "rewind", None, 2),
        ("g", None, None, 1),
    ]


DRAWN = sorted(KEPT.glob("*drawn*.tar.xz"))
SCRIPTED = sorted(set(KEPT.glob("*.tar.xz")) - {*DRAWN})


def truth_in(path: Path) -> list[dict[str, Any]]:
    with tarfile.open(path) as files:
        text = files.extractfile("truth.jsonl")
        assert text is not None
        assert any(name.startswith("log/__consumer_offsets-") for name in files.getnames())
        return [json.loads(line) for line in text.read().splitlines()]


def test_the_logs_that_are_drawn_have_all_kinds_of_incidents() -> None:
    lines = [line for path in DRAWN for line in truth_in(path)]
    assert {line["what"] for line in lines if line["kind"] == "incident"} >= {
        "too_slow", "burst", "poison", "skip", "two_topics", "frozen", "deleted",
    }  # fmt: skip
    assert {line["how"] for line in lines if line["kind"] == "silence"} >= {
        "away",
        "away-early",
        "away-frozen",
        "away-late",
    }
    assert max(path.stat().st_size for path in DRAWN) < MAX_BYTES


@pytest.mark.parametrize("path", SCRIPTED, ids=lambda path: path.name)
def test_each_scripted_log_has_all_kinds_of_incidents(path: Path) -> None:
    lines = truth_in(path)
    happened = [line["what"] for line in lines if line["kind"] == "episode"]
    groups = [line for line in lines if line["kind"] == "group"]
    of_epochs = sum(line.get("protocol") == "consumer" for line in groups)
    # no trouble hit all groups at once there, and only two libraries have the consumer protocol
    assert set(happened) >= (WANTED - {"trouble"} if of_epochs else WANTED)
    assert len(happened) >= 20
    assert len(groups) >= 15
    clients = {"confluent", "java"} if of_epochs else {"aiokafka", "confluent", "java", "kafka-python"}
    assert {line["client"] for line in groups} >= clients
    assert {line["cause"] for line in lines if line["kind"] == "regression"} >= {
        "rewind",
        "reset",
        "second_application",
    }
    assert {line["how"] for line in lines if line["kind"] == "stall"} >= {"pause"}
