"""Decides which node leads which partition in a cluster of several processes, as nodes start, die and return. Pure.

All nodes reach all logs, so that any node can lead any partition. Replicas have no logs of their own; the first replica
is the preferred leader. A partition whose leader is not alive moves to its first replica that is alive. If no replica
is alive, the partition moves to the node that leads the fewest partitions of its topic. When the first replica is alive
again, leadership moves back to that replica. A node without a replica of a topic gets an even share of that topic's
partitions.

A history's partition (`names.EVENTS_OF`) has the same leader as the partition whose events it has. The node that
decides also writes the events.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import count
from typing import Final

from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.leadership import in_sync
from muster.coordinator.topics.metadata_state import NO_LEADER_CHANGE, MetadataState, PartitionState, TopicState
from muster.coordinator.topics.names import EVENTS_OF, PARTITIONS_PROPERTIES
from muster.protocol.message import Message
from muster.protocol.messages.metadata_records.partition_change_record import PartitionChangeRecord
from muster.protocol.messages.metadata_records.remove_topic_record import RemoveTopicRecord

_EVENLY = frozenset(PARTITIONS_PROPERTIES)
"""Topics whose replicas no operator assigns."""

Placement = tuple[int, tuple[int, ...]]
"""The wanted leader and replicas of a partition."""


CHECKED_AT_ONCE: Final = 1_000
"""How many partitions are looked at in one step."""


def changes(
    state: MetadataState, live: Sequence[int], *, prefers: bool, max_moves: int
) -> Job[list[PartitionChangeRecord]]:
    """Return the records after which live nodes lead all partitions, evenly. An empty list means that nothing changes.

    `prefers`: move leaders back to the first replicas, and give new nodes their share. `max_moves`: the limit of such
    moves at once. The moves of one topic are made all or not at all. After a part of them, the node would no longer
    count as new, and would never get its full share. The result is invalid if the state changes meanwhile: compare
    `state.version`.
    """
    if not live:
        return []
    moved = 0
    chosen: list[PartitionChangeRecord] = []
    placements: dict[str, list[Placement]] = {}
    for topic in list(state.topics.values()):
        if topic.name in EVENTS_OF:
            continue
        placements[topic.name] = wanted = yield from _placements(topic, live, prefers=prefers)
        records = yield from _records(topic, wanted, live)
        must = [record for record in records if topic.partitions[record.partition_id].leader not in live]
        may = len(records) - len(must)
        if may <= max_moves - moved or not moved:
            chosen += records
            moved += may
        else:
            chosen += must
        yield None
    changed = {(record.topic_id, record.partition_id) for record in chosen}
    for name, source in EVENTS_OF.items():
        history, of = state.topics.get(name), state.topics.get(source)
        if history is not None and of is not None and source in placements:
            wanted = [
                (
                    placements[of.name][index]
                    if (of.topic_id, index) in changed
                    else (of.partitions[index].leader, of.partitions[index].replicas)
                )
                if index < len(of.partitions)
                else _placement(one, live, {})
                for index, one in enumerate(history.partitions)
            ]
            chosen += yield from _records(history, wanted, live)
    return chosen


def losing_nodes(state: MetadataState, records: Sequence[Message]) -> list[int]:
    """Return the nodes that lose partitions by these records, before the records are applied to the state."""
    found: set[int] = set()
    for record in records:
        if isinstance(record, RemoveTopicRecord) and record.topic_id in state.topics_by_id:
            found.update(one.leader for one in state.topics_by_id[record.topic_id].partitions)
        elif isinstance(record, PartitionChangeRecord) and record.leader != NO_LEADER_CHANGE:
            topic = state.topics_by_id.get(record.topic_id)
            if topic is not None and record.partition_id < len(topic.partitions):
                found.add(topic.partitions[record.partition_id].leader)
    return sorted(found)


def _placement(one: PartitionState, live: Collection[int], led: dict[int, int]) -> Placement:
    """Return the leader and replicas of a partition whose leader is not alive."""
    for replica in one.replicas:
        if replica in live:
            return replica, one.replicas
    return min(live, key=lambda node: (led.get(node, 0), node)), one.replicas


def _placements(topic: TopicState, live: Sequence[int], *, prefers: bool) -> Job[list[Placement]]:
    led = dict.fromkeys(live, 0)
    kept: list[int | None] = []
    named: set[int] = set()
    partitions = list(topic.partitions)
    for number, one in enumerate(partitions):
        leader = one.leader
        if prefers and one.replicas and one.replicas[0] in led:
            leader = one.replicas[0]
        if leader in led:
            led[leader] += 1
        kept.append(leader if leader in led else None)
        named.update(one.replicas)
        if not (number + 1) % CHECKED_AT_ONCE:
            yield None
    found: list[Placement] = []
    for number, (one, kept_by) in enumerate(zip(partitions, kept, strict=True)):
        if kept_by is None:
            placement = _placement(one, live, led)
            led[placement[0]] += 1
            found.append(placement)
        else:
            found.append((kept_by, one.replicas))
        if not (number + 1) % CHECKED_AT_ONCE:
            yield None
    if prefers and (topic.name in _EVENLY or not named.issuperset(live)):
        yield from _spread(found, led, live)
    return found


def _spread(wanted: list[Placement], led: dict[int, int], live: Sequence[int]) -> Job[None]:
    """Move partitions, the last ones first, from nodes that lead many, until the numbers differ by one at most."""
    theirs: dict[int, list[int]] = {node: [] for node in live}
    for index, (leader, _) in enumerate(wanted):
        theirs[leader].append(index)
    for number in count(1):
        least = min(live, key=lambda node: (led[node], node))
        busiest = max(live, key=lambda node: (led[node], node))
        if led[busiest] - led[least] < 2:
            return
        index = theirs[busiest].pop()
        others = [one for one in wanted[index][1] if one != least]
        wanted[index] = least, (least, *others)[: max(len(wanted[index][1]), 1)]
        led[busiest] -= 1
        led[least] += 1
        if not number % CHECKED_AT_ONCE:
            yield None


def _records(topic: TopicState, wanted: Sequence[Placement], live: Collection[int]) -> Job[list[PartitionChangeRecord]]:
    found: list[PartitionChangeRecord] = []
    for index, (leader, replicas) in enumerate(wanted):
        if not (index + 1) % CHECKED_AT_ONCE:
            yield None
        now = topic.partitions[index]
        isr = in_sync(replicas, leader, live)
        if (leader, replicas, isr) == (now.leader, now.replicas, now.isr):
            continue
        record = PartitionChangeRecord(
            partition_id=index,
            topic_id=topic.topic_id,
            isr=None if isr == now.isr else isr,
            leader=NO_LEADER_CHANGE if leader == now.leader else leader,
        )
        if replicas != now.replicas:
            record.replicas = list(replicas)
            record.directories = list(now.directories[:1]) * len(replicas)
        found.append(record)
    return found
