"""The conditions that a test waits for, in code and in words."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from muster.coordinator.history.words import many
from muster.coordinator.server import Server
from muster.testcontrol import expected, group_snapshots
from muster.testcontrol.views import GroupView


class Condition(NamedTuple):
    """`what` has the condition in words. `holds` says whether a group fulfils it. Records of `topics` may matter."""

    what: str
    holds: Callable[[GroupView], object]
    topics: tuple[str, ...] = ()


def names(topics: str | Iterable[str] | None) -> tuple[str, ...]:
    """Topic names as a tuple, from one name, several, or None. Raises WrongValue."""
    return expected.texts("topics", topics)


def stable_words(members: int | None, topics: Collection[str]) -> str:
    """The condition of `stable`, in words."""
    what = "is stable"
    if members is not None:
        what += f" with {members} {many('member', members)}"
    if topics:
        what += f", and each partition of {', '.join(topics)} has an owner"
    return what


def stable(server: Server, members: int | None, topics: Collection[str]) -> Condition:
    """The group is stable, with so many members, and each partition of these topics has an owner. Raises WrongValue."""
    expected.whole_or_none("members", members, most=expected.MOST_COUNT)
    missing = [name for name in topics if name not in server.topics.by_name]
    what = stable_words(members, topics) + _not_there(missing)

    def holds(group: GroupView) -> bool:
        return is_stable(group, members, {name: _count(server, name) for name in topics})

    return Condition(what, holds)


def _not_there(topics: Sequence[str]) -> str:
    return f" (there was no topic {', '.join(topics)} when the wait began)" if topics else ""


def is_stable(group: GroupView, members: int | None, topics: Mapping[str, int]) -> bool:
    """Whether the group is stable, with so many members, and owns all partitions. `topics`: numbers of partitions by
    topic.
    """
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
        wanted = expected.places("up_to", up_to)
    elif topics:
        wanted = _ends_now(server, topics)
    else:
        wanted = {(topic, one): end for topic, rows in describe().end_offsets.items() for one, end in rows.items()}
    missing = [name for name in topics if name not in server.topics.by_name]
    told = ", ".join(f"{topic}-{partition} up to {end}" for (topic, partition), end in sorted(wanted.items()) if end)
    nothing = "it owns a topic, and has consumed it"

    def holds(group: GroupView) -> bool:
        if wanted:
            return has_consumed(group, wanted)
        # the group owned nothing when the wait began: what it is about to own counts
        return bool(group.end_offsets) and bool(group.offsets) and not group.total_lag

    what = f"has committed {told or 'all that is there'}" if wanted else nothing
    return Condition(what + _not_there(missing), holds, topics)


def has_consumed(group: GroupView, wanted: Mapping[tuple[str, int], int]) -> bool:
    """Whether the group has committed each partition up to that offset. An empty partition needs no commit."""
    return all(
        group.offsets.get(topic, {}).get(partition, group.starts.get(topic, {}).get(partition, 0)) >= end
        for (topic, partition), end in wanted.items()
    )


def _ends_now(server: Server, topics: Iterable[str]) -> dict[tuple[str, int], int]:
    return {(one.topic, one.index): one.log.durable_offset for one in group_snapshots.partitions_of(server, topics)}


def _count(server: Server, name: str) -> int:
    topic = server.topics.by_name.get(name)
    return 0 if topic is None else len(topic.partitions)
