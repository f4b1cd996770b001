"""All verbs on a server that has a control."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from muster.coordinator.cli.cluster import Cluster
from muster.coordinator.rehearsal.errors import CannotBeDone
from muster.coordinator.rehearsal.virtual_time import TimeView
from muster.testing.against import ClusterVerbs
from muster.testing.control_client import Control
from muster.testing.controlled_faults import ControlledFaults, ControlledScenarios, ControlledTime
from muster.testing.controlled_groups import ControlledGroups, ControlledNodes
from muster.testing.controlled_topics import ControlledTopics


class ControlledVerbs(ClusterVerbs):
    """See `verbs.Verbs`."""

    def __init__(self, cluster: Cluster, address: str) -> None:
        super().__init__(cluster)
        self._control = Control(address)
        self.topics: ControlledTopics = ControlledTopics(cluster, self._control)
        self.groups: ControlledGroups = ControlledGroups(cluster, self.topics, self._control)
        self.nodes = ControlledNodes(cluster, self._control)
        self._faults = ControlledFaults(self._control)
        self._time = ControlledTime(self._control)
        self._scenarios = ControlledScenarios(self._control)

    @property
    def faults(self) -> ControlledFaults:  # type: ignore[override]  # here there are some
        """The rules of faults."""
        return self._faults

    @property
    def scenarios(self) -> ControlledScenarios:  # type: ignore[override]
        """What goes wrong, by name."""
        return self._scenarios

    @property
    def time(self) -> ControlledTime:  # type: ignore[override]
        """The server's time."""
        return self._time

    async def run_until(  # type: ignore[override]
        self, group_id: str | None, members: int | None, partitions: Any, **limits: int
    ) -> TimeView:
        """See `Rehearsal`."""
        if not (partitions is None or isinstance(partitions, str)):
            raise CannotBeDone("over HTTP time runs until one topic is owned, not several")
        body: dict[str, Any] = {"condition": "idle", **limits}
        if group_id is not None:
            body |= {"condition": "stable", "group": group_id, "members": members, "partitions": partitions}
        ask: Callable[..., dict[str, Any]] = self._control.ask
        waits_s = limits.get("timeout_ms", 0) / 1000
        return TimeView(**await asyncio.to_thread(ask, "POST", "/v1/time/run-until", body, waits_s=waits_s))

    def meddling(self, since: int = 0) -> list[str]:
        """See `Rehearsal`."""
        return self.groups.meddling(since)

    @property
    def ahead_ms(self) -> int:
        """See `Rehearsal`."""
        return self._time.now().ahead_ms

    @property
    def hits(self) -> int:
        """See `Rehearsal`."""
        told = self._control.ask("GET", "/v1/fault-log")
        return int(told["forgotten"]) + len(told["hits"])

    def tidy(self) -> None:
        """No rule is in force, and time goes on."""
        self._faults.clear()
        self._time.thaw()
