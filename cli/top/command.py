"""`muster top` shows the groups of a cluster on the terminal until the user quits."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from muster.cli.output import fail
from muster.cli.running_server import WRONG
from muster.client.kafka_client import read_command_config
from muster.coordinator.config import ConfigError
from muster.coordinator.config.listeners import parse_addresses, show

COMMAND: Final = "muster top"
LEAST_S: Final = 0.5


def run(options: argparse.Namespace) -> int:
    """Run `muster top`, and return the exit status."""
    try:
        bootstrap = parse_addresses(options.bootstrap_server, "--bootstrap-server")
        security = read_command_config(options.command_config)
        if options.interval < LEAST_S:
            raise ConfigError(f"--interval {options.interval:g}: {LEAST_S:g} seconds or more were expected")
    except ConfigError as error:
        return fail(COMMAND, error, WRONG)
    try:
        # only this command needs Textual, of the extra
        from muster.cli.top.app import TopApp
    except ModuleNotFoundError as error:
        return fail(COMMAND, f"{error.name} is not installed: pip install 'muster-kafka[top]'")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return fail(COMMAND, "this needs a terminal; muster groups list prints the groups once")
    from muster.cli.top.reader import ClusterReader

    reader = ClusterReader(bootstrap, security)
    first = bootstrap[0]
    try:
        TopApp(reader, show(first.host, first.port), options.interval).run()
    finally:
        reader.close()
    return 0
