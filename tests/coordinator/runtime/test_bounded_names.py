from __future__ import annotations

from muster.coordinator.runtime.routing import BoundedNames


def test_bounded_names_are_bounded_by_number() -> None:
    kept: BoundedNames[int, str] = BoundedNames(3, 100)
    for number in range(4):
        kept.keep(number, "value", 1)
    assert dict(kept) == {3: "value"}


def test_bounded_names_are_bounded_by_bytes() -> None:
    kept: BoundedNames[int, str] = BoundedNames(100, 10)
    for number in range(3):
        kept.keep(number, "value", 4)
    assert list(kept) == [2]
    kept.keep(9, "value", 6)
    assert list(kept) == [2, 9]


def test_a_name_larger_than_the_bound_is_kept_until_the_next() -> None:
    kept: BoundedNames[int, str] = BoundedNames(100, 10)
    kept.keep(1, "value", 50)
    kept.keep(2, "value", 1)
    assert list(kept) == [2]
