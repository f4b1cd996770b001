"""All verbs on a server with a control."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from muster.client.kafka_client import KafkaClient
from muster.testcontrol.errors import CannotBeDone
from muster.testcontrol.virtual_time import TimeView
from muster.testing.against import ClusterVerbs
from muster.testing.controlled_faults import Control, ControlledFaults, ControlledScenarios, ControlledTime
from muster.testing.controlled_groups import ControlledGroups, ControlledNodes
from muster.testing.controlled_topics import ControlledTopics

PAUSED: Final = "paused"


class ControlledVerbs(ClusterVerbs):
    """See `verbs.Verbs`."""

    def __init__(self, cluster: KafkaClient, address: str) -> None:
        super().__init__(cluster)
        self._control = Control(address)
        self.topics: ControlledTopics = ControlledTopics(cluster, self._control)
        self._faults = ControlledFaults(self._control)
        self.groups: ControlledGroups = ControlledGroups(cluster, self.topics, self._control, self._faults)
        self.nodes = ControlledNodes(cluster, self._control)
        self._time = ControlledTime(self._control)
        self._scenarios = ControlledScenarios(self._control)

    @property
    def faults(self) -> ControlledFaults:  # type: ignore[override]  # here there are some
        return self._faults

    @property
    def scenarios(self) -> ControlledScenarios:  # type: ignore[override]
        return self._scenarios

    @property
    def time(self) -> ControlledTime:  # type: ignore[override]
        return self._time

    async def run_until(  # type: ignore[override]
        self, group_id: str | None, members: int | None, partitions: Any, **limits: int
    ) -> TimeView:
        if not (partitions is None or isinstance(partitions, str)):
            raise CannotBeDone("over HTTP time runs until one topic is owned, not several")
        body: dict[str, Any] = {"condition": "idle", **limits}
        if group_id is not None:
            body |= {"condition": "stable", "group": group_id, "members": members, "partitions": partitions}
        ask: Callable[..., dict[str, Any]] = self._control.ask
        waits_s = limits.get("timeout_ms", 0) / 1000
        return TimeView(**await asyncio.to_thread(ask, "POST", "/v1/time/run-until", body, waits_s=waits_s))

    def interventions(self) -> list[str]:
        return self.groups.interventions()

    @property
    def ahead_ms(self) -> int:
        return self._time.now().ahead_ms

    def tidy(self) -> None:
        for group_id in self.groups.holding:
            self.groups.release(group_id)
        self._faults.clear()
        self._faults.forget()
        self._time.thaw()
        for node_id in self.nodes.ids():
            if self.nodes.describe(node_id).state == PAUSED:
                self.nodes.resume(node_id)
