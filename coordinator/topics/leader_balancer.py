"""Who is to lead which partition, in a cluster of several processes: what changes as nodes come, die and return. Pure.

All nodes reach all logs, so that any of them can lead any partition; replicas are names, of which the first one is the
node that should lead. A partition whose leader does not live goes to the first of its replicas that does, or else to
the node that leads the fewest of its topic. When the first replica lives again, leadership goes back there. A node that
no replica of a topic names gets its share of that topic, as long as others lead more of it than they must.

A history (`names.EVENTS_OF`) is led by whoever leads the partition that it tells of: who decides that writes it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import count
from typing import Final

from muster.coordinator.system.jobs import Job
from muster.coordinator.topics.leadership import in_sync
from muster.coordinator.topics.metadata_state import NO_LEADER_CHANGE, MetadataState, PartitionState, TopicState
from muster.coordinator.topics.names import EVENTS_OF, GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from muster.protocol.message import Message
from muster.protocol.messages.metadata_records.partition_change_record import PartitionChangeRecord
from muster.protocol.messages.metadata_records.remove_topic_record import RemoveTopicRecord

_EVENLY = frozenset((GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC))
"""Topics that nobody places by hand."""

Wish = tuple[int, tuple[int, ...]]
"""Leader and replicas of a partition."""


LOOKED_AT_ONCE: Final = 1_000
"""Partitions that are looked at in one step."""


def changes(state: MetadataState, live: Sequence[int], *, prefers: bool, most: int) -> Job[list[PartitionChangeRecord]]:
    """The records after which nodes that live lead everything, and evenly; none: all is well. `prefers`: bring leaders
    back to the first replicas, and give new nodes their share; `most`: so many of these changes at once (of a topic
    all or none, for of a topic that names a new node the rest would stay).

    Of a state that becomes another one meanwhile the result is of no use: compare `state.version`.
    """
    if not live:
        return []
    moved = 0
    chosen: list[PartitionChangeRecord] = []
    wishes: dict[str, list[Wish]] = {}
    for topic in list(state.topics.values()):
        if topic.name in EVENTS_OF:
            continue
        wishes[topic.name] = wanted = yield from _wishes(topic, live, prefers=prefers)
        records = yield from _records(topic, wanted, live)
        must = [record for record in records if topic.partitions[record.partition_id].leader not in live]
        may = len(records) - len(must)
        if may <= most - moved or not moved:
            chosen += records
            moved += may
        else:
            chosen += must
        yield None
    told = {(record.topic_id, record.partition_id) for record in chosen}
    for name, told_of in EVENTS_OF.items():
        history, of = state.topics.get(name), state.topics.get(told_of)
        if history is not None and of is not None and told_of in wishes:
            wanted = [
                (
                    wishes[of.name][index]
                    if (of.topic_id, index) in told
                    else (of.partitions[index].leader, of.partitions[index].replicas)
                )
                if index < len(of.partitions)
                else _wish(one, live, {})
                for index, one in enumerate(history.partitions)
            ]
            chosen += yield from _records(history, wanted, live)
    return chosen


def losers(state: MetadataState, records: Sequence[Message]) -> list[int]:
    """The nodes that lose partitions by these records, which are not taken in yet."""
    found: set[int] = set()
    for record in records:
        if isinstance(record, RemoveTopicRecord) and record.topic_id in state.topics_by_id:
            found.update(one.leader for one in state.topics_by_id[record.topic_id].partitions)
        elif isinstance(record, PartitionChangeRecord) and record.leader != NO_LEADER_CHANGE:
            topic = state.topics_by_id.get(record.topic_id)
            if topic is not None and record.partition_id < len(topic.partitions):
                found.add(topic.partitions[record.partition_id].leader)
    return sorted(found)


def _wish(one: PartitionState, live: Collection[int], led: dict[int, int]) -> Wish:
    """For a partition whose leader does not live."""
    for replica in one.replicas:
        if replica in live:
            return replica, one.replicas
    return min(live, key=lambda node: (led.get(node, 0), node)), one.replicas


def _wishes(topic: TopicState, live: Sequence[int], *, prefers: bool) -> Job[list[Wish]]:
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
        if not (number + 1) % LOOKED_AT_ONCE:
            yield None
    found: list[Wish] = []
    for number, (one, kept_by) in enumerate(zip(partitions, kept, strict=True)):
        if kept_by is None:
            wish = _wish(one, live, led)
            led[wish[0]] += 1
            found.append(wish)
        else:
            found.append((kept_by, one.replicas))
        if not (number + 1) % LOOKED_AT_ONCE:
            yield None
    if prefers and (topic.name in _EVENLY or not named.issuperset(live)):
        yield from _spread(found, led, live)
    return found


def _spread(wanted: list[Wish], led: dict[int, int], live: Sequence[int]) -> Job[None]:
    """Let those who lead few take from those who lead many, until none leads two more than another; the last
    partitions go first. Who has taken one never gives one: then it would have taken from who led no more than it.
    """
    theirs: dict[int, list[int]] = {node: [] for node in live}
    for index, (leader, _) in enumerate(wanted):
        theirs[leader].append(index)
    for number in count(1):
        poor = min(live, key=lambda node: (led[node], node))
        rich = max(live, key=lambda node: (led[node], node))
        if led[rich] - led[poor] < 2:
            return
        index = theirs[rich].pop()
        others = [one for one in wanted[index][1] if one != poor]
        wanted[index] = poor, (poor, *others)[: max(len(wanted[index][1]), 1)]
        led[rich] -= 1
        led[poor] += 1
        if not number % LOOKED_AT_ONCE:
            yield None


def _records(topic: TopicState, wanted: Sequence[Wish], live: Collection[int]) -> Job[list[PartitionChangeRecord]]:
    found: list[PartitionChangeRecord] = []
    for index, (leader, replicas) in enumerate(wanted):
        if not (index + 1) % LOOKED_AT_ONCE:
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
