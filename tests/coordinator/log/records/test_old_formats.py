"""Logs of message sets (magic 0 and 1), alone and mixed with record batches. They are opened, checked, read, searched
by offset and by time, cut only at a torn append, and compacted into batches v2.
"""

from __future__ import annotations

import json
import random
import struct
import zlib
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from muster.coordinator.log import (
    BatchTooLarge,
    CorruptBatch,
    DamagedLog,
    LogConfig,
    MemoryStorage,
    TimestampOffset,
    TruncatedBatch,
    UnifiedLog,
    UnsupportedCompression,
    batches,
)
from muster.coordinator.log.checkpoints import LastStop
from muster.coordinator.log.cleaning.cleaner import Cleaner
from muster.coordinator.log.errors import UnreadableLog
from muster.coordinator.log.records.headers import BatchHeader, iterate, read_header, set_crc, whole_batches
from muster.coordinator.log.recovery.inspection import DAMAGE, NOTE, Inspection
from muster.coordinator.system.jobs import at_once
from tests.coordinator.log.cleaning.test_compaction import COMPACTED, CompactionHarness
from tests.coordinator.log.support import NOW, SMALL, batch, manage
from tests.support.old_formats import GOLDEN, GZIP, LZ4, SEGMENT, SNAPPY, Row, messages, rows_of, sets, wrapped

LOG = "t-0/00000000000000000000.log"
WHOLE = SEGMENT.read_bytes()
EXPECTED = [
    Row(
        line["offset"],
        line["timestamp"],
        *(None if text is None else text.encode() for text in (line["key"], line["value"])),
    )
    for line in map(json.loads, (GOLDEN / "expected.jsonl").read_text().splitlines())
]
BEGIN = 1_450_000_000_000
"""The timestamp at the beginning of the golden segment, if it were of magic 1 from there on."""


def holding(data: bytes, *, clean: bool = False) -> MemoryStorage:
    """A data directory with these bytes as the only segment of t-0."""
    storage = MemoryStorage()
    manager = manage(storage)
    manager.open_log("t", 0, config=SMALL)
    if clean:
        manager.close()
        for name in [name for name in storage.files if name.startswith("t-0/0")]:
            del storage.files[name]
    storage.locked = False
    storage.files[LOG] = bytearray(data)
    return storage


def opened(storage: MemoryStorage, config: LogConfig = SMALL) -> UnifiedLog:
    storage.locked = False
    return manage(storage).open_log("t", 0, config=config)


def opening(storage: MemoryStorage) -> tuple[UnifiedLog | None, DamagedLog | None]:
    """The log, or the reason why it cannot be opened."""
    try:
        return opened(storage), None
    except DamagedLog as error:
        return None, error


def rows(data: bytes) -> list[Row]:
    return [Row(one.offset, one.timestamp, one.key, one.value) for _, found in batches.read(data) for one in found]


def replayed(log: UnifiedLog, **more: int) -> list[Row]:
    return [row for chunk in log.replay(**more) for row in rows(chunk)]


def headers_in(data: bytes) -> list[tuple[int, BatchHeader]]:
    return list(iterate(data))


def as_v2(made: list[Row]) -> bytes:
    return b"".join(
        bytes(batches.build([(row.key, row.value)], timestamp_ms=row.timestamp, base_offset=row.offset)) for row in made
    )


# ---- headers


def test_an_old_message_has_a_batch_header() -> None:
    data = messages(1, [Row(7, 1234, b"k", b"v")])
    header = read_header(data)
    assert (header.base_offset, header.last_offset, header.next_offset, header.size) == (7, 7, 8, len(data))
    assert (header.base_timestamp, header.max_timestamp, header.is_log_append_time) == (1234, 1234, False)
    assert (header.magic, header.record_count, header.leader_epoch, header.producer_id) == (1, 1, -1, -1)
    assert header.attributes == 0
    assert read_header(messages(0, [Row(7, -1, b"k", b"v")])).max_timestamp == -1
    packed = read_header(messages(1, rows_of(1, 0, 5), GZIP, append_time_ms=99))
    assert (packed.compression, packed.is_log_append_time, packed.max_timestamp) == (GZIP, True, 99)
    assert (packed.base_offset, packed.record_count) == (5, -1)


def test_attributes_unknown_to_old_formats_are_ignored() -> None:
    data = bytearray(messages(0, [Row(7, -1, b"k", b"v")]))
    data[17] |= 0xF8
    struct.pack_into(">I", data, 12, zlib.crc32(data[16:]))
    header = read_header(data)
    assert header.attributes == 0
    assert rows(bytes(data)) == [(7, -1, b"k", b"v")]


@pytest.mark.parametrize("magic", [0, 1])
def test_a_partial_old_message_has_no_header(magic: int) -> None:
    data = messages(magic, [Row(0, 5 if magic else -1, None, None)])
    assert read_header(data).size == len(data) == (26, 34)[magic]
    for cut in range(len(data)):
        with pytest.raises(TruncatedBatch):
            read_header(data[:cut])
        assert headers_in(data[:cut]) == []


def test_messages_of_each_format_are_read_in_runs() -> None:
    old, new = messages(1, rows_of(1, 0, 3)), bytes(batch(b"v", base_offset=9))
    size = read_header(old).size
    assert whole_batches(old + new) == (len(old), 61, 3)
    assert whole_batches(new + old) == (len(new), 61, 10)
    assert whole_batches(old + new[:50]) == (len(old), 61, 3)
    assert whole_batches(old[: size - 1]) == (0, size, -1)
    assert whole_batches(old[:30]) == (0, 61, -1)
    assert whole_batches(bytes(80)) == (0, 0, -1)
    assert whole_batches(new + bytes(80))[::2] == (len(new), 10)
    strange = bytearray(new)
    strange[16] = 3
    assert whole_batches(bytes(strange)) == (0, 0, -1)


# ---- opening and reading


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("chunk", [100, 1 << 20])
def test_all_records_of_three_formats_of_kafka_are_read(clean: bool, chunk: int) -> None:
    storage = holding(WHOLE, clean=clean)
    log = opened(storage)
    assert (log.start_offset, log.end_offset, log.size_bytes) == (0, 359, len(WHOLE))
    assert bytes(storage.files[LOG]) == WHOLE
    assert replayed(log, chunk_bytes=chunk) == EXPECTED
    assert rows(log.read(0, 1 << 20)) == EXPECTED


def test_replay_converts_old_messages_to_valid_batches_v2() -> None:
    for chunk in opened(holding(WHOLE)).replay(chunk_bytes=500):
        for _, header in iterate(chunk):
            assert header.magic == 2
        assert rows(chunk)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("interval", [0, 200, 100_000])
def test_each_offset_is_found_in_the_batch_that_holds_it(clean: bool, interval: int) -> None:
    log = opened(holding(WHOLE, clean=clean), replace(SMALL, index_interval_bytes=interval))
    places = headers_in(WHOLE)
    for offset in range(359):
        at, header = next((at, header) for at, header in places if header.last_offset >= offset)
        assert log.read(offset, 1) == WHOLE[at : at + header.size]
        assert log.read(offset, 300) == WHOLE[at : at + max(300, header.size)]
        assert log.read(offset, 30, min_one_message=False) == b""
        assert log.read(offset, 1 << 20) == WHOLE[at:]
        until = next(at for at, header in places if header.last_offset >= 200)
        assert log.read(offset, 1 << 20, up_to=200) == (WHOLE[at:until] if offset < 200 else b"")


def test_indexes_of_old_formats_are_rebuilt_and_kept() -> None:
    storage = holding(WHOLE)
    storage.locked = False
    manager = manage(storage)
    log = manager.open_log("t", 0, config=SMALL)
    positions = list(log.segments[0].index().positions)
    assert len(positions) > 10
    manager.close()
    again = opened(storage)
    assert list(again.segments[0].index().positions) == positions
    del storage.files[LOG.replace(".log", ".index")]
    assert list(opened(storage).segments[0].index().positions) == positions


def test_records_are_found_by_their_time_as_kafka_finds_them() -> None:
    """The answers of a Kafka 4.3 with this segment to ListOffsets."""
    log = opened(holding(WHOLE))
    for wanted, offset, timestamp in [
        (0, 72, 8000),
        (8001, 73, 8037),
        (8040, 76, 8048),
        (10000, 90, 10500),
        (12020, 109, 12037),
        (14000, 126, 14500),
        (16010, 145, 16037),
        (24010, 217, 24037),
        (39500, 348, 39500),
    ]:
        assert at_once(log.offset_for_timestamp(BEGIN + wanted)) == TimestampOffset(BEGIN + timestamp, offset, -1)
    assert at_once(log.offset_for_timestamp(BEGIN + 39501)) is None
    assert at_once(log.offset_of_max_timestamp()) == TimestampOffset(BEGIN + 39500, 348, -1)
    log.delete_records_before(145)
    assert at_once(log.offset_for_timestamp(0)) == TimestampOffset(BEGIN + 16037, 145, -1)


def test_messages_without_timestamps_are_not_found_by_time() -> None:
    log = opened(holding(messages(0, rows_of(0, 0, 9))))
    assert at_once(log.offset_for_timestamp(0)) is None
    assert at_once(log.offset_of_max_timestamp()) == TimestampOffset(-1, 0, -1)


def test_an_old_log_continues_in_batches_v2() -> None:
    old = messages(0, rows_of(0, 0, 3), GZIP)
    storage = holding(old)
    log = opened(storage)
    log.append(0, batch(b"new"), wall_ms=log.segments[0].created_ms)
    assert bytes(storage.files[LOG][: log.size_bytes]) == old + log.read(3, 1 << 20)
    assert [row.value for row in replayed(log)] == [*(row.value for row in rows_of(0, 0, 3)), b"new"]
    assert log.epochs.epoch_of(0) == -1


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_not_appended(magic: int) -> None:
    log = manage(MemoryStorage()).open_log("t", 0)
    data = messages(magic, [Row(0, 5 if magic else -1, b"k", b"v" * 60)])
    for appending in (log.append, lambda _, batch, **more: log.append_as_is(batch, **more)):
        with pytest.raises(CorruptBatch):
            appending(0, data, wall_ms=NOW)
    assert log.end_offset == 0


def test_retention_uses_the_time_of_the_file_if_records_have_none() -> None:
    storage = holding(messages(0, rows_of(0, 0, 9)))
    log = opened(storage, LogConfig(retention_ms=1000))
    created_ms = log.segments[0].created_ms
    assert log.segments[0].largest_timestamp() == created_ms
    log.append(0, batch(b"new", timestamp_ms=created_ms + 5000), wall_ms=created_ms + 5000)
    log.roll(created_ms + 5000)
    timed = opened(holding(messages(1, rows_of(1, 0, 9))), LogConfig(retention_ms=1000))
    timed.roll(NOW)
    assert timed.enforce_retention(NOW) == 1
    assert timed.start_offset == 11


def test_a_log_is_cut_at_the_batch_that_holds_an_offset() -> None:
    log = opened(holding(WHOLE))
    log.truncate(20)  # within a compressed message
    assert log.end_offset == 17
    assert replayed(log) == [row for row in EXPECTED if row.offset < 18]


# ---- sound, torn, damaged


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(sets(), st.booleans())
def test_all_records_of_a_sound_old_log_are_read(made: tuple[bytes, list[Row]], mixed: bool) -> None:
    data, expected = made
    if mixed:
        more = rows_of(1, expected[-1].offset + 1, 5)
        data, expected = data + as_v2(more), expected + more
        older = rows_of(0, expected[-1].offset + 1, 5)
        data, expected = data + messages(0, older), expected + older
    storage = holding(data)
    log = opened(storage)
    assert replayed(log, chunk_bytes=150) == expected
    assert bytes(storage.files[LOG]) == data
    inspection = Inspection(storage, "t-0")
    inspection.run()
    assert inspection.findings == []


def test_a_tail_torn_at_any_byte_is_cut_and_nothing_before_it() -> None:
    data = messages(0, rows_of(0, 0, 4)) + messages(1, rows_of(1, 6, 3), GZIP) + messages(1, rows_of(1, 12, 2))
    ends = [0, *(at + header.size for at, header in headers_in(data))]
    for cut in range(len(data)):
        storage = holding(data[:cut])
        inspection = Inspection(storage, "t-0")
        inspection.run()
        with capture_logs() as logged:
            opened(storage)
        left = max(end for end in ends if end <= cut)
        assert bytes(storage.files[LOG]) == data[:left]
        assert [line["position"] for line in logged if line["event"] == "a torn tail was cut off"] == [left] * (
            cut != left
        )
        assert [found.severity for found in inspection.findings] == [NOTE] * any(data[left:cut])


def test_after_a_clean_stop_or_a_sync_nothing_is_cut() -> None:
    data = messages(1, rows_of(1, 0, 4))
    storage = holding(data[:-5], clean=True)
    with pytest.raises(DamagedLog):
        opened(storage)
    assert bytes(storage.files[LOG]) == data[:-5]


def test_a_changed_byte_before_the_last_batch_is_reported_and_nothing_is_cut() -> None:
    for data in (
        messages(0, rows_of(0, 0, 4)),
        messages(1, rows_of(1, 0, 4)),
        messages(1, rows_of(1, 0, 4), LZ4) + messages(0, rows_of(0, 7, 1)),
        messages(0, rows_of(0, 0, 2)) + as_v2(rows_of(1, 7, 1)),
        as_v2(rows_of(1, 0, 2)) + messages(0, rows_of(0, 7, 1)),
    ):
        last = headers_in(data)[-1][0]
        for position in range(last):
            bent = bytearray(data)
            bent[position] ^= 0x41
            storage = holding(bytes(bent))
            is_offset = any(0 <= position - at < 8 for at, _ in headers_in(data))
            is_epoch = any(12 <= position - at < 16 for at, header in headers_in(data) if header.magic == 2)
            log, damage = opening(storage)
            if damage is not None:
                # the CRC does not cover an offset: only the next batch shows that it is wrong
                assert damage.position <= position or is_offset
            if log is not None:
                assert is_offset or is_epoch
                assert len(replayed(log)) == len(rows(data))
            assert bytes(storage.files[LOG]) == bytes(bent)
            if not (is_offset or is_epoch):
                inspection = Inspection(storage, "t-0")
                inspection.run()
                assert inspection.is_damaged


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(sets(), sets(base_offset=100), st.data())
def test_damage_is_never_cut_in_silence(
    first: tuple[bytes, list[Row]], second: tuple[bytes, list[Row]], drawn: st.DataObject
) -> None:
    whole = first[0] + second[0]
    bent = bytearray(whole)
    for _ in range(drawn.draw(st.integers(1, 3))):
        bent[drawn.draw(st.integers(0, len(first[0]) - 1))] ^= drawn.draw(st.integers(1, 255))
    storage = holding(bytes(bent))
    with capture_logs():
        log, damage = opening(storage)
    assert bytes(storage.files[LOG]) == bytes(bent), "sound batches follow"
    if log is None:
        assert damage is not None
        return
    assert len(replayed(log)) == len(first[1]) + len(second[1]), "only offsets were changed"


def test_damage_that_only_replay_finds_takes_the_log_offline() -> None:
    """After a clean stop only the end of the newest segment is checked."""
    data = messages(1, rows_of(1, 0, 30)) + messages(1, rows_of(1, 50, 3), SNAPPY) + messages(1, rows_of(1, 60, 30))
    second = headers_in(data)[30][0]
    bent = bytearray(data)
    bent[second + 40] ^= 1
    storage = holding(bytes(bent), clean=True)
    log = opened(storage, replace(SMALL, index_interval_bytes=0))
    with pytest.raises(DamagedLog, match=f"byte {second}: the CRC of the message at offset 52 is wrong"):
        replayed(log)
    assert log.failure is not None


# ---- batches that this version cannot read


def other_magic(magic: int, base_offset: int = 0) -> bytes:
    data = batch(b"later", base_offset=base_offset)
    data[16] = magic
    return bytes(data)


@pytest.mark.parametrize("magic", [3, 4, 127])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b""),
        (bytes(batch(b"a", b"b")), b""),
        (b"", bytes(batch(b"c", base_offset=9))),
        (messages(0, rows_of(0, 0, 2)), bytes(batch(b"c", base_offset=9))),
        (b"", other_magic(3, base_offset=9)[:40]),
    ],
)
@pytest.mark.parametrize("clean", [True, False])
def test_a_log_of_an_unknown_format_is_not_changed(magic: int, before: bytes, after: bytes, clean: bool) -> None:
    data = before + other_magic(magic, base_offset=2) + after
    storage = holding(data, clean=clean)
    log, found = opening(storage)
    if log is not None:
        with pytest.raises(DamagedLog) as raised:
            replayed(log)
        found = raised.value
    assert bytes(storage.files[LOG]) == data
    assert found is not None
    if not (clean and after):
        assert isinstance(found, UnreadableLog)
        assert f"byte {len(before)}: " in str(found)
        assert f"magic {magic}" in str(found)
        assert found.path.endswith(LOG)
        assert "move memory:t-0" in found.advice
    inspection = Inspection(storage, "t-0")
    inspection.run()
    assert inspection.is_unknown
    assert inspection.findings[0].severity == DAMAGE
    assert inspection.findings[0].position == len(before)


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_log_with_an_unknown_codec_is_not_changed(magic: int) -> None:
    if magic == 2:
        packed = bytearray(batch(b"x"))
        packed[22] |= 6
        set_crc(packed, len(packed))
        data = bytes(packed)
    else:
        data = wrapped(magic, 3, 6, b"whatever")
    storage = holding(data)
    log = opened(storage)
    assert log.read(0, 1 << 20) == data  # a client may be able to read it
    with pytest.raises(UnsupportedCompression, match="compression type 6"):
        rows(data)
    if magic < 2:
        with pytest.raises(UnreadableLog, match="byte 0: unknown compression type 6"):
            replayed(log)
    damage = log.damaged_at(0, UnsupportedCompression("unknown compression type 6"))
    assert "nothing was changed" in damage.advice
    assert bytes(storage.files[LOG]) == data


def test_an_old_message_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "UNPACKED_LIMIT", 1000)
    large = [Row(0, 5, b"k", b"x" * 2000)]
    for codec in (GZIP, SNAPPY, LZ4):
        with pytest.raises(BatchTooLarge, match="more than 1000 bytes"):
            rows(messages(1, large, codec))
        assert len(rows(messages(1, rows_of(1, 0, 5), codec))) == 5


# ---- compaction


class OldFormatHarness(CompactionHarness):
    """A compacted log that begins with these bytes."""

    def __init__(self, data: bytes, config: LogConfig = COMPACTED) -> None:
        super().__init__(config)
        self.manager.close()
        for name in [name for name in self.storage.files if name.startswith("t-0/0")]:
            del self.storage.files[name]
        self.storage.files[LOG] = bytearray(data)
        self.storage.locked = False
        self.manager = manage(self.storage)
        self.log = self.manager.open_log("t", 0, config=config)
        self.cleaner = Cleaner(self.manager, self.clock, self.later.sync, cpu_share=1.0)


def newest(made: list[Row]) -> list[Row]:
    last = {row.key: row.offset for row in made}
    return [row for row in made if row.key is not None and last[row.key] == row.offset]


def test_compaction_rewrites_old_messages_as_batches_v2() -> None:
    harness = OldFormatHarness(WHOLE)
    harness.compact()
    assert replayed(harness.log) == newest(EXPECTED)
    assert {header.magic for header in harness.headers()} == {2}


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.data())
def test_compaction_of_old_formats_keeps_the_newest_of_each_key(drawn: st.DataObject) -> None:
    data, expected = b"", []
    for _ in range(drawn.draw(st.integers(1, 4))):
        offset = expected[-1].offset + 1 if expected else 0
        magic, codec = drawn.draw(st.integers(0, 2)), drawn.draw(st.integers(0, 3))
        made = [
            Row(
                offset + number,
                5000 + number if magic else -1,
                drawn.draw(st.sampled_from((None, b"a", b"b", b"c"))),
                b"v",
            )
            for number in range(drawn.draw(st.integers(1, 4)))
        ]
        data += as_v2(made) if magic == 2 else messages(magic, made, codec)
        expected += made
    harness = OldFormatHarness(data)
    harness.compact()
    assert replayed(harness.log) == newest(expected)
    assert all(header.magic == 2 for header in harness.headers())
    assert harness.log.end_offset == expected[-1].offset + 1


def test_compaction_of_old_formats_keeps_codecs_and_timestamp_types() -> None:
    made = [Row(number, 7, b"k%d" % number, b"v" * 30) for number in range(4)]
    harness = OldFormatHarness(messages(1, made[:2], SNAPPY) + messages(1, made[2:], append_time_ms=9))
    harness.compact()
    first, second = harness.headers()[:2]
    assert (first.compression, first.is_log_append_time, second.compression, second.is_log_append_time) == (
        SNAPPY, False, 0, True,
    )  # fmt: skip
    assert [row.timestamp for row in replayed(harness.log)] == [7, 7, 9, 9]


def test_old_tombstones_without_a_time_are_removed_after_their_horizon() -> None:
    harness = OldFormatHarness(
        messages(0, [Row(0, -1, b"a", b"1"), Row(1, -1, b"a", None), Row(2, -1, b"b", b"2")], GZIP)
    )
    harness.compact()
    assert replayed(harness.log) == [(1, -1, b"a", None), (2, -1, b"b", b"2")]
    harness.clock.advance(COMPACTED.delete_retention_ms + 1)
    harness.put((b"c", b"3"))
    harness.compact()
    assert [(row.offset, row.key) for row in replayed(harness.log)] == [(2, b"b"), (3, b"c")]


def test_a_compressed_old_message_larger_than_one_read_is_compacted() -> None:
    """The message is badly compressed, so that it is large on the disk too."""
    draw = random.Random(1)
    noise = [Row(number, 5, b"k%d" % number, draw.randbytes(900)) for number in range(300)]
    data = messages(1, noise, SNAPPY)
    assert len(data) > 48 * 1024
    harness = OldFormatHarness(data, replace(COMPACTED, segment_bytes=1 << 20))
    harness.compact()
    assert replayed(harness.log) == noise


def test_a_log_that_cannot_be_read_is_not_compacted() -> None:
    data = messages(1, [Row(0, 5, b"k", b"v")]) + wrapped(1, 3, 6, b"whatever")
    harness = OldFormatHarness(data)
    with capture_logs() as logged:
        harness.compact()
    assert bytes(harness.storage.files[LOG]) == data
    (line,) = [line for line in logged if line["log_level"] == "error"]
    assert f"byte {len(data) - len(wrapped(1, 3, 6, b'whatever'))}" in str(line)


def test_an_offset_index_of_a_broker_before_0_10_1_finds_the_offset() -> None:
    """The old index names the first offset of a compressed message; today's index names the last."""
    data = messages(1, rows_of(1, 0, 3)) + messages(1, rows_of(1, 10, 5), GZIP)
    storage = holding(data, clean=True)
    second = headers_in(data)[3][0]
    storage.files[LOG.replace(".log", ".index")] = bytearray(struct.pack(">ii", 10, second))
    storage.files[LOG.replace(".log", ".timeindex")] = bytearray()
    log = opened(storage)
    assert log.end_offset == 16
    assert [row.offset for row in rows(log.read(12, 1 << 20))] == [10, 11, 12, 13, 15]


def test_the_log_check_considers_whether_the_last_stop_was_clean() -> None:
    storage = holding(messages(1, rows_of(1, 0, 3))[:-3])
    inspection = Inspection(storage, "t-0", last_stop=LastStop(was_clean=True, recovery_point=3))
    inspection.run()
    assert inspection.is_damaged
