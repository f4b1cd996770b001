"""The log of a cluster, from the bytes that its brokers answered to Fetch requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from muster.pipeline.explain.inputs import NO_ENDS, Ends, Log
from muster.pipeline.schema import RAW
from muster.pipeline.sources.batches import arrow_of, headers_of, rows_of
from muster.pipeline.sources.ends import Place
from muster.pipeline.sources.segment_reader import Damage, Walk
from muster.pipeline.sources.transactions import Outcomes

Partitions = Mapping[int, tuple[int, bytes]]
"""The bytes of each partition, and the offset from which they were requested."""

_NO_PARTITIONS: Final[Partitions] = {}


def log_of_bytes(
    topics: Mapping[str, Partitions],
    ends: Ends | None,
    names: Mapping[str, str],
    present_ends: Mapping[Place, int] = NO_ENDS,
) -> Log:
    """The log of some topics. `names`: the names of topics by their ids. `present_ends`: see `Log`."""

    def raw(topic: str) -> Iterator[pa.RecordBatch]:
        for partition, (start, data) in sorted(topics.get(topic, _NO_PARTITIONS).items()):
            yield from _rows(topic, partition, start, data)

    return Log(raw, ends, lambda: names, present_ends=present_ends)


def _rows(topic: str, partition: int, start: int, data: bytes) -> Iterator[pa.RecordBatch]:
    """The rows (RAW) of committed records from `start` on, and of damage."""
    stretches = list(Walk(f"{topic}-{partition}", BytesIO(data), len(data), start, goes_on=True))
    outcomes = Outcomes.of([stretches])
    for stretch in stretches:
        batches = headers_of(stretch)
        batches = batches.only(~batches.is_control & outcomes.committed(batches))
        rows, more = rows_of(batches)
        if len(rows.batch):
            found = arrow_of(rows, batches, topic, partition)
            yield found.filter(pc.greater_equal(found.column("offset"), start))
        damages = [*stretch.damages, *(Damage(offset, f"{topic}-{partition}: {text}") for offset, text in more)]
        if damages:
            place = {"topic": topic, "partition": partition}
            rows_of_damage = [{**place, "offset": offset, "damage": text} for offset, text in damages]
            yield pa.RecordBatch.from_pylist(rows_of_damage, schema=RAW)
