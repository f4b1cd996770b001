"""`muster serve` reads the configuration, sets up logging, and runs the server until a signal arrives."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable

# before structlog: this module hides rich from structlog, whose import would cost 40 ms and 3 MB
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
    """Run the server. Exit status: 0 after a signal, 2 for a wrong configuration, 1 for another failure."""
    open_standard_files()
    try:
        config = _load(options)
        _check_cluster(options, config)
        control, metrics = _control(options), _metrics(options)
    except ConfigError as error:
        line_writer = LineWriter(writer(sys.stderr))
        line_writer.put(f"muster serve: {error}")
        line_writer.close()
        return 2
    if options.check:
        return _check(config, options)
    # users of the apache/kafka image set the log level with this variable
    fallback = _LOG4J_LEVELS.get(os.environ.get("KAFKA_LOG4J_ROOT_LOGLEVEL", "").upper(), "info")
    log = output.configure(options.log_level or fallback)
    stdout = LineWriter(writer(sys.stdout))

    def ready(host: str, port: int) -> None:
        for line in _started_lines(config.node_id) if options.started_lines else ():
            stdout.put(line)
        stdout.put(f"muster ready {show(host, port)}")

    try:
        status, last_words = _run(config, options, ready, control, metrics)
    except Exception:  # noqa: BLE001 - the traceback is printed as usual, but after all log lines
        status, last_words = 1, traceback.format_exc().rstrip("\n")
    if last_words:
        log.write(last_words)
    stdout.close()
    log.close()
    return status


def _started_lines(node_id: int) -> tuple[str, ...]:
    """Kafka's log lines after a complete start. Tools that start Kafka in containers wait for one of these lines."""
    return (
        f"[KafkaServer id={node_id}] started (kafka.server.KafkaServer)",
        f"[BrokerLifecycleManager id={node_id}] The broker has been unfenced. Transitioning from RECOVERY to RUNNING. "
        "(kafka.server.BrokerLifecycleManager)",
        f"[KafkaRaftServer nodeId={node_id}] Kafka Server started (kafka.server.KafkaRaftServer)",
    )


def _check_cluster(options: argparse.Namespace, config: Config) -> None:
    if options.cluster is None:
        return
    from muster.cli.cluster import wrong_url

    if options.in_memory:
        raise ConfigError("--cluster keeps the log in PostgreSQL, --in-memory nowhere; give one")
    if config.nodes > 1:
        raise ConfigError("--cluster has one broker in each process, --nodes several; give one")
    wrong = wrong_url(options.cluster)
    if wrong is not None:
        raise ConfigError(f"--cluster: {wrong}")


def _control(options: argparse.Namespace) -> tuple[str, int, str | None] | None:
    """Host, port and token of the test control; None: the server has no test control. Raises ConfigError."""
    if options.control is None:
        for given, name in ((options.control_token, "--control-token"), (options.virtual_time, "--virtual-time")):
            if given:
                raise ConfigError(f"{name} means something with --control only")
        return None
    if options.cluster is not None:
        raise ConfigError("--control is for a server under test, --cluster for one of several processes; give one")
    host, port = parse_address(options.control, "--control")
    file, token = options.control_token, None
    if file is not None:
        try:
            token = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"--control-token {file}: {getattr(error, 'strerror', None) or error}") from error
    if token == "":
        raise ConfigError(f"--control-token {file}: the file is empty")
    if token is None and host not in LOOPBACK:
        raise ConfigError(
            f"--control {options.control} can be reached from other machines: that needs --control-token FILE"
        )
    return host, port, token


def _metrics(options: argparse.Namespace) -> tuple[str, int] | None:
    """Host and port for metrics; None: the server has no metrics. Raises ConfigError."""
    if options.metrics is None:
        return None
    if options.control is not None:
        raise ConfigError("--metrics is for a server in use, --control for one under test; give one")
    return parse_address(options.metrics, "--metrics")


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
    for note in config.notes:
        structlog.get_logger("muster.config").warning(note)
    if config.has_secrets:
        from muster.cli.serve_messages import files_of_others

        for line in files_of_others(config, options.config):
            structlog.get_logger("muster.config").warning(line.removeprefix("warning: "))
    if options.cluster is not None:
        return _run_cluster(config, options, ready, metrics)
    if control is not None:
        # only servers under test need this import
        from muster.testcontrol.http.server import serving

        return _serve(config, ready, lambda: serving(*control, starts_frozen=options.virtual_time))
    if metrics is not None:
        # only servers with metrics need this import
        from muster.coordinator.server.metrics import serving_metrics

        return _serve(config, ready, lambda: serving_metrics(*metrics))
    return _serve(config, ready, lambda: server.serve)


def _run_cluster(
    config: Config, options: argparse.Namespace, ready: Callable[[str, int], None], metrics: tuple[str, int] | None
) -> tuple[int, str]:
    from muster.postgres.url import MissingExtra, check

    try:
        check()
    except MissingExtra as error:
        return 1, f"muster serve: {error}"
    from muster.postgres.local_replica import ReplicaRefused
    from muster.postgres.serving import serving
    from muster.postgres.store import StoreRefused

    return _serve(
        config,
        ready,
        lambda: serving(options.cluster, options.cluster_name, options.data_dir, metrics),
        (LogError, StoreRefused, ReplicaRefused),
    )


def _serve(
    config: Config,
    ready: Callable[[str, int], None],
    make: Callable[[], server.Serve],
    refusals: tuple[type[Exception], ...] = (LogError,),
) -> tuple[int, str]:
    try:
        return server.run(config, ready, make()), ""
    except refusals as error:
        return 1, f"muster serve: {error}"
    except OSError as error:
        from muster.cli.serve_messages import start_failure

        return 1, f"muster serve: {start_failure(error, config)}"
    except KeyboardInterrupt:
        # the signal arrived before the event loop had installed its handler
        return 130, ""
