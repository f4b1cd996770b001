from __future__ import annotations

from muster.pipeline.tables.commits import placed, walk_of
from muster.pipeline.tables.inputs import Inputs, holdings, states
from tests.pipeline.engines import Engine, collected
from tests.pipeline.tables.history import Log, decoded, member


def test_states_are_numbered_in_the_order_of_the_log(engine: Engine) -> None:
    log = Log().state(0, 0).state(1, 1, member("a")).gone(9)
    rows = collected(states(Inputs(decoded(engine, log))).orderBy("state"))
    assert [(row.state, row.generation, row.is_tombstone) for row in rows] == [
        (1, 0, False), (2, 1, False), (3, None, True),
    ]  # fmt: skip


def test_a_commit_belongs_to_the_state_before_it(engine: Engine) -> None:
    one = Log().commit(0, 0).state(1, 1, member("a")).commit(2, 0).commit(3, 1).state(4, 2).commit(5, 0)
    two = Log("other").commit(0, 7)
    rows = placed(walk_of(Inputs(decoded(engine, one, two)))).orderBy("group", "log_offset")
    assert [(row.group, row.log_offset, row.state) for row in collected(rows)] == [
        ("g", 0, None), ("g", 2, 1), ("g", 3, 1), ("g", 5, 2), ("other", 0, None),
    ]  # fmt: skip
    assert "committed_offset" in rows.columns


def test_the_owners_of_partitions_in_each_state_are_found(engine: Engine) -> None:
    log = Log().state(1, 1, member("a", {"t": [0, 1]}), member("b", {"t": [1], "u": [0]}))
    rows = collected(holdings(Inputs(decoded(engine, log))).orderBy("topic", "partition"))
    assert [(row.topic, row.partition, row.member_id, row.client_id) for row in rows] == [
        ("t", 0, "a-1", "a"), ("t", 1, "b-1", "b"), ("u", 0, "b-1", "b"),
    ]  # fmt: skip
