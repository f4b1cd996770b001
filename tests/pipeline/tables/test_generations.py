from __future__ import annotations

from pyspark.sql import DataFrame

from muster.pipeline.tables.generations import generations
from muster.pipeline.tables.inputs import Inputs, events
from tests.pipeline.engines import Engine, collected
from tests.pipeline.tables.history import START_MS, Log, decoded, member, raw_events


def summarized(rows: DataFrame) -> list[tuple[object, ...]]:
    return [
        (row.generation, (row.start_ms - START_MS) // 1000, row.end_ms and (row.end_ms - START_MS) // 1000, row.source)
        for row in collected(rows.orderBy("start_ms"))
    ]


def test_each_record_begins_a_generation_and_ends_the_one_before(engine: Engine) -> None:
    log = Log().state(0, 0).state(1, 1, member("a", {"t": [0]})).state(5, 2).gone(9).state(20, 0)
    rows = generations(Inputs(decoded(engine, log)))
    assert summarized(rows) == [(0, 0, 1, "log"), (1, 1, 5, "log"), (2, 5, 9, "log"), (0, 20, None, "log")]
    one = collected(rows.where("generation = 1"))[0]
    assert (one.member_count, one.leader, one.protocol) == (1, "a-1", "range")
    assert one.members[0].assigned[0].partitions == [0]


def test_a_repeated_record_is_no_generation(engine: Engine) -> None:
    a = member("a", {"t": [0]})
    log = Log().state(1, 1, a).state(5, 1, a, state_timestamp_ms=START_MS + 7).state(9, 2, a)
    assert summarized(generations(Inputs(decoded(engine, log)))) == [(1, 1, 9, "log"), (2, 9, None, "log")]


def test_a_static_member_with_a_new_id_is_recognized(engine: Engine) -> None:
    log = Log()
    for at_s, name in ((1, "a-1"), (5, "a-2")):
        log.state(at_s, 1, member("a", {"t": [0]}, member_id=name, group_instance_id="i"))
    assert summarized(generations(Inputs(decoded(engine, log)))) == [(1, 1, 5, "log"), (1, 5, None, "log")]


def test_events_fill_in_compacted_generations(engine: Engine) -> None:
    log = Log().state(9, 3, member("a", {"t": [0]}))
    values = [
        {
            "v": 1,
            "kind": "rebalance_completed",
            "group": "g",
            "time": START_MS + at_s * 1000,
            "generation": generation,
            "leader": "a-1",
            "members": [{"member": "a-1", "assignment": [{"topic": "t", "partitions": [0]}]}],
        }
        for at_s, generation in ((2, 1), (5, 2), (9, 3))
    ]
    rows = generations(Inputs(decoded(engine, log), events(raw_events(engine, values))))
    assert summarized(rows) == [(1, 2, 5, "events"), (2, 5, 9, "events"), (3, 9, None, "log")]
    assert collected(rows.where("generation = 2"))[0].members[0].assigned[0].partitions == [0]
