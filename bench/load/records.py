"""Makes record batches, and the frames that produce and fetch them."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from tests.support import wire

MAX_BATCH_BYTES = 1 << 21


def batch(value_bytes: int, seed: int = 1) -> bytes:
    """A record batch with one record, whose value cannot be compressed. It has the present time, so that retention
    keeps it.
    """
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=MAX_BATCH_BYTES,
    )
    builder.append(
        0, timestamp=time.time_ns() // 1_000_000, key=None, value=random.Random(seed).randbytes(value_bytes), headers=[]
    )
    return bytes(builder.build())


def produce_frames(topic: str, partitions: int, value_bytes: int) -> list[bytes]:
    """A Produce frame for each partition."""
    records = batch(value_bytes)
    return [wire.frame(wire.produce(topic, partition, records)) for partition in range(partitions)]


def fetch_frames(
    topic: str, partitions: int, offsets: Iterable[int], max_bytes: int, *, read_committed: bool = False
) -> list[bytes]:
    """A Fetch frame for each of these offsets in each partition. An answer has at most `max_bytes`."""
    return [
        wire.frame(
            wire.fetch(topic, partition, offset, max_wait_ms=500, max_bytes=max_bytes, read_committed=read_committed)
        )
        for offset in offsets
        for partition in range(partitions)
    ]
