"""The cost of rebalances, reported and inferred: the column `paused_partition_ms`, by the same rules as the what-if."""

from __future__ import annotations

from typing import Any

import pytest

from muster.pipeline.tables.build import build
from muster.pipeline.tables.inputs import Inputs, events
from tests.pipeline.engines import Engine, collected
from tests.pipeline.tables.history import START_MS, Log, decoded, member, raw_events

PROTOCOL = "cooperative-sticky"
SHARES: list[dict[str, list[int]]] = [{"a": [0, 1, 2, 3]}, {"a": [0, 1], "b": []}, {"a": [0, 1], "b": [2, 3]}]
"""b joins a, which gives up two partitions; then b dies."""


def history(group: str) -> Log:
    """A group is created at 0 s, and its first generation is complete at 3 s. b is killed at 25 s."""
    log = Log(group).state(0, 0)
    for generation, (at_s, shares) in enumerate(zip((3, 10, 12, 31.5), [*SHARES, SHARES[0]], strict=True), 1):
        members = [member(name, {"t": numbers}) for name, numbers in shares.items()]
        log.state(at_s, generation, *members, protocol=PROTOCOL)
        if generation == 3:
            for second in range(13, 26):
                for partition in (0, 1, 2, 3):
                    log.commit(second, partition, second)
            for second in range(26, 31):
                log.commit(second, 0, second)
    return log


def happened(group: str) -> list[dict[str, Any]]:
    """What the server reported of the group."""
    times = [(0, 3), (9.8, 10), (11.5, 12), (30, 31.5)]
    moves = [(0, 0, 4, 0), (2, 0, 0, 2), (2, 0, 2, 0), (2, 2, 0, 0)]
    reported: list[dict[str, Any]] = []
    before: list[str] = []
    for number, ((from_s, until_s), counts, shares) in enumerate(zip(times, moves, [*SHARES, SHARES[0]], strict=True)):
        base = {"v": 1, "group": group}
        began = {"cause": "member_joined", "trigger": None, "generation": number, "members": len(before), "state": "x"}
        reported.append({**base, "kind": "rebalance_started", "time": START_MS + round(from_s * 1000), **began})
        members = [
            {"member": f"{name}-1", "assignment": [{"topic": "t", "partitions": numbers}]}
            for name, numbers in shares.items()
        ]
        took_ms = round((until_s - from_s) * 1000)
        reported.append(
            {
                **base,
                "kind": "rebalance_completed",
                "time": START_MS + round(until_s * 1000),
                "generation": number + 1,
                "protocol": PROTOCOL,
                "leader": "a-1",
                "cause": "member_joined",
                "trigger": None,
                "took_ms": took_ms,
                "join_phase_ms": took_ms,
                "sync_phase_ms": 0,
                "before": before,
                "members": members,
                "moves": [dict(zip(("topic", "kept", "moved", "gained", "lost"), ("t", *counts), strict=True))],
            }
        )
        before = [f"{name}-1" for name in shares]
    return reported


@pytest.fixture(scope="module")
def costs(engine: Engine) -> dict[str, list[tuple[int, int, int]]]:
    """For each group: when its rebalances began (ms), how long they took, and what was paused."""
    eager = Log("eager").state(0, 0).state(3, 1, member("a", {"t": [0, 1]})).state(60, 2)
    eager.state(90, 3, member("b", {"t": [0]}), member("c", {"t": [1]})).state(120, 4)
    eager.state(150, 5, member("d", {"t": [0, 1]}))
    lines = decoded(engine, history("exact"), history("inferred"), eager)
    built = build(Inputs(lines, events(raw_events(engine, happened("exact")))), ["rebalances"])
    found: dict[str, list[tuple[int, int, int]]] = {}
    for row in collected(built["rebalances"].orderBy("group", "generation")):
        found.setdefault(row.group, []).append((row.start_ms - START_MS, row.took_ms, row.paused_partition_ms))
    return found


def test_pauses_of_a_cooperative_group_are_computed_from_events(costs: dict[str, list[tuple[int, int, int]]]) -> None:
    assert costs["exact"] == [
        (0, 3_000, 4 * 3_000),  # no member read while the group waited for more members
        (9_800, 200, 0),  # a continued
        (11_500, 500, 2 * 2_000),  # the partitions that a gave up had no owner since the round before
        (30_000, 1_500, 2 * 1_500),  # no member read b's partitions; a continued with the partitions that it kept
    ]


def test_pauses_of_a_cooperative_group_are_inferred(costs: dict[str, list[tuple[int, int, int]]]) -> None:
    first, second, third, last = costs["inferred"]
    assert first == (0, 3_000, 4 * 3_000)
    assert (second[2], third[2]) == (0, 2 * 2_000)
    assert last[2] == 2 * last[1] > 0


def test_an_emptied_group_waits_as_long_as_a_new_one(costs: dict[str, list[tuple[int, int, int]]]) -> None:
    assert costs["eager"] == [
        (0, 3_000, 2 * 3_000),
        (60_000, 0, 0),
        (83_996, 6_004, 2 * 6_004),  # two members joined, so that the group waited twice
        (119_999, 1, 0),  # both were perhaps lost: they have never committed
        (146_996, 3_004, 2 * 3_004),
    ]
