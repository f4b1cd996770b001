"""Looks at the groups of a running server for alerts: their commits, rebalances that are not over, and their members.

A look is a job: it holds the event loop for a millisecond at a time.
"""

from __future__ import annotations

from typing import Any, Final

from muster.coordinator.alerts.commits import Commit
from muster.coordinator.alerts.group_watch import GroupWatch
from muster.coordinator.groups.common.committed_offsets import position_of, times_of
from muster.coordinator.runtime.group_coordinator.shard import GroupShard
from muster.coordinator.server.group_snapshots import GroupNow
from muster.coordinator.server.group_views import DEAD, STABLE, MemberView
from muster.coordinator.server.server import Server
from muster.coordinator.system.jobs import Job
from muster.pipeline.episodes.live import Rebalancing

LOOKED_AT_ONCE: Final = 200
"""How many partitions or groups one step looks at."""
MAX_MEMBERS: Final = 1_000
"""Of larger groups, only this many members are looked at."""
EMPTY: Final = "Empty"
Watches = dict[str, GroupWatch]


def see_commits(server: Server, watches: Watches, now_ms: int) -> Job[None]:
    """Take a sample of the commits of all groups. Groups without a watch get one when they have unread records."""
    seen = 0
    for node in server.nodes:
        for shard in node.routing.shards:
            for group_id in [*shard.group_ids()]:
                seen += _see_group(server, shard, group_id, watches, now_ms)
                if seen >= LOOKED_AT_ONCE:
                    seen = 0
                    yield None
        yield None


def _see_group(server: Server, shard: GroupShard, group_id: str, watches: Watches, now_ms: int) -> int:
    """Take the partitions of one group, and return their number."""
    core = shard.runtime.core
    topics = {} if core is None else core.state.offsets.topics(group_id)
    watch = watches.get(group_id)
    count = 1
    for topic, rows in topics.items():
        for index, packed in rows.items():
            count += 1
            partition = server.topics.open.partition(topic, index)
            if partition is None:
                continue
            offset, end = position_of(packed)[0], partition.log.durable_offset
            if watch is None:
                if end <= offset:
                    continue
                watch = watches.setdefault(group_id, GroupWatch())
            watch.commits.see(Commit((topic, index), offset, times_of(packed)[0], end), now_ms)
    if watch is not None:
        watch.commits.end(now_ms)
    return count


def see_members(server: Server, watches: Watches, changed: set[str], now_ms: int) -> Job[None]:
    """Look at the members of groups with a watch. Such a group is in a rebalance, is behind, or has `changed`."""
    for number, (group_id, watch) in enumerate([*watches.items()]):
        now = GroupNow.of(server, group_id)
        state = DEAD if now is None else now.state
        is_calm = state in (STABLE, EMPTY, DEAD, "")
        if is_calm:
            watch.rebalancing = None
        if now is None or state in (EMPTY, DEAD):
            watch.owners = {}
            watch.subscribed([], now_ms)
        elif not is_calm or group_id in changed or (watch.commits.is_behind and not watch.owners):
            yield from _members(now, watch, now_ms, is_calm=is_calm, state=state)
        elif watch.mixed:
            watch.subscribed(watch.mixed[0][2], now_ms)
        if not number % LOOKED_AT_ONCE:
            yield None


def _members(now: GroupNow, watch: GroupWatch, now_ms: int, *, is_calm: bool, state: str) -> Job[None]:
    views: list[MemberView] = []
    for member_id in [*now.member_ids][:MAX_MEMBERS]:
        view = now.member(member_id)
        if view is not None:
            views.append(view)
        yield None
    if is_calm:
        watch.owners = {
            (topic, index): name_of(one) for one in views for topic, rows in one.assignment.items() for index in rows
        }
        watch.subscribed([(name_of(one), frozenset(one.subscribed)) for one in views], now_ms)
        return
    before: Any = watch.rebalancing
    since_ms = now_ms if before is None else before.since_ms
    # a member that waits for others holds up nobody
    holding = [(name_of(one), one.doing) for one in views if not one.is_settled and not one.doing.startswith("waits")]
    watch.rebalancing = Rebalancing(state, since_ms, len(now.member_ids), holding)


def name_of(member: MemberView) -> str:
    """The name of a member in alerts."""
    return member.instance_id or member.client_id or member.member_id
