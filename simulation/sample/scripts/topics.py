"""Scripts of members that join again: with other topics, with other partitions, or because the leader requests it."""

from __future__ import annotations

from typing import Final

from muster.coordinator.groups.common import events
from muster.simulation.sample.group import SETTLED, Group, Script

METADATA_MAX_AGE_MS: Final = 300_000
"""The longest time until a leader sees that a topic has grown."""
SUBSCRIBED: Final = "the subscription has changed"
GROWN: Final = "cached metadata has changed"
ENFORCED: Final = "rebalance enforced by user"


def topic_growth(group: Group) -> Script:
    """The topic of the group gets more partitions, twice. The leader sees that a little later."""
    yield from group.form()
    for _ in range(2):
        yield group.part_ms(0.3)
        topic = group.plan.topics[0]
        partitions = group.world.traffic[topic].partitions
        group.act("grow topic", None, f"{topic}: {partitions} partitions, then {partitions + 2}")
        group.world.grow_topic(topic, partitions + 2)
        yield group.random.randrange(METADATA_MAX_AGE_MS)
        leader = group.leader()
        group.expect(events.PARTITIONS_CHANGED, leader)
        leader.rejoin(GROWN)
        yield SETTLED


def subscription(group: Group) -> Script:
    """One process after the other subscribes to one more topic, or to one less."""
    yield from group.form()
    more, less = list(group.plan.topics), list(group.plan.topics[:1])
    for topics in (less, more):
        yield group.part_ms(0.25)
        for consumer in list(group.consumers):
            consumer.topics = topics
            group.expect(events.SUBSCRIPTION_CHANGED, consumer)
            group.act("subscribe", consumer, ", ".join(topics))
            consumer.rejoin(SUBSCRIBED)
            yield SETTLED
            yield group.some_ms(10, 60)


def static_strategy(group: Group) -> Script:
    """A static member that is alone in its group restarts with another strategy.

    It is back in time, but the group must rebalance.
    """
    yield from group.form(is_static=True)
    consumer = group.consumers[0]
    for strategy in ("roundrobin", group.plan.strategy):
        yield group.part_ms(0.3)
        group.act("stop", consumer, "restart")
        consumer.stop()
        yield group.plan.session_timeout_ms // 3
        consumer.prefer(strategy)
        group.expect(events.STATIC_MEMBER_BACK, consumer)
        group.act("start", consumer, f"with {strategy}")
        consumer.launch()
        yield SETTLED


def leader_rejoins(group: Group) -> Script:
    """The leader's application requests a rebalance. No record shows its reason."""
    yield from group.form()
    for _ in range(3):
        yield group.part_ms(0.2)
        leader = group.leader()
        group.expect(events.LEADER_REJOINED, leader)
        group.act("enforce rebalance", leader)
        leader.rejoin(ENFORCED)
        yield SETTLED
