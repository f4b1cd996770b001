"""What alerts read of `__group_events` when they begin: a restart of the server does not end a crash loop."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Final

from muster.coordinator.alerts.event_values import REMEMBERED
from muster.coordinator.alerts.group_watch import GroupWatch
from muster.coordinator.alerts.sampling import Watches
from muster.coordinator.log import batches
from muster.coordinator.log.errors import LogError
from muster.coordinator.server.group_snapshots import READ_BYTES, partitions_of
from muster.coordinator.server.server import Server
from muster.coordinator.system.jobs import Job, OffloadedWork
from muster.coordinator.topics.names import GROUP_EVENTS_TOPIC
from muster.coordinator.topics.partition import Partition

MAX_REMEMBERED: Final = 2_000
"""How many of the newest events of each partition are read."""


def remember(server: Server, watches: Watches, since_ms: int, before_ms: int) -> Job[None]:
    """Read the events from `since_ms` on, and before `before_ms`. A partition that cannot be read has none."""
    for one in partitions_of(server, [GROUP_EVENTS_TOPIC]):
        try:
            yield from _read(one, watches, since_ms, before_ms)
        except (LogError, OSError):
            continue  # the log has its own line
        yield None


def _read(one: Partition, watches: Watches, since_ms: int, before_ms: int) -> Job[None]:
    end = one.log.durable_offset
    place = yield from one.log.offset_for_timestamp(since_ms)
    offset = end if place is None else max(place.offset, end - MAX_REMEMBERED)
    while offset < end:
        before, values = offset, []
        for _, records in batches.read(one.read(offset, READ_BYTES, True, end)):
            for record in records:
                if record.offset >= offset:
                    offset = record.offset + 1
                    values.append(record.value or b"{}")
        if offset == before:
            return
        yield OffloadedWork(partial(_feed, values, watches, before_ms))


def _feed(values: list[bytes], watches: Watches, before_ms: int) -> None:
    for data in values:
        value: dict[str, Any] = json.loads(data)
        if value.get("kind") in REMEMBERED and value["time"] < before_ms:
            watches.setdefault(value["group"], GroupWatch()).remember(value)
