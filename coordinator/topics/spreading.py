"""Who is to lead which partition, in a cluster of several processes: what changes as nodes come, die and return. Pure.

All nodes reach all logs, so that any of them can lead any partition; replicas are names, of which the first one is the
node that should lead. A partition whose leader does not live goes to the first of its replicas that does, or else to
the node that leads the fewest of its topic. When the first replica lives again, leadership goes back there. A node that
no replica of a topic names gets its share of that topic, as long as others lead more of it than they must.

A history (`names.EVENTS_OF`) is led by whoever leads the partition that it tells of: who decides that writes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from muster.coordinator.topics.leadership import Place, in_sync
from muster.coordinator.topics.metadata_state import NO_LEADER_CHANGE, MetadataState, PartitionState, TopicState
from muster.coordinator.topics.names import EVENTS_OF, GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from muster.protocol.message import Message
from muster.protocol.messages.metadata_records.partition_change_record import PartitionChangeRecord
from muster.protocol.messages.metadata_records.remove_topic_record import RemoveTopicRecord

_EVENLY = frozenset((GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC))
"""Topics that nobody places by hand."""

Wish = tuple[int, tuple[int, ...]]
"""Leader and replicas of a partition."""


def changes(state: MetadataState, live: Sequence[int], *, prefers: bool, most: int) -> list[PartitionChangeRecord]:
    """The records after which nodes that live lead everything, and evenly; none: all is well. `prefers`: bring leaders
    back to the first replicas, and give new nodes their share; `most`: so many of these changes at once (of a topic
    all or none, for of a topic that names a new node the rest would stay).
    """
    if not live:
        return []
    moved = 0
    chosen: list[PartitionChangeRecord] = []
    wishes: dict[str, list[Wish]] = {}
    for topic in state.topics.values():
        if topic.name in EVENTS_OF:
            continue
        wishes[topic.name] = wanted = _wishes(topic, live, prefers=prefers)
        records = list(_records(topic, wanted, live))
        must = [record for record in records if _leader(state, record) not in live]
        may = len(records) - len(must)
        if may <= most - moved or not moved:
            chosen += records
            moved += may
        else:
            chosen += must
    told = {(record.topic_id, record.partition_id) for record in chosen}
    for topic in state.topics.values():
        of = state.topics.get(EVENTS_OF.get(topic.name, ""))
        if of is not None:
            wanted = [
                (
                    wishes[of.name][index]
                    if (of.topic_id, index) in told
                    else (of.partitions[index].leader, of.partitions[index].replicas)
                )
                if index < len(of.partitions)
                else _wish(one, live, {})
                for index, one in enumerate(topic.partitions)
            ]
            chosen += _records(topic, wanted, live)
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


def _leader(state: MetadataState, record: PartitionChangeRecord) -> int:
    return state.topics_by_id[record.topic_id].partitions[record.partition_id].leader


def _wish(one: PartitionState, live: Collection[int], led: dict[int, int]) -> Wish:
    """For a partition whose leader does not live."""
    for replica in one.replicas:
        if replica in live:
            return replica, one.replicas
    return min(live, key=lambda node: (led.get(node, 0), node)), one.replicas


def _wishes(topic: TopicState, live: Sequence[int], *, prefers: bool) -> list[Wish]:
    led = dict.fromkeys(live, 0)
    wanted: list[Wish | None] = []
    for one in topic.partitions:
        leader = one.leader
        if prefers and one.replicas and one.replicas[0] in led:
            leader = one.replicas[0]
        if leader in led:
            led[leader] += 1
        wanted.append((leader, one.replicas) if leader in led else None)
    found: list[Wish] = []
    for one, wish in zip(topic.partitions, wanted, strict=True):
        if wish is None:
            wish = _wish(one, live, led)
            led[wish[0]] += 1
        found.append(wish)
    named = {replica for one in topic.partitions for replica in one.replicas}
    if prefers and (topic.name in _EVENLY or not named.issuperset(live)):
        _spread(found, led, live)
    return found


def _spread(wanted: list[Wish], led: dict[int, int], live: Sequence[int]) -> None:
    """Let those who lead few take from those who lead many, until none leads two more than another; the last
    partitions go first. Who has taken one never gives one: then it would have taken from who led no more than it.
    """
    theirs: dict[int, list[int]] = {node: [] for node in live}
    for index, (leader, _) in enumerate(wanted):
        theirs[leader].append(index)
    while True:
        poor = min(live, key=lambda node: (led[node], node))
        rich = max(live, key=lambda node: (led[node], node))
        if led[rich] - led[poor] < 2:
            return
        index = theirs[rich].pop()
        others = [one for one in wanted[index][1] if one != poor]
        wanted[index] = poor, (poor, *others)[: max(len(wanted[index][1]), 1)]
        led[rich] -= 1
        led[poor] += 1


def _records(topic: TopicState, wanted: Sequence[Wish], live: Collection[int]) -> Iterator[PartitionChangeRecord]:
    for index, (leader, replicas) in enumerate(wanted):
        now = Place(topic, index).state
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
        yield record
