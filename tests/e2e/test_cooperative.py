"""Story 14 with confluent-kafka and kafka-python; tests/conformance has it with Kafka's own client."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.cooperative import Stage, two_rounds_and_nobody_stops
from tests.e2e.laggard import Laggard
from tests.e2e.ledger import Ledger
from tests.e2e.sync_clients import (
    COOPERATIVE,
    KAFKA_PYTHON_COOPERATIVE,
    ThreadMember,
    confluent_member,
    kafka_python_member,
)
from tests.support.servers import ServerProcess

MEMBERS = {
    "confluent-kafka": (confluent_member, COOPERATIVE, 1),
    "kafka-python": (kafka_python_member, (KAFKA_PYTHON_COOPERATIVE,), 1),
}
"""How to make one, its strategy, and the version of its subscription."""


@pytest.mark.parametrize("client", MEMBERS)
def test_two_rounds_and_nobody_stops(
    server: ServerProcess, new_topic: Callable[[int], str], group: str, client: str
) -> None:
    new, strategy, version = MEMBERS[client]
    topic, ledger = new_topic(8), Ledger()

    def make(name: str) -> ThreadMember:
        return new(name, ledger, server.bootstrap, topic, group, partition_assignment_strategy=strategy)

    # kafka-python keeps its partitions and positions while it joins, but its poll gives no records before it has joined
    stage = Stage(server, topic, group, ledger, reads_while_joining=client != "kafka-python")
    two_rounds_and_nobody_stops(stage, make, lambda: Laggard(server, group, topic, version))
