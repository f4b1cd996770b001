"""What a shard reads from the log of its partition, also from a log that Kafka wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.coordinator.groups.common.committed_offsets import position_of
from muster.coordinator.groups.common.image import NO_TOPICS
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.log import CorruptBatch, MemoryStorage, batches
from muster.coordinator.log.records.headers import set_crc
from muster.coordinator.runtime.group_coordinator import record_codec
from muster.coordinator.runtime.group_coordinator.record_codec import RecordCodec, RecordReader
from muster.coordinator.runtime.loader import replay_chunks
from muster.coordinator.state_machine.interface import EndTransaction, Now, Producer, Record, TransactionalBatch
from muster.coordinator.system.clock import ManualClock
from muster.protocol.messages.group_records.group_metadata import GroupMetadataKey, GroupMetadataValue
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from muster.protocol.records import OFFSETS
from tests.coordinator.log.support import manage
from tests.support.markers import build_control
from tests.support.old_formats import Row, messages

GOLDEN = Path(__file__).parents[3] / "golden" / "offsets-log"
TOPIC_ID = bytes(range(16))


def commit(partition: int = 0, offset: int = 1, version: int = 4, **more: Any) -> tuple[bytes, bytes]:
    if version == 4:
        more.setdefault("topic_id", TOPIC_ID)
    value = OffsetCommitValue(offset, **more)
    return OFFSETS.encode_key(OffsetCommitKey("g", "t", partition)), OFFSETS.encode_value(value, version)


def log_of(*each: list[tuple[bytes, bytes | None]], **more: Any) -> bytes:
    """A log with one batch for each list of pairs."""
    out, offset = b"", 0
    for pairs in each:
        out += batches.build(pairs, timestamp_ms=1, base_offset=offset, **more)
        offset += len(pairs)
    return out


def plain(message: Any) -> Any:
    return None if message is None else [getattr(message, name) for name in message.__slots__]


def read(data: bytes, reader: RecordReader | None = None) -> list[tuple[Any, Any]]:
    reader = reader or RecordCodec(0).reader()
    parts: Any = [*map(list, reader.read(data)), reader.rest()]
    return [(plain(key), plain(value)) for part in parts for key, value in part]


def marker(kind: int, offset: int, producer_id: int = 7) -> bytes:
    return bytes(build_control(kind, timestamp_ms=1, producer_id=producer_id, producer_epoch=0, base_offset=offset))


def in_transaction(offset: int, *pairs: tuple[bytes, bytes | None], producer_id: int = 7) -> bytes:
    return bytes(
        batches.build(
            list(pairs),
            timestamp_ms=1,
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
    )


@pytest.mark.parametrize("codec", range(5))
def test_compressed_segments_are_read(codec: int) -> None:
    pairs = [commit(partition, offset=partition) for partition in range(50)]
    assert read(log_of(pairs, compression=codec)) == read(log_of(*[[pair] for pair in pairs]))


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_an_offset_is_read(version: int) -> None:
    data = log_of([commit(3, 77, version, metadata="m", commit_timestamp=5)])
    for _ in range(2):  # the second time the key is known
        ((key, value),) = read(data)
        assert key == ["g", "t", 3]
        assert (value[0], value[2], value[3]) == (77, "m", 5)


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_a_group_is_read(version: int) -> None:
    key = OFFSETS.encode_key(GroupMetadataKey("g"))
    value = OFFSETS.encode_value(GroupMetadataValue("consumer", 5, "range", "l", members=[]), version)
    ((_, found),) = read(log_of([(key, value)]))
    assert found[:4] == ["consumer", 5, "range", "l"]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", range(4))
def test_a_log_of_an_old_format_is_read(magic: int, codec: int) -> None:
    pairs = [commit(number % 3, number, number % 4) for number in range(30)]
    data = messages(magic, [Row(number, 5, *pair) for number, pair in enumerate(pairs)], codec)
    storage = MemoryStorage()
    manage(storage).open_log("t", 0)
    storage.locked, storage.files["t-0/00000000000000000000.log"] = False, bytearray(data)
    log = manage(storage).open_log("t", 0)
    assert read(b"".join(log.replay())) == read(log_of(pairs))


offsets = st.integers(-1, 2**63 - 1)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3), offsets, st.integers(-1, 2**31 - 1), st.text(max_size=30), offsets, st.integers(3, 4)
        ),
        min_size=1,
        max_size=8,
    ),
    st.booleans(),
)
def test_the_fast_decoder_of_offsets_reads_what_the_codec_reads(rows: list[Any], one_batch: bool) -> None:
    pairs = [
        commit(partition, offset, version, leader_epoch=epoch, metadata=metadata, commit_timestamp=timestamp)
        for partition, offset, epoch, metadata, timestamp, version in rows
    ]
    expected = [(plain(OFFSETS.decode_key(key)[1]), plain(OFFSETS.decode_value(1, value)[1])) for key, value in pairs]
    data = log_of(pairs) if one_batch else log_of(*[[pair] for pair in pairs])
    usual = [version == 4 and not metadata for _, _, _, metadata, _, version in rows]
    assert read(data) == without_replaced(expected, usual)


def test_a_batch_of_one_commit_of_a_known_key_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read_batches: list[int] = []
    records_of = record_codec.records_of

    def counted(batch: bytes, base_offset: int) -> Any:
        read_batches.append(base_offset)
        return records_of(batch, base_offset)

    monkeypatch.setattr(record_codec, "records_of", counted)
    each = [[commit(offset=1)], [commit(offset=2)], [commit(offset=3, metadata="m")], [commit(offset=4)]]
    assert [value[0] for _, value in read(log_of(*each))] == [1, 3, 4]
    assert read_batches == [0, 2]


def test_headers_are_not_taken_for_a_value() -> None:
    key, value = commit(offset=1)
    _, other = commit(offset=9)
    with_headers = [
        bytes(batches.build([(key, value, [("h", hidden + b"\x00")])], timestamp_ms=1, base_offset=number))
        for number, hidden in enumerate((value, other, value, other))
    ]
    assert {row[0] for _, row in read(b"".join(with_headers))} == {1}


def without_replaced(rows: list[tuple[Any, Any]], usual: list[bool]) -> list[tuple[Any, Any]]:
    """The rows that are kept: the first of each key, all unusual rows, and at the end the newest of the others."""
    given: list[tuple[Any, Any]] = []
    newest: dict[str, tuple[Any, Any] | None] = {}
    for row, is_usual in zip(rows, usual, strict=True):
        key = repr(row[0])
        if key in newest and is_usual:
            newest[key] = row
        else:
            newest[key] = None
            given.append(row)
    return [*given, *(row for row in newest.values() if row is not None)]


def test_unknown_records_are_skipped_and_logged_once() -> None:
    strange = [(b"\0\x63x", b"y"), (commit()[0], b"\0\x63x"), (b"\0\x01", b""), (b"\0\x63z", None)]
    assert read(log_of(strange, [commit(1)])) == read(log_of([commit(1)]))


def test_tombstones_are_read() -> None:
    assert read(log_of([(commit()[0], None)])) == [(["g", "t", 0], None)]


def test_a_damaged_batch_is_refused() -> None:
    data = bytearray(log_of([commit()]))
    data[-1] ^= 1
    with pytest.raises(CorruptBatch):
        read(bytes(data))
    data = bytearray(log_of([commit()]))[:61]
    data[8:12] = (49).to_bytes(4, "big")
    set_crc(data, len(data))
    with pytest.raises(CorruptBatch):
        read(bytes(data))


class TestTransactions:
    def test_transactional_batches_are_read_in_order_with_the_others(self) -> None:
        plain_batch = bytes(batches.build([commit(0, 6)], timestamp_ms=1, base_offset=2))
        data = in_transaction(0, commit(0, 5), commit(1, 5)) + plain_batch + marker(batches.CONTROL_COMMIT, 3)
        found = [part if isinstance(part, tuple) else list(part) for part in RecordCodec(0).reader().read(data)]
        transactional, end = found[1], found[3]
        assert isinstance(transactional, TransactionalBatch)
        assert transactional[:3] == (7, 0, 1)
        assert [(key.partition, value.offset) for key, value in transactional.records] == [(0, 5), (1, 5)]
        assert end == EndTransaction(7, 0, True)
        assert [[(key.partition, value.offset) for key, value in part] for part in found[::2]] == [[], [(0, 6)]]

    @pytest.mark.parametrize("kind", [batches.CONTROL_ABORT, batches.CONTROL_COMMIT])
    def test_transaction_markers_are_read(self, kind: int) -> None:
        found = [part for part in RecordCodec(0).reader().read(marker(kind, 1)) if isinstance(part, EndTransaction)]
        assert found == [EndTransaction(7, 0, kind == batches.CONTROL_COMMIT)]

    def test_records_written_in_a_transaction_are_read_as_transactional(self) -> None:
        codec = RecordCodec(0)
        record = Record(OffsetCommitKey("g", "t", 3), OffsetCommitValue(77, topic_id=TOPIC_ID), 4)
        rows, size = codec.encode([record])
        assert size == sum(map(len, rows))
        batch = bytes(codec.build(rows, Now(0, 99), Producer(7, 2)))
        (found,) = [part for part in codec.reader().read(batch) if isinstance(part, TransactionalBatch)]
        assert found[:3] == (7, 2, 99)
        assert [(plain(key), plain(value)[0]) for key, value in found.records] == [(["g", "t", 3], 77)]
        assert read(bytes(codec.build(rows, Now(0, 99), None))) == [(["g", "t", 3], plain(record.value))]


def test_the_number_of_cached_keys_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_codec, "KEYS_KEPT", 10)
    reader = RecordCodec(0).reader()
    assert len(read(log_of([commit(partition) for partition in range(100)]), reader)) == 100
    assert len(reader._keys) <= 10
    # each in a batch of its own, three times
    alone = [[commit(number % 25, number)] for number in range(75)]
    found = {key[2]: value[0] for key, value in read(log_of(*alone), reader)}
    assert found == {partition: 50 + partition for partition in range(25)}
    assert len(reader._key_of) <= 20


def test_kafkas_segments_give_the_offsets_that_kafka_answered() -> None:
    """Transactions of `txn-group`: committed, aborted, and one still open at the end."""
    core, reader = GroupCore(GroupSettings(), NO_TOPICS), RecordCodec(14).reader()
    data = (GOLDEN / "__consumer_offsets-14" / f"{0:020d}.log").read_bytes()
    assert sum(replay_chunks([data], reader, core, ManualClock(0, 0)))
    ((topic, offsets),) = core.state.offsets.topics("txn-group").items()
    assert {partition: position_of(packed)[0] for partition, packed in offsets.items()} == {0: 3, 1: 12}
    (open_one,) = core.open_transactions()
    assert all(core.state.offsets.is_unstable(group_id, *place) for group_id, place in open_one.offsets)
    assert {place[0] for _, place in open_one.offsets} == {topic}


def metadata(generation: int | None) -> tuple[bytes, bytes | None]:
    """A record of the group, or its tombstone."""
    value = None
    if generation is not None:
        message = GroupMetadataValue(
            "consumer", generation, "range", "l", members=[], current_state_timestamp=generation
        )
        value = OFFSETS.encode_value(message, 3)
    return OFFSETS.encode_key(GroupMetadataKey("g")), value


commits = st.builds(commit, st.integers(0, 2), st.integers(0, 9), commit_timestamp=st.integers(1, 99))
tombstones = st.builds(lambda partition: (commit(partition)[0], None), st.integers(0, 2))
rows = st.one_of(commits, commits, tombstones, st.builds(metadata, st.none() | st.integers(1, 9)))
logs = st.lists(
    st.tuples(st.sampled_from(["plain", "together"]), st.lists(rows, min_size=1, max_size=4))
    | st.tuples(st.just("open"), st.lists(commits, min_size=1, max_size=3))
    | st.tuples(st.sampled_from(["commit", "abort"]), st.just([])),
    max_size=12,
)


def state_of(chunks: list[bytes], *, leaves_out: bool) -> Any:
    """The state that a load gives. `leaves_out` False: each record is replayed."""
    core, reader = GroupCore(GroupSettings(), NO_TOPICS), RecordCodec(0).reader()
    if leaves_out:
        sum(replay_chunks(chunks, reader, core, ManualClock(0, 0)))
    else:
        for chunk in chunks:
            sum(replay_chunks([chunk], reader, core, ManualClock(0, 0)))
    offsets = core.state.offsets
    return (
        [(group, {topic: dict(rows) for topic, rows in topics.items()}) for group, topics in offsets.groups()],
        {name: (group.state_since_ms, group.state) for name, group in core.state.groups.items()},
        [(one.producer_id, one.newest_ms, one.offsets) for one in core.open_transactions()],
    )


@given(logs)
def test_a_load_that_leaves_out_replaced_commits_finds_the_same_state(log: list[tuple[str, Any]]) -> None:
    chunks = []
    for offset, (kind, pairs) in enumerate(log):
        if kind == "plain":
            chunks += [bytes(batches.build([pair], timestamp_ms=1, base_offset=offset)) for pair in pairs]
        elif kind == "together":
            chunks.append(bytes(batches.build(pairs, timestamp_ms=1, base_offset=offset)))
        elif kind == "open":
            chunks.append(in_transaction(offset, *pairs))
        else:
            chunks.append(marker(batches.CONTROL_COMMIT if kind == "commit" else batches.CONTROL_ABORT, offset))
    assert state_of(chunks, leaves_out=True) == state_of(chunks, leaves_out=False)


def test_only_the_first_and_the_newest_commit_of_a_place_are_replayed() -> None:
    reader = RecordCodec(0).reader()
    assert [value[0] for _, value in read(log_of(*[[commit(0, offset)] for offset in range(100)]), reader)] == [0, 99]
    assert reader.replaced == 98


@pytest.mark.parametrize("unreadable", [b"\0\x63" + bytes(40), b"\0\4" + bytes(3), b"\0\4" + bytes(40)])
def test_a_commit_that_cannot_be_read_replaces_no_other(unreadable: bytes) -> None:
    pairs = [commit(0, 1), commit(0, 2), (commit()[0], unreadable)]
    rows = read(log_of(*[[pair] for pair in pairs]))
    assert [value[0] for _, value in rows] == [1, 2]
