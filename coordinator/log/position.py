"""Small facts about where something stands in a log. Holds no behaviour."""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """A byte of a file."""

    path: str
    position: int


class AppendResult(NamedTuple):
    """What an append did (Kafka's LogAppendInfo, as far as a Produce response tells it)."""

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
