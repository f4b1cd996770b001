"""The verbs of a server with a test control. Verbs on groups and nodes use Kafka's own requests where that is possible,
otherwise the test control.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

from muster.client.kafka_client import KafkaClient
from muster.coordinator.server.group_views import GroupView
from muster.testcontrol import checks
from muster.testcontrol.errors import CannotBeDone, NoSuchFault, intervention_lines
from muster.testcontrol.nodes import NodeView
from muster.testcontrol.virtual_time import TimeView
from muster.testing.admin_topics import AdminTopics
from muster.testing.against import AdminGroups, AdminNodes, ClusterVerbs
from muster.testing.controlled_faults import Control, ControlledFaults, ControlledScenarios, ControlledTime
from muster.testing.controlled_topics import ControlledTopics


class ControlledGroups(AdminGroups):
    """The verbs on groups, also those that only Muster has."""

    def __init__(self, cluster: KafkaClient, topics: AdminTopics, control: Control, faults: ControlledFaults) -> None:
        super().__init__(cluster, topics)
        self._control = control
        self._faults = faults
        self.holding: set[str] = set()
        """The groups whose joins are held."""
        self.holding_acknowledgements: set[str] = set()

    def _do(self, group_id: str, verb: str, body: object = None, method: str = "POST") -> dict[str, Any]:
        try:
            return self._control.ask(method, f"/v1/groups/{quote(group_id, safe='')}/{verb}", body)
        except NoSuchFault as missing:
            raise CannotBeDone(str(missing)) from missing

    def ids(self) -> list[str]:
        return sorted(row["group"] for row in self._control.ask("GET", "/v1/groups")["groups"])

    def _row(self, group_id: str) -> dict[str, Any]:
        return self._control.ask("GET", f"/v1/groups/{quote(group_id, safe='')}")

    def describe(self, group_id: str) -> GroupView:
        return GroupView.of_fields(self._row(group_id)["view"])

    def events(self, group_id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._history_of(group_id)["events"]
        return found

    def history(self, group_id: str, *, everything: bool = False) -> list[str]:
        found: list[str] = self._history_of(group_id, everything=everything)["timeline"]
        return found

    def _history_of(self, group_id: str, *, everything: bool = False) -> dict[str, Any]:
        try:
            return self._do(group_id, f"history?everything={int(everything)}", method="GET")
        except CannotBeDone:
            return {"events": [], "timeline": []}  # the group does not exist

    async def wait_held(self, group_id: str, joins: int, *, timeout_s: float) -> GroupView:
        checks.whole("joins", joins)

        def holds(_: GroupView) -> bool:
            return int(self._row(group_id)["waiting"]) >= joins

        return await self._wait(group_id, holds, f"{joins} joins are held", timeout_s)

    def remove(self, group_id: str, member: str) -> None:
        self._do(group_id, "remove", {"member": member})

    def interventions(self) -> list[str]:
        time = self._control.ask("GET", "/v1/time")
        return intervention_lines(
            self._faults.after(),
            self._control.ask("GET", "/v1/scenarios")["running"],
            is_frozen=time["frozen"],
            ahead_ms=time["ahead_ms"],
        )

    def timeline(self, group_id: str) -> list[str]:
        return self.history(group_id, everything=True)

    def rebalance(self, group_id: str) -> None:
        self._do(group_id, "rebalance")

    def expire(self, group_id: str, member: str) -> None:
        self._do(group_id, "expire", {"member": member})

    def hold_joins(self, group_id: str) -> None:
        self._do(group_id, "hold-joins")
        self.holding.add(group_id)

    def release(self, group_id: str) -> int:
        released = int(self._do(group_id, "release")["released"])
        self.holding.discard(group_id)
        return released

    def wait_acknowledgements_held(self, group_id: str, requests: int, *, timeout_s: float) -> Any:
        checks.whole("requests", requests)

        def holds(_: GroupView) -> bool:
            return int(self._row(group_id)["acknowledgements_waiting"]) >= requests

        what = f"{requests} requests with acknowledgements are held"
        return self._wait(group_id, holds, what, timeout_s)

    def hold_acknowledgements(self, group_id: str) -> None:
        self._do(group_id, "hold-acknowledgements")
        self.holding_acknowledgements.add(group_id)

    def release_acknowledgements(self, group_id: str) -> int:
        released = int(self._do(group_id, "release-acknowledgements")["released"])
        self.holding_acknowledgements.discard(group_id)
        return released

    def expire_locks(self, group_id: str, member: str | None = None, **where: Any) -> int:
        given = {name: value for name, value in {"member": member, **where}.items() if value is not None}
        return int(self._do(group_id, "expire-locks", given)["records"])

    def deliver_again(self, group_id: str, topic: str, partition: int, offset: int) -> None:
        self._do(group_id, "deliver-again", {"topic": topic, "partition": partition, "offset": offset})


class ControlledNodes(AdminNodes):
    """The verbs on nodes, also those that only Muster has."""

    def __init__(self, cluster: KafkaClient, control: Control) -> None:
        super().__init__(cluster)
        self._control = control

    def _rows(self) -> dict[int, dict[str, Any]]:
        return {row["node"]: row for row in self._control.ask("GET", "/v1/nodes")["nodes"]}

    def coordinator_of(self, group_id: str) -> int:
        found = self._control.ask("GET", f"/v1/groups/{quote(group_id, safe='')}")["coordinator"]
        return int(found)

    def ids(self) -> list[int]:
        return list(self._rows())

    def describe(self, node_id: int) -> NodeView:
        row = self._rows().get(node_id)
        if row is None:
            raise CannotBeDone(f"there is no node {node_id}")
        values = {name: row[name] for name in ("state", "rack", "connections", "leads", "coordinates")}
        return NodeView(node_id=node_id, addresses=tuple(row["addresses"]), **values)

    def _change(self, node_id: int, verb: str) -> None:
        self._control.ask("POST", f"/v1/nodes/{node_id}/{verb}")

    def stop(self, node_id: int) -> None:
        self._change(node_id, "stop")

    def kill(self, node_id: int) -> None:
        self._change(node_id, "kill")

    def pause(self, node_id: int) -> None:
        self._change(node_id, "pause")

    def resume(self, node_id: int) -> None:
        self._change(node_id, "resume")

    def return_(self, node_id: int) -> None:
        self._change(node_id, "return")


PAUSED: Final = "paused"


class ControlledVerbs(ClusterVerbs):
    """The `verbs.Verbs` of a server with a test control."""

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
    def faults(self) -> ControlledFaults:
        return self._faults

    @property
    def scenarios(self) -> ControlledScenarios:
        return self._scenarios

    @property
    def time(self) -> ControlledTime:
        return self._time

    async def run_until(self, group_id: str | None, members: int | None, partitions: Any, **limits: int) -> TimeView:
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
        for group_id in list(self.groups.holding):
            self.groups.release(group_id)
        for group_id in list(self.groups.holding_acknowledgements):
            self.groups.release_acknowledgements(group_id)
        self._faults.clear()
        self._faults.forget()
        self._time.thaw()
        for node_id in self.nodes.ids():
            if self.nodes.describe(node_id).state == PAUSED:
                self.nodes.resume(node_id)
