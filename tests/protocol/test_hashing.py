"""Hashes are those that Java computed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.protocol.hashing import group_partition, java_string_hash

# group id, String.hashCode, partition of 50, of 3, of 7
GROUPS = [
    ("", 0, 0, 0, 0),
    ("a", 97, 47, 1, 6),
    ("foo", 101574, 24, 0, 4),
    ("grp", 102629, 29, 2, 2),
    ("group", 98629247, 47, 2, 3),
    ("group-0", 293427298, 48, 1, 3),
    ("group-1", 293427299, 49, 2, 4),
    ("group-2", 293427300, 0, 0, 5),
    ("group-3", 293427301, 1, 1, 6),
    ("my-group", -1906497762, 12, 0, 1),
    ("test-group", 627841412, 12, 2, 2),
    ("console-consumer-12345", 158455506, 6, 0, 6),
    ("connect-cluster", 1440343063, 13, 1, 5),
    ("consumer-group-id", 277008160, 10, 1, 2),
    ("payments-service", 332086293, 43, 0, 0),
    ("group.with.dots", -403066941, 41, 0, 4),
    ("group id", 506301020, 20, 2, 1),
    ("A-very-long-group-id-0123456789-abcdefghijklmnopqrstuvwxyz", 961176375, 25, 0, 5),
    ("polygenelubricants", -2147483648, 0, 0, 0),
    ("DESIGNING WORKHOUSES", -2147483648, 0, 0, 0),
    ("\u00e9", 233, 33, 2, 2),
    ("gr\u00fcppe", -1233264812, 12, 2, 3),
    ("\u30b0\u30eb\u30fc\u30d7", 383750870, 20, 2, 6),
    ("\U0001f600", 1772899, 49, 1, 2),
    ("g\U0001f600p", 58028454, 4, 0, 1),
    ("\uffff", 65535, 35, 0, 1),
    ("Aa", 2112, 12, 0, 5),
    ("BB", 2112, 12, 0, 5),
    ("AaAa", 2031744, 44, 0, 1),
    ("BBBB", 2031744, 44, 0, 1),
    ("__consumer_offsets", -970371369, 19, 0, 2),
]


@pytest.mark.parametrize(("group_id", "hash_code", "of_50", "of_3", "of_7"), GROUPS)
def test_groups_have_the_partition_that_kafka_gives_them(
    group_id: str, hash_code: int, of_50: int, of_3: int, of_7: int
) -> None:
    assert java_string_hash(group_id) == hash_code
    assert [group_partition(group_id, n) for n in (50, 3, 7)] == [of_50, of_3, of_7]


@given(group_id=st.text(), partitions=st.integers(1, 1000))
def test_every_group_has_a_partition(group_id: str, partitions: int) -> None:
    assert 0 <= group_partition(group_id, partitions) < partitions


@pytest.mark.parametrize("length", [255, 256, 257, 511, 512, 700])
def test_the_hash_of_a_long_string_equals_its_definition(length: int) -> None:
    text = "".join(chr(0x61 + i * 7 % 26) for i in range(length))
    for long in (text, text[:-1] + "\u00e9"):
        h = 0
        for char in long:
            h = (31 * h + ord(char)) & 0xFFFFFFFF
        assert java_string_hash(long) & 0xFFFFFFFF == h
