"""What `__group_events` tells of one group, as the tests ask it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from muster.assignors.measures import Moves, total
from muster.coordinator.cli.groups.cluster import Cluster
from muster.coordinator.cli.groups.events import Events
from muster.coordinator.config.listeners import Address
from muster.coordinator.observe.timeline import Timeline
from tests.e2e.conftest import SERVER
from tests.support.servers import ServerProcess

HAS_EVENTS = SERVER == "muster"
with_events = pytest.mark.skipif(not HAS_EVENTS, reason="Apache Kafka has no __group_events")

Value = dict[str, Any]


class Told:
    """The events of a group from a moment on: its beginning, or the last `forget`."""

    def __init__(self, server: ServerProcess, group: str) -> None:
        self._address, self._group, self._skipped = Address(*server.address), group, 0

    def __call__(self, *kinds: str) -> list[Value]:
        """The events of these kinds, all if none is named; read anew each time."""
        values = self._all()[self._skipped :]
        return [value for value in values if not kinds or value["kind"] in kinds]

    def forget(self) -> None:
        """What has happened until now counts no more."""
        self._skipped = len(self._all())

    def _all(self) -> list[Value]:
        with Cluster(self._address) as cluster:
            return list(Events(cluster).upto_now(self._group))

    def completed(self) -> list[tuple[str, str, dict[str, int]]]:
        """The completed rebalances: cause, client id of who caused it, partitions of each client id."""
        return [(value["cause"], value["trigger"]["client_id"], sizes(value)) for value in self("rebalance_completed")]

    def causes(self) -> list[tuple[str, str]]:
        """Why rebalances began: cause and client id."""
        return [(value["cause"], value["trigger"]["client_id"]) for value in self("rebalance_started")]

    def rebalancing(self) -> bool:
        """One has begun and is not over."""
        last = self("rebalance_started", "rebalance_completed", "group_emptied")[-1:]
        return bool(last) and last[0]["kind"] == "rebalance_started"

    def text(self) -> str:
        """As `muster groups history` prints it."""
        timeline = Timeline(dates=False)
        return "\n".join(line for value in self() for line in timeline.feed(value))


def sizes(completed: Value) -> dict[str, int]:
    """How many partitions each client id has after a completed rebalance."""
    return {
        member["client_id"]: sum(len(row["partitions"]) for row in member["assignment"])
        for member in completed["members"]
    }


def shares(completed: Value) -> dict[str, dict[str, list[int]]]:
    """What each client id has after a completed rebalance."""
    return {
        member["client_id"]: {row["topic"]: sorted(row["partitions"]) for row in member["assignment"]}
        for member in completed["members"]
    }


def moved(rebalances: Iterable[Value]) -> list[Moves]:
    """What moved in each completed rebalance, all topics together."""
    return [
        total({row["topic"]: Moves(row["kept"], row["moved"], row["gained"], row["lost"]) for row in one["moves"]})
        for one in rebalances
    ]
