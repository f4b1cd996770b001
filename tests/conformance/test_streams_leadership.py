"""The coordinator of a streams group moves while an application runs: nothing is lost or counted twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from muster.client.event_reader import Events
from muster.client.kafka_client import KafkaClient
from muster.coordinator.config.listeners import Address
from muster.protocol.api import ApiKey
from muster.protocol.messages.find_coordinator import FindCoordinatorRequest
from muster.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from tests.conformance.streams_instances import (
    EXACTLY_ONCE,
    PARTITIONS,
    SERVER_SETTINGS,
    STREAMS,
    Lines,
    Start,
    newest,
    shared,
    starting,
    wait,
)
from tests.support.cluster_nodes import ClusterNodes
from tests.support.postgres import own_database
from tests.support.servers import NodesServer

PROPERTIES = {**SERVER_SETTINGS, "broker.session.timeout.ms": "4000", "broker.heartbeat.interval.ms": "500"}
GROUP = "word-count"
MOVES = 4
"""Every other move is an orderly stop; the rest are kills."""
Brokers = NodesServer | ClusterNodes


@pytest.fixture(params=["nodes", "cluster"])
def brokers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Brokers]:
    """Three brokers: in one process, or over a database."""
    with ExitStack() as ends:
        nodes: Brokers
        if request.param == "nodes":
            nodes = NodesServer(tmp_path / "nodes", PROPERTIES)
        else:
            database = ends.enter_context(own_database(request.getfixturevalue("postgres")))
            nodes = ClusterNodes(tmp_path / "nodes", PROPERTIES, database)
        nodes.start()
        yield nodes
        nodes.kill()


@pytest.fixture
def start(brokers: Brokers, tmp_path: Path) -> Iterator[Start]:
    yield from starting(brokers, tmp_path / "instances")


def asked(brokers: Brokers, ask: Callable[[KafkaClient], Any]) -> Any:
    with KafkaClient([Address(*one) for one in brokers.addresses]) as client:
        return ask(client)


def coordinator_of_the_group(brokers: Brokers) -> int:
    """The id of the broker that coordinates the group."""
    request = FindCoordinatorRequest("", 0, [GROUP])
    (found,) = asked(brokers, lambda client: client.bootstrap.ask(ApiKey.FIND_COORDINATOR, request)).coordinators
    return int(found.node_id)


def state_of_the_group(brokers: Brokers) -> str:
    request = StreamsGroupDescribeRequest([GROUP])

    def ask(client: KafkaClient) -> Any:
        return client.ask_coordinator(
            GROUP, ApiKey.STREAMS_GROUP_DESCRIBE, request, lambda answer: [one.error_code for one in answer.groups]
        )[1]

    (group,) = asked(brokers, ask).groups
    return f"{group.group_state}"


@pytest.mark.timeout(600)
def test_the_coordinator_moves_while_an_application_counts(brokers: Brokers, start: Start) -> None:
    admin = AdminClient({"bootstrap.servers": brokers.bootstrap})
    for future in admin.create_topics([NewTopic(name, PARTITIONS) for name in ("lines", "counts")]).values():
        future.result(60)
    instances = tuple(start(GROUP, name, {**STREAMS, **EXACTLY_ONCE}) for name in ("one", "two"))
    lines = Lines(brokers)

    def counted() -> bool:
        return shared(*instances) and newest(brokers, "counts") == lines.written

    wait(lambda: shared(*instances), "two instances to share the tasks", *instances)
    for number in range(MOVES):
        node = coordinator_of_the_group(brokers)
        lines.write(1_000)
        (brokers.kill_node if number % 2 else brokers.stop_node)(node)
        wait(lambda: coordinator_of_the_group(brokers) not in (-1, node), "another coordinator", *instances)  # noqa: B023  # it is called at once
        lines.write(1_000)
        wait(counted, "every word to be counted, once", *instances)
        wait(lambda: state_of_the_group(brokers) == "Stable", "a stable group", *instances)
        brokers.start_node(node)
    kinds = {event["kind"] for event in asked(brokers, lambda client: [*Events(client).upto_now(GROUP)])}
    # an instance may have left and joined again, since a lost broker cost it its transaction
    assert "epoch_reconciled" in kinds
    assert not kinds & {"member_expired", "member_removed", "member_fenced"}
