"""The control over HTTP of a server in a process of its own, as verbs: what Kafka's own requests cannot do
(docs/rehearsal.md).
"""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

from muster.coordinator.cli.cluster import Cluster
from muster.coordinator.rehearsal import meddling
from muster.coordinator.rehearsal.errors import CannotBeDone, WrongValue
from muster.coordinator.rehearsal.expected import whole
from muster.coordinator.rehearsal.faults.actions import Call
from muster.coordinator.rehearsal.faults.errors import NoSuchFault
from muster.coordinator.rehearsal.faults.rule import Rule
from muster.coordinator.rehearsal.nodes import NodeView
from muster.coordinator.rehearsal.views import GroupView
from muster.coordinator.rehearsal.virtual_time import RanInVain, TimeView
from muster.testing.admin_topics import AdminTopics
from muster.testing.against import AdminGroups, AdminNodes, ClusterVerbs

PATIENCE_S: Final = 60.0
"""How long an answer may take, besides what was asked to be waited for."""


class Control:
    """One server, asked by one request after the other. Raises CannotBeDone and what the answers mean."""

    def __init__(self, address: str) -> None:
        """`address`: HOST:PORT."""
        self._address = address

    def ask(self, method: str, path: str, body: object = None, *, waits_s: float = 0.0) -> dict[str, Any]:
        """What is answered. Raises WrongValue (bad-request), NoSuchFault (not-found), RanInVain (timeout) and
        CannotBeDone.
        """
        connection = http.client.HTTPConnection(self._address, timeout=PATIENCE_S + waits_s)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            told: dict[str, Any] = json.loads(answer.read())
        except OSError as error:
            raise CannotBeDone(f"the control at {self._address} does not answer: {error}") from error
        finally:
            connection.close()
        if answer.status == http.client.OK:
            return told
        code, message = told["error"]["code"], told["error"]["message"]
        raise _RAISED.get(code, CannotBeDone)(message)


_RAISED: Final[Mapping[str, type[Exception]]] = {
    "bad-request": WrongValue,
    "not-found": NoSuchFault,
    "timeout": RanInVain,
}


class ControlledGroups(AdminGroups):
    """Groups, with what only Muster can do."""

    def __init__(self, cluster: Cluster, topics: AdminTopics, control: Control) -> None:
        super().__init__(cluster, topics)
        self._control = control

    def _do(self, group_id: str, verb: str, body: object = None, method: str = "POST") -> dict[str, Any]:
        try:
            return self._control.ask(method, f"/v1/groups/{quote(group_id, safe='')}/{verb}", body)
        except NoSuchFault as missing:
            raise CannotBeDone(str(missing)) from missing

    def describe(self, group_id: str) -> GroupView:
        """With the generation of a classic group, which Kafka's own requests do not tell."""
        view = super().describe(group_id)
        if view.kind != "classic" or view.generation >= 0:
            return view
        try:
            told = self._control.ask("GET", f"/v1/groups/{quote(group_id, safe='')}")
        except NoSuchFault:
            return view
        return replace(view, generation=told["generation"])

    def events(self, group_id: str) -> list[dict[str, Any]]:  # type: ignore[override]  # here there are some
        """See `Groups`, as all below."""
        found: list[dict[str, Any]] = self._told(group_id)["events"]
        return found

    def history(self, group_id: str, *, everything: bool = False) -> list[str]:  # type: ignore[override]  # noqa: ARG002
        """With everything there is to tell or not, as the control has it."""
        found: list[str] = self._told(group_id)["timeline"]
        return found

    def _told(self, group_id: str) -> dict[str, Any]:
        try:
            return self._do(group_id, "history", method="GET")
        except CannotBeDone:
            return {"events": [], "timeline": []}  # there is no such group

    def meddling(self, since: int = 0) -> list[str]:
        """What the test has done to the server."""
        time = self._control.ask("GET", "/v1/time")
        return meddling.told(
            self._control.ask("GET", f"/v1/fault-log?after={since}")["hits"],
            self._control.ask("GET", "/v1/scenarios")["running"],
            is_frozen=time["frozen"],
            ahead_ms=time["ahead_ms"],
        )

    def timeline(self, group_id: str) -> list[str]:
        """For a wait that failed."""
        return self.history(group_id)

    def rebalance(self, group_id: str) -> None:  # type: ignore[override]  # here it can be done
        """Force one."""
        self._do(group_id, "rebalance")

    def expire(self, group_id: str, member: str) -> None:  # type: ignore[override]
        """End a session."""
        self._do(group_id, "expire", {"member": member})

    def hold_joins(self, group_id: str) -> None:  # type: ignore[override]
        """Who joins waits."""
        self._do(group_id, "hold-joins")

    def release(self, group_id: str) -> int:  # type: ignore[override]
        """They go on. How many these were is not told over HTTP: -1."""
        self._do(group_id, "release")
        return -1


class ControlledNodes(AdminNodes):
    """Nodes, with what only Muster can do."""

    def __init__(self, cluster: Cluster, control: Control) -> None:
        super().__init__(cluster)
        self._control = control

    def _rows(self) -> dict[int, dict[str, Any]]:
        return {row["node"]: row for row in self._control.ask("GET", "/v1/nodes")["nodes"]}

    def ids(self) -> list[int]:
        """Those that are down too."""
        return list(self._rows())

    def describe(self, node_id: int) -> NodeView:
        """See `Nodes`, as all below."""
        row = self._rows().get(node_id)
        if row is None:
            raise CannotBeDone(f"there is no node {node_id}")
        values = {name: row[name] for name in ("state", "rack", "connections", "leads", "coordinates")}
        return NodeView(node_id=node_id, addresses=tuple(row["addresses"]), **values)

    def _change(self, node_id: int, verb: str) -> None:
        self._control.ask("POST", f"/v1/nodes/{node_id}/{verb}")

    def stop(self, node_id: int) -> None:  # type: ignore[override]
        """Controlled shutdown."""
        self._change(node_id, "stop")

    def kill(self, node_id: int) -> None:  # type: ignore[override]
        """As by SIGKILL."""
        self._change(node_id, "kill")

    def pause(self, node_id: int) -> None:  # type: ignore[override]
        """As by SIGSTOP."""
        self._change(node_id, "pause")

    def resume(self, node_id: int) -> None:  # type: ignore[override]
        """As by SIGCONT."""
        self._change(node_id, "resume")

    def return_(self, node_id: int) -> None:  # type: ignore[override]
        """Start again."""
        self._change(node_id, "return")


class ControlledTime:
    """The server's time."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def now(self) -> TimeView:
        """See `VirtualTime`, as all below."""
        return TimeView(**self._control.ask("GET", "/v1/time"))

    def freeze(self) -> TimeView:
        """It stands still."""
        return TimeView(**self._control.ask("POST", "/v1/time/freeze"))

    def thaw(self) -> TimeView:
        """It goes on."""
        return TimeView(**self._control.ask("POST", "/v1/time/thaw"))

    def advance(self, ms: int) -> TimeView:
        """So much passes."""
        return TimeView(**self._control.ask("POST", "/v1/time/advance", {"ms": ms}))


class ControlledRule:
    """A rule in force, asked when somebody looks."""

    def __init__(self, control: Control, rule_id: str, told: Mapping[str, Any]) -> None:
        self.id = rule_id
        self._control = control
        self._last = dict(told)

    def to_json(self) -> dict[str, Any]:
        """As it is now, or was last."""
        with suppress(NoSuchFault, CannotBeDone):  # it was taken away
            self._last = self._control.ask("GET", f"/v1/faults/{self.id}")
        return self._last

    @property
    def hits(self) -> int:
        """Requests that it has happened to."""
        return int(self.to_json().get("hits", 0))

    @property
    def held(self) -> int:
        """What it holds."""
        return int(self.to_json().get("held", 0))


class ControlledFaults:
    """The rules of the server. What is a function in Python cannot be sent."""

    def __init__(self, control: Control) -> None:
        self._control = control

    @property
    def log(self) -> ControlledFaults:
        """See `after`."""
        return self

    def after(self, number: int = 0) -> list[dict[str, Any]]:
        """What was hit."""
        found: list[dict[str, Any]] = self._control.ask("GET", f"/v1/fault-log?after={whole('after', number)}")["hits"]
        return found

    @property
    def rules(self) -> list[ControlledRule]:
        """Those that there are."""
        return [
            ControlledRule(self._control, row["id"], row) for row in self._control.ask("GET", "/v1/faults")["rules"]
        ]

    def add(self, match: Any, then: Any, when: Any, *, name: str = "") -> ControlledRule:
        """See `Faults`, as all below."""
        wanted = Rule(match, then, when, name)
        if wanted.match.predicate is not None or wanted.then.name == Call.name:
            raise CannotBeDone("a function in Python cannot be sent to a server in a process of its own")
        shown = wanted.to_json()
        body = {part: shown[part] for part in ("match", "then", "when", "name")}
        found = self._control.ask("POST", "/v1/faults", body)
        return ControlledRule(self._control, found["id"], found)

    def release(self, rule_id: str) -> None:
        """What it holds goes on."""
        self._control.ask("POST", f"/v1/faults/{rule_id}/release")

    def remove(self, rule_id: str) -> None:
        """It is gone; what it counted is remembered by who has it."""
        self._control.ask("DELETE", f"/v1/faults/{rule_id}")

    def clear(self) -> None:
        """All are."""
        self._control.ask("DELETE", "/v1/faults")


class ControlledScenario:
    """A scenario, as it was told last."""

    def __init__(self, told: dict[str, Any]) -> None:
        self._told = told

    def to_json(self) -> dict[str, Any]:
        """As the control tells it."""
        return self._told


class ControlledScenarios:
    """The scenarios of the server."""

    def __init__(self, control: Control) -> None:
        self._control = control

    async def start(self, name: str, parameters: Mapping[str, Any]) -> ControlledScenario:
        """See `Scenarios`, as all below."""
        told = await asyncio.to_thread(self._control.ask, "POST", f"/v1/scenarios/{quote(name, safe='')}", parameters)
        return ControlledScenario(told)

    def find(self, scenario_id: str) -> ControlledScenario:
        """One that runs."""
        return ControlledScenario(self._control.ask("GET", f"/v1/scenarios/{scenario_id}"))

    def end(self, scenario_id: str) -> None:
        """End one."""
        self._control.ask("DELETE", f"/v1/scenarios/{scenario_id}")


class ControlledVerbs(ClusterVerbs):
    """See `verbs.Verbs`."""

    def __init__(self, cluster: Cluster, address: str) -> None:
        super().__init__(cluster)
        self._control = Control(address)
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
