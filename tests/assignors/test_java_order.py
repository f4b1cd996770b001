"""Orders of elements, as OpenJDK 17 showed them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.assignors import java_order
from muster.assignors.java_order import (
    JavaTable,
    capacity_for,
    capacity_of_copy,
    int_order,
    sort_strings,
    spread,
    string_order,
    utf16,
    uuid_hash,
    uuid_key,
    walked,
)
from muster.coordinator.groups.common import kafka_order
from muster.protocol.hashing import java_string_hash


def test_strings_have_the_order_of_a_grown_java_hash_table() -> None:
    walk = "7 126 203 147 91 168 70 189 0 105 98 77 56 49 28 140 161 182 133 154 175 196 112 119 84 63 42 21 35 14"
    assert string_order(f"topic-{i * 7}" for i in range(30)) == [f"topic-{number}" for number in walk.split()]


def test_strings_with_equal_hashes_keep_their_insertion_order() -> None:
    texts = ["AaAa", "BBBB", "AaBB", "BBAa", "C", "D", "AaAaAa"]
    assert string_order(texts) == ["AaAaAa", "C", "D", "AaAa", "BBBB", "AaBB", "BBAa"]
    assert string_order([*texts, "AaAa"]) == string_order(texts)


@pytest.mark.parametrize(
    ("numbers", "walk"),
    [
        (range(144, -1, -16), [128, 96, 64, 32, 0, 144, 112, 80, 48, 16]),
        (range(259, -1, -32), [259, 227, 195, 163, 131, 99, 67, 35, 3]),
        (
            [i * 37 % 101 for i in range(20)],
            [0, 97, 67, 3, 37, 40, 74, 10, 77, 13, 47, 50, 84, 20, 87, 23, 57, 60, 94, 30],
        ),
    ],
)
def test_integers_have_the_order_of_a_grown_java_hash_table(numbers: range | list[int], walk: list[int]) -> None:
    assert int_order(list(numbers)) == walk


def test_the_capacity_of_a_java_hash_table_is_computed() -> None:
    assert [capacity_for(n) for n in (0, 1, 2, 3, 16, 17)] == [1, 1, 2, 4, 16, 32]
    assert [capacity_of_copy(n) for n in (0, 11, 12, 13, 24, 25)] == [16, 16, 32, 32, 64, 64]


def test_uuids_have_the_hash_and_the_order_of_java() -> None:
    def uuid(most: int, least: int) -> bytes:
        return (most % 2**64).to_bytes(8, "big") + (least % 2**64).to_bytes(8, "big")

    assert uuid_hash(uuid(0x0123456789ABCDEF, 0xFEDCBA9876543210)) == 0
    assert uuid_hash(uuid(-1, 5)) == 5
    assert uuid_key(uuid(-1, 5)) < uuid_key(uuid(1, -5)) < uuid_key(uuid(1, 5))


def test_strings_are_sorted_by_utf16_units() -> None:
    assert sort_strings(["\uffee", "\U0001f600", "z", "\u00e9"]) == ["z", "\u00e9", "\U0001f600", "\uffee"]
    assert utf16("\U0001f600") < utf16("\uffee")


@given(st.lists(st.tuples(st.booleans(), st.integers(-(2**31), 2**31 - 1)), max_size=60))
def test_the_first_key_of_a_java_table_is_first_in_iteration(steps: list[tuple[bool, int]]) -> None:
    """The rule holds as long as nothing was removed; then the table may be larger than its content needs."""
    kept: JavaTable[int] = JavaTable()
    present: list[int] = []
    for _, number in steps:
        if number not in present:
            kept.put(number, spread(number))
            present.append(number)
        assert kept.first() == present[walked([spread(n) for n in present])[0]]
    assert len(kept) == len(present)


def test_a_java_table_keeps_its_capacity_after_removals() -> None:
    kept: JavaTable[int] = JavaTable()
    for number in range(20, 0, -1):
        kept.put(number, spread(number))
    for number in range(1, 20):
        kept.remove(number)
    kept.put(33, 33)  # bucket 1 of 32; in a table of 16 the bucket would be that of 17
    kept.put(4, 4)
    assert kept.first() == 33


def test_a_long_text_is_hashed_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []

    def noted(text: str) -> int:
        hashed.append(text)
        return java_string_hash(text)

    monkeypatch.setattr(java_order, "_hashes", {})
    monkeypatch.setattr(java_order, "java_string_hash", noted)
    ids = [f"{n}-" + "m" * 5_000 for n in range(50)]
    order = java_order.string_order(ids)
    assert order == java_order.string_order(list(ids))
    assert kafka_order.timeline(ids, 64) == kafka_order.timeline(ids, 64)
    assert sorted(hashed) == sorted(ids)
    assert java_order.string_spread(ids[7]) == java_order.spread(java_string_hash(ids[7]))


def test_the_cache_of_hashes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_order, "_hashes", {})
    monkeypatch.setattr(java_order, "KEPT_HASHES", 10)
    for n in range(25):
        java_order.string_hash(f"{n}" * 200)
    assert len(java_order._hashes) <= 10
