"""Batches of records that are already bytes: they equal those of the general builder."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.coordinator.log import batches
from muster.coordinator.log.records.building import build_packed
from muster.protocol.records import pack_key_value

blob = st.binary(max_size=20) | st.sampled_from([b"x" * size for size in (59, 60, 61, 505, 506, 507, 508, 5000)])
pairs = st.lists(st.tuples(blob, st.none() | blob), min_size=1, max_size=8)


@given(pairs, st.integers(0, 2**45))
def test_packed_records_give_the_bytes_of_the_general_builder(content: list, timestamp_ms: int) -> None:
    built = build_packed([pack_key_value(key, value) for key, value in content], timestamp_ms=timestamp_ms)
    assert built == batches.build(content, timestamp_ms=timestamp_ms, base_sequence=0)


def test_many_packed_records_give_the_bytes_of_the_general_builder() -> None:
    content = [(b"k%d" % number, b"v" * (number % 70)) for number in range(9000)]
    built = build_packed([pack_key_value(key, value) for key, value in content], timestamp_ms=5)
    assert built == batches.build(content, timestamp_ms=5, base_sequence=0)


def test_a_batch_without_records_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        build_packed([], timestamp_ms=5)
