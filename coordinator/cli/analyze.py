"""`muster analyze`: the data pipeline over a group log. Needs Spark, which is imported only for this command."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from muster.pipeline import arguments

PROG = "muster analyze"
EXTRA = "pip install 'muster-kafka[spark]'"


def add_parser(commands: Any) -> None:
    """Add `analyze` to the commands of `muster`."""
    parser = commands.add_parser(
        "analyze",
        help="tell from a group log what the groups did, and what they would have done (needs Spark)",
        description=arguments.ABOUT,
        epilog=arguments.EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    arguments.add_options(parser)
    parser.add_argument(
        "--command-config", type=Path, metavar="FILE", help="a client.properties as Kafka's tools have it: TLS, SASL"
    )


def run(options: argparse.Namespace) -> int:
    """Run what was asked for; the exit status."""
    try:
        _add_security(options)
        arguments.read(options)  # before Spark is waited for
    except arguments.BadArgument as error:
        print(f"{PROG}: {error}", file=sys.stderr)
        return 2
    try:
        from muster.pipeline.analyze import analyze
    except ImportError as error:
        print(f"{PROG}: it needs Spark, and {error.name or error} is not there: {EXTRA}", file=sys.stderr)
        return 1
    return analyze(options, PROG)


def _add_security(options: argparse.Namespace) -> None:
    """What --command-config says, as options of the client; those of -X count more. Raises BadArgument."""
    file = options.command_config
    if file is None:
        return
    if options.bootstrap_server is None:
        raise arguments.BadArgument(f"--command-config {file} is for a live cluster: give --bootstrap-server too")
    from muster.coordinator.cli import client_security
    from muster.coordinator.config.error import ConfigError

    try:
        given = list(client_security.librdkafka(client_security.read(file)))
    except ConfigError as error:
        raise arguments.BadArgument(str(error)) from error
    options.client = [*(f"kafka.{name}={value}" for name, value in given), *options.client]
