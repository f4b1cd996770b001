"""A KIP-848 group becomes a classic one: the cause of the classic group's first rebalance."""

from __future__ import annotations

from typing import Any

import pytest

from muster.pipeline.infer.evidence import Activity, taken_over
from muster.pipeline.infer.history import Rebalance, rebalances
from muster.pipeline.schema import CONSUMER_GROUP
from muster.pipeline.tables.build import build
from muster.pipeline.tables.epoch_states import epochs_in
from muster.pipeline.tables.inputs import Inputs
from tests.pipeline.engines import Engine, collected
from tests.pipeline.infer.epoch_model import Server, decoded_row
from tests.pipeline.infer.states import every, member, parting, state
from tests.pipeline.tables.history import START_MS, Log
from tests.pipeline.tables.history import member as made_member
from tests.pipeline.tables.test_epoch_facts import commit

SESSION_MS = 45_000
A, B = member("a"), member("b", session_timeout_ms=SESSION_MS)
C = member("c", member_id="c-2")


def first_classic(busy: dict[str, Activity], record_s: float, **after: Any) -> Rebalance:
    """Epoch 4 of `a`, which uses the classic protocol, and `b`, which leaves; then generation 5."""
    epoch = state(1, 4, [A, B], busy, counts={"t": 2})
    record = taken_over(epoch, state(record_s, 4, [A]))
    whole = after.pop("members", [A._replace(assigned=2)])
    return list(rebalances([record, state(record_s + 3, 5, whole, **after)]))[-1]


LEAVES = {"a": every(1, 2, 100), "b": parting(every(1, 2, 100), 100.4)}
DIES = {"a": every(1, 2, 145), "b": every(1, 2, 100)}


@pytest.mark.parametrize(
    ("busy", "record_s", "members", "wanted"),
    [
        (LEAVES, 100.5, [A._replace(assigned=2)], ("member_left", "b")),
        (DIES, 145.2, [A._replace(assigned=2)], ("session_expired", "b")),
        # another member joins meanwhile
        (LEAVES, 100.5, [A, C], ("member_left", "b")),
        (DIES, 145.2, [A, C], ("session_expired", "b")),
    ],
    ids=["left", "died", "left-and-one-came", "died-and-one-came"],
)
def test_a_downgrade_by_the_last_consumer_member_is_recognized(
    busy: dict[str, Activity], record_s: float, members: list[Any], wanted: tuple[str, str]
) -> None:
    found = first_classic(busy, record_s, members=members)
    trigger = found.verdict.trigger
    assert (found.verdict.cause, trigger and trigger.client_id) == wanted
    # the record says when
    assert found.start is not None
    assert (found.start.earliest_ms, found.start.latest_ms) == (round(record_s * 1000),) * 2


def test_a_downgrade_by_a_returning_static_member_is_recognized() -> None:
    new, old = (
        member("s", instance_id="i", session_timeout_ms=SESSION_MS),
        member("s", instance_id="i", member_id="s-2"),
    )
    epoch = state(1, 4, [A, new], {"a": every(1, 2, 100), "s": every(1, 2, 98)})
    record = taken_over(epoch, state(100, 4, [A, old]))
    found = list(rebalances([record, state(103, 5, [A, old])]))[-1]
    assert found.verdict.cause == "static_member_returned"


def test_a_downgraded_group_is_found_in_its_log(engine: Engine) -> None:
    """What is reported of the classic group's first generation, and when it began."""
    server, commits = Server({"t": 4}), []
    server.join(0, "a1", classicMemberMetadata={"sessionTimeoutMs": 10_000, "supportedProtocols": []})
    server.join(1_000, "b1")
    server.settle(2_000)
    commits += [commit(server, 3_000 + 1_000 * beat, number, beat) for beat in range(60) for number in range(4)]
    server.downgrade(62_500)
    made = [row | {"log_offset": place} for place, row in enumerate(sorted(
        [*map(decoded_row, server.records), *commits], key=lambda row: float(row["log_offset"])))]  # fmt: skip
    half, whole = [0, 2], [0, 1, 2, 3]
    log = Log()
    log.rows = made
    log.state(62.5, server.epoch, made_member("a", {"t": half}, member_id="a1"))
    log.state(63.5, server.epoch + 1, made_member("a", {"t": whole}, member_id="a1"))
    decoded = engine.frame(log.table())
    inputs = Inputs(decoded, epochs=epochs_in(decoded, {CONSUMER_GROUP: len(server.records)}, dict))
    found = collected(build(inputs, ["rebalances"])["rebalances"].orderBy("end_ms"))
    # the record that makes the group classic is no rebalance
    assert [one.generation for one in found] == [2, 3, server.epoch + 1]
    last = found[-1]
    assert (last.cause, last.trigger_client_id, last.went) == ("member_left", "b", ["b"])
    assert (last.start_ms, last.start_earliest_ms, last.start_latest_ms) == (START_MS + 62_500,) * 3
