from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.assignors.sticky import decode_generation, decode_owned, encode_generation, encode_owned

WRITTEN = bytes.fromhex("00000002000174000000020000000300000001000175000000000000000b")


def test_sticky_user_data_of_version_1_has_the_bytes_of_kafka() -> None:
    assert encode_owned({"t": [3, 1], "u": []}, 11) == WRITTEN
    assert decode_owned(WRITTEN) == ([(b"t", (3, 1)), (b"u", ())], 11)


def test_sticky_user_data_of_version_0_has_no_generation() -> None:
    assert decode_owned(WRITTEN[:-4]) == ([(b"t", (3, 1)), (b"u", ())], None)


def test_missing_sticky_user_data_claims_nothing() -> None:
    assert decode_owned(None) == decode_owned(b"") == ([], None)
    assert decode_generation(None) is None


@pytest.mark.parametrize(
    "data",
    [
        WRITTEN[:12],
        b"\0",
        b"\xff\xff\xff\xff",
        b"\0\0\0\1\xff\xff",
        b"\0\0\0\1\0\1t\xff\xff\xff\xff",
        b"\0\0\0\1\0\1t\x7f\xff\xff\xff",
        b"\x7f\xff\xff\xff\0\0",
    ],
)
def test_unreadable_sticky_user_data_claims_nothing(data: bytes) -> None:
    assert decode_owned(data) == ([], -1)


def test_the_generation_in_user_data_is_written_and_read() -> None:
    assert encode_generation(-1) == b"\xff\xff\xff\xff"
    assert decode_generation(encode_generation(7)) == 7
    assert decode_generation(b"") == decode_generation(b"\0\0\0") == -1


@given(st.binary(max_size=60))
def test_any_bytes_are_read_as_sticky_user_data(data: bytes) -> None:
    claims, generation = decode_owned(data)
    assert all(0 <= len(name) <= 60 for name, _ in claims)
    assert generation is None or isinstance(generation, int)


@given(
    st.dictionaries(st.text(max_size=9), st.lists(st.integers(0, 2**31 - 1), max_size=5), max_size=4),
    st.integers(-1, 2**31 - 1),
)
def test_sticky_user_data_is_unchanged_after_writing_and_reading(owned: dict[str, list[int]], generation: int) -> None:
    claims, reported = decode_owned(encode_owned(owned, generation))
    assert {name.decode(): list(partitions) for name, partitions in claims} == owned
    assert reported == generation
