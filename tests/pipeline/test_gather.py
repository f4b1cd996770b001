from __future__ import annotations

import base64

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.pipeline.gather import _MIX, integers, uuids


def as_kafka_writes(one: bytes) -> str:
    return base64.urlsafe_b64encode(one).rstrip(b"=").decode()


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.binary(min_size=16, max_size=16), st.booleans()), min_size=1, max_size=6), st.integers(1, 4)
)
def test_uuids_have_kafkas_text(rows: list[tuple[bytes, bool]], times: int) -> None:
    rows = rows * times
    data = np.frombuffer(b"".join(one for one, _ in rows) + bytes(16), np.uint8)
    valid = np.array([there for _, there in rows])
    found = uuids(data, np.arange(0, 16 * len(rows), 16), valid)
    assert found.to_pylist() == [as_kafka_writes(one) if there else None for one, there in rows]


def test_uuids_with_equal_hashes_stay_different() -> None:
    mix = int(_MIX)
    ids = [words.tobytes() for words in np.array([[0, mix], [1, 0], [0, mix]], np.uint64)]
    data = np.frombuffer(b"".join(ids), np.uint8)
    found = uuids(data, np.array([0, 16, 32]), np.ones(3, np.bool_))
    assert found.to_pylist() == [as_kafka_writes(one) for one in ids]


@pytest.mark.parametrize("width", [2, 4, 8])
def test_integers_are_read_at_every_position(width: int) -> None:
    raw = bytes(range(248, 256)) + bytes(range(40))
    found = integers(np.frombuffer(raw, np.uint8), np.arange(30), width)
    assert found.tolist() == [int.from_bytes(raw[at : at + width], "big", signed=True) for at in range(30)]
    beyond = integers(np.frombuffer(raw, np.uint8), np.array([1_000]), width)
    assert beyond.tolist() == [int.from_bytes(raw[-width:], "big", signed=True)]
