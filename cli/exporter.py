"""`muster exporter` serves metrics of any Kafka cluster over HTTP. Each scrape reads the cluster anew, in a thread."""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from muster.cli.cluster_rows import read_cluster
from muster.cli.output import fail, say
from muster.cli.running_server import WRONG
from muster.client.connection import RequestFailed
from muster.client.kafka_client import KafkaClient, read_command_config
from muster.client.security import ClientSecurity
from muster.coordinator.config import ConfigError, load
from muster.coordinator.config.listeners import Address, parse_addresses
from muster.coordinator.http.address import DoorAddress, configured
from muster.coordinator.http.door import Door
from muster.coordinator.http.failure import Failure
from muster.coordinator.http.kafka_metrics import kafka_metrics
from muster.coordinator.http.scrape import Scrapes
from muster.coordinator.server import THIS_MACHINE, stopping_at_signals
from muster.coordinator.server.exposition import GAUGE, Lines, Metric, single
from muster.coordinator.server.process_figures import process_metrics
from muster.coordinator.system.clock import mono_ms
from muster.coordinator.system.event_loop import new_event_loop
from muster.coordinator.system.host_names import CannotListen
from muster.coordinator.system.jobs import at_once
from muster.coordinator.system.logging import output
from muster.version import VERSION

COMMAND = "muster exporter"


def run(options: argparse.Namespace) -> int:
    """Serve until a signal arrives. Exit status: 0 after a signal, 2 for a wrong option, 1: the port is not free."""
    try:
        bootstrap = parse_addresses(options.bootstrap_server, "--bootstrap-server")
        security = read_command_config(options.command_config)
        config = load(file=options.config, in_memory=True)
        address = configured(config, options.http, token_file=options.http_token)
        assert address is not None
    except ConfigError as error:
        return fail(COMMAND, error, WRONG)
    log = output.configure(options.log_level or "info")
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_serve(ClusterReader(bootstrap, security), address))
    except CannotListen as error:
        return fail(COMMAND, error.strerror or error)
    finally:
        log.close()
    return 0


async def _serve(reader: ClusterReader, address: DoorAddress) -> None:
    stop = stopping_at_signals()
    scrapes = Scrapes(reader.collect)

    async def healthz(_: Request) -> JSONResponse:
        return JSONResponse({"status": "ok", "version": VERSION})

    door = Door(THIS_MACHINE.clock(), address, [Route("/healthz", healthz), Route("/metrics", scrapes.answer)])
    await door.start()
    say(f"muster ready {door.http.host}:{door.http.port}")
    sys.stdout.flush()
    await stop.wait()
    await door.stop()
    await asyncio.to_thread(reader.close)


class ClusterReader:
    """Reads the cluster over one client, which connects at the first scrape, and again after a failure."""

    def __init__(self, bootstrap: Sequence[Address], security: ClientSecurity | None) -> None:
        self._bootstrap = bootstrap
        self._security = security
        self._client: KafkaClient | None = None
        self._lock = threading.Lock()

    async def collect(self) -> list[Metric | Lines]:
        """The present metrics. Raises Failure when the cluster does not answer."""
        try:
            return await asyncio.to_thread(self._read)
        except RequestFailed as failure:
            raise Failure("unavailable", str(failure)) from failure

    def _read(self) -> list[Metric | Lines]:
        began_ms = mono_ms()
        with self._lock:
            try:
                if self._client is None:
                    self._client = KafkaClient(self._bootstrap, self._security)
                self._client.refresh_nodes()
                rows = read_cluster(self._client)
            except RequestFailed:
                self._forget()
                raise
        found = at_once(kafka_metrics(self._client.cluster_id, rows.brokers, rows.topics, rows.groups))
        about = "How long the cluster took to answer."
        return [*found, single("muster_exporter_read_seconds", GAUGE, about, (mono_ms() - began_ms) / 1000),
                *process_metrics()]  # fmt: skip

    def _forget(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            self._forget()
