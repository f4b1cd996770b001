"""`muster analyze` runs the data pipeline over a group log. Only this command imports Spark, for all but small logs."""

from __future__ import annotations

import argparse

from muster.cli.output import fail
from muster.client import hints, security
from muster.coordinator.config.checks import ConfigError
from muster.coordinator.config.listeners import parse_addresses, show
from muster.pipeline import arguments

PROG = "muster analyze"
EXTRA = "pip install 'muster-kafka[spark]'"
_OF_SPARK = ("pyspark", "py4j")


def run(options: argparse.Namespace) -> int:
    """Run the command, and return the exit status."""
    try:
        _add_security(options)
        arguments.read(options)  # a wrong argument is reported before the user waits for Spark
    except arguments.BadArgument as error:
        return fail(PROG, error, 2)
    if options.bootstrap_server is not None and (why := _speaks_another(options)) is not None:
        return fail(PROG, why)
    try:
        from muster.pipeline.analyze import analyze

        return analyze(options, PROG)
    except ModuleNotFoundError as error:
        name = error.name or str(error)
        if name.partition(".")[0] in _OF_SPARK:
            return fail(PROG, f"it needs Spark, and {name} is not installed: {EXTRA}")
        return fail(PROG, f"it needs {name}, which is not installed: {EXTRA}; for a small log, [explain] is enough")


def _speaks_another(options: argparse.Namespace) -> str | None:
    """Why servers refuse a client without TLS, if one demands TLS. Spark's error comes seconds later, and says less."""
    name = "kafka.security.protocol="
    protocol = next((one.removeprefix(name) for one in reversed(options.client) if one.startswith(name)), "PLAINTEXT")
    if "SSL" in protocol.upper():
        return None
    try:
        addresses = parse_addresses(options.bootstrap_server, "--bootstrap-server")
    except ConfigError:  # librdkafka also accepts a host without a port, so this is no error
        return None
    if any(hints.speaks_plainly(one) for one in addresses):
        return None
    hint = next(((one, hint) for one in addresses if (hint := hints.of_silence(one, "SASL_PLAINTEXT", None))), None)
    return None if hint is None else f"{show(*hint[0])} cannot be read: {hint[1]}"


def _add_security(options: argparse.Namespace) -> None:
    """Add the settings of --command-config to the client's options. An option -X overrides one. Raises BadArgument."""
    file = options.command_config
    if file is None:
        return
    if options.bootstrap_server is None:
        raise arguments.BadArgument(f"--command-config {file} is for a live cluster: give --bootstrap-server too")
    try:
        given = list(security.librdkafka(security.read(file)))
    except ConfigError as error:
        raise arguments.BadArgument(str(error)) from error
    options.client = [*(f"kafka.{name}={value}" for name, value in given), *options.client]
