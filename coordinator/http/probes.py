"""The probes of a server. `/healthz` says that the process answers, `/readyz` whether all that it leads is served."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from muster.coordinator.server.nodes.running_node import RunningNode
from muster.coordinator.server.server import Server
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from muster.version import VERSION

MAX_SHOWN: Final = 100
"""The most names in a list of `/readyz`."""


def probes(current: Callable[[], Server | None]) -> list[BaseRoute]:
    """The routes. `current` returns the server; None while the node of a cluster is not registered."""

    async def healthz(_: Request) -> JSONResponse:
        return JSONResponse({"status": "ok", "version": VERSION})

    async def readyz(_: Request) -> JSONResponse:
        found = readiness(current())
        return JSONResponse(found, 200 if found["status"] == "ready" else 503)

    return [Route("/healthz", healthz), Route("/readyz", readyz)]


def readiness(server: Server | None) -> dict[str, Any]:
    """The answer of `/readyz`: what is not loaded, and what is offline, by name."""
    if server is None or not server.nodes:
        return {"status": "not ready", "reason": "the node is not registered in its cluster"}
    loading = sorted({name for node in server.nodes for name in _not_loaded(node)})
    offline = sorted(f"{topic}-{index}" for topic, index in server.logs.offline)
    if not loading and not offline:
        return {"status": "ready"}
    return {
        "status": "not ready",
        "not_loaded": loading[:MAX_SHOWN],
        "offline": offline[:MAX_SHOWN],
        "counts": {"not_loaded": len(loading), "offline": len(offline)},
    }


def _not_loaded(node: RunningNode) -> Iterator[str]:
    leaders = node.node.cluster.leaders
    for topic, shards in (
        (GROUP_OFFSETS_TOPIC, node.routing.shards),
        (TRANSACTION_STATE_TOPIC, node.transactions.routing.shards),
    ):
        of_topic = leaders.get(topic, ())
        for shard in shards:
            is_led_here = shard.partition < len(of_topic) and of_topic[shard.partition].broker_id == node.node_id
            if is_led_here and not shard.active:
                yield f"{topic}-{shard.partition}"
