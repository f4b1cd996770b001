"""Converts messages of old formats (magic 0 and 1) to record batches v2.

Only this module does that: all others read batches v2. Nothing is written in an old format.
"""

from __future__ import annotations

from muster.coordinator.log.errors import CorruptBatch
from muster.coordinator.log.records.compression import UNPACKED_LIMIT, unpack_set
from muster.coordinator.log.records.headers import Buffer, set_crc
from muster.protocol import message_sets
from muster.protocol.message_sets import MalformedMessageSet


def runs(messages: Buffer) -> list[tuple[int, int]]:
    """Return begin and end of the parts that make one batch each. Raises CorruptBatch when they are no messages.

    A part is a compressed message, or several plain messages in a row.
    """
    try:
        return list(message_sets.runs(messages))
    except MalformedMessageSet as error:
        raise CorruptBatch(str(error)) from error


def as_batch(run: Buffer) -> bytes:
    """Return one of the `runs` as a batch v2, not compressed, with the same offsets and timestamps.

    Raises CorruptBatch for a wrong CRC and for bytes without messages. Raises UnsupportedCompression, and BatchTooLarge
    for a message that unpacks to more than `UNPACKED_LIMIT`.
    """
    try:
        batch = message_sets.as_batch(run, lambda codec, packed: unpack_set(codec, packed, UNPACKED_LIMIT))
    except MalformedMessageSet as error:
        raise CorruptBatch(str(error)) from error
    set_crc(batch, 0, len(batch))
    return bytes(batch)
