"""Figures of a share partition for administrators: records that members hold, retried records, the oldest open record.

A record is open until it is acknowledged or archived. A record is retried if a delivery of it has ended, and the record
is open. `figures` takes rows of the state log, or those of a partition that this process leads (`rows_of`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from muster.coordinator.share.in_flight import ACQUIRED, AVAILABLE, TERMINAL, Row
from muster.coordinator.share.partition import SharePartition

CONFIG: Final = "muster.share.partitions"
"""The config of group resources that has the figures as JSON (`api.configs.share_figures`)."""


class Figures(NamedTuple):
    """Figures of one share partition. `first_open`: the first open record, or the next offset if no record is open."""

    in_flight: int
    retried: int
    first_open: int


def figures(start_offset: int, rows: Iterable[Row]) -> Figures:
    """The figures of a partition with these rows, which are in the order of offsets."""
    in_flight = retried = 0
    first_open = None
    at = start_offset
    for first, last, state, deliveries in rows:
        if last < at:
            continue
        if first_open is None and (first > at or state not in TERMINAL):
            first_open = at
        records = last - max(first, at) + 1
        at = last + 1
        if state == ACQUIRED:
            in_flight += records
        if state in (ACQUIRED, AVAILABLE) and deliveries > (state == ACQUIRED):
            retried += records
    return Figures(in_flight, retried, at if first_open is None else first_open)


def rows_of(partition: SharePartition) -> Iterator[Row]:
    """The records in flight, with the states that are durable."""
    for batch in partition.batches:
        for run in batch.runs:
            state = run.state if run.before is None else run.before.state
            yield Row(run.first, run.last, state, run.deliveries)


def held(partition: SharePartition) -> dict[str, int]:
    """How many records each member holds."""
    found: dict[str, int] = {}
    for batch in partition.batches:
        for run in batch.runs:
            if run.state == ACQUIRED:
                found[run.member] = found.get(run.member, 0) + len(run)
    return found
