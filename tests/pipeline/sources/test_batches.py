from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.coordinator.log.records import batches as server
from muster.pipeline.sources import batches
from muster.pipeline.sources.segment_reader import Stretch
from tests.pipeline.sources.logs import Pair, batch

octets = st.one_of(st.none(), st.binary(max_size=200))
Headers = list[tuple[str, bytes | None]]


def rows(stretch: Stretch) -> tuple[list[dict[str, Any]], list[str]]:
    headers = batches.headers_of(stretch)
    found, damages = batches.rows_of(headers)
    return batches.arrow_of(found, headers, "t", 3).to_pylist(), [damage.text for damage in damages]


def stretch_of(parts: list[bytes]) -> Stretch:
    positions = [sum(map(len, parts[:i])) for i in range(len(parts))]
    return Stretch(b"".join(parts), positions, [])


@st.composite
def stretches(draw: Any) -> list[bytes]:
    parts = []
    offset = draw(st.integers(0, 2**62))
    headers: st.SearchStrategy[Headers] = st.just([("h", b"x"), ("i", None)]) | st.just([])
    for _ in range(draw(st.integers(0, 40))):
        records = draw(st.lists(st.tuples(octets, octets, headers), min_size=1, max_size=5))
        parts.append(
            batch(
                records,
                offset,
                timestamp_ms=draw(st.integers(0, 2**50)),
                compression=draw(st.integers(0, 4) if draw(st.booleans()) else st.just(0)),
                producer_id=draw(st.integers(-1, 2**40)),
                producer_epoch=draw(st.integers(-1, 2**15 - 1)),
                transactional=draw(st.booleans()),
                log_append_time=draw(st.booleans()),
            )
        )
        offset += len(records) + draw(st.integers(0, 300))
    return parts


@settings(max_examples=60, deadline=None)
@given(stretches())
def test_records_are_read_as_aiokafka_reads_them(parts: list[bytes]) -> None:
    found, damages = rows(stretch_of(parts))
    assert damages == []
    assert found == [
        {
            "topic": "t",
            "partition": 3,
            "offset": record.offset,
            "timestamp_ms": record.timestamp,
            "key": record.key,
            "value": record.value,
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "is_transactional": header.is_transactional,
            "damage": None,
        }
        for header, records in server.read(b"".join(parts))
        for record in records
    ]


@pytest.mark.parametrize("count", [1, 2, 30])
def test_batches_of_many_and_of_few_records_are_read(count: int) -> None:
    pairs: list[Pair] = [(b"%d" % i, None if i % 7 == 0 else b"v" * (i % 300)) for i in range(3_000)]
    parts = [batch(pairs[:2], 10 * i) for i in range(count)] + [batch(pairs, 1_000)]
    found, damages = rows(stretch_of(parts))
    assert damages == []
    assert [(row["key"], row["value"]) for row in found[2 * count :]] == pairs
    assert [row["offset"] for row in found[2 * count :]] == list(range(1_000, 4_000))


@settings(max_examples=100, deadline=None)
@given(stretches(), st.data())
def test_malformed_records_are_reported_and_the_others_read(parts: list[bytes], data: Any) -> None:
    if not parts:
        return
    victim = data.draw(st.integers(0, len(parts) - 1))
    bent = bytearray(parts[victim])
    for _ in range(3):  # the CRC is not checked here: the bytes count as if they had been written wrong
        bent[data.draw(st.integers(57, len(bent) - 1))] = data.draw(st.integers(0, 255))
    reported_of = server.read_header(parts[victim]).base_offset
    found, damages = rows(stretch_of([*parts[:victim], bytes(bent), *parts[victim + 1 :]]))
    others, _ = rows(stretch_of(parts[:victim] + parts[victim + 1 :]))
    if damages:
        assert str(reported_of) in damages[0]
        assert found == others
    else:
        assert len(found) >= len(others)


def test_an_unknown_codec_is_reported() -> None:
    part = bytearray(batch([(b"k", b"v")], 5))
    part[22] = 6
    found, damages = rows(stretch_of([bytes(part), batch([(b"k", b"w")], 6)]))
    assert [row["value"] for row in found] == [b"w"]
    assert damages == ["the compressed records of the batch at offset 5 cannot be read: unknown compression type 6"]
