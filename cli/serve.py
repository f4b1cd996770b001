"""`muster serve` reads the configuration, sets up logging, and runs the server until a signal arrives."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

# before structlog: this module hides rich from structlog, whose import would cost 40 ms and 3 MB
from muster.coordinator.system.logging import output  # isort: skip

import structlog

from muster.coordinator import server
from muster.coordinator.config import Config, ConfigError, load
from muster.coordinator.config.listeners import parse_address, show
from muster.coordinator.log.errors import LogError
from muster.coordinator.system.logging.writer import LineWriter, open_standard_files, writer

if TYPE_CHECKING:
    from muster.coordinator.http.address import DoorAddress

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
        door = _door(options, config)
        is_watched = _is_watched(config, door)
        is_linted = _is_linted(options, config)
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
        if is_linted:
            status, last_words = _run_linted(config, options, ready, door, stdout.put)
        else:
            status, last_words = _run(config, options, ready, door, is_watched=is_watched)
    except Exception:  # noqa: BLE001  # the traceback is printed as usual, but after all log lines
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


def _door(options: argparse.Namespace, config: Config) -> DoorAddress | None:
    """The HTTP door of the server; None: the server has none. Raises ConfigError."""
    if options.control is None and options.virtual_time:
        raise ConfigError("--virtual-time means something with --control only")
    if options.control is not None and options.cluster is not None:
        raise ConfigError("--control is for a server under test, --cluster for one of several processes; give one")
    asked = [name for name in ("http", "metrics", "control") if getattr(options, name) is not None]
    if len(asked) > 1:
        raise ConfigError(f"{' and '.join(f'--{name}' for name in asked)} are one HTTP door; give one address")
    for name in ("http", "control"):
        if getattr(options, f"{name}_token") is not None and getattr(options, name) is None:
            raise ConfigError(f"--{name}-token means something with --{name} only")
    if not asked and config.value("muster.http.listener") is None:
        return None
    # only servers with a door need this import
    from muster.coordinator.http import address

    token = options.http_token or options.control_token
    if options.metrics is not None:
        return address.DoorAddress(*parse_address(options.metrics, "--metrics"), figures_only=True, option="--metrics")
    text, option = (options.control, "--control") if options.control is not None else (options.http, "--http")
    return address.configured(config, text, option, token)


def _is_watched(config: Config, door: DoorAddress | None) -> bool:
    """Whether webhooks or a collector of metrics are to be called. Raises ConfigError for settings of these."""
    has_collector = any(os.environ.get(f"OTEL_EXPORTER_OTLP_{name}") for name in ("ENDPOINT", "METRICS_ENDPOINT"))
    if door is None and not has_collector and config.value("muster.alerts.webhooks") is None:
        return False
    # only watched servers need these imports
    from muster.coordinator.alerts.reporting import TOKEN_OF_WEBHOOKS, checked
    from muster.coordinator.http.address import read_token
    from muster.coordinator.http.otlp_push import push_of

    settings = checked(config)
    read_token(settings.muster_alerts_token_file, TOKEN_OF_WEBHOOKS)
    push_of(os.environ)
    return has_collector or (settings.muster_alerts_enable and settings.muster_alerts_webhooks is not None)


def _is_linted(options: argparse.Namespace, config: Config) -> bool:
    """Whether the requests of clients are checked. Raises ConfigError."""
    if not options.lint_clients and not config.value("muster.client.lint.enable"):
        return False
    if options.cluster is not None:
        raise ConfigError("--lint-clients is for the brokers of one process, --cluster for several processes; give one")
    return True


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


def _warn(config: Config, options: argparse.Namespace) -> None:
    for note in config.notes:
        structlog.get_logger("muster.config").warning(note)
    if config.has_secrets:
        from muster.cli.serve_messages import files_of_others

        for line in files_of_others(config, options.config):
            structlog.get_logger("muster.config").warning(line.removeprefix("warning: "))


def _run(
    config: Config,
    options: argparse.Namespace,
    ready: Callable[[str, int], None],
    door: DoorAddress | None,
    *,
    is_watched: bool,
) -> tuple[int, str]:
    _warn(config, options)
    if options.cluster is not None:
        return _run_cluster(config, options, ready, door)
    if door is not None and options.control is not None:
        # only servers under test need this import
        from muster.testcontrol.http.server import serving as serving_under_test

        return _serve(config, ready, lambda: serving_under_test(door, starts_frozen=options.virtual_time))
    if door is not None:
        # only servers with a door need this import
        from muster.coordinator.http.serving import serving

        return _serve(config, ready, lambda: serving(door))
    if is_watched:
        # only watched servers need this import
        from muster.coordinator.http.serving import serve_without_door

        return _serve(config, ready, lambda: serve_without_door)
    return _serve(config, ready, lambda: server.serve)


def _run_linted(
    config: Config,
    options: argparse.Namespace,
    ready: Callable[[str, int], None],
    door: DoorAddress | None,
    say: Callable[[str], object],
) -> tuple[int, str]:
    _warn(config, options)
    # only servers that check their clients need this import
    from muster.clientlint.serving import serving

    under_test = options.control is not None
    return _serve(config, ready, lambda: serving(say, door, under_test=under_test, starts_frozen=options.virtual_time))


def _run_cluster(
    config: Config, options: argparse.Namespace, ready: Callable[[str, int], None], door: DoorAddress | None
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
        lambda: serving(options.cluster, options.cluster_name, options.data_dir, door),
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
        advice = getattr(error, "advice", None)
        return 1, f"muster serve: {error}" if advice is None else f"muster serve: {error}; {advice}"
    except OSError as error:
        from muster.cli.serve_messages import start_failure

        return 1, f"muster serve: {start_failure(error, config)}"
    except KeyboardInterrupt:
        # the signal arrived before the event loop had installed its handler
        return 130, ""
