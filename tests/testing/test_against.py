"""The verbs on an existing cluster: they use Kafka's requests, over connections that are made again after a loss."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from muster.testing import CannotBeDone, Muster, WaitFailed
from muster.testing.against import Against


@pytest.fixture
def cluster() -> Iterator[Muster]:
    with Muster(nodes=3, topics={"orders": 6}, broker_session_timeout_ms=300) as found:
        yield found


@pytest.fixture
def against(cluster: Muster) -> Iterator[Muster]:
    with Muster(runner=Against(cluster.bootstrap_servers)) as found:
        yield found


def each_verb(against: Muster, records: int) -> None:
    """Verbs that ask any node, the leaders, and the coordinator."""
    assert against.topics == ["orders"]
    topic = against.topic("orders")
    topic.produce(*"abcdef")
    assert sum(topic.end_offsets().values()) == len(topic.records()) == records + 6
    group = against.group("g")
    assert group.describe().state in ("Dead", "Empty")
    with pytest.raises(WaitFailed, match="is stable with 1 member\n"):
        group.wait_stable(members=1, timeout=0.05)
    group.reset_offsets("latest", "orders")
    assert group.lag == {"orders": dict.fromkeys(range(6), 0)}
    assert against.groups == ["g"]
    assert against.coordinator("g").state == "up"
    against.topic("more").create(2)
    against.topic("more").grow(3)
    assert len(against.topic("more").end_offsets()) == 3
    against.topic("more").delete()


def test_verbs_work_after_idle_connections_were_closed(cluster: Muster, against: Muster) -> None:
    each_verb(against, 0)
    for node in cluster.nodes:
        node.stop()
        node.return_()
    each_verb(against, 6)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_verbs_work_while_a_node_is_down(cluster: Muster, against: Muster, how: str) -> None:
    each_verb(against, 0)
    for number, node in enumerate(cluster.nodes, 1):
        getattr(node, how)()
        each_verb(against, 6 * number)
        node.return_()


def test_verbs_work_after_a_restart_of_the_cluster(cluster: Muster, against: Muster) -> None:
    each_verb(against, 0)
    cluster.stop()
    with pytest.raises(CannotBeDone, match="cannot be reached") as failed:
        _ = against.topics
    assert "--bootstrap-server" not in str(failed.value)
    cluster.start()
    each_verb(against, 6)


def test_any_reachable_bootstrap_server_suffices(cluster: Muster) -> None:
    cluster.nodes[0].stop()
    with Muster(runner=Against(f" {cluster.bootstrap_servers.replace(',', ' , ')},")) as against:
        each_verb(against, 0)
    cluster.stop()
    with pytest.raises(CannotBeDone, match=r"none of 3 servers answers: .* cannot be reached"):
        Muster(runner=Against(cluster.bootstrap_servers)).start()


def test_verbs_on_a_missing_topic_or_partition_are_refused(against: Muster) -> None:
    with pytest.raises(CannotBeDone, match="there is no topic nothing"):
        against.topic("nothing").records()
    with pytest.raises(CannotBeDone, match="there is no partition orders-7"):
        against.topic("orders").records(7)
    with pytest.raises(CannotBeDone, match="there is no partition orders-7"):
        against.topic("orders").produce("x", partition=7)


def test_verbs_work_while_a_node_is_paused(cluster: Muster, against: Muster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.client.kafka_client.FIRST_TIMEOUT_S", 0.3)
    each_verb(against, 0)
    for number, node in enumerate(cluster.nodes, 1):
        node.pause()
        gone = f"node {node.id} does not lead or coordinate any more"
        cluster.group("nobody").wait_until(lambda _, node=node: not node.describe().leads, what=gone)
        each_verb(against, 6 * number)
        node.resume()
