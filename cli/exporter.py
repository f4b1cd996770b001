"""`muster exporter` serves metrics of any Kafka cluster over HTTP. Each scrape reads the cluster again, in a thread."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from muster.cli.cluster_alerts import ClusterAlerts
from muster.cli.cluster_rows import read_cluster
from muster.cli.output import fail, say
from muster.cli.running_server import WRONG
from muster.client.connection import RequestFailed
from muster.client.kafka_client import read_command_config
from muster.client.kept_client import KeptClient
from muster.client.security import ClientSecurity
from muster.coordinator.alerts.book import Alert
from muster.coordinator.alerts.reporting import TOKEN_OF_WEBHOOKS, AlertReports, checked, webhooks_of
from muster.coordinator.config import Config, ConfigError, load
from muster.coordinator.config.listeners import Address, parse_addresses
from muster.coordinator.http.address import DoorAddress, configured, read_token
from muster.coordinator.http.door import Door
from muster.coordinator.http.failure import Failure
from muster.coordinator.http.kafka_metrics import kafka_metrics
from muster.coordinator.http.scrape import Scrapes
from muster.coordinator.server import THIS_MACHINE, stopping_at_signals
from muster.coordinator.server.exposition import GAUGE, Lines, Metric, single
from muster.coordinator.server.process_figures import process_metrics
from muster.coordinator.system.clock import mono_ms, pause_s
from muster.coordinator.system.event_loop import new_event_loop
from muster.coordinator.system.host_names import CannotListen
from muster.coordinator.system.jobs import at_once
from muster.coordinator.system.logging import output
from muster.coordinator.system.wall_time import wall_now_ms
from muster.version import VERSION

COMMAND = "muster exporter"
READ_S: Final = 15.0
"""How often the cluster is read when webhooks are to get alerts."""


def run(options: argparse.Namespace) -> int:
    """Serve until a signal arrives. Exit status: 0 after a signal, 2 for a wrong option, 1: the port is not free."""
    try:
        bootstrap = parse_addresses(options.bootstrap_server, "--bootstrap-server")
        security = read_command_config(options.command_config)
        config = load(file=options.config, in_memory=True)
        address = configured(config, options.http, token_file=options.http_token)
        assert address is not None
        settings = checked(config)
        token = read_token(settings.muster_alerts_token_file, TOKEN_OF_WEBHOOKS)
    except ConfigError as error:
        return fail(COMMAND, error, WRONG)
    log = output.configure(options.log_level or "info")
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_serve(bootstrap, security, address, config, token))
    except CannotListen as error:
        # this import is needed only after a failure
        from muster.cli.serve_messages import cannot_listen

        return fail(COMMAND, cannot_listen(error, "--http"))
    finally:
        log.close()
    return 0


async def _serve(
    bootstrap: Sequence[Address],
    security: ClientSecurity | None,
    address: DoorAddress,
    config: Config,
    token: str | None,
) -> None:
    stop, clock = stopping_at_signals(), THIS_MACHINE.clock()
    settings = checked(config)
    reports = AlertReports(settings, webhooks_of(config, clock, token)) if settings.muster_alerts_enable else None
    reader = ClusterReader(bootstrap, security, reports)
    scrapes = Scrapes(reader.collect)

    async def healthz(_: Request) -> JSONResponse:
        return JSONResponse({"status": "ok", "version": VERSION})

    async def alerts(request: Request) -> JSONResponse:
        found = [] if reports is None else reports.book.open(request.query_params.get("group"))
        return JSONResponse({"alerts": [one.to_json() for one in found]})

    routes = [Route("/healthz", healthz), Route("/metrics", scrapes.answer), Route("/api/v1/alerts", alerts)]
    door = Door(clock, address, routes)
    await door.start()
    reading = asyncio.ensure_future(_read_again_and_again(reader)) if settings.muster_alerts_webhooks else None
    say(f"muster ready {door.http.host}:{door.http.port}")
    sys.stdout.flush()
    await stop.wait()
    if reading is not None:
        reading.cancel()
    if reports is not None:
        reports.stop()
    await door.stop()
    await asyncio.to_thread(reader.close)


async def _read_again_and_again(reader: ClusterReader) -> None:
    """Read the cluster also when nobody scrapes: webhooks are to get alerts."""
    said = ""
    while True:
        try:
            await reader.collect()
            said = ""
        except Failure as failure:
            if str(failure) != said:  # a retry does not say the same again
                said = str(failure)
                say(f"{COMMAND}: {said}", sys.stderr)
        await pause_s(READ_S)


class ClusterReader:
    """Reads the cluster over one client, which connects at the first scrape, and again after a failure."""

    def __init__(
        self, bootstrap: Sequence[Address], security: ClientSecurity | None, reports: AlertReports | None = None
    ) -> None:
        """`reports` gets the alerts about the groups that were read. None means that nobody does."""
        self._reports = reports
        self._alerts = ClusterAlerts()
        self._kept = KeptClient(bootstrap, security)

    async def collect(self) -> list[Metric | Lines]:
        """The present metrics. Raises Failure when the cluster does not answer."""
        try:
            found, alerts, cluster_id = await asyncio.to_thread(self._read)
        except RequestFailed as failure:
            raise Failure("unavailable", str(failure)) from failure
        if self._reports is None:
            return found
        self._reports.take(alerts, cluster_id, wall_now_ms())
        return [*found, *self._reports.metrics()]

    def _read(self) -> tuple[list[Metric | Lines], dict[str | None, list[Alert]], str]:
        began_ms = mono_ms()
        with self._kept.using() as client:
            client.refresh_nodes()
            rows, cluster_id = read_cluster(client), client.cluster_id
            alerts = {} if self._reports is None else self._alerts.judged(rows, wall_now_ms())
        found = at_once(kafka_metrics(cluster_id, rows.brokers, rows.topics, rows.groups))
        about = "How long the cluster took to answer."
        took = single("muster_exporter_read_seconds", GAUGE, about, (mono_ms() - began_ms) / 1000)
        return [*found, took, *process_metrics()], alerts, cluster_id

    def close(self) -> None:
        """Close all connections."""
        self._kept.close()
