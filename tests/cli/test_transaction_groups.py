"""Which groups' offsets a transaction committed, as the events of these groups say."""

from __future__ import annotations

from typing import Any

import pytest

from muster.cli.transactions import show
from muster.cli.transactions.show import COUNTED_MS, EARLIER_MS, Groups

TOLD = {
    "kind": "transactions_committed", "group": "g", "producer_id": 7, "first_epoch": 3, "last_epoch": 5, "time": 50_000,
}  # fmt: skip


def ended(**other: Any) -> dict[str, Any]:
    value = {"kind": "transaction_committed", "producer_id": 7, "producer_epoch": 4, "time": 50_000}
    return {**value, "topics": {"__consumer_offsets": [1]}, **other}


@pytest.mark.parametrize(
    ("other", "found"),
    [
        ({}, ["g"]),
        ({"producer_epoch": 2}, ["g"]),  # the marker had the next offset
        ({"producer_epoch": 6}, []),
        ({"kind": "transaction_aborted"}, []),
        ({"producer_id": 8}, []),
        # the event has a clock value that was read one iteration of the event loop earlier
        ({"time": 50_000 - EARLIER_MS}, ["g"]),
        ({"time": 50_000 - EARLIER_MS - 1}, []),
        ({"time": 50_000 + COUNTED_MS}, ["g"]),
        ({"time": 50_001 + COUNTED_MS}, []),
    ],
)
def test_the_groups_of_a_transaction_are_found_by_their_counts(
    monkeypatch: pytest.MonkeyPatch, other: dict[str, Any], found: list[str]
) -> None:
    monkeypatch.setattr(show, "_counts", lambda *_: [TOLD])
    cluster: Any = None
    assert Groups(cluster, [ended()]).of(ended(**other)) == found
