"""Alerts about any Kafka cluster, from what its brokers say of the groups."""

from __future__ import annotations

from muster.cli.cluster_alerts import ClusterAlerts
from muster.cli.cluster_rows import ClusterRows
from muster.coordinator.http.described_groups import Member
from muster.coordinator.http.kafka_metrics import GroupRow, PartitionRow, TopicRow
from muster.pipeline.episodes.thresholds import MINUTE, STUCK_MS

START_MS = 1_750_000_000_000
STEP_MS = 15_000


def member(name: str, *partitions: int, topics: tuple[str, ...] = ()) -> Member:
    return Member(f"{name}-1", None, name, "/h", {"t": list(partitions)}, subscribed=list(topics))


class Cluster:
    """A cluster that is read every 15 seconds."""

    def __init__(self) -> None:
        self.alerts = ClusterAlerts()
        self.now_ms = START_MS

    def read(
        self, offset: int, end: int, state: str = "Stable", members: tuple[Member, ...] = (member("a", 0),)
    ) -> list[str]:
        topic = TopicRow("t", 1, [PartitionRow(0, 0, end, 1, 1, 1)])
        groups = [
            GroupRow("g", "classic", state, len(members), [("t", [(0, offset, None)])]),
            GroupRow("queue", "share", "Stable", 1, [("t", [(0, 0, 5)])]),
        ]
        found = self.alerts.judged(ClusterRows(1, [topic], groups, {"g": [*members]}), self.now_ms)
        self.now_ms += STEP_MS
        assert found.keys() <= {"g"}
        return [one.rule for one in found.get("g", [])]


def test_a_partition_that_stands_still_is_found_and_one_that_is_read_is_not() -> None:
    stands, reads = Cluster(), Cluster()
    for number in range(4):
        assert stands.read(number, 10) == reads.read(number, 10) == []
    for number in range(10):
        last = stands.read(3, 20 + number)
        assert reads.read(20 + number, 22 + number) == []
    assert last == ["stalled"]
    assert stands.read(30, 30) == []


def test_a_rebalance_that_lasts_is_stuck() -> None:
    cluster = Cluster()
    for _ in range(STUCK_MS // STEP_MS):
        assert cluster.read(5, 5, "PreparingRebalance") == []
    assert cluster.read(5, 5, "PreparingRebalance") == ["stuck"]
    assert cluster.read(5, 5) == []


def test_members_with_other_subscriptions_are_two_applications_and_other_partitions_are_none() -> None:
    cluster = Cluster()
    mixed = (member("a", 0, topics=("t",)), member("b", topics=("u",)))
    alike = (member("a", 0), member("b", 1))
    rules = [cluster.read(5, 5, members=mixed) for _ in range(4 * MINUTE // STEP_MS)]
    assert (rules[0], rules[-1]) == ([], ["two_topics"])
    assert [cluster.read(5, 5, members=alike) for _ in range(4 * MINUTE // STEP_MS)][-1] == []


def test_groups_that_are_gone_have_no_alerts_and_frequent_scrapes_are_no_samples() -> None:
    cluster = Cluster()
    cluster.read(1, 5)
    gone = cluster.alerts.judged(ClusterRows(1, [], [], {}), cluster.now_ms)
    assert gone == {"g": []}
    assert cluster.alerts.judged(ClusterRows(1, [], [], {}), cluster.now_ms + 1) == {}
