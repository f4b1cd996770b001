"""Looks at the share groups of a running server for alerts: their states, and who has which partition.

A look is a job: it holds the event loop for a few milliseconds at a time.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from muster.coordinator.alerts.group_watch import GroupWatch
from muster.coordinator.alerts.sampling import LOOKED_AT_ONCE, MAX_MEMBERS, Watches, name_of
from muster.coordinator.alerts.shares import ShareSample, ShareSamples
from muster.coordinator.server.group_snapshots import GroupNow
from muster.coordinator.server.server import Server
from muster.coordinator.share.in_flight import TERMINAL
from muster.coordinator.share_state.persister import UNKNOWN, StateKey
from muster.coordinator.system.jobs import Job


def see_deliveries(server: Server, watches: Watches, now_ms: int, most: int) -> Job[None]:
    """Take a sample of all share groups. Groups without a watch get one, up to `most` watches."""
    for node in server.nodes:
        by_group: dict[str, list[tuple[StateKey, Any]]] = defaultdict(list)
        for shard in node.share_states.routing.shards:
            core = shard.runtime.core
            for key, state in () if core is None else [*core.states.partitions.items()]:
                by_group[key.group_id].append((key, state))
            yield None
        for group_id, some in by_group.items():
            watch = watches.get(group_id)
            if watch is None and len(watches) < most:
                watch = watches[group_id] = GroupWatch()
            if watch is not None:
                yield from _see_group(server, group_id, some, watch, now_ms)


def _see_group(
    server: Server, group_id: str, some: list[tuple[StateKey, Any]], watch: GroupWatch, now_ms: int
) -> Job[None]:
    if watch.shares is None:
        watch.shares = ShareSamples()
    rows = 0
    for key, state in some:
        topic = server.topics.by_id.get(key.topic_id)
        if topic is None or state.start_offset == UNKNOWN:
            continue
        partition = server.topics.open.partition(topic.name, key.partition)
        end = None if partition is None else partition.log.durable_offset
        done = sum(row.last - row.first + 1 for row in state.rows if row.state in TERMINAL)
        watch.shares.see(ShareSample((topic.name, key.partition), state.start_offset, done, end, state.rows), now_ms)
        rows += 1 + len(state.rows)
        if rows >= LOOKED_AT_ONCE:
            rows = 0
            yield None
    now, holds = GroupNow.of(server, group_id), []
    for member_id in [] if now is None else [*now.member_ids][:MAX_MEMBERS]:
        view = None if now is None else now.member(member_id)
        if view is not None:
            holds += [
                ((topic, index), member_id, name_of(view))
                for topic, owned in view.assignment.items()
                for index in owned
            ]
        yield None
    watch.shares.owned(holds, now_ms)
    watch.shares.end(now_ms)
