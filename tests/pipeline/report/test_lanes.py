"""Lanes: which member had how many partitions, and when."""

from __future__ import annotations

from typing import Any

from muster.pipeline.report.timeline import assigned_words, lanes_of, share_of
from tests.pipeline.report.made import END_MS, HOUR, START_MS, share, story


def lanes(*rows: dict[str, Any]) -> dict[str, list[tuple[float, float, int]]]:
    """The lanes by name, with their stretches in hours."""
    found: dict[str, list[tuple[float, float, int]]] = {}
    for lane in lanes_of(share_of(row, END_MS) for row in rows):
        hours = [((one.start_ms - START_MS) / HOUR, (one.end_ms - START_MS) / HOUR) for one in lane.stretches]
        reported = [(*two, one.partitions) for two, one in zip(hours, lane.stretches, strict=True)]
        found[f"{lane.name}#{len([name for name in found if name.startswith(lane.name)])}"] = reported
    return found


def test_a_process_that_returns_continues_in_its_lane() -> None:
    assert lanes(*story().shares) == {
        "payments-1 (10.0.0.1)#0": [(0, 8, 4), (8, 9, 8), (9, 24, 4)],
        "payments-2 (10.0.0.1)#0": [(0, 8, 3), (9, 24, 4)],
    }


def test_processes_of_one_name_get_a_lane_each() -> None:
    rows = [share(1, 0, 2, "same", [0], member_id="a"), share(1, 0, 2, "same", [1], member_id="b")]
    rows += [share(2, 2, None, "same", [1, 0], member_id="b")]
    assert lanes(*rows) == {"same (10.0.0.1)#0": [(0, 2, 1)], "same (10.0.0.1)#1": [(0, 2, 1), (2, 24, 2)]}


def test_the_same_partitions_in_the_next_generation_are_one_stretch() -> None:
    rows = [share(1, 0, 2, "a", [0, 1]), share(2, 2, 3, "a", [0, 1]), share(3, 4, 5, "a", [0, 1])]
    assert lanes(*rows) == {"a (10.0.0.1)#0": [(0, 3, 2), (4, 5, 2)]}


def test_times_that_contradict_each_other_overlap_nowhere() -> None:
    rows = [share(1, 0, 5, "a", [0]), share(2, 3, 2, "a", [1])]
    assert lanes(*rows) == {"a (10.0.0.1)#0": [(0, 3, 1), (3, 3, 1)]}


def test_lanes_are_named_by_the_instance_id() -> None:
    rows = [share(1, 0, 1, "a", [0], instance_id="i"), share(2, 1, 2, "b", [0], instance_id="i", member_id="new")]
    assert list(lanes(*rows)) == ["i (10.0.0.1)#0"]


def test_processes_are_in_the_order_of_their_numbers() -> None:
    rows = [share(1, 0, 1, f"web-{number}", [number]) for number in (10, 1, 9, 2)] + [share(1, 0, 1, "a", [])]
    assert [name.partition(" ")[0] for name in lanes(*rows)] == ["a", "web-1", "web-2", "web-9", "web-10"]


def test_partitions_are_shown_in_words() -> None:
    assigned = [{"topic": "t", "partitions": [3, 1, 0, 7]}, {"topic": "u", "partitions": [2]}]
    assert assigned_words(assigned, 5) == "t 0-1, 3, 7; u 2"
    assert assigned_words(assigned, 9) == "t 0-1, 3, 7; u 2; 4 more"
    assert assigned_words(None, 0) == ""
