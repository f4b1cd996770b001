"""The offsets and groups that each transaction committed. Pure.

If the source has the batches and markers of `__consumer_offsets`, they show the offsets. Otherwise `__group_events` has
counts of offsets. Some transactions are known only by their offsets.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from muster.coordinator.transactions.events import BY_CLIENT
from muster.pipeline.infer.transaction_records import ABORTED, COMMITTED, OFFSETS_TOPIC, SURE, Row

OFFSETS: Final = "offsets"
"""A value of the column `source`: the transaction is known from the offsets log alone."""
COUNTED_MS: Final = 5_000
"""An event counts transactions that ended. The last one was complete at the latest this long after the first ended."""

Part = dict[str, Any]
"""The part of a transaction in one partition of the offsets log (`sources.transactions.PARTS`), or one event of a
group.
"""


def with_offsets(producer_id: int, rows: Sequence[Row], parts: Iterable[Part], counts: Iterable[Part]) -> Iterator[Row]:
    """The transactions of one producer, in the order in which they began, with `offsets` and `groups`.

    Transactions that only `parts` show are added.
    """
    by_row: dict[int, list[Part]] = {}
    alone: list[Part] = []
    starts = [row["start_ms"] for row in rows]
    for part in sorted(parts, key=lambda one: (one["start_ms"], one["partition"])):
        index = bisect_right(starts, part["start_ms"]) - 1
        if index >= 0 and _belongs(rows[index], part):
            by_row.setdefault(index, []).append(part)
        else:
            alone.append(part)
    counted = list(counts)
    for index, row in enumerate(rows):
        mine = by_row.get(index)
        if mine:
            yield row | _of_parts(mine)
        elif OFFSETS_TOPIC in (row.get("topics") or ()):
            yield row | _of_counts(row, counted)
        else:
            # no partition of offsets is known, but the transaction may have committed offsets: its log is compacted
            yield row | ({} if row.get("topics") is None else {"offsets": 0, "groups": []})
    yield from _alone(producer_id, alone)


def _belongs(row: Row, part: Part) -> bool:
    end_ms = row.get("end_ms")
    return end_ms is None or part["start_ms"] <= end_ms


def _of_parts(parts: Sequence[Part]) -> Row:
    return {
        "offsets": sum(part["offsets"] for part in parts),
        "groups": sorted({group for part in parts for group in part["groups"]}),
    }


def _of_counts(row: Row, counts: Sequence[Part]) -> Row:
    """The groups and offsets of a transaction by the events of groups.

    An event counts the ends of one second, so it shows the groups. It shows the number of offsets only if it counts one
    end.
    """
    outcome, end_ms = row.get("outcome"), row.get("end_ms")
    if outcome is None or end_ms is None:
        return {}
    mine = [
        one
        for one in counts
        if one["outcome"] == outcome
        and one["first_epoch"] <= row["producer_epoch"] + 1
        and row["producer_epoch"] <= one["last_epoch"]
        and row["start_ms"] <= one["time_ms"] + COUNTED_MS
        and one["time_ms"] <= end_ms <= one["time_ms"] + COUNTED_MS
    ]
    if not mine:
        return {}
    is_exact = all(one["transactions"] == 1 for one in mine)
    return {
        "offsets": sum(one["offsets"] for one in mine) if is_exact else None,
        "groups": sorted({one["group"] for one in mine}),
    }


def _alone(producer_id: int, parts: Sequence[Part]) -> Iterator[Row]:
    """The transactions that are known only by parts. Parts of one producer that overlap in time are one transaction.

    A producer has only one transaction at a time.
    """
    some: list[Part] = []
    for part in parts:
        if some and not _overlap(some, part):
            yield _row_of_parts(producer_id, some)
            some = []
        some.append(part)
    if some:
        yield _row_of_parts(producer_id, some)


def _overlap(some: Sequence[Part], part: Part) -> bool:
    is_other = part["producer_epoch"] != some[-1]["producer_epoch"]
    is_again = any(one["partition"] == part["partition"] for one in some)
    ends = [one["end_ms"] for one in some]
    return not is_other and not is_again and (None in ends or part["start_ms"] <= max(ends))


def _row_of_parts(producer_id: int, parts: Sequence[Part]) -> Row:
    outcomes = {part["outcome"] for part in parts if part["outcome"] is not None}
    outcome = next(iter(outcomes)) if len(outcomes) == 1 else None
    ends = [part["end_ms"] for part in parts]
    return {
        "producer_id": producer_id,
        "producer_epoch": parts[0]["producer_epoch"],
        "start_ms": min(part["start_ms"] for part in parts),
        "end_ms": None if None in ends else max(ends),
        "outcome": outcome,
        # only a client commits a transaction
        "cause": BY_CLIENT if outcome == COMMITTED else None,
        "confidence": SURE if outcome == COMMITTED else None,
        "topics": {OFFSETS_TOPIC: {part["partition"] for part in parts}},
        "source": OFFSETS,
        **_of_parts(parts),
    }


KINDS: Final = {"transactions_committed": COMMITTED, "transactions_aborted": ABORTED}
"""The kinds of `__group_events` that count ends of transactions, and the outcome of these transactions."""
