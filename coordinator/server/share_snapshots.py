"""The records of the share groups of a running server, by what is durable. This module changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from muster.coordinator.groups.share.group import ShareGroup
from muster.coordinator.runtime.share_partitions.led_partition import LedSharePartition
from muster.coordinator.server.group_views import Records, RecordsView
from muster.coordinator.server.server import Server
from muster.coordinator.share.figures import figures, held, rows_of
from muster.coordinator.share.in_flight import TERMINAL
from muster.coordinator.share_state.persister import UNKNOWN, StateKey


def records_of(server: Server, group: Any) -> Records:
    """The records of a share group in each partition that has a state. Other groups have none."""
    found: dict[str, dict[int, RecordsView]] = {}
    if not isinstance(group, ShareGroup) or group.states is None:
        return found
    for topic_id, named in group.states.initialized.items():
        topic = server.topics.by_id.get(topic_id)
        for index in () if topic is None else named.partitions:
            assert topic is not None
            view = _records(server, StateKey(group.group_id, topic_id, index), topic.name)
            if view is not None:
                found.setdefault(topic.name, {})[index] = view
    return {name: dict(sorted(rows.items())) for name, rows in sorted(found.items())}


def led(server: Server, group_id: str) -> Iterator[LedSharePartition]:
    """The share partitions of a group that are loaded on any node of this process."""
    for node in server.nodes:
        yield from (share for share in node.share_partitions.of_group(group_id) if share.is_active)


def _records(server: Server, key: StateKey, name: str) -> RecordsView | None:
    """The records of one partition. None: its log or its state is not in this process."""
    log = server.topics.open.partition(name, key.partition)
    state = _state(server, key)
    if log is None or state is None:
        return None
    end = log.log.durable_offset
    share = next((one for one in led(server, key.group_id) if one.key == key), None)
    if share is not None:
        start, rows, holders = share.core.start_offset, [*rows_of(share.core)], held(share.core)
    elif state.start_offset != UNKNOWN:
        start, rows, holders = state.start_offset, state.rows, {}
    else:  # the group has not chosen its first record
        return RecordsView(UNKNOWN, end, log.log.start_offset, end - log.log.start_offset, 0, 0, {})
    its = figures(start, rows)
    done = sum(row.last - max(row.first, start) + 1 for row in rows if row.state in TERMINAL and row.last >= start)
    return RecordsView(start, end, its.first_open, max(end - start - done, 0), its.in_flight, its.retried, holders)


def _state(server: Server, key: StateKey) -> Any:
    for node in server.nodes:
        states = node.share_states
        shard = states.routing.shard(str(key)) if states.routing.ready else None
        core = None if shard is None else shard.runtime.core
        if core is not None and key in core.states.partitions:
            return core.states.partitions[key]
    return None
