"""`muster serve`: configuration, logging, then the server until a signal ends it."""

from __future__ import annotations

import argparse
import os
import sys

from muster.coordinator.config import Config, ConfigError, load
from muster.coordinator.config.listeners import show

_LOG4J_LEVELS = {
    "TRACE": "debug",
    "DEBUG": "debug",
    "INFO": "info",
    "WARN": "warning",
    "ERROR": "error",
    "FATAL": "error",
    "OFF": "error",
}


def serve(options: argparse.Namespace) -> int:
    """Run the server. Exit status: 0 after SIGTERM or SIGINT, 2 for a wrong configuration, 1 for another failure."""
    try:
        config = _load(options)
    except ConfigError as error:
        return _fail(str(error), 2)
    from muster.coordinator import log_output

    # the apache/kafka image sets its level so
    fallback = _LOG4J_LEVELS.get(os.environ.get("KAFKA_LOG4J_ROOT_LOGLEVEL", "").upper(), "info")
    log_output.configure(options.log_level or fallback)
    return _run(config)


def _load(options: argparse.Namespace) -> Config:
    return load(
        file=options.config,
        environment=os.environ,
        overrides=options.override,
        listen=options.listen,
        advertise=options.advertise,
        data_dir=options.data_dir,
        in_memory=options.in_memory,
        topics=options.topic,
    )


def _run(config: Config) -> int:
    import structlog

    from muster.coordinator import server
    from muster.coordinator.log.errors import LogError

    for note in config.notes:
        structlog.get_logger("muster.config").warning(note)
    try:
        return server.run(config, _ready)
    except LogError as error:
        return _fail(str(error), 1)
    except OSError as error:
        from muster.coordinator.cli.failure import sentence

        return _fail(sentence(error, config), 1)
    except KeyboardInterrupt:
        # pressed before the server had taken the signal over
        return 130


def _ready(host: str, port: int) -> None:
    """The one line on stdout, for whoever waits for it."""
    try:
        print(f"muster ready {show(host, port)}", flush=True)
    except OSError:
        # nobody reads stdout; clients can connect all the same
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # or the interpreter would fail again on its way out


def _fail(message: str, status: int) -> int:
    print(f"muster serve: {message}", file=sys.stderr)
    return status
