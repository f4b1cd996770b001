"""The HTTP door of a running server: probes, metrics and the API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from muster.coordinator.alerts.settings import AlertSettings
from muster.coordinator.alerts.watching import GroupAlerts
from muster.coordinator.alerts.webhooks import Webhooks
from muster.coordinator.http.address import DoorAddress
from muster.coordinator.http.api import openapi
from muster.coordinator.http.door import Door
from muster.coordinator.http.probes import readiness
from muster.coordinator.http.serving import ServerDoor, door_of
from muster.coordinator.log.errors import DamagedLog, Place
from muster.coordinator.server.metrics import ServerMetrics
from muster.coordinator.system.clock import LoopClock
from muster.coordinator.system.jobs.jobs import AtOnce
from muster.testcontrol.server_control import ServerControl
from tests.coordinator.http.doors import ask
from tests.e2e.aio import consuming
from tests.testcontrol.controls import check
from tests.testcontrol.server import bootstrap, controlled


@asynccontextmanager
async def with_door(**given: Any) -> AsyncIterator[tuple[Door, ServerControl]]:
    async with controlled(**given) as found:
        beside = ServerDoor(DoorAddress("127.0.0.1", 0), found.server, ServerMetrics())
        await beside.start()
        try:
            yield beside.door, found
        finally:
            await beside.stop()


def no_alerts() -> GroupAlerts:
    return GroupAlerts(AlertSettings(), Webhooks([], lambda *_: None, LoopClock(asyncio.get_running_loop()), AtOnce))


async def read(door: Door, path: str, template: str | None = None) -> Any:
    """An answer of the API, checked against its description."""
    status, answer = await ask(door, path)
    assert status == 200, answer
    operation = openapi()["paths"][template or path.partition("?")[0]]["get"]
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
    check(answer, schema, of=openapi())
    return answer


async def test_the_api_has_groups_members_offsets_topics_and_nodes() -> None:
    async with with_door(nodes=2) as (door, found):
        assert (await read(door, "/api/v1/openapi.json"))["openapi"] == "3.1.0"
        assert (await read(door, "/api/v1/server"))["nodes"] == [1, 2]
        nodes = (await read(door, "/api/v1/nodes"))["nodes"]
        assert [(one["node"], one["here"], one["alive"]) for one in nodes] == [(1, True, True), (2, True, True)]
        assert sum(one["leads"] for one in nodes) >= 2
        topics = await read(door, "/api/v1/topics?search=order")
        assert topics == {"topics": [{"topic": "orders", "internal": False, "partitions": 2}], "next": None}
        topic = await read(door, "/api/v1/topics/orders", "/api/v1/topics/{topic}")
        assert [(one["start_offset"], one["end_offset"]) for one in topic["partitions"]] == [(0, 0), (0, 0)]
        async with consuming(bootstrap(found), "orders", group_id="g / 1", client_id="c") as consumer:
            await found.groups.wait_stable("g / 1", members=1, partitions="orders")
            await consumer.commit(dict.fromkeys(consumer.assignment(), 0))
            await _group(door)
        assert (await ask(door, "/api/v1/groups/other"))[0] == 404
        assert (await ask(door, "/api/v1/topics/other"))[0] == 404
        assert (await ask(door, "/api/v1/groups?limit=1001"))[1]["error"]["code"] == "bad-request"


async def _group(door: Door) -> None:
    name = "/api/v1/groups/g%20%2F%201"
    groups = await read(door, "/api/v1/groups?type=classic&state=Stable")
    assert [(one["group"], one["members"]) for one in groups["groups"]] == [("g / 1", 1)]
    assert (await read(door, "/api/v1/groups?type=share"))["groups"] == []
    group = await read(door, name, "/api/v1/groups/{group}")
    assert (group["committed_partitions"], group["lag"], group["state"]) == (2, 0, "Stable")
    members = await read(door, f"{name}/members", "/api/v1/groups/{group}/members")
    assert [one["assignment"] for one in members["members"]] == [{"orders": [0, 1]}]
    first = await read(door, f"{name}/offsets?limit=1", "/api/v1/groups/{group}/offsets")
    assert first["offsets"] == [{"topic": "orders", "partition": 0, "offset": 0, "end_offset": 0, "lag": 0}]
    rest = await read(door, f"{name}/offsets?after={first['next']}", "/api/v1/groups/{group}/offsets")
    assert ([one["partition"] for one in rest["offsets"]], rest["next"]) == ([1], None)


async def test_pages_have_every_group_once() -> None:
    async with with_door() as (door, found):
        core = found.server.routing.shard("x").runtime.core
        assert core is not None
        names = sorted(f"g{number}" for number in range(450))
        for name in names:
            core.state.groups[name] = _SomeGroup()
        seen, path = [], "/api/v1/groups?search=g&limit=200"
        while path:
            page = (await ask(door, path))[1]
            seen += [one["group"] for one in page["groups"]]
            path = page["next"] and f"/api/v1/groups?search=g&limit=200&after={page['next']}"
        assert seen == [name for name in names if found.server.routing.shard(name).runtime.core is core]
        core.state.groups.clear()


class _SomeGroup:
    kind, state, members = "share", "Empty", ()


async def test_probes_name_what_is_not_loaded_and_what_is_offline() -> None:
    async with with_door() as (door, found):
        assert (await ask(door, "/healthz", Host="10.0.0.1:9404"))[1]["status"] == "ok"
        assert await ask(door, "/readyz") == (200, {"status": "ready"})
        server = found.server
        server.routing.shards[3].runtime.drop()
        server.logs.offline["orders", 1] = DamagedLog(Place("orders-1", 0), "of the test")
        expected = {
            "status": "not ready",
            "not_loaded": ["__consumer_offsets-3"],
            "offline": ["orders-1"],
            "counts": {"not_loaded": 1, "offline": 1},
        }
        assert await ask(door, "/readyz") == (503, expected)
        del server.logs.offline["orders", 1]
    assert readiness(None)["status"] == "not ready"


async def test_errors_of_the_door_are_json() -> None:
    async def failing() -> Any:
        raise RuntimeError("a fault")

    door = door_of(DoorAddress("127.0.0.1", 0, "secret"), lambda: None, failing, no_alerts())
    await door.start()
    token = {"Authorization": "Bearer secret"}
    for path, method, code in (
        ("/metrics", "GET", (500, "fault")),
        ("/nothing", "GET", (404, "not-found")),
        ("/metrics", "DELETE", (405, "method-not-allowed")),
        ("/api/v1/groups", "GET", (503, "unavailable")),
    ):
        status, answer = await ask(door, path, method, **token)
        assert (status, answer["error"]["code"]) == code
        assert status != 404 or answer["error"]["message"].endswith("; GET /api/v1/openapi.json says what there is")
    assert (await ask(door, "/metrics"))[0] == 401
    assert (await ask(door, "/readyz"))[0] == 503
    await door.stop()


async def test_a_door_for_figures_has_no_api() -> None:
    async def collect() -> Any:
        return []

    door = door_of(DoorAddress("127.0.0.1", 0, figures_only=True), lambda: None, collect, no_alerts())
    await door.start()
    assert await ask(door, "/metrics", Host="any.example") == (200, "")
    status, answer = await ask(door, "/api/v1/server")
    assert (status, answer["error"]["message"]) == (
        404, "there is no /api/v1/server; there are /healthz, /readyz, /metrics"
    )  # fmt: skip
    await door.stop()
