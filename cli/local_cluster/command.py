"""Runs `muster cluster try`. Exit status: 0 after a signal, 1 for a failure, 2 for wrong options."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

from muster.cli.local_cluster.embedded_postgres import EmbeddedPostgres, find_binaries, temporary_folder
from muster.cli.local_cluster.processes import Failed, NodeProcess, ended
from muster.cli.options.servers import LISTEN_OF_TRY
from muster.coordinator import config as config_
from muster.coordinator.config import Config, ConfigError
from muster.coordinator.config.listeners import parse_address, show
from muster.coordinator.log.checkpoints import encode_uuid
from muster.coordinator.log.errors import DirectoryLocked
from muster.coordinator.log.storage.lock import LOCK_FILE, DirectoryLock
from muster.coordinator.system import uuids
from muster.coordinator.system.clock import pause_s
from muster.postgres.store import Identity, StoreAway, StoreRefused

DATABASE: Final = "postgres"
_OWN_FILES: Final = re.compile(rf"{re.escape(LOCK_FILE)}|{DATABASE}(\.new|\.log|\.run)?|node-\d+(\.log)?")
CLUSTER_NAME: Final = "muster"
SESSIONS_OF_A_NODE: Final = 8
"""How many PostgreSQL sessions each node may have; a node needs four."""


@contextmanager
def working_directory(given: Path | None) -> Iterator[Path]:
    """Make and lock the directory `given` until the end. None: use a temporary directory, and remove it at the end.

    Raises `Failed` when the directory is in use, has other files, or cannot be made.
    """
    if given is None:
        made = temporary_folder("muster-try-")
        if os.geteuid() == 0:
            made.chmod(0o711)  # root starts PostgreSQL as another user, who must reach the folder
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)
        return
    try:
        given.mkdir(parents=True, exist_ok=True)
        others = sorted(one.name for one in given.iterdir() if not _OWN_FILES.fullmatch(one.name))
        if others:
            raise Failed(
                f"the directory {given} holds {others[0]}, which is not of a local cluster: give an empty --data-dir"
            )
        lock = DirectoryLock(str(given))
    except DirectoryLocked as error:
        holder = "another process" if error.pid is None else f"the process {error.pid}"
        raise Failed(f"the directory {given} is in use by {holder}: stop it, or give another --data-dir") from error
    except FileExistsError as error:
        raise Failed(f"--data-dir {given} cannot be used: it is a file; give a directory") from error
    except OSError as error:
        raise Failed(f"--data-dir {given} cannot be used: {error.strerror or error}") from error
    try:
        yield given
    finally:
        lock.release()


class Supervisor:
    """Starts, watches and stops the database and the nodes of a local cluster."""

    def __init__(
        self,
        database: EmbeddedPostgres,
        make_tables: Callable[[str], Awaitable[object]],
        make_nodes: Callable[[str], Sequence[NodeProcess]],
        report: Callable[[str], None],
        restart_after_s: float | None,
    ) -> None:
        """`make_tables` and `make_nodes` get the database's URL.

        `report` gets a sentence when a node ends or is ready again. `restart_after_s`: how long after its end a node is
        started again; None: never.
        """
        self._database = database
        self._make_tables = make_tables
        self._make_nodes = make_nodes
        self._report = report
        self._restart_after_s = restart_after_s
        self.nodes: Sequence[NodeProcess] = ()
        self.url = ""

    async def run(self, ready: Callable[[], None]) -> None:
        """Run until cancelled, or until nodes or database have ended. Calls `ready` when all serve. Raises `Failed`."""
        try:
            self.url = url = await self._database.start()
            database = asyncio.create_task(self._database.wait())
            try:
                await self._while_up(database, self._make_tables(url))
                self.nodes = self._make_nodes(url)
                await self._while_up(database, _all(node.start() for node in self.nodes))
                ready()
                await self._while_up(database, _all(self._look_after(node) for node in self.nodes))
            finally:
                database.cancel()
            raise Failed("no node is left")
        finally:
            await asyncio.gather(*(node.stop() for node in self.nodes))
            await self._database.stop()

    def hurry(self) -> None:
        """Stop everything by force; `run` returns soon."""
        for node in self.nodes:
            node.kill()
        self._database.kill()

    async def _while_up(self, database: asyncio.Task[str], work: Awaitable[object]) -> None:
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task, database}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                for node in self.nodes:
                    node.kill()  # a node that stops in order would wait for the database
                words = self._database.last_words()
                raise Failed(f"the database {database.result()}" + (f": {words}" if words else ""))
            task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _look_after(self, node: NodeProcess) -> None:
        while True:
            status = await node.wait()
            what = f"node {node.node_id} ({node.address}) {'has stopped' if status == 0 else ended(status)}"
            why = node.last_words() if status > 0 else ""
            if self._restart_after_s is None:
                others = any(one.is_running for one in self.nodes)
                self._report(
                    f"{what}{why}" + ("; other nodes lead what it led once its lease is over" if others else "")
                )
                return
            self._report(f"{what}{why}; it starts again in {self._restart_after_s:g} s")
            await pause_s(self._restart_after_s)
            try:
                await node.start()
            except Failed as error:
                self._report(f"{error}; it is not started again")
                return
            self._report(f"node {node.node_id} is ready at {node.address} again, process {node.pid}")


async def _all(work: Iterable[Awaitable[None]]) -> None:
    """Await all of `work` at the same time. The first failure cancels the others."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def run(options: argparse.Namespace) -> int:
    """Run the cluster until a signal arrives, and return the exit status."""
    try:
        config = _load(options)
        doors = _doors(options, config)
        if find_spec("asyncpg") is None:
            raise Failed("a cluster needs asyncpg: pip install 'muster-kafka[try]'")
        find_binaries()
        asyncio.run(_run(options, config, doors))
    except ConfigError as error:
        _report(str(error))
        return 2
    except Failed as error:
        _report(str(error))
        return 1
    except KeyboardInterrupt:
        # the signal arrived before the event loop had installed its handler
        return 130
    return 0


async def _run(options: argparse.Namespace, config: Config, doors: Doors | None) -> None:
    # this import needs asyncpg; `run` reports when asyncpg is missing
    signals = _Signals(asyncio.current_task())
    try:
        with working_directory(options.data_dir) as given:
            directory = given.absolute()
            cluster = _cluster(options, config, doors, directory)
            signals.in_a_hurry = cluster.hurry
            _report(f"PostgreSQL and {config.nodes} node{'s' * (config.nodes > 1)} start in {directory}")
            await cluster.run(lambda: _ready(cluster))
    except asyncio.CancelledError:
        _report("all has stopped")
    except (StoreAway, StoreRefused) as error:
        raise Failed(f"the tables cannot be made: {error}") from error
    except OSError as error:
        raise Failed(f"{error.filename or 'a process'} cannot be used: {error.strerror or error}") from error


class _Signals:
    """The first signal cancels the task, which then stops everything in order. The next signal calls `in_a_hurry`."""

    def __init__(self, task: asyncio.Task[Any] | None) -> None:
        self.in_a_hurry: Callable[[], object] = bool
        self._task = task
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, self._heard)

    def _heard(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        else:
            self.in_a_hurry()


def _cluster(options: argparse.Namespace, config: Config, doors: Doors | None, directory: Path) -> Supervisor:
    settings = {"max_connections": str(max(100, 20 + SESSIONS_OF_A_NODE * config.nodes))}
    if options.data_dir is None:
        # temporary data need not survive a crash of the machine
        settings |= {"fsync": "off", "full_page_writes": "off"}
    return Supervisor(
        EmbeddedPostgres(directory / DATABASE, settings),
        lambda url: _make_tables(url, config),
        lambda url: _make_nodes(url, options, config, doors, directory),
        _report,
        options.restart_after,
    )


def _ready(cluster: Supervisor) -> None:
    for node in cluster.nodes:
        _report(f"node {node.node_id} is ready at {node.address}, process {node.pid}, log {node.log_path}")
    _report(f"see also: muster cluster status '{cluster.url}'")
    print(f"muster ready {','.join(node.address for node in cluster.nodes)}", flush=True)


def _load(options: argparse.Namespace) -> Config:
    """The configuration of all nodes; `Config.of_node` makes the configuration of one node. Raises ConfigError."""

    def load(listen: str | None) -> Config:
        return config_.load(
            file=options.config, environment=os.environ, overrides=options.override, listen=listen,
            advertise=options.advertise, data_dir=options.data_dir, topics=options.topic, users=options.user,
            nodes=options.nodes,
        )  # fmt: skip

    config = load(options.listen)
    return load(LISTEN_OF_TRY) if config.source("listeners") == "default" else config


class Doors(NamedTuple):
    """The HTTP doors of all nodes. The first node has `port`, the others have the ports after it."""

    option: str
    scheme: str
    """`http://`, `https://` or nothing."""
    host: str
    port: int
    token: Path | None = None

    def of(self, place: int) -> list[str]:
        """The options of a node."""
        words = [self.option, f"{self.scheme}{show(self.host, self.port and self.port + place)}"]
        return words if self.token is None else [*words, f"{self.option}-token", str(self.token)]


def _doors(options: argparse.Namespace, config: Config) -> Doors | None:
    """The doors that the options ask for; None: they ask for none. Raises ConfigError."""
    if options.http is not None and options.metrics is not None:
        raise ConfigError("--http and --metrics are one HTTP door; give one address")
    if options.http is None and options.http_token is not None:
        raise ConfigError("--http-token means something with --http only")
    option = "--metrics" if options.http is None else "--http"
    text = options.metrics if options.http is None else options.http
    if text is None:
        return None
    before, separator, rest = text.rpartition("://") if option == "--http" else ("", "", text)
    host, port = parse_address(rest, option)
    wanted = {port + place for place in range(config.nodes)} if port else set()
    taken = {one.port for place in range(config.nodes) for one in config.of_node(place).listeners}
    if wanted & taken:
        raise ConfigError(
            f"{option} {text}: {config.nodes} nodes need {config.nodes} ports from there on, and clients "
            f"connect to {min(wanted & taken)}; give another port"
        )
    if wanted and max(wanted) > 65535:
        raise ConfigError(f"{option} {text}: the ports of {config.nodes} nodes from {port} on are too many")
    return Doors(option, before + separator, host, port, options.http_token)


async def _make_tables(url: str, config: Config) -> None:
    # this import needs asyncpg; `run` reports when asyncpg is missing
    from muster.postgres import administration

    cluster_id = config.cluster_id or encode_uuid(uuids.draw_uuid())
    await administration.init(url, CLUSTER_NAME, Identity(cluster_id, encode_uuid(uuids.draw_uuid())))


def _make_nodes(
    url: str, options: argparse.Namespace, config: Config, doors: Doors | None, directory: Path
) -> Sequence[NodeProcess]:
    return [
        NodeProcess(
            config.of_node(place).node_id,
            [
                *("--cluster", url, "--cluster-name", CLUSTER_NAME),
                *("--data-dir", str(directory / f"node-{place + 1}")),
                *_same_for_all(options),
                *_of_its_own(config, place),
                *([] if doors is None else doors.of(place)),
            ],
            directory / f"node-{place + 1}.log",
        )
        for place in range(config.nodes)
    ]


def _same_for_all(options: argparse.Namespace) -> list[str]:
    words = ["--config", str(options.config)] if options.config is not None else []
    words += ["--log-level", options.log_level] if options.log_level is not None else []
    for name in ("override", "topic", "user"):
        words += [word for given in getattr(options, name) for word in (f"--{name}", given)]
    return words


def _of_its_own(config: Config, place: int) -> list[str]:
    """The properties that only one node has. They override the properties of all nodes."""
    given = config.of_node(place).given
    own = {"node.id": str(config.node_id + place), "broker.id": str(config.node_id + place), "muster.nodes": "1"}
    own |= {name: given[name] for name in ("listeners", "advertised.listeners", "broker.rack") if name in given}
    if "muster.nodes.racks" in given:
        own["muster.nodes.racks"] = ""
    return [word for name, value in own.items() for word in ("--override", f"{name}={value}")]


def _report(sentence: str) -> None:
    print(f"muster cluster try: {sentence}", file=sys.stderr, flush=True)
