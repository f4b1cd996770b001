"""The order of partitions in records is that of Apache Kafka 4.3 after the same requests."""

from __future__ import annotations

import pytest

from muster.coordinator.transactions import add_partitions
from muster.coordinator.transactions.add_partitions import with_more


def rows(partitions: dict[str, dict[int, None]]) -> list[tuple[str, list[int]]]:
    return [(topic, list(ids)) for topic, ids in partitions.items()]


FROM_KAFKA = [
    (
        [{"orders3": [0], "q1-3": [1], "payments-topic-3": [0, 1], "a-very-long-topic-name-for-hashing-3": [1, 2]}],
        [
            [
                ("orders3", [0]),
                ("q1-3", [1]),
                ("payments-topic-3", [0, 1]),
                ("a-very-long-topic-name-for-hashing-3", [2, 1]),
            ]
        ],
    ),
    (
        [{"t-20": [*range(9)]}, {"u-20": [3, 4, 5], "orders20": [0]}, {"q1-20": [19, 1, 7], "t-20": [12, 0]}],
        [
            [("t-20", [3, 4, 1, 2, 7, 8, 5, 6, 0])],
            [("orders20", [0]), ("t-20", [3, 4, 1, 2, 7, 8, 5, 6, 0]), ("u-20", [3, 4, 5])],
            [
                ("orders20", [0]),
                ("t-20", [3, 4, 1, 2, 7, 8, 5, 6, 0, 12]),
                ("u-20", [3, 4, 5]),
                ("q1-20", [1, 7, 19]),
            ],
        ],
    ),
    (
        [{"orders20": [*range(20)], "q2-20": [*range(20)]}],
        [
            [
                ("orders20", [18, 14, 16, 10, 12, 6, 8, 1, 3, 17, 19, 13, 15, 9, 11, 5, 7, 2, 4, 0]),
                ("q2-20", [1, 3, 5, 7, 9, 11, 12, 14, 16, 18, 0, 2, 4, 6, 8, 10, 13, 15, 17, 19]),
            ]
        ],
    ),
]
"""The partitions of each request, in their order, and the record after each."""


@pytest.mark.parametrize(("requests", "records"), FROM_KAFKA)
def test_the_order_of_partitions_in_records_is_kafkas(
    requests: list[dict[str, list[int]]], records: list[list[tuple[str, list[int]]]]
) -> None:
    present: dict[str, dict[int, None]] = {}
    for asked, record in zip(requests, records, strict=True):
        present = with_more(present, asked.items())
        assert rows(present) == record


def test_a_partition_named_twice_is_added_once() -> None:
    assert with_more({"t": [1]}, [("t", [1, 1]), ("t", [1])]) == {"t": {1: None}}
    assert with_more({}, []) == {}


def test_very_many_partitions_are_not_ordered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(add_partitions, "MAX_ORDERED", 5)
    assert rows(with_more({"t": [4, 3]}, [("u", [1]), ("t", [0]), ("u", [9, 8])])) == [
        ("t", [4, 3, 0]),
        ("u", [1, 9, 8]),
    ]
