"""Assignments that Muster's mission demands literally: each assignor, on each client, must make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from muster.assignors.assignor import Assignment


class Example(NamedTuple):
    """An assignment as the mission states it: topics are t1, t2, members c1, c2, c3, subscribed to all topics unless
    `subscriptions` says otherwise.
    """

    strategy: str
    topics: dict[str, int]
    assignment: Assignment
    subscriptions: Mapping[str, Sequence[str]] = MappingProxyType({})


EXAMPLES = {
    "story 2": Example("roundrobin", {"t1": 4}, {"c1": {"t1": [0, 3]}, "c2": {"t1": [1]}, "c3": {"t1": [2]}}),
    "story 11, one topic of eight": Example(
        "range", {"t1": 8}, {"c1": {"t1": [0, 1, 2]}, "c2": {"t1": [3, 4, 5]}, "c3": {"t1": [6, 7]}}
    ),
    "story 11, two topics of four": Example(
        "range", {"t1": 4, "t2": 4}, {"c1": {"t1": [0, 1], "t2": [0, 1]}, "c2": {"t1": [2, 3], "t2": [2, 3]}}
    ),
    "story 11, two topics of three": Example(
        "range", {"t1": 3, "t2": 3}, {"c1": {"t1": [0, 1], "t2": [0, 1]}, "c2": {"t1": [2], "t2": [2]}}
    ),
    "story 15, three members": Example(
        "range", {"t1": 10}, {"c1": {"t1": [0, 1, 2, 3]}, "c2": {"t1": [4, 5, 6]}, "c3": {"t1": [7, 8, 9]}}
    ),
    "story 15, five members": Example(
        "range", {"t1": 10}, {f"c{number + 1}": {"t1": [2 * number, 2 * number + 1]} for number in range(5)}
    ),
    "story 12": Example(
        "roundrobin", {"t1": 3, "t2": 3}, {"c1": {"t1": [0, 2], "t2": [1]}, "c2": {"t1": [1], "t2": [0, 2]}}
    ),
    "story 12, c2 wants t2 alone": Example(
        "roundrobin", {"t1": 3, "t2": 3}, {"c1": {"t1": [0, 1, 2], "t2": [1]}, "c2": {"t2": [0, 2]}}, {"c2": ["t2"]}
    ),
}
