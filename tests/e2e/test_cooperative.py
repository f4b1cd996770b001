"""Story 14 with confluent-kafka and kafka-python; tests/conformance plays it with Kafka's own client."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from muster.assignors.measures import Moves
from tests.e2e.cooperative import Before, Stage, nobody_stops, start
from tests.e2e.group_events import HAS_EVENTS
from tests.e2e.laggard import Laggard
from tests.e2e.ledger import Ledger
from tests.e2e.sync_clients import (
    COOPERATIVE,
    KAFKA_PYTHON_COOPERATIVE,
    ThreadMember,
    commit_beginning,
    confluent_member,
    kafka_python_member,
)
from tests.support.servers import ServerProcess

NewTopic = Callable[[int], str]


def test_cooperative_librdkafka_members_never_stop_for_kept_partitions(
    server: ServerProcess, new_topic: NewTopic, group: str
) -> None:
    topic, ledger = new_topic(8), Ledger()
    commit_beginning(server.bootstrap, topic, group, 8)

    def make(name: str) -> ThreadMember:
        return confluent_member(name, ledger, server.bootstrap, topic, group, partition_assignment_strategy=COOPERATIVE)

    stage = Stage(server, topic, group, ledger)
    nobody_stops(stage, make, lambda: Laggard(server, group, topic, version=1))


def test_cooperative_kafka_python_members_keep_their_partitions(
    server: ServerProcess, new_topic: NewTopic, group: str
) -> None:
    """Members keep partitions and positions, but their poll gives no records while they join. A leader that sees a
    rebalance only after its end joins again without need. So the test demands no steady flow of records.
    """
    topic, ledger = new_topic(8), Ledger()
    first, second, late = (
        kafka_python_member(
            name, ledger, server.bootstrap, topic, group, partition_assignment_strategy=(KAFKA_PYTHON_COOPERATIVE,)
        )
        for name in ("a", "b", "late")
    )
    stage = Stage(server, topic, group, ledger)
    with ExitStack() as block:
        start([first], block)
        stage.shared(first)
        start([second], block)
        stage.shared(first, second)
        stage.flows(first, second)

        stage.forget()
        before = Before(first), Before(second)
        start([late], block)
        stage.shared(first, second, late)
        stage.flows(first, second, late)
        for one in before:
            assert one.heard("revoked") == one.had - one.member.assignment
            assert one.heard("lost", "assigned") == set()
        if HAS_EVENTS:
            assert stage.moved(kept=6) == Moves(lost=2, gained=2)

        stage.forget()
        before = Before(second), Before(late)
        first.stop()
        stage.shared(second, late)
        stage.flows(second, late)
        for one in before:
            assert one.had < one.member.assignment
            assert one.heard("revoked", "lost") == set()
        if HAS_EVENTS:
            assert stage.moved(kept=5) == Moves(moved=3)
    assert not ledger.twice
