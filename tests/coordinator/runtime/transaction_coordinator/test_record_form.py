"""The fast way to a record's bytes gives the same result, or raises the same error, as the plain one."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from muster.coordinator.runtime.transaction_coordinator.record_codec import packed
from muster.coordinator.state_machine.interface import Record
from muster.protocol.message import UnrepresentableField
from muster.protocol.messages.transaction_records.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from muster.protocol.records import TRANSACTION_STATE, pack_record

long = st.integers(-1, 2**63 - 1)
names = st.text(max_size=6) | st.sampled_from(["n" * 505, "n" * 507, "n" * 508, "ü" * 300, "n" * 1_100, "\ud800"])
rows = st.builds(PartitionsSchema, topic=names, partition_ids=st.lists(st.integers(-1, 2**31 - 1), max_size=200))
values = st.builds(
    TransactionLogValue,
    producer_id=long,
    previous_producer_id=st.integers(-1, 3),
    next_producer_id=st.just(-1) | long,
    producer_epoch=st.integers(-1, 32768),
    next_producer_epoch=st.just(-1) | st.integers(-1, 32767),
    transaction_timeout_ms=st.integers(0, 2**31 - 1),
    transaction_status=st.integers(0, 7),
    transaction_partitions=st.none() | st.lists(rows, max_size=3),
    transaction_last_update_timestamp_ms=long,
    transaction_start_timestamp_ms=long,
    client_transaction_version=st.sampled_from([0, 1, 2, 32768]),
)
USUAL = TransactionLogValue(
    4, 4, -1, 7, -1, 900_000, 1, [PartitionsSchema("t", [0, 3]), PartitionsSchema("u", [1])], 5, 4, 2
)  # fmt: skip


def said(form: Any, *given: Any) -> Any:
    """The bytes, or the error."""
    try:
        return form(*given)
    except UnrepresentableField as error:
        return str(error)


@given(names, values | st.none(), st.integers(0, 1))
@example("x", USUAL, 1)
@example("n" * 507, USUAL, 1)
@example("n" * 508, USUAL, 1)
def test_the_fast_encoder_gives_the_bytes_of_the_plain_one(
    name: str, value: TransactionLogValue | None, version: int
) -> None:
    record = Record(TransactionLogKey(name), value, version)
    assert said(packed, record) == said(pack_record, TRANSACTION_STATE, record)


def test_the_usual_record_uses_the_fast_encoder(monkeypatch: Any) -> None:
    monkeypatch.setattr("muster.coordinator.runtime.transaction_coordinator.record_codec.pack_record", None)
    assert packed(Record(TransactionLogKey("x"), USUAL, 1)) == pack_record(
        TRANSACTION_STATE, Record(TransactionLogKey("x"), USUAL, 1)
    )
