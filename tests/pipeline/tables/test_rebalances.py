"""The tables that both sources fill, made at once for three groups with the same history. `exact` has all events of it,
`late` those since 40 s, and `silent` none. A fourth group has a static member.
"""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, Row

from muster.pipeline.tables.build import build
from muster.pipeline.tables.inputs import Inputs, events
from muster.pipeline.tables.schema import TABLES
from muster.pipeline.wanted import Wanted, is_kept, with_last_before
from tests.pipeline.engines import Engine, collected
from tests.pipeline.tables.history import START_MS, Log, decoded, member, raw_events

A, B = member("a", {"t": [0, 1]}), member("b", {"t": [2, 3]})


def history(group: str) -> Log:
    """a and b share four partitions and commit every second; b is killed at 30 s, and a leaves at 60 s."""
    log = Log(group).state(0, 0).state(1, 1, member("a", {"t": [0, 1, 2, 3]}))
    log.state(3, 2, A, B)
    for at_s in range(4, 41):
        for partition in (0, 1, 2, 3) if at_s <= 30 else (0, 1):
            log.commit(at_s, partition, at_s)
    log.state(41.5, 3, member("a", {"t": [0, 1, 2, 3]}), state_timestamp_ms=START_MS + 41_400)
    for at_s in range(42, 61):
        log.commit(at_s, 3, at_s)
    return log.state(60, 4)


def happened(group: str) -> list[dict[str, Any]]:
    """What the server reported of the group."""

    def one(name: str, *partitions: int) -> dict[str, Any]:
        shares = [{"topic": "t", "partitions": list(partitions)}] if partitions else None
        return {"member": f"{name}-1", "client_id": name, "host": f"/{name}", "assignment": shares}

    def reported(at_s: float, kind: str, **fields: Any) -> dict[str, Any]:
        return {"v": 1, "kind": kind, "group": group, "time": START_MS + round(at_s * 1000), **fields}

    def started(at_s: float, cause: str, name: str, generation: int, members: int) -> dict[str, Any]:
        trigger = {"member": f"{name}-1", "client_id": name, "host": f"/{name}", "reason": "why"}
        return reported(
            at_s, "rebalance_started", cause=cause, trigger=trigger, generation=generation, members=members, state="x"
        )

    def completed(at_s: float, after: dict[str, Any], generation: int, took_ms: int, **fields: Any) -> dict[str, Any]:
        why = {name: after[name] for name in ("cause", "trigger")}
        phases = {"took_ms": took_ms, "join_phase_ms": took_ms - 10, "sync_phase_ms": 10, "leader": "a-1"}
        return reported(at_s, "rebalance_completed", generation=generation, protocol="range", **why, **phases, **fields)

    def moves(kept: int, moved: int, gained: int, lost: int) -> list[dict[str, Any]]:
        return [{"topic": "t", "kept": kept, "moved": moved, "gained": gained, "lost": lost}]

    first, second = started(0.1, "member_joined", "a", 0, 0), started(1.5, "member_joined", "b", 1, 1)
    again = started(2.5, "member_joined", "b", 2, 2)
    third, fourth = started(40, "session_expired", "b", 2, 2), started(59.9, "member_left", "a", 3, 1)
    whole, half = one("a", 0, 1, 2, 3), [one("a", 0, 1), one("b", 2, 3)]
    return [
        reported(0, "group_created"),
        first,
        reported(0.1, "member_joined", member=one("a"), protocol_type="consumer", reason=None),
        completed(1, first, 1, 900, before=[], members=[whole], moves=moves(0, 0, 4, 0)),
        second,
        reported(1.5, "member_joined", member=one("b"), protocol_type="consumer", reason=None),
        reported(2.5, "rebalance_failed", generation=2, cause="member_joined", took_ms=1000, members=[]),
        again,
        completed(3, again, 2, 1500, before=["a-1"], members=half, moves=moves(2, 2, 0, 0)),
        third,
        reported(40, "member_expired", member=one("b") | {"heard": START_MS + 30_000}),
        completed(41.5, third, 3, 1500, before=["a-1", "b-1"], members=[whole], moves=moves(2, 2, 0, 0)),
        fourth,
        reported(59.9, "member_left", member=one("a"), reason="bye"),
        reported(60, "group_emptied", generation=4, took_ms=100),
        reported(70, "moon_rose"),
    ]


def restarts() -> Log:
    """One static member returns twice in time, then later than its session lasts."""

    def static(name: str) -> dict[str, Any]:
        return member(name, {"t": [0]}, group_instance_id="i")

    log = Log("static").state(0, 1, static("a")).state(10, 1, static("b")).state(20, 1, static("c"))
    for at_s in range(21, 30):
        log.commit(at_s, 0, at_s)
    return log.state(39, 2).state(42, 3, static("d"))


def made(engine: Engine) -> dict[str, DataFrame]:
    """The tables that the tests compare."""
    logs = decoded(engine, *(history(group) for group in ("exact", "late", "silent")), restarts())
    late = [value for value in happened("late") if value["time"] > START_MS + 40_000]
    names = ("rebalances", "memberships", "moves")
    return build(Inputs(logs, events(raw_events(engine, [*happened("exact"), *late]))), names)


@pytest.fixture(scope="module")
def tables(engine: Engine) -> dict[str, list[Row]]:
    return {name: collected(rows) for name, rows in made(engine).items()}


def of(rows: list[Row], group: str, *columns: str) -> list[Row]:
    """The rows of a group in order."""
    return sorted((row for row in rows if row.group == group), key=lambda row: [row[name] for name in columns])


def test_a_formation_without_the_record_of_a_new_group_took_as_long_as_those_of_others(
    tables: dict[str, list[Row]],
) -> None:
    """Compaction removed the record. New groups of this log waited for a second; nothing shows that this one did
    not.
    """
    first = of(tables["rebalances"], "static", "generation")[0]
    assert (first.generation, first.cause) == (1, "member_joined")
    assert first.took_ms == pytest.approx(1_000, abs=10)
    assert first.took_least_ms <= first.took_ms <= first.took_most_ms


def test_a_long_delay_of_new_groups_is_a_round_number(engine: Engine) -> None:
    """A client was late by 0.4 s. So the first member joined up to 0.4 s later than the group was created."""
    logs = decoded(
        engine, Log("late").state(0, 0).state(3.5, 1, A, state_timestamp_ms=START_MS + 3_400).commit(9, 0, 1)
    )
    (row,) = collected(build(Inputs(logs), ("rebalances",))["rebalances"])
    assert (row.start_ms - START_MS, row.start_earliest_ms - START_MS) == (396, 0)
    assert row.start_latest_ms - START_MS == 420


def test_inferred_rebalances_have_their_columns(tables: dict[str, list[Row]]) -> None:
    rows = of(tables["rebalances"], "silent", "generation")
    assert [(row.generation, row.cause, row.trigger_client_id, row.source) for row in rows] == [
        (1, "member_joined", "a", "inferred"),
        (2, "member_joined", "b", "inferred"),
        (3, "session_expired", "b", "inferred"),
        (4, "member_left", "a", "inferred"),
    ]
    assert [(row.kept, row.moved, row.gained, row.lost) for row in rows] == [
        (0, 0, 4, 0), (2, 2, 0, 0), (2, 2, 0, 0), (0, 0, 0, 4),
    ]  # fmt: skip
    third = rows[2]
    # its last commit came at 30 s: most likely later than its last heartbeat, which otherwise came in the second after
    # it
    assert (third.start_earliest_ms - START_MS, third.start_latest_ms - START_MS) == (40_000, 41_400)
    assert (third.start_ms - START_MS, third.join_phase_ms, third.sync_phase_ms) == (40_000, 1_400, 100)
    assert (third.took_least_ms, third.took_ms, third.took_most_ms) == (100, 1_500, 1_500)
    assert third.paused_partition_ms == 6_000
    assert [(one.client_id, one.last_ms - START_MS, one.partitions) for one in third.died] == [("b", 30_000, 2)]
    assert (third.silent_from_ms - START_MS, third.silent_partition_ms) == (30_000, 2 * 10_000)
    assert [(row.came, row.went) for row in rows] == [(["a"], []), (["b"], []), ([], []), ([], ["a"])]
    assert (third.members_before, third.members_after, third.members_joined, third.members_left) == (2, 1, 0, 1)
    assert all(0 < row.confidence < 1 for row in rows)


def test_rebalances_from_events_have_their_columns(tables: dict[str, list[Row]]) -> None:
    rows, inferred = (of(tables["rebalances"], group, "generation") for group in ("exact", "silent"))
    assert {(row.source, row.confidence) for row in rows} == {("events", 1.0)}
    alike = [name for name in TABLES["rebalances"].names if name.startswith(("generation", "members", "trigger_c"))]
    alike += ["before_generation", "cause", "kept", "moved", "gained", "lost"]
    assert [[row[name] for name in alike] for row in rows] == [[row[name] for name in alike] for row in inferred]
    assert [row.failed_attempts for row in rows] == [0, 1, 0, 0]
    assert [row.start_ms - START_MS for row in rows] == [100, 1500, 40_000, 59_900]
    assert rows[1].reason == "why"
    assert all(row.start_earliest_ms == row.start_latest_ms == row.start_ms for row in rows)
    assert [(row.came, row.went, [one.client_id for one in row.died]) for row in rows] == [
        (["a"], [], []), (["b"], [], []), ([], [], ["b"]), ([], ["a"], []),
    ]  # fmt: skip


def test_a_static_member_that_comes_back_in_time_is_replaced(tables: dict[str, list[Row]]) -> None:
    rows = of(tables["memberships"], "static", "start_ms")
    assert [(row.client_id, row.end_cause) for row in rows] == [
        ("a", "replaced"), ("b", "replaced"), ("c", "expired"), ("d", None),
    ]  # fmt: skip


def test_the_cost_of_a_death_uses_the_members_partitions(tables: dict[str, list[Row]]) -> None:
    """The event of its end does not have the number of its partitions."""
    third = of(tables["rebalances"], "exact", "generation")[2]
    assert [(one.client_id, one.last_ms - START_MS, one.partitions) for one in third.died] == [("b", 30_000, 2)]
    assert third.silent_partition_ms == 2 * 10_000


def test_rebalances_before_the_wanted_time_are_left_out(engine: Engine) -> None:
    wanted = Wanted(since_ms=START_MS + 10_000)
    rows = decoded(engine, history("silent"), Log("steady").state(0, 5, A, B).commit(30, 0, 7))
    inputs = Inputs(with_last_before(rows.where(is_kept(wanted)), wanted), since_ms=wanted.since_ms)
    built = build(inputs, ("rebalances", "moves", "generations"))
    found = of(collected(built["rebalances"]), "silent", "generation")
    assert [(row.generation, row.cause, row.members_before) for row in found] == [
        (3, "session_expired", 2),
        (4, "member_left", 1),
    ]
    assert {row.group for row in collected(built["rebalances"])} == {"silent"}
    assert min(row.time_ms for row in collected(built["moves"])) == START_MS + 41_500
    # the members at that time are known
    assert {row.generation for row in collected(built["generations"].where("group = 'steady'"))} == {5}


def test_the_offsets_log_completes_the_events(tables: dict[str, list[Row]]) -> None:
    rows = of(tables["rebalances"], "late", "generation")
    assert [(row.generation, row.source) for row in rows] == [
        (1, "inferred"), (2, "inferred"), (3, "events"), (4, "events"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("group", "source", "begins"), [("silent", "log", [1000, 3000]), ("exact", "events", [100, 1500])]
)
def test_memberships_have_their_columns(
    tables: dict[str, list[Row]], group: str, source: str, begins: list[int]
) -> None:
    rows = of(tables["memberships"], group, "client_id")
    assert [(row.client_id, row.end_cause, row.source) for row in rows] == [
        ("a", "left", source), ("b", "expired", source),
    ]  # fmt: skip
    assert [row.start_ms - START_MS for row in rows] == begins
    assert [(row.first_generation, row.last_generation, row.generations) for row in rows] == [(1, 3, 3), (2, 2, 1)]


def test_a_moved_partition_paused_for_the_rebalance(tables: dict[str, list[Row]]) -> None:
    rows = [row for row in of(tables["moves"], "exact", "generation", "partition") if row.generation == 3]
    assert [(row.partition, row.kind, row.from_client_id, row.to_client_id, row.paused_ms) for row in rows] == [
        (2, "moved", "b", "a", 1500), (3, "moved", "b", "a", 1500),
    ]  # fmt: skip
