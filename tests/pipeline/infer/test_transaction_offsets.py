"""Which offsets belong to which transaction. Without Spark."""

from __future__ import annotations

from typing import Any

from muster.pipeline.infer.transaction_offsets import with_offsets


def part(start_ms: int, end_ms: int | None, partition: int = 0, **more: Any) -> dict[str, Any]:
    outcome = None if end_ms is None else "committed"
    return {
        "partition": partition, "producer_id": 7, "producer_epoch": 0, "start_ms": start_ms, "end_ms": end_ms,
        "outcome": outcome, "offsets": 2, "groups": [f"g{partition}"], **more,
    }  # fmt: skip


def row(start_ms: int, end_ms: int | None, *partitions: int, **more: Any) -> dict[str, Any]:
    topics = {"t": {0}} | ({"__consumer_offsets": set(partitions)} if partitions else {})
    return {
        "start_ms": start_ms,
        "end_ms": end_ms,
        "topics": topics,
        "producer_epoch": 0,
        "outcome": "committed",
        **more,
    }


def test_parts_of_a_transaction_are_found_by_producer_and_time() -> None:
    rows = [row(100, 150, 0, 3), row(200, 250), row(300, None, 0), row(400, 450, 1)]
    parts = [part(310, None), part(110, 140), part(120, 141, 3)]
    found = list(with_offsets(7, rows, parts, []))
    assert [(one["start_ms"], one.get("offsets"), one.get("groups")) for one in found] == [
        (100, 4, ["g0", "g3"]),
        (200, 0, []),
        (300, 2, ["g0"]),
        (400, None, None),
    ]


def test_a_compacted_transaction_may_have_committed_offsets() -> None:
    (found,) = with_offsets(7, [row(100, 150) | {"topics": None}], [], [])
    assert "offsets" not in found


def test_offsets_of_an_unknown_transaction_are_their_own_transaction() -> None:
    parts = [part(110, 140), part(120, 141, 3), part(150, 160), part(155, 165, 3, producer_epoch=1),
             part(170, 180, outcome="aborted"), part(190, None)]  # fmt: skip
    found = list(with_offsets(7, [], parts, []))
    assert [
        (one["start_ms"], one["end_ms"], one["outcome"], one["cause"], one["offsets"], one["topics"]) for one in found
    ] == [
        (110, 141, "committed", "client", 4, {"__consumer_offsets": {0, 3}}),
        (150, 160, "committed", "client", 2, {"__consumer_offsets": {0}}),
        (155, 165, "committed", "client", 2, {"__consumer_offsets": {3}}),
        (170, 180, "aborted", None, 2, {"__consumer_offsets": {0}}),
        (190, None, None, None, 2, {"__consumer_offsets": {0}}),
    ]
    assert {one["source"] for one in found} == {"offsets"}
    late = list(with_offsets(7, [row(100, 150, 0)], [part(500, 510)], []))
    assert [one["start_ms"] for one in late] == [100, 500]


def counted(time_ms: int, transactions: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "group": "g", "time_ms": time_ms, "outcome": "committed", "first_epoch": 0, "last_epoch": 0,
        "transactions": transactions, "offsets": 3, **more,
    }  # fmt: skip


def test_group_events_assign_offsets_to_transactions_without_batches() -> None:
    def reported(*counts: dict[str, Any], **more: Any) -> tuple[object, object]:
        (found,) = with_offsets(7, [row(1_000, 2_000, 0) | more], [], counts)
        return found.get("offsets"), found.get("groups")

    assert reported(counted(1_990)) == (3, ["g"])
    assert reported(counted(1_990), counted(1_995, group="h")) == (6, ["g", "h"])
    assert reported(counted(1_990, transactions=2)) == (None, ["g"])
    nothing = (None, None)
    assert reported() == nothing
    assert reported(counted(1_990, outcome="aborted")) == nothing
    assert reported(counted(2_001)) == nothing
    assert reported(counted(1_990, first_epoch=5, last_epoch=6)) == nothing
    assert reported(counted(1_990), end_ms=None) == nothing
