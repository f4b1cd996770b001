"""Scripts of commits: that go backwards, stand still, stop, come from outside, or go altogether."""

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
"""What a client of old asks for, at most."""


def rewind(group: Group) -> Script:
    """A process seeks back and reads again what it has read."""
    yield from group.form()
    for _ in range(2):
        yield group.part_ms(0.25)
        consumer = group.random.choice(group.owners())
        group.act("seek", consumer, "read again")
        moved = consumer.rewind(group.random.randrange(500, 5_000))
        group.tell("regression", cause="rewind", client_id=consumer.client.client_id, offsets=moved)


def reset(group: Group) -> Script:
    """Everybody ends, a tool sets the offsets back, everybody starts again."""
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
    group.tell("regression", cause="reset", client_id=None, offsets=_moved(before, after))
    yield group.some_ms(30, 300)
    yield from group.gather(group.consumers)


def _moved(before: Offsets, after: Offsets) -> dict[str, dict[int, list[int]]]:
    """[from, to] of those that go back, by topic and partition."""
    return {
        topic: {one: [before[topic][one], at] for one, at in rows.items() if before[topic][one] > at}
        for topic, rows in after.items()
    }


def stale_commit(group: Group) -> Script:
    """After a rebalance a process still commits what it had worked on in partitions that are another one's by then."""
    yield from group.form()
    for _ in range(2):
        yield group.part_ms(0.25)
        owners = group.owners()
        for consumer in owners:
            consumer.commit()
        stale, had = group.committed(), [(consumer, consumer.owned) for consumer in owners]
        group.join(group.add())
        yield SETTLED
        # the new owners have gone on since
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
                group.tell("regression", cause="zombie", client_id=consumer.client.client_id, offsets=moved)
                break


def stuck(group: Group) -> Script:
    """A process goes on to commit the same offsets, though there is more to read."""
    yield from group.form()
    yield group.part_ms(0.3)
    consumer = group.owners()[0]
    consumer.stuck = True
    yield from _stall(group, consumer, "stuck")
    consumer.stuck = False


def silent(group: Group) -> Script:
    """A process goes on as a member, but commits nothing any more."""
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
    group.tell("stall", client_id=consumer.client.client_id, begin=began_ms, how=how)
    group.act("well again", consumer)


def simple(group: Group) -> Script:
    """A consumer that assigns itself its partitions: commits without members."""
    client = group.add().client
    while True:
        group.commit_from_outside(group.ends(), client)
        yield group.plan.commit_interval_ms


def expired(group: Group) -> Script:
    """A client of old that says how long its offsets are to be kept, and is given up."""
    client = group.add().client
    retention_ms = min(RETENTION_MS, group.part_ms(0.2))
    last_ms, until_ms = 0, group.part_ms(0.6)
    while group.left_ms > until_ms:
        last_ms = group.world.wall_ms
        group.commit_from_outside(group.ends(), client, retention_ms)
        yield min(group.plan.commit_interval_ms, retention_ms // 2)
    group.tell("gone", what="offsets_expired", since=last_ms, retention_ms=retention_ms)


def deleted(group: Group) -> Script:
    """It is given up and deleted."""
    yield from group.form()
    yield group.part_ms(0.5)
    stop_all(group, "given up")
    yield SETTLED
    yield group.part_ms(0.1)
    group.act("delete group")
    group.ask(DeleteGroupsRequest([group.group_id]))
    group.tell("gone", what="deleted")


def retired_topic(group: Group) -> Script:
    """It gives a topic up, and what it had committed there is deleted; later it takes it up again."""
    for step in subscription(group):
        yield step
        second = group.plan.topics[1]
        is_given_up = all(second not in one.topics for one in group.consumers)
        if step == SETTLED and is_given_up and second in group.committed():
            rows = [OffsetDeleteRequestPartition(one) for one in group.committed()[second]]
            group.act("delete offsets", None, second)
            group.ask(OffsetDeleteRequest(group.group_id, [OffsetDeleteRequestTopic(second, rows)]))
            group.tell("gone", what="offsets_deleted", topic=second)


def idle(group: Group) -> Script:
    """Nobody produces anything: it commits the same offsets all day, and that is well."""
    yield from group.form()
