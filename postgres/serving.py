"""`muster serve --cluster URL`: register, and serve while the registration is held."""

from __future__ import annotations

import gc
import socket
import sys
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import structlog

from muster.coordinator.config import Config
from muster.coordinator.config.listeners import show
from muster.coordinator.http.address import DoorAddress
from muster.coordinator.net.listener import WILDCARDS
from muster.coordinator.server import SWITCH_S, THIS_MACHINE, stopping_at_signals
from muster.coordinator.system import memory
from muster.postgres.node_lifecycle import NodeLifecycle
from muster.postgres.node_session import NodeSession
from muster.postgres.postgres import PostgresStore
from muster.postgres.settings import ClusterSettings
from muster.postgres.url import warnings

log = structlog.get_logger("muster.cluster")


def serving(
    url: str, name: str, directory: Path | None, door: DoorAddress | None = None
) -> Callable[[Config, Any], Coroutine[Any, Any, None]]:
    """The function that `server.run` calls in place of its own `serve`. `directory`: the place of the local replica;
    None: a temporary directory that is removed at the end. `door`: the HTTP door; None: there is none.
    """

    async def serve(config: Config, ready: Callable[[str, int], None]) -> None:
        with (
            tempfile.TemporaryDirectory(prefix="muster-cluster-")
            if directory is None
            else nullcontext(directory) as place
        ):
            await _serve(url, name, Path(place), door, config, ready)

    return serve


async def _serve(
    url: str,
    name: str,
    directory: Path,
    door: DoorAddress | None,
    config: Config,
    ready: Callable[[str, int], None],
) -> None:
    for warning in warnings(url):
        log.warning(warning)
    stop = stopping_at_signals()
    lease_ms = config.settings(ClusterSettings).broker_session_timeout_ms
    store, reads = [PostgresStore(url, name, timeout_ms=lease_ms // 3) for _ in range(2)]
    machine = THIS_MACHINE
    clock = machine.clock()
    cluster_metrics: Any = None
    if door is not None:
        # imported here: most nodes have no HTTP door
        from muster.postgres.metrics import ClusterMetrics

        cluster_metrics = ClusterMetrics(config, clock, door)
        await cluster_metrics.start()
    doors = {} if cluster_metrics is None else cluster_metrics.doors(_host(config))

    def make_session() -> NodeSession:
        if cluster_metrics is None:
            return NodeSession(config, store, reads, machine, clock, directory, loaded=gc.freeze)
        return NodeSession(
            config, store, reads, machine, clock, directory,
            open_server=cluster_metrics.open_server, loaded=gc.freeze, figures=cluster_metrics.of_cluster, doors=doors,
        )  # fmt: skip

    def serves(server: Any) -> None:
        memory.limit_collections()
        first = server.bound[0]
        ready("localhost" if first.host in WILDCARDS else first.host, first.port)

    sys.setswitchinterval(SWITCH_S)
    node_id = None if config.source("node.id") == "default" else config.node_id
    lifecycle = NodeLifecycle(reads, clock, machine.draw_uuid_text(), _address(config), node_id, lease_ms)
    try:
        await lifecycle.run(make_session, stop, serves)
    finally:
        if cluster_metrics is not None:
            await cluster_metrics.stop()
        await store.close()
        await reads.close()
    log.info("stopped")


def _address(config: Config) -> str:
    first = config.listeners[0]
    return show(_host(config), (first.advertised_port if first.advertised_host else None) or first.port)


def _host(config: Config) -> str:
    first = config.listeners[0]
    return first.advertised_host or (socket.gethostname() if first.host in WILDCARDS else first.host)
