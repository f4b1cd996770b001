"""Target and current assignments: partitions by topic id. They are immutable values, compared, shared and replaced
whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

TargetAssignment = tuple[tuple[bytes, tuple[int, ...]], ...]
"""(topic id, its partitions ascending), ascending by topic id: a target assignment."""
Row = tuple[bytes, tuple[int, ...], tuple[int, ...]]
"""One topic of a `CurrentAssignment`: topic id, partitions, epochs."""
CurrentAssignment = tuple[Row, ...]
"""As `TargetAssignment`, with the epoch of the group at which each partition was assigned (KIP-1251)."""
Epochs = dict[int, int]
"""Partition -> the epoch at which it was assigned."""
NOTHING: Final[tuple[()]] = ()
FEW: Final = 100
"""Tuples of at most this many epochs are shared. Longer tuples would stay after their last member is gone."""
NOT_KNOWN: Final = 0
"""The epoch of a partition in a record without epochs (before Kafka 4.3)."""


def target_assignment(rows: Mapping[bytes, Collection[int]]) -> TargetAssignment:
    """Partitions by topic id as a value. Topics without partitions are left out."""
    return tuple([(topic_id, tuple(sorted(rows[topic_id]))) for topic_id in sorted(rows) if rows[topic_id]])


def current_assignment(rows: Mapping[bytes, Mapping[int, int]]) -> CurrentAssignment:
    """Partitions with their epochs as a value. Topics without partitions are left out."""
    return tuple([row_of(topic_id, sorted(epochs.items())) for topic_id, epochs in sorted(rows.items()) if epochs])


def row_of(topic_id: bytes, pairs: Sequence[tuple[int, int]]) -> Row:
    """Partitions of a topic, ascending, each with its epoch."""
    return topic_id, tuple([one[0] for one in pairs]), tuple([one[1] for one in pairs])


@lru_cache(256)
def _few_since(epoch: int, count: int) -> tuple[int, ...]:
    return (epoch,) * count


def all_since(epoch: int, count: int) -> tuple[int, ...]:
    """The epochs of `count` partitions that were assigned at the same time."""
    return _few_since(epoch, count) if count <= FEW else (epoch,) * count


def assigned_since(member_target: TargetAssignment, epoch: int) -> CurrentAssignment:
    """The current assignment of a member that has all of its target since this epoch."""
    since = {count: all_since(epoch, count) for count in {len(row[1]) for row in member_target}}
    return tuple([(topic_id, partitions, since[len(partitions)]) for topic_id, partitions in member_target])


def with_shared_tuples(
    current: CurrentAssignment, target: TargetAssignment, shared: Callable[[tuple[int, ...]], tuple[int, ...]]
) -> CurrentAssignment:
    """The same value in less memory.

    Nearly always a member has the partitions of its target, and all of them since one epoch. `shared` returns the tuple
    that others have in common.
    """
    of_target = dict(target)
    made = []
    for topic_id, partitions, epochs in current:
        its = of_target.get(topic_id)
        if len(epochs) <= FEW and epochs.count(epochs[0]) == len(epochs):
            epochs = shared(epochs)
        made.append((topic_id, its if its == partitions else partitions, epochs))
    return tuple(made)


def epochs_of(current: Iterable[Row]) -> dict[bytes, Epochs]:
    """The reverse of `current_assignment`."""
    return {topic_id: dict(zip(partitions, epochs, strict=True)) for topic_id, partitions, epochs in current}


def without_epochs(current: CurrentAssignment) -> CurrentAssignment:
    """The same partitions, all with an unknown epoch."""
    return tuple([(topic_id, partitions, (NOT_KNOWN,) * len(partitions)) for topic_id, partitions, _ in current])


def same_partitions(one: CurrentAssignment, other: CurrentAssignment) -> bool:
    """Whether both have the same partitions, whatever their epochs."""
    if one is other or one == other:  # nearly always; rows that are the same objects are not compared further
        return True
    return len(one) == len(other) and all(
        mine is its or (mine[0] == its[0] and mine[1] == its[1]) for mine, its in zip(one, other, strict=True)
    )


def partition_sets(current: CurrentAssignment) -> dict[bytes, frozenset[int]]:
    """The partitions of each topic as sets, for many look-ups: a client may name as many partitions as it likes."""
    return {topic_id: frozenset(partitions) for topic_id, partitions, _ in current}
