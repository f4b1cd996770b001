"""`muster serve`: configuration, logging, then the server until a signal ends it."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable

# first, and before structlog: it hides rich, whose import takes 40 ms and 3 MB
from muster.coordinator.system.logging import output  # isort: skip

import structlog

from muster.coordinator import server
from muster.coordinator.config import Config, ConfigError, load
from muster.coordinator.config.listeners import parse_address, show
from muster.coordinator.log.errors import LogError
from muster.coordinator.system.logging.writer import LineWriter, open_standard_files, writer

LOOPBACK = ("127.0.0.1", "::1", "localhost")
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
    """Run the server. Exit status: 0 after SIGTERM, SIGINT or SIGHUP, 2 for a wrong configuration, 1 for another
    failure.
    """
    open_standard_files()
    try:
        config = _load(options)
    except ConfigError as error:
        line_writer = LineWriter(writer(sys.stderr))
        line_writer.put(f"muster serve: {error}")
        line_writer.close()
        return 2
    if options.cluster is not None and options.in_memory:
        print("muster serve: --cluster keeps the log in PostgreSQL, --in-memory nowhere; give one", file=sys.stderr)
        return 2
    if options.cluster is not None and config.nodes > 1:
        print("muster serve: --cluster has one broker in each process, --nodes several; give one", file=sys.stderr)
        return 2
    if options.cluster is not None:
        from muster.cli.cluster import wrong_url

        wrong = wrong_url(options.cluster)
        if wrong is not None:
            print(f"muster serve: --cluster: {wrong}", file=sys.stderr)
            return 2
    control = _control(options)
    if isinstance(control, str):
        print(f"muster serve: {control}", file=sys.stderr)
        return 2
    metrics = _metrics(options)
    if isinstance(metrics, str):
        print(f"muster serve: {metrics}", file=sys.stderr)
        return 2
    if options.check:
        return _check(config, options)
    # the apache/kafka image sets its level this way
    fallback = _LOG4J_LEVELS.get(os.environ.get("KAFKA_LOG4J_ROOT_LOGLEVEL", "").upper(), "info")
    log = output.configure(options.log_level or fallback)
    stdout = LineWriter(writer(sys.stdout))

    def ready(host: str, port: int) -> None:
        for line in _started_lines(config.node_id) if options.started_lines else ():
            stdout.put(line)
        stdout.put(f"muster ready {show(host, port)}")

    try:
        status, last_words = _run(config, options, ready, control, metrics)
    except Exception:  # noqa: BLE001 - said as the interpreter would, but behind all that was logged
        status, last_words = 1, traceback.format_exc().rstrip("\n")
    if last_words:
        log.write(last_words)
    stdout.close()
    log.close()
    return status


def _started_lines(node_id: int) -> tuple[str, ...]:
    """Kafka's log lines of a complete start, with ZooKeeper and without: each tool that starts containers waits for
    one.
    """
    return (
        f"[KafkaServer id={node_id}] started (kafka.server.KafkaServer)",
        f"[BrokerLifecycleManager id={node_id}] The broker has been unfenced. Transitioning from RECOVERY to RUNNING. "
        "(kafka.server.BrokerLifecycleManager)",
        f"[KafkaRaftServer nodeId={node_id}] Kafka Server started (kafka.server.KafkaRaftServer)",
    )


def _control(options: argparse.Namespace) -> tuple[str, int, str | None] | str | None:
    """Host, port and token of the control; None: without control. A text reports what is wrong in the options."""
    if options.control is None:
        for given, name in ((options.control_token, "--control-token"), (options.virtual_time, "--virtual-time")):
            if given:
                return f"{name} means something with --control only"
        return None
    if options.cluster is not None:
        return "--control is for a server under test, --cluster for one of several processes; give one"
    try:
        host, port = parse_address(options.control, "--control")
        token = None if options.control_token is None else options.control_token.read_text(encoding="utf-8").strip()
    except ConfigError as error:
        return str(error)
    except (OSError, UnicodeDecodeError) as error:
        return f"--control-token {options.control_token}: {getattr(error, 'strerror', None) or error}"
    if token == "":
        return f"--control-token {options.control_token}: the file is empty"
    if token is None and host not in LOOPBACK:
        return f"--control {options.control} can be reached from other machines: that needs --control-token FILE"
    return host, port, token


def _metrics(options: argparse.Namespace) -> tuple[str, int] | str | None:
    """Host and port of the metrics; None: without metrics. A text reports what is wrong in the options."""
    if options.metrics is None:
        return None
    if options.control is not None:
        return "--metrics is for a server in use, --control for one under test; give one"
    try:
        return parse_address(options.metrics, "--metrics")
    except ConfigError as error:
        return str(error)


def _check(config: Config, options: argparse.Namespace) -> int:
    from muster.cli.serve_messages import config_summary, mistakes

    for line in config_summary(config, options.config):
        print(line)
    if options.cluster is not None:
        from muster.postgres.url import warnings

        for line in warnings(options.cluster):
            print(f"warning: {line}")
    found = list(mistakes(config))
    for line in found:
        print(f"muster serve: {line}", file=sys.stderr)
    return 2 if found else 0


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
        users=options.user,
        nodes=options.nodes,
        strict=options.strict,
    )


def _run(
    config: Config,
    options: argparse.Namespace,
    ready: Callable[[str, int], None],
    control: tuple[str, int, str | None] | None,
    metrics: tuple[str, int] | None,
) -> tuple[int, str]:
    """The exit status, and what failed."""
    for note in config.notes:
        structlog.get_logger("muster.config").warning(note)
    if config.has_secrets:
        from muster.cli.serve_messages import files_of_others

        for line in files_of_others(config, options.config):
            structlog.get_logger("muster.config").warning(line.removeprefix("warning: "))
    if options.cluster is not None:
        return _run_cluster(config, options, ready, metrics)
    serve: server.Serve = server.serve
    if control is not None:
        # imported here: only servers under test have a control
        from muster.testcontrol.http.server import serving

        serve = serving(*control, starts_frozen=options.virtual_time)
    elif metrics is not None:
        # imported here: most servers serve no metrics
        from muster.coordinator.server.metrics import serving_metrics

        serve = serving_metrics(*metrics)
    try:
        return server.run(config, ready, serve), ""
    except LogError as error:
        return 1, f"muster serve: {error}"
    except OSError as error:
        from muster.cli.serve_messages import start_failure

        return 1, f"muster serve: {start_failure(error, config)}"
    except KeyboardInterrupt:
        # the signal arrived before the server had installed its handler
        return 130, ""


def _run_cluster(
    config: Config, options: argparse.Namespace, ready: Callable[[str, int], None], metrics: tuple[str, int] | None
) -> tuple[int, str]:
    """As `_run`, with the log in a database."""
    from muster.postgres.url import MissingExtra, check

    try:
        check()
    except MissingExtra as error:
        return 1, f"muster serve: {error}"
    from muster.cli.serve_messages import start_failure
    from muster.postgres.local_replica import ReplicaRefused
    from muster.postgres.serving import serving
    from muster.postgres.store import StoreRefused

    try:
        serve = serving(options.cluster, options.cluster_name, options.data_dir, metrics)
        return server.run(config, ready, serve), ""
    except (StoreRefused, ReplicaRefused, LogError) as error:
        return 1, f"muster serve: {error}"
    except OSError as error:
        return 1, f"muster serve: {start_failure(error, config)}"
    except KeyboardInterrupt:
        return 130, ""
