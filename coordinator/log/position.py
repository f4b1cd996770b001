"""Small values: a place in a file, the result of an append, a record found by its timestamp. Holds no behaviour."""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """A byte of a file."""

    path: str
    position: int


class AppendResult(NamedTuple):
    """The result of an append (Kafka's LogAppendInfo, as far as a Produce response has it)."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    """-1 when the topic keeps the producer's own timestamps."""
    log_start_offset: int


class TimestampOffset(NamedTuple):
    """A record found by its timestamp."""

    timestamp_ms: int
    offset: int
    leader_epoch: int
    """The epoch of the record's batch; -1 when it has none."""
