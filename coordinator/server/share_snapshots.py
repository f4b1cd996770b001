"""The records of the share groups of a running server, by what is durable. This module changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from muster.coordinator.groups.share.group import ShareGroup
from muster.coordinator.runtime.share_partitions.led_partition import LedSharePartition
from muster.coordinator.server.group_views import Records, RecordsView
from muster.coordinator.server.server import Server
from muster.coordinator.share.figures import figures, held, rows_of
from muster.coordinator.share.in_flight import TERMINAL, Row
from muster.coordinator.share_state.persister import UNKNOWN, StateKey
from muster.coordinator.topics.open_topics import Topic


def records_of(server: Server, group: Any) -> Records:
    """The records of a share group in each partition that has a state. Other groups have none."""
    return {name: dict(sorted(rows)) for name, rows in sorted(topics_of(server, group), key=lambda topic: topic[0])}


def topics_of(server: Server, group: Any) -> Iterator[tuple[str, Iterator[tuple[int, RecordsView]]]]:
    """The topics of a share group, with the records of each partition. They are read as they are asked for."""
    if isinstance(group, ShareGroup) and group.states is not None:
        for topic_id, named in [*group.states.initialized.items()]:
            topic = server.topics.by_id.get(topic_id)
            if topic is not None:
                yield topic.name, _partitions(server, group.group_id, topic, named.partitions)


def _partitions(
    server: Server, group_id: str, topic: Topic, partitions: Iterable[int]
) -> Iterator[tuple[int, RecordsView]]:
    for index in partitions:
        view = _records(server, StateKey(group_id, topic.topic_id, index), topic.name)
        if view is not None:
            yield index, view


def records_at(server: Server, group_id: str, name: str, index: int) -> RecordsView | None:
    """The records of a share group in one partition. None: the group has not begun there, or the log is elsewhere."""
    topic = server.topics.by_name.get(name)
    found = None if topic is None else _records(server, StateKey(group_id, topic.topic_id, index), name)
    return None if found is None or found.start_offset == UNKNOWN else found


def led(server: Server, group_id: str) -> Iterator[LedSharePartition]:
    """The share partitions of a group that are loaded on any node of this process."""
    for node in server.nodes:
        yield from (share for share in node.share_partitions.of_group(group_id) if share.is_active)


def _records(server: Server, key: StateKey, name: str) -> RecordsView | None:
    """The records of one partition. None: its log or its state is not in this process."""
    partition, state = server.topics.open.partition(name, key.partition), _state(server, key)
    if partition is None or state is None:
        return None
    end = partition.log.durable_offset
    found = (node.share_partitions.find(key) for node in server.nodes)
    share = next((one for one in found if one is not None and one.is_active), None)
    rows: Sequence[Row]
    if share is not None:
        start, rows, holders = share.core.start_offset, [*rows_of(share.core)], held(share.core)
    elif state.start_offset != UNKNOWN:
        start, rows, holders = state.start_offset, state.rows, {}
    else:  # the group has not chosen its first record
        first = partition.log.start_offset
        return RecordsView(UNKNOWN, end, first, end - first, 0, 0, {})
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
