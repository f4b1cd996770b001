"""What is said of a log stays as true when the log is changed in ways that change the truth as little."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from muster.pipeline.frames import in_this_process
from muster.pipeline.schema import DECODED
from muster.pipeline.sources.ends import ENDS
from muster.pipeline.tables.build import build
from tests.pipeline import mutations
from tests.pipeline.mutations import Log
from tests.pipeline.scores import inputs_of_rows, rows_of
from tests.pipeline.scores_claims import levels
from tests.pipeline.tables import history
from tests.pipeline.tables.history import START_MS, member

LASTED_S = 600
EVERY_S = 5
CALM = ("calm", "quiet", "still")


def at(seconds: float) -> int:
    return START_MS + round(seconds * 1000)


def log() -> Log:
    """Three groups without trouble, one with a partition that stands still, one whose member dies four times."""
    made, truth = [], []
    for number, name in enumerate((*CALM, "stuck", "loops")):
        one = history.Log(name)
        lines = _loops(one) if name == "loops" else _reads(one, stuck=name == "stuck")
        made += [{**row, "log_partition": number} for row in one.rows]
        truth += [
            {"kind": "group", "group": name, "topic": name, "partitions": 2, "static": False, "assignor": "range"}
        ]
        truth += lines
    ends = [
        {"topic": name, "partition": partition, "end_offset": second * 10, "time_ms": at(second)}
        for name in (*CALM, "stuck", "loops") for partition in (0, 1) for second in range(30, LASTED_S + 1, 30)
    ]  # fmt: skip
    return Log(pa.Table.from_pylist(made, DECODED), pa.Table.from_pylist(ends, ENDS), truth)


def _reads(one: history.Log, *, stuck: bool) -> list[dict[str, Any]]:
    name = one.group
    one.state(0, 1, member(f"{name}-1", {name: [0]}), member(f"{name}-2", {name: [1]}))
    for second in range(EVERY_S, LASTED_S + 1, EVERY_S):
        one.commit(second, 0, second * 10, name)
        one.commit(second, 1, min(second, 200 if stuck else second) * 10, name)
    line = {"kind": "stall", "group": name, "topic": name, "partitions": [1], "how": "stick"}
    return [{**line, "from": at(200), "until": at(LASTED_S)}] if stuck else []


def _loops(one: history.Log) -> list[dict[str, Any]]:
    name, generation, truth = one.group, 1, []
    both = member("loops-1", {name: [0]}), member("loops-2", {name: [1]})
    one.state(0, 1, *both)
    for second in range(EVERY_S, LASTED_S + 1, EVERY_S):
        one.commit(second, 0, second * 10, name)
        if second % 100 < 50 or second > 480:
            one.commit(second, 1, second * 10, name)
        if second % 100 == 60 and second < 500:
            generation += 1
            one.state(second, generation, member("loops-1", {name: [0, 1]}))
        if second % 100 == 80 and second < 500:
            generation += 1
            back = member("loops-2", {name: [1]}, member_id=f"loops-2-{generation}")
            one.state(second, generation, both[0], back)
            truth.append(
                {
                    "kind": "act",
                    "group": name,
                    "client_id": "loops-2",
                    "at": at(second - 32),
                    "what": "killed",
                    "line": "",
                }
            )
            died = [{"client_id": "loops-2", "noticed": at(second - 20), "last_life": at(second - 32)}]
            truth.append(
                {
                    "kind": "rebalance",
                    "group": name,
                    "generation": generation - 1,
                    "cause": "session_expired",
                    "trigger": None,
                    "acted": at(second - 20),
                    "settled": at(second - 20),
                    "died": died,
                }
            )
            truth.append(
                {
                    "kind": "rebalance",
                    "group": name,
                    "generation": generation,
                    "cause": "member_joined",
                    "trigger": None,
                    "acted": at(second),
                    "settled": at(second),
                    "died": [],
                }
            )
    episode = {"kind": "episode", "group": name, "what": "crash_loop", "members": ["loops-2"]}
    return [*truth, {**episode, "from": at(40), "until": at(480)}]


def _with_another(one: Log) -> Log:
    return mutations.without_partition(mutations.merged(one, mutations.renamed(one, "-2")), mutations.OTHER_PARTITIONS)


def _with_a_part_away(one: Log) -> Log:
    return mutations.part_away(one, ("calm", "quiet"), at(230), 120_000)


CHANGES: dict[str, Callable[[Log], Log]] = {
    "silent, later and renamed": mutations.all_at_once,
    "without the coordinator of some groups": _with_a_part_away,
    "merged, without a partition": _with_another,
}


def said_of(one: Log) -> dict[str, tuple[str, list[str]]]:
    """The level of each group, and the rules of the claims about it."""
    with in_this_process():
        (table,) = build(inputs_of_rows(one), ["verdicts"]).values()
        rows = rows_of(table)
    return {
        row["group"].partition("-again")[0].partition("-2")[0]: (
            row["level"],
            [claim["rule"] for claim in row["claims"]],
        )
        for row in rows
    }


@pytest.fixture(scope="module")
def original() -> dict[str, tuple[str, list[str]]]:
    return said_of(log())


def test_levels_of_the_original_are_right(original: dict[str, tuple[str, list[str]]]) -> None:
    right = levels(log().truth)
    assert {group: level in right[group] for group, (level, _) in original.items()} == dict.fromkeys(right, True)


@pytest.mark.parametrize("change", CHANGES)
def test_the_same_is_said_of_a_log_that_is_changed(original: dict[str, tuple[str, list[str]]], change: str) -> None:
    assert said_of(CHANGES[change](log())) == original
