"""Messages of old formats (magic 0 and 1) as record batches v2: the one place where the log turns what an old Kafka
wrote into what everything above it reads. Nothing is written in an old format.
"""

from __future__ import annotations

from muster.coordinator.log.errors import CorruptBatch
from muster.coordinator.log.records.compression import UNPACKED_LIMIT, unpack_set
from muster.coordinator.log.records.headers import Buffer, set_crc
from muster.protocol import message_sets
from muster.protocol.message_sets import MalformedMessageSet


def runs(messages: Buffer) -> list[tuple[int, int]]:
    """Where the parts of whole messages begin and end that make one batch each: a compressed message, or plain ones
    that follow one another. CorruptBatch when they are no messages.
    """
    try:
        return list(message_sets.runs(messages))
    except MalformedMessageSet as error:
        raise CorruptBatch(str(error)) from error


def as_batch(run: Buffer) -> bytes:
    """One of the `runs` as a batch v2, not compressed, with the same offsets and timestamps.

    Raises CorruptBatch for a wrong CRC and for what holds no messages, UnsupportedCompression, and BatchTooLarge for a
    message that unpacks to more than `UNPACKED_LIMIT`.
    """
    try:
        batch = message_sets.as_batch(run, lambda codec, packed: unpack_set(codec, packed, UNPACKED_LIMIT))
    except MalformedMessageSet as error:
        raise CorruptBatch(str(error)) from error
    set_crc(batch, 0, len(batch))
    return bytes(batch)
