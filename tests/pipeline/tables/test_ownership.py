from __future__ import annotations

from muster.pipeline.tables.generations import generations, holders, ownership
from muster.pipeline.tables.inputs import Inputs
from muster.pipeline.tables.rebalances import changes, moves
from tests.pipeline.engines import Engine, collected
from tests.pipeline.tables.history import START_MS, Log, decoded, member
from tests.pipeline.tables.rows import table_of


def history() -> Log:
    log = Log().state(0, 0)
    log.state(1, 1, member("a", {"t": [0, 1]}))
    log.state(5, 2, member("a", {"t": [0]}), member("b", {"t": [1]}))
    log.state(9, 3, member("b", {"t": [1]}))
    return log.state(12, 4, member("b", {"t": [0, 1]}))


def test_consecutive_generations_are_one_ownership_interval(engine: Engine) -> None:
    rows = collected(
        ownership(holders(generations(Inputs(decoded(engine, history()))))).orderBy("partition", "start_ms")
    )
    assert [
        (row.partition, row.client_id, row.first_generation, row.last_generation, row.end_ms and row.end_ms - START_MS)
        for row in rows
    ] == [(0, "a", 1, 2, 9000), (0, "b", 4, 4, None), (1, "a", 1, 1, 5000), (1, "b", 2, 4, None)]


def test_changes_of_owners_are_rows(engine: Engine) -> None:
    changed = changes(holders(generations(Inputs(decoded(engine, history())))))
    took = table_of(engine, "rebalances", [{"group": "g", "generation": 2, "end_ms": START_MS + 5_000, "took_ms": 300}])
    rows = collected(moves(changed, took).orderBy("generation", "partition"))
    assert [(row.generation, row.partition, row.kind, row.from_client_id, row.to_client_id) for row in rows] == [
        (1, 0, "gained", None, "a"),
        (1, 1, "gained", None, "a"),
        (2, 1, "moved", "a", "b"),
        (3, 0, "lost", "a", None),
        (4, 0, "gained", None, "b"),
    ]
    assert rows[2].paused_ms == 300
    assert rows[-1].paused_ms == 3000


def test_a_returning_static_member_keeps_its_partitions(engine: Engine) -> None:
    log = Log()
    for at_s, generation, name in ((1, 1, "a-1"), (5, 1, "a-2"), (9, 2, "a-3")):
        log.state(at_s, generation, member("a", {"t": [0]}, member_id=name, group_instance_id="i"))
    known = holders(generations(Inputs(decoded(engine, log))))
    assert [(row.generation, row.kind) for row in collected(changes(known).orderBy("step"))] == [
        (1, "gained"), (2, "kept"),
    ]  # fmt: skip
    assert ownership(known).count() == 3
