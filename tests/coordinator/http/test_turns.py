"""No route of the door holds the event loop for long, however many groups there are. Work is counted, not timed.

The routes are those of the door itself, so a new route is measured too. MUSTER_TURN_GROUPS=10000 shows all turns
(`pytest -s`).
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, Final

from muster.coordinator.http.address import DoorAddress
from muster.coordinator.http.console.server_source import ServerSource
from muster.coordinator.http.console.sources import Requester
from muster.coordinator.http.door import Door
from muster.coordinator.http.serving import ServerDoor
from muster.coordinator.security.authorizer import ANONYMOUS
from muster.coordinator.server.metrics import ServerMetrics
from muster.coordinator.server.server import Server
from muster.coordinator.state_machine.interface import Client, Command
from muster.protocol.api import ApiKey
from muster.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.coordinator.http.console.test_console import change, following
from tests.coordinator.http.doors import ask
from tests.testcontrol.server import controlled
from tests.worst.meter import CuttingClock, Meter

GROUPS: Final = int(os.environ.get("MUSTER_TURN_GROUPS", "1500"))
IS_SHOWN: Final = "MUSTER_TURN_GROUPS" in os.environ
MEMBERS: Final = GROUPS // 10
LIMIT: Final = 1_000_000 * GROUPS // 10_000
"""The most instructions of a turn: 10 ms with 10,000 groups. Work that no number of groups changes is much less."""
LARGE: Final = "large"
PLACES: Final = {"group": LARGE, "topic": "orders", "name": "console.js"}


async def fill(server: Server) -> None:
    """Make groups with an offset, and one group with many members."""
    row = OffsetCommitRequestTopic("orders", partitions=[OffsetCommitRequestPartition(0, 0, -1, "")])
    for number in range(GROUPS):
        group = f"g{number}"
        request = OffsetCommitRequest(group, topics=[row])
        command = Command(request, lambda _: None, Client("c", "/127.0.0.1"))
        server.routing.shard(group).runtime.submit(command)
    source, who = ServerSource(lambda: server), Requester(ANONYMOUS, "127.0.0.1")
    for number in range(MEMBERS):
        beat = ConsumerGroupHeartbeatRequest(
            LARGE, f"m{number}", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"], topic_partitions=[]
        )
        answer = await source.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, beat, who, LARGE)
        assert answer.error_code == 0, answer


def _path_of(route: Any) -> str:
    path: str = route.path
    return path


async def get(door: Door, path: str, query: str = "") -> int:
    """Ask a route, and return the status."""
    if path.endswith("/actions"):
        given = {"action": "delete_offsets", "confirm": LARGE, "topic": "orders"}
        return (await change(door, LARGE, given))[0]
    if path == "/console/events":
        async with following(door):
            return 200
    return (await ask(door, path + query))[0]


async def test_no_route_holds_the_event_loop_for_long() -> None:
    meter = Meter()
    meter.explains = IS_SHOWN
    metrics = ServerMetrics()
    worst: dict[str, tuple[int, Any]] = {}
    limits: Any = {"group_max_size": "10000", "group_consumer_max_size": "10000"}
    async with controlled(metrics=metrics, topics=[f"orders:{MEMBERS}"], **limits) as found:
        await fill(found.server)
        beside = ServerDoor(DoorAddress("127.0.0.1", 0, None), found.server, metrics)
        await beside.start()
        door, queue = beside.door, found.server.job_queue
        queue._clock = CuttingClock(queue._clock, meter)
        routes = [re.sub(r"{(\w+)}", lambda name: PLACES[name[1]], _path_of(route)) for route in door._router.routes]
        for path in routes:
            assert await get(door, path) in (200, 409), path  # modules that are imported late are imported now
        with meter.measuring():
            for path in routes:
                meter.reset()
                await get(door, path, "?limit=99")  # not the answer that is kept
                worst[path] = meter.worst, meter.where[:4]
        queue._clock = queue._clock._clock
        await beside.stop()
    assert {"/metrics", "/console/groups", "/api/v1/groups", "/console/groups/large", "/"} <= worst.keys()
    if IS_SHOWN:
        print(json.dumps(sorted(worst.items(), key=lambda one: -one[1][0])))
    assert {path: row for path, row in worst.items() if row[0] > LIMIT} == {}
