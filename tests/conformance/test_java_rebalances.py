"""Rebalances with Kafka's own consumer: story 14 (cooperative) and story 5 (slow between polls)."""

from __future__ import annotations

from collections.abc import Callable

from tests.conformance.clients import JavaClients
from tests.e2e.cooperative import Partitions, Stage, nobody_stops
from tests.e2e.group_events import GroupEvents, with_events
from tests.e2e.laggard import Laggard
from tests.support.servers import ServerProcess

COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
StartJava = Callable[[ServerProcess], JavaClients]
NewTopic = Callable[[int], str]


class JavaMember:
    """A consumer of `JavaClients` with the cooperative strategy, as in story 14."""

    def __init__(self, name: str, java: JavaClients, group: str, topic: str) -> None:
        self.name, self._java, self._group, self._topic = name, java, group, topic
        self._runs = False

    @property
    def assignment(self) -> Partitions:
        """The present partitions of the member."""
        return {(self._topic, number) for number in self._java.assignments[self.name]}

    @property
    def callbacks(self) -> list[tuple[str, Partitions]]:
        """The callbacks that its listener got."""
        lines = [line.split() for line in self._java.rebalances[self.name]]
        return [(what, {(self._topic, int(number)) for number in numbers}) for what, *numbers in lines]

    def start(self) -> None:
        """Begin to consume."""
        self._java.consume(self.name, self._group, self._topic, partition_assignment_strategy=COOPERATIVE)
        self._runs = True

    def stop(self) -> None:
        """Commit and leave; it may already have left."""
        if self._runs:
            self._runs = False
            self._java.stop(self.name)


def test_cooperative_java_consumers_keep_consuming_their_kept_partitions(
    server: ServerProcess, new_topic: NewTopic, group: str, start_java: StartJava
) -> None:
    topic, java = new_topic(8), start_java(server)
    stage = Stage(server, topic, group, java.ledger)
    nobody_stops(
        stage,
        lambda name: JavaMember(name, java, group, topic),
        lambda: Laggard(server, group, topic, version=3),
    )
    assert not java.failures


@with_events
def test_a_java_consumer_slow_between_polls_leaves_with_the_reason(
    server: ServerProcess, new_topic: NewTopic, group: str, start_java: StartJava
) -> None:
    topic, java, callbacks = new_topic(8), start_java(server), GroupEvents(server, group)
    java.consume("quick", group, topic)
    java.consume("slow", group, topic, max_poll_interval_ms="1000")
    java.shared_out(["quick", "slow"], 8)
    callbacks.forget()
    java.tell("hold", "slow")
    java.wait(lambda: len(java.assignments["quick"]) == 8, "the share of the slow one")
    assert callbacks.causes() == [("member_left", "slow")]
    (left,) = callbacks("member_left")
    assert left["reason"] == "consumer poll timeout has expired."
    java.tell("go", "slow")
    java.wait(lambda: len(java.assignments["quick"]) == len(java.assignments["slow"]) == 4, "two to share again")
    assert callbacks.causes() == [("member_left", "slow"), ("member_joined", "slow")]
    assert java.rebalances["slow"][-2].startswith("lost")
