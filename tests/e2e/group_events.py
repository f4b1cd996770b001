"""What `__group_events` says of one group, as the tests read it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from muster.assignors.measures import Moves, total
from muster.client.event_reader import Events
from muster.client.kafka_client import KafkaClient
from muster.coordinator.config.listeners import Address
from tests.e2e.conftest import SERVER
from tests.support.servers import ServerProcess

HAS_EVENTS = SERVER == "muster"
with_events = pytest.mark.skipif(not HAS_EVENTS, reason="Apache Kafka has no __group_events")

Value = dict[str, Any]


class GroupEvents:
    """The events of a group since its beginning, or since the last `forget`."""

    def __init__(self, server: ServerProcess, group: str) -> None:
        self._address, self._group, self._skipped = Address(*server.address), group, 0

    def __call__(self, *kinds: str) -> list[Value]:
        """The events of these kinds, all if none is named; read again each time."""
        values = self._all()[self._skipped :]
        return [value for value in values if not kinds or value["kind"] in kinds]

    def forget(self) -> None:
        """Ignore all events until now."""
        self._skipped = len(self._all())

    def _all(self) -> list[Value]:
        with KafkaClient(self._address) as cluster:
            return list(Events(cluster).upto_now(self._group))

    def causes(self) -> list[tuple[str, str]]:
        """Why rebalances began: the cause and the client id."""
        return [(value["cause"], value["trigger"]["client_id"]) for value in self("rebalance_started")]


def moved(rebalances: Iterable[Value]) -> list[Moves]:
    """The number of partitions that moved in each completed rebalance, all topics together."""
    return [
        total({row["topic"]: Moves(row["kept"], row["moved"], row["gained"], row["lost"]) for row in one["moves"]})
        for one in rebalances
    ]
