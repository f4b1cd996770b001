"""Waits for a group: the conditions in code and in words, and the wait for one of them.

A condition is checked when something has happened to the group, and not before. These events wake a wait: records in
the group's partition of `__consumer_offsets` or `__group_events`, records in named topics, held joins. The machine's
time ends the wait, also while the server's time is frozen. From time to time a wait checks without an event, because
some changes write no record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from muster.coordinator.history.words import many
from muster.coordinator.server import Server, group_snapshots
from muster.coordinator.server.group_views import GroupView
from muster.coordinator.system.clock import Clock, Timer
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC
from muster.coordinator.topics.partition import Partition
from muster.testcontrol import checks


class Condition(NamedTuple):
    """`what`: the condition in words. `holds`: whether a group fulfils it. `topics`: topics that `holds` depends on."""

    what: str
    holds: Callable[[GroupView], object]
    topics: tuple[str, ...] = ()


def stable_words(members: int | None, topics: Collection[str]) -> str:
    """The condition of `stable`, in words."""
    what = "is stable"
    if members is not None:
        what += f" with {members} {many('member', members)}"
    if topics:
        what += f", and each partition of {', '.join(topics)} has an owner"
    return what


def stable(server: Server, members: int | None, topics: Collection[str]) -> Condition:
    """The group is stable, with `members` members, and each partition of `topics` has an owner. Raises WrongValue."""
    checks.whole_or_none("members", members, most=checks.MAX_COUNT)
    missing = [name for name in topics if name not in server.topics.by_name]
    what = stable_words(members, topics) + _not_there(missing)

    def holds(group: GroupView) -> bool:
        found = {name: server.topics.by_name.get(name) for name in topics}
        counts = {name: 0 if topic is None else len(topic.partitions) for name, topic in found.items()}
        return is_stable(group, members, counts)

    return Condition(what, holds)


def _not_there(topics: Sequence[str]) -> str:
    return f" (there was no topic {', '.join(topics)} when the wait began)" if topics else ""


def is_stable(group: GroupView, members: int | None, topics: Mapping[str, int]) -> bool:
    """Whether the group is stable, with `members` members, and owns all partitions. `topics`: how many, by topic."""
    if not group.is_stable or (members is not None and len(group.members) != members):
        return False
    owned = group.assignment
    return all(count and len(owned.get(topic, ())) == count for topic, count in topics.items())


def consumed(
    server: Server,
    topics: tuple[str, ...],
    up_to: Mapping[tuple[str, int], int] | None,
    describe: Callable[[], GroupView],
) -> Condition:
    """The group has committed all records that its topics have now, or these offsets. Raises WrongValue."""
    if up_to is not None:
        wanted = checks.places("up_to", up_to)
    elif topics:
        partitions = group_snapshots.partitions_of(server, topics)
        wanted = {(partition.topic, partition.index): partition.log.durable_offset for partition in partitions}
    else:
        wanted = {(topic, one): end for topic, rows in describe().end_offsets.items() for one, end in rows.items()}
    missing = [name for name in topics if name not in server.topics.by_name]
    listed = ", ".join(f"{topic}-{partition} up to {end}" for (topic, partition), end in sorted(wanted.items()) if end)
    nothing = "it owns a topic, and has consumed it"

    def holds(group: GroupView) -> bool:
        if wanted:
            return has_consumed(group, wanted)
        # the group owned nothing when the wait began: what it is about to own counts
        return bool(group.end_offsets) and bool(group.offsets) and not group.total_lag

    what = f"has committed {listed or 'all records'}" if wanted else nothing
    return Condition(what + _not_there(missing), holds, topics)


def has_consumed(group: GroupView, wanted: Mapping[tuple[str, int], int]) -> bool:
    """Whether the group has committed each partition up to the offset in `wanted`. Empty partitions need no commit."""
    return all(
        group.offsets.get(topic, {}).get(partition, group.starts.get(topic, {}).get(partition, 0)) >= end
        for (topic, partition), end in wanted.items()
    )


def acknowledged(
    server: Server,
    topics: tuple[str, ...],
    up_to: Mapping[tuple[str, int], int] | None,
    describe: Callable[[], GroupView],
) -> Condition:
    """The share group is done with all records that its topics have now, or with the records before these offsets.
    Raises WrongValue.
    """
    if up_to is not None:
        wanted = checks.places("up_to", up_to)
    else:
        names = topics or tuple(describe().end_offsets)
        partitions = group_snapshots.partitions_of(server, names)
        wanted = {(partition.topic, partition.index): partition.log.durable_offset for partition in partitions}
    missing = [name for name in topics if name not in server.topics.by_name]
    what = done_words(wanted) + _not_there(missing)
    return Condition(what, lambda group: is_done(group, wanted), topics)


def done_words(wanted: Mapping[tuple[str, int], int]) -> str:
    """The condition of `acknowledged`, in words."""
    listed = ", ".join(f"{topic}-{partition} up to {end}" for (topic, partition), end in sorted(wanted.items()) if end)
    return f"has accepted or archived {listed or 'all records'}"


def is_done(group: GroupView, wanted: Mapping[tuple[str, int], int]) -> bool:
    """Whether each record before these offsets is accepted or archived. Empty partitions need no acknowledgement."""
    if not group.records:
        return False
    for (topic, partition), end in wanted.items():
        view = group.records.get(topic, {}).get(partition)
        first = group.starts.get(topic, {}).get(partition, 0) if view is None else view.first_open
        if first < end:
            return False
    return True


COUNTS: Final[Mapping[str, str]] = {
    "in_flight": "held by members",
    "released": "released",
    "archived": "archived",
    "dead_letters": "in the dead-letter queue",
}
"""The figures of records that a test may wait for, in words."""


def counted(what: str, records: int, topics: tuple[str, ...], member: str | None = None) -> Condition:
    """At least this many records of the share group were released, or archived, or are held (`what`: of COUNTS)."""
    checks.whole("records", records, 1)

    def holds(group: GroupView) -> bool:
        return count_of(group, what, topics, member) >= records

    words = f"{records} {many('record', records)} {'is' if records == 1 else 'are'} {COUNTS[what]}"
    if member is not None:
        words = f"{records} {many('record', records)} {'is' if records == 1 else 'are'} held by member {member}"
    return Condition(words + (f" of {', '.join(topics)}" if topics else ""), holds, topics)


def count_of(group: GroupView, what: str, topics: Collection[str], member: str | None) -> int:
    """How many records have this figure, in these topics or in all. `member`: of those in flight, only its records."""
    views = [view for name, rows in group.records.items() if not topics or name in topics for view in rows.values()]
    if member is None:
        return sum(max(getattr(view, what), 0) for view in views)
    named = group.member(member)
    return sum(view.held.get(member if named is None else named.member_id, 0) for view in views)


CHECK_MS: Final = 100
"""The longest time between two checks without an event."""

T = TypeVar("T")


class TimeIsOver(Exception):
    """The wait ended before its condition was true."""


async def next_iteration() -> None:
    """Let the event loop iterate once."""
    loop = asyncio.get_running_loop()
    iterated: asyncio.Future[None] = loop.create_future()
    loop.call_soon(iterated.set_result, None)
    await iterated


async def pause(clock: Clock, ms: int) -> None:
    """Wait for `ms` by this clock, which is mostly the machine's."""
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    timer = clock.call_at(clock.mono_ms() + ms, lambda: over.set_result(None))
    try:
        await over
    finally:
        timer.cancel()


async def until(
    server: Server,
    group_id: str,
    check: Callable[[], T | None],
    timeout_s: float,
    *,
    topics: Iterable[str],
    also: Callable[[Callable[[], object]], Callable[[], object]],
) -> T:
    """What `check` returns, as soon as it is not None. Raises TimeIsOver, and what `check` raises.

    `topics`: records of these topics wake the wait. `also(wake)`: registers another source of events, and returns a
    function that ends the registration.
    """
    clock = server.clock.machine
    due_ms = clock.mono_ms() + round(timeout_s * 1000)
    while True:
        woken = asyncio.Event()
        watched = list(_watched(server, group_id, topics))
        for partition in watched:
            partition.wait(woken, lambda _, woken=woken: woken.set())  # type: ignore[misc]  # bound now
        ends = also(woken.set)
        timer: Timer | None = None
        try:
            found = check()
            if found is not None:
                return found
            now_ms = clock.mono_ms()
            if now_ms >= due_ms:
                raise TimeIsOver
            timer = clock.call_at(min(due_ms, now_ms + CHECK_MS), woken.set)
            await woken.wait()
            # events are reported at the end of this iteration of the event loop
            await next_iteration()
        finally:
            ends()
            if timer is not None:
                timer.cancel()
            for partition in watched:
                partition.stop_waiting(woken)


def _watched(server: Server, group_id: str, topics: Iterable[str]) -> Iterable[Partition]:
    if server.routing.ready:
        own = server.topics.open.partition(GROUP_OFFSETS_TOPIC, server.routing.partition(group_id))
        for partition in (own, group_snapshots.history_of(server, group_id)):
            if partition is not None:
                yield partition
    yield from group_snapshots.partitions_of(server, topics)
