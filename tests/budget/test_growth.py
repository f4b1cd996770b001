"""The cost of a request grows at most as n log n with what a node has, and most costs do not grow at all."""

from __future__ import annotations

import pytest

from tests.budget import growth
from tests.budget.scenes import quiet

SIZES = (250, 500)
"""Small sizes, for a few seconds; `python -m bench.growth` goes to 100,000."""
SIZES_OF = {
    "members of a consumer group": (200, 400),
    "members of a classic group": (150, 300),
    "topics": (500, 1_000),
}
"""Above some number of members or topics (between 250 and 500) their answer is encoded in the thread, in pieces."""


@pytest.mark.parametrize("scene", growth.SCENES)
def test_costs_grow_no_faster_than_they_may(scene: str) -> None:
    with quiet():
        found = growth.curves(scene, SIZES_OF.get(scene, SIZES))
    assert found
    for kind, points in found.items():
        allowed = growth.GROWS.get(kind, growth.FLAT)
        assert growth.exponent(points) <= allowed, (kind, points)
        assert growth.exponent(points, "kilobytes", growth.LEAST_KB) <= allowed, (kind, points)


def test_a_cost_for_each_pair_is_seen() -> None:
    pairs = [growth.Point(size, 100 * size * size, 0) for size in SIZES]
    assert growth.exponent(pairs) == pytest.approx(2)
    assert growth.exponent([growth.Point(size, 7_000, 0) for size in SIZES]) == 0
