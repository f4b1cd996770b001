"""The stories of a sample's groups: which stories exist, how often each occurs, and which topics they read.

N groups get the first N stories of CYCLE. The cycle repeats with other groups, topics and times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType
from typing import Final, NamedTuple

from muster.assignors.connect.leader import Rebalance, Snapshot, perform
from muster.assignors.connect.work import State
from muster.protocol.connect import ConnectWorkerState, encode_worker_state
from muster.protocol.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from muster.simulation.sample.consumer import Plan, SampleConsumer
from muster.simulation.sample.group import Group, Made, Script
from muster.simulation.sample.scripts import members, offsets, topics
from muster.simulation.sample.work import Owned

EAGER: Final = "default"
_CONFIGURED: Final = Snapshot(7, {"orders-sink": 4, "users-source": 1})


class ConnectWorker(SampleConsumer):
    """A Kafka Connect worker with the eager protocol."""

    protocol_type = "connect"

    def offers(self) -> list[JoinGroupRequestProtocol]:
        url = f"http://{self.client.host.lstrip('/')}:8083/"
        return [JoinGroupRequestProtocol(EAGER, encode_worker_state(ConnectWorkerState(url, _CONFIGURED.offset), 0))]

    def assign(self, joined: JoinGroupResponse) -> Mapping[str, bytes]:
        rows = [(one.member_id, one.metadata) for one in joined.members]
        rebalance = Rebalance(joined.leader, EAGER, rows, joined.generation_id, -1)
        return perform(rebalance, State(), 0, _CONFIGURED).assignments

    def read_share(self, share: bytes) -> Owned:  # noqa: ARG002  # what it runs is of no interest here
        return {}


class NewTopic(NamedTuple):
    """A topic of the sample."""

    partitions: int
    records_per_s: int
    """The number of records per second in an average partition."""


SHARED: Final[Mapping[str, NewTopic]] = MappingProxyType(
    {
        "orders": NewTopic(12, 20),
        "payments": NewTopic(6, 10),
        "clicks": NewTopic(16, 200),
        "shipments": NewTopic(6, 5),
        "inventory": NewTopic(4, 15),
        "notifications": NewTopic(6, 8),
        "users": NewTopic(3, 2),
        "prices": NewTopic(8, 50),
    }
)
"""The topics that many groups read."""
IDLE: Final = "audit"
"""The name of a topic with three partitions, in which nothing ever happens."""
OWN: Final = NewTopic(6, 10)
"""The topic of a group that reads no shared topic."""


class Story(NamedTuple):
    """What happens to a group, and the kind of group."""

    script: Callable[[Group], Script]
    strategy: str = "range"
    members: int = 3
    session_timeout_ms: int = 45_000
    topics: int = 1
    """The number of topics of SHARED that the group reads. 0 means that it reads a topic of its own."""
    made: Made = SampleConsumer
    is_idle: bool = False


STORIES: Final[Mapping[str, Story]] = MappingProxyType(
    {
        "flapping": Story(members.flapping, "range", 4),
        "zombie": Story(members.zombie, "roundrobin", 3, 30_000),
        "zombie-commit": Story(offsets.stale_commit, "range", 2),
        "rolling-deploy": Story(members.deploys, "range", 4),
        "scale-out": Story(members.scale_out, "sticky", 2, topics=2),
        "static-restart": Story(members.static_restart, "range", 4, 60_000),
        "slow-poller": Story(members.slow_poller, "range", 3),
        "steady": Story(members.steady, "range", 3),
        "crash": Story(members.crashes, "range", 4, 30_000),
        "cooperative-scale-out": Story(members.scale_out, "cooperative-sticky", 3, topics=2),
        "topic-growth": Story(topics.topic_growth, "range", 3, topics=0),
        "subscription": Story(topics.subscription, "roundrobin", 3, topics=2),
        "leader-rejoins": Story(topics.leader_rejoins, "range", 3),
        "rewind": Story(offsets.rewind, "range", 2),
        "reset": Story(offsets.reset, "range", 2),
        "stuck": Story(offsets.stuck, "range", 3),
        "silent": Story(offsets.silent, "roundrobin", 3),
        "idle": Story(offsets.idle, "range", 2, is_idle=True),
        "redeploy": Story(members.redeploy, "range", 3),
        "crash-restart": Story(members.crash_restart, "range", 3, 10_000),
        "static-deploy": Story(members.static_deploys, "range", 4, 120_000),
        "static-strategy": Story(topics.static_strategy, "range", 1, 60_000, topics=2),
        "cooperative-deploy": Story(members.deploys, "cooperative-sticky", 3),
        "cooperative-crash": Story(members.crashes, "cooperative-sticky", 3),
        "deploy-elsewhere": Story(members.deploy_elsewhere, "sticky", 3),
        "connect": Story(members.deploys, "", 3, 10_000, made=ConnectWorker),
        "simple": Story(offsets.simple, "", 0),
        "expired-offsets": Story(offsets.expired, "", 0),
        "deleted-group": Story(offsets.deleted, "range", 2),
        "retired-topic": Story(offsets.retired_topic, "range", 2, topics=2),
        "steady-static": Story(members.steady_static, "range", 3, 300_000),
        "steady-cooperative": Story(members.steady, "cooperative-sticky", 4, topics=2),
        "steady-alone": Story(members.steady, "range", 1, 10_000),
        "cooperative-growth": Story(topics.topic_growth, "cooperative-sticky", 2, topics=0),
    }
)

CYCLE: Final = (
    *STORIES,
    *("steady", "rolling-deploy", "crash", "leader-rejoins", "subscription", "topic-growth", "steady-cooperative"),
    *("steady", "zombie", "scale-out", "steady", "idle", "cooperative-deploy", "steady", "flapping", "steady-static"),
)
"""The names of fifty stories."""


class Cast(NamedTuple):
    """All topics and groups of a sample."""

    topics: Mapping[str, NewTopic]
    plans: list[Plan]


def cast(groups: int, records: int, span_ms: int, seed: int) -> Cast:
    """The topics and groups of a sample. Its `groups` groups commit about `records` offsets in `span_ms`."""
    random = Random(f"{seed}:cast")
    named: Counter[str] = Counter()
    chosen: list[tuple[str, str, tuple[str, ...]]] = []
    for number in range(groups):
        name = CYCLE[number % len(CYCLE)]
        named[name] += 1
        group_id = f"{name}-{named[name]}"
        chosen.append((name, group_id, _topics_of(STORIES[name], group_id, random)))
    sizes = {topic: _size(topic) for _, _, names in chosen for topic in sorted(names)}
    committed = sum(
        sizes[topic].partitions for name, _, names in chosen for topic in names if STORIES[name].strategy != ""
    )
    interval_ms = max(committed, 1) * span_ms / records
    # if commits would be too frequent, the topics get more partitions instead
    factor = max(1, min(MAX_PARTITIONS, round(BUSY_MS / interval_ms)))
    if factor > 1:
        sizes = {topic: size._replace(partitions=size.partitions * factor) for topic, size in sizes.items()}
    plans = [
        Plan(
            group_id,
            number,
            name,
            about(name),
            names,
            STORIES[name].strategy,
            STORIES[name].members,
            STORIES[name].session_timeout_ms,
            max(round(interval_ms * factor * random.uniform(0.7, 1.3)), 100),
        )
        for number, (name, group_id, names) in enumerate(chosen)
    ]
    return Cast(sizes, plans)


BUSY_MS: Final = 15_000
"""If groups had to commit more often than this on average, their topics get more partitions instead."""
MAX_PARTITIONS: Final = 8
"""The topics get at most this many times as many partitions."""


def about(name: str) -> str:
    """What happens in a story, in one or two sentences."""
    return " ".join((STORIES[name].script.__doc__ or "").split())


def _topics_of(story: Story, group_id: str, random: Random) -> tuple[str, ...]:
    if story.is_idle:
        return (IDLE,)
    if story.topics == 0:
        return (f"{group_id}.input",)
    return tuple(random.sample(sorted(SHARED), story.topics))


def _size(topic: str) -> NewTopic:
    return NewTopic(3, 0) if topic == IDLE else SHARED.get(topic, OWN)
