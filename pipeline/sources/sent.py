"""By when a broker surely had the records of each batch, by the headers of the batches. Pure, with numpy.

The time of a record is that of its producer, which may send it much later. But a producer that cannot send adds new
records to the batch that waits, until this batch is full. So a small batch was sent before the first record of the
producer's next batch was made. The log has the batches in the order in which they came.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from muster.pipeline.gather import Ints
from muster.pipeline.sources.batches import LOG_APPEND_TIME, Batches

FULL_BYTES: Final = 1 << 13
"""A larger batch may have been full. By default, no client makes batches smaller than 16 KiB if records wait."""
UNKNOWN: Final = np.iinfo(np.int64).max
"""The time if nobody knows by when a batch was sent."""


def sent_by(batches: Batches) -> Ints:
    """For each batch, a time at which the broker surely had it, and all batches before it; or UNKNOWN.

    If a later batch of the same producer has older records, its producer was late. Then nobody knows. Producers
    without an id count as one producer.
    """
    found = np.full(len(batches.size), UNKNOWN)
    order = np.argsort(batches.producer_id, kind="stable")
    starts = np.flatnonzero(np.diff(batches.producer_id[order])) + 1
    for mine in np.split(order, starts):
        begun = batches.base_timestamp[mine][1:]
        oldest = np.minimum.accumulate(begun[::-1])[::-1]
        before = mine[:-1]
        is_known = (batches.size[before] <= FULL_BYTES) & (oldest >= batches.max_timestamp[before])
        found[before[is_known]] = begun[is_known]
    # with this kind of time, the broker itself says when a batch came
    found = np.where(batches.attributes & LOG_APPEND_TIME != 0, batches.max_timestamp, found)
    whole: Ints = np.minimum.accumulate(found[::-1])[::-1]
    return whole
