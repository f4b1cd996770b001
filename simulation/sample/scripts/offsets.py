"""Scripts of commits: they go backwards, stand still, stop, come from outside of the group, or are deleted."""

from __future__ import annotations

from typing import Final

from muster.protocol.messages.delete_groups import DeleteGroupsRequest
from muster.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from muster.simulation.consumer import Offsets
from muster.simulation.sample.consumer import SampleConsumer
from muster.simulation.sample.group import SETTLED, Group, Script
from muster.simulation.sample.scripts.members import stop_all
from muster.simulation.sample.scripts.topics import subscription

RETENTION_MS: Final = 7_200_000
"""The longest time for which an old client asks the server to keep its offsets."""


def rewind(group: Group) -> Script:
    """A process seeks back, and reads again what it has read before."""
    yield from group.form()
    for _ in range(2):
        yield group.part_ms(0.25)
        consumer = group.random.choice(group.owners())
        group.act("seek", consumer, "read again")
        moved = consumer.rewind(group.random.randrange(500, 5_000))
        group.write_truth("regression", cause="rewind", client_id=consumer.client.client_id, offsets=moved)


def reset(group: Group) -> Script:
    """All processes stop, a tool sets the offsets back, and all processes start again."""
    yield from group.form()
    yield group.part_ms(0.4)
    stop_all(group, "offsets are to be reset")
    yield SETTLED
    yield group.some_ms(30, 300)
    before = group.committed()
    back = group.random.randrange(1_000, 20_000)
    after = {topic: {one: max(at - back, 0) for one, at in rows.items()} for topic, rows in before.items()}
    group.act("reset offsets")
    group.commit_from_outside(after)
    group.write_truth("regression", cause="reset", client_id=None, offsets=_moved(before, after))
    yield group.some_ms(30, 300)
    yield from group.gather(group.consumers)


def _moved(before: Offsets, after: Offsets) -> dict[str, dict[int, list[int]]]:
    """[from, to] of the offsets that go back, by topic and partition."""
    return {
        topic: {one: [before[topic][one], at] for one, at in rows.items() if before[topic][one] > at}
        for topic, rows in after.items()
    }


def stale_commit(group: Group) -> Script:
    """After a rebalance a process commits its last work in partitions that by then belong to another process."""
    yield from group.form()
    for _ in range(2):
        yield group.part_ms(0.25)
        owners = group.owners()
        for consumer in owners:
            consumer.commit()
        stale, had = group.committed(), [(consumer, consumer.owned) for consumer in owners]
        group.join(group.add())
        yield SETTLED
        # meanwhile the new owners have continued
        yield 2 * group.plan.commit_interval_ms + group.some_ms(1, 20)
        now = group.committed()
        for consumer, owned in had:
            late = {
                topic: {one: stale[topic][one] for one in partitions if one not in consumer.owned.get(topic, ())}
                for topic, partitions in owned.items()
            }
            moved = _moved(now, late)
            if any(moved.values()):
                group.act("commit", consumer, "of partitions that it has no more")
                consumer.commit_these(
                    {topic: {one: to for one, (_, to) in rows.items()} for topic, rows in moved.items()}
                )
                group.write_truth("regression", cause="zombie", client_id=consumer.client.client_id, offsets=moved)
                break


def stuck(group: Group) -> Script:
    """A process continues to commit the same offsets, though there is more to read."""
    yield from group.form()
    yield group.part_ms(0.3)
    consumer = group.owners()[0]
    consumer.stuck = True
    yield from _stall(group, consumer, "stuck")
    consumer.stuck = False


def silent(group: Group) -> Script:
    """A process remains a member, but does not commit any more."""
    yield from group.form()
    yield group.part_ms(0.3)
    consumer = group.owners()[0]
    consumer.commits = False
    yield from _stall(group, consumer, "silent")
    consumer.commits = True


def _stall(group: Group, consumer: SampleConsumer, how: str) -> Script:
    began_ms = group.world.wall_ms
    group.act(how, consumer)
    yield group.part_ms(0.3)
    group.write_truth("stall", client_id=consumer.client.client_id, begin=began_ms, how=how)
    group.act("well again", consumer)


def simple(group: Group) -> Script:
    """A consumer that assigns its partitions itself. It commits without a group of members."""
    client = group.add().client
    while True:
        group.commit_from_outside(group.ends(), client)
        yield group.plan.commit_interval_ms


def expired(group: Group) -> Script:
    """An old client that requests how long its offsets are to be kept. Later the client stops for ever."""
    client = group.add().client
    retention_ms = min(RETENTION_MS, group.part_ms(0.2))
    last_ms, until_ms = 0, group.part_ms(0.6)
    while group.left_ms > until_ms:
        last_ms = group.world.wall_ms
        group.commit_from_outside(group.ends(), client, retention_ms)
        yield min(group.plan.commit_interval_ms, retention_ms // 2)
    group.write_truth("gone", what="offsets_expired", since=last_ms, retention_ms=retention_ms)


def deleted(group: Group) -> Script:
    """The group stops for ever, and is deleted."""
    yield from group.form()
    yield group.part_ms(0.5)
    stop_all(group, "given up")
    yield SETTLED
    yield group.part_ms(0.1)
    group.act("delete group")
    group.ask(DeleteGroupsRequest([group.group_id]))
    group.write_truth("gone", what="deleted")


def retired_topic(group: Group) -> Script:
    """The group stops reading a topic, and its offsets there are deleted. Later the group reads the topic again."""
    for step in subscription(group):
        yield step
        second = group.plan.topics[1]
        is_given_up = all(second not in one.topics for one in group.consumers)
        if step == SETTLED and is_given_up and second in group.committed():
            rows = [OffsetDeleteRequestPartition(one) for one in group.committed()[second]]
            group.act("delete offsets", None, second)
            group.ask(OffsetDeleteRequest(group.group_id, [OffsetDeleteRequestTopic(second, rows)]))
            group.write_truth("gone", what="offsets_deleted", topic=second)


def idle(group: Group) -> Script:
    """Nobody produces records. The group commits the same offsets all day, and this is no fault."""
    yield from group.form()
