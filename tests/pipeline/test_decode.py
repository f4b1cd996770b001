from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.pipeline.decode import decode, decode_all
from muster.pipeline.decode_records import decode_record
from muster.pipeline.gather import Binary
from muster.pipeline.schema import DECODED, LOGGED, RAW
from muster.protocol.messages import records_table
from muster.protocol.messages.group_records.group_metadata import GroupMetadataKey, GroupMetadataValue
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey
from tests.pipeline.raw import Pair, commit, filled, in_order, legacy_commit, raw_batch, record

PLACE = [name for name, _ in LOGGED]

names = st.text(max_size=20)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)


@st.composite
def commits(draw: Any) -> Pair:
    version = draw(st.integers(-1, 4))
    of = {"group": draw(names), "topic": draw(names), "partition": draw(int32)}
    value = {
        "offset": draw(int64),
        "metadata": draw(st.one_of(names, st.integers(100, 300).map("é".__mul__), st.just("x" * 16_500))),
        "commit_timestamp": draw(int64),
    }
    if version == -1:
        pair = legacy_commit(**of, **value)
    else:
        if version >= 3:
            value["leader_epoch"] = draw(int32)
        if version == 1:
            value["expire_timestamp"] = draw(int64)
        if version == 4:
            value["topic_id"] = draw(st.one_of(st.just(bytes(16)), st.binary(min_size=16, max_size=16)))
        pair = commit(version, **of, **value)
    return (pair[0], None) if draw(st.integers(0, 5)) == 0 else pair


@st.composite
def bent(draw: Any) -> Pair:
    """A commit with some bytes changed, removed or added."""
    out: list[bytes | None] = []
    for part in draw(commits()):
        if part is not None and draw(st.booleans()):
            changed = bytearray(part)
            for at, byte in draw(st.lists(st.tuples(st.integers(0, len(part) - 1), st.integers(0, 255)), max_size=3)):
                changed[at] = byte
            part = bytes(changed)[: draw(st.one_of(st.just(len(part)), st.integers(0, len(part))))]
            part += draw(st.binary(max_size=3))
        out.append(part)
    return out[0], out[1]


def any_record() -> st.SearchStrategy[Pair]:
    keys = st.builds(lambda kind, rest: kind.to_bytes(2, "big") + rest, st.integers(0, 25), st.binary(max_size=12))
    anything = st.one_of(st.none(), st.binary(max_size=30))
    return st.tuples(st.one_of(st.none(), keys, st.binary(max_size=3)), anything)


def as_protocol_reads(pairs: list[Pair]) -> list[dict[str, Any]]:
    return [filled(decode_record(key, value)) for key, value in pairs]


def without_place(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row | dict.fromkeys(PLACE) for row in rows]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(commits(), bent(), any_record()), min_size=1, max_size=12))
def test_rows_are_decoded_as_the_protocol_package_decodes_them(pairs: list[Pair]) -> None:
    decoded = decode(raw_batch(pairs))
    assert without_place(in_order(decoded)) == as_protocol_reads(pairs)


@settings(max_examples=30, deadline=None)
@given(st.lists(commits(), min_size=4, max_size=8), st.integers(0, 3), st.integers(0, 3))
def test_a_slice_of_a_batch_is_decoded(pairs: list[Pair], start: int, left_out: int) -> None:
    part = raw_batch(pairs).slice(start, len(pairs) - start - min(left_out, len(pairs) - start - 1))
    rows = in_order(decode(part))
    assert [row["log_offset"] for row in rows] == part.column("offset").to_pylist()
    assert without_place(rows) == as_protocol_reads(pairs[start : start + part.num_rows])


@pytest.mark.parametrize("version", range(5))
def test_an_ordinary_commit_of_each_version_uses_the_fast_decoder(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.pipeline.decode.decode_record", None)
    more: dict[str, Any] = {"leader_epoch": 3} if version >= 3 else {}
    more |= {"expire_timestamp": 77} if version == 1 else {}
    more |= {"topic_id": bytes(range(16))} if version == 4 else {}
    (batch,) = decode(
        raw_batch([commit(version, "gruppe", "thema", 5, offset=9, metadata="m" * 200, commit_timestamp=8, **more)] * 2)
    )
    assert batch.schema == DECODED
    row = batch.to_pylist()[1]
    assert {name: value for name, value in row.items() if value is not None} == {
        "kind": "commit",
        "log_partition": 7,
        "log_offset": 101,
        "log_timestamp_ms": 1001,
        "key_type": 1,
        "value_version": version,
        "is_tombstone": False,
        "group": "gruppe",
        "topic": "thema",
        "partition": 5,
        "committed_offset": 9,
        "metadata": "m" * 200,
        "commit_timestamp_ms": 8,
        **({"leader_epoch": 3} if version >= 3 else {}),
        **({"expire_timestamp_ms": 77} if version == 1 else {}),
        **({"topic_id": "AAECAwQFBgcICQoLDA0ODw"} if version == 4 else {}),
    }


@pytest.mark.parametrize("key_type", range(26))
def test_every_key_type_is_decoded_or_kept_unchanged(key_type: int) -> None:
    key = key_type.to_bytes(2, "big") + b"\0\1g\0\1m\0\0\0\0"
    (row,) = in_order(decode(raw_batch([(key, None)])))
    assert row["key_type"] == key_type
    assert (row["kind"] == "unknown") == (key_type not in records_table.GROUP)
    if row["kind"] == "unknown":
        assert (row["raw_key"], row["reason"]) == (key, f"__consumer_offsets: unknown record type {key_type}")
    else:
        assert row["group"] == "g"


def test_a_value_of_a_later_version_is_kept_unchanged() -> None:
    key, value = commit(3)
    (row,) = in_order(decode(raw_batch([(key, b"\0\5" + (value or b"")[2:])])))
    assert (row["kind"], row["value_version"], row["group"]) == ("unknown", 5, "g")
    assert row["raw_value"][:2] == b"\0\5"


def test_a_malformed_row_has_its_reason_and_group() -> None:
    key, value = commit(3)
    bad = OffsetCommitKey("g", "t", 0)
    rows = in_order(decode(raw_batch([(key, (value or b"")[:-3]), (None, b"x"), (b"\0", None), record(bad, None)])))
    assert [row["kind"] for row in rows] == ["malformed", "malformed", "malformed", "commit"]
    assert rows[0]["group"] == "g"
    assert rows[0]["reason"].startswith("OffsetCommitValue.commit_timestamp")
    assert rows[1]["reason"] == "the record has no key, of which its type is part"
    assert rows[2]["reason"] == "record key: truncated: 2 bytes needed, 1 left"


def test_members_of_consumers_are_decoded_and_others_keep_their_bytes() -> None:
    value = GroupMetadataValue(protocol_type="work", generation=4, protocol="p", leader="m")
    rows = in_order(decode(raw_batch([record(GroupMetadataKey("g"), value, 3), record(GroupMetadataKey("g"), None)])))
    assert (rows[0]["kind"], rows[0]["generation"], rows[0]["members"]) == ("classic", 4, [])
    assert (rows[1]["is_tombstone"], rows[1]["members"]) == (True, None)


def test_damage_becomes_malformed_rows() -> None:
    key, value = commit()
    raw = raw_batch([(key, value), (None, b"torn")], damage=[None, "the file ends in the middle of a batch"])
    rows = in_order(decode(raw))
    assert [row["kind"] for row in rows] == ["commit", "malformed"]
    assert (rows[1]["reason"], rows[1]["raw_value"]) == ("the file ends in the middle of a batch", b"torn")


def test_huge_and_empty_values_are_decoded() -> None:
    big = commit(4, metadata="m" * 32_000)
    rows = in_order(decode(raw_batch([big, (big[0], b""), (big[0], b"\0" * 5_000_000)])))
    assert [row["kind"] for row in rows] == ["commit", "malformed", "commit"]
    assert len(rows[0]["metadata"]) == 32_000


def test_empty_batches_and_rows_without_producers_are_decoded() -> None:
    assert list(decode_all([pa.RecordBatch.from_pylist([], RAW)])) == []
    raw = raw_batch([commit()]).select(["topic", "partition", "offset", "timestamp_ms", "key", "value"])
    (row,) = in_order(decode(raw))
    assert row["producer_id"] is None


def test_other_binary_column_types_are_accepted() -> None:
    keys = Binary(pa.array([b"ab", None, b""], pa.large_binary()))
    assert (keys.starts.tolist(), keys.ends.tolist()) == ([0, 2, 2], [2, 2, 2])
