"""`muster console` serves the console of a Kafka cluster over HTTP, until a signal arrives."""

from __future__ import annotations

import argparse
import asyncio
import sys

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from muster.cli.console.cluster_source import ClusterSource
from muster.cli.console.past import PastRebalances
from muster.cli.output import fail, say
from muster.cli.running_server import WRONG
from muster.client.kafka_client import read_command_config
from muster.coordinator.config import ConfigError, load
from muster.coordinator.config.listeners import parse_addresses, show
from muster.coordinator.http.address import DoorAddress, configured
from muster.coordinator.http.console.routes import Console
from muster.coordinator.http.door import Door
from muster.coordinator.server import THIS_MACHINE, stopping_at_signals
from muster.coordinator.system.event_loop import new_event_loop
from muster.coordinator.system.host_names import CannotListen
from muster.coordinator.system.logging import output
from muster.version import VERSION

COMMAND = "muster console"


def run(options: argparse.Namespace) -> int:
    """Serve until a signal arrives. Exit status: 0 after a signal, 2 for a wrong option, 1: the port is not free."""
    try:
        bootstrap = parse_addresses(options.bootstrap_server, "--bootstrap-server")
        security = read_command_config(options.command_config)
        address = configured(load(file=options.config, in_memory=True), options.http, token_file=options.http_token)
        assert address is not None
        past = None if options.tables is None else PastRebalances(options.tables)
        missing = None if past is None else past.missing()
        if missing is not None:
            raise ConfigError(missing)
    except ConfigError as error:
        return fail(COMMAND, error, WRONG)
    log = output.configure(options.log_level or "info")
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_serve(ClusterSource(bootstrap, security, past), address))
    except CannotListen as error:
        # this import is needed only after a failure
        from muster.cli.serve_messages import cannot_listen

        return fail(COMMAND, cannot_listen(error, "--http"))
    finally:
        log.close()
    return 0


async def _serve(source: ClusterSource, address: DoorAddress) -> None:
    stop = stopping_at_signals()

    async def healthz(_: Request) -> JSONResponse:
        return JSONResponse({"status": "ok", "version": VERSION})

    clock = THIS_MACHINE.clock()
    console = Console(source, clock)
    door = Door(clock, address, [Route("/healthz", healthz), *console.routes()], console)
    await door.start()
    scheme = "http" if address.tls is None else "https"
    say(f"muster ready {scheme}://{show(door.http.host, door.http.port)}/")
    sys.stdout.flush()
    await stop.wait()
    await door.stop()
