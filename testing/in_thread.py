"""Runs a server in a thread of this process, with an event loop of its own.

A process that a test forks gets copies of the servers' sockets, and closes these copies. Otherwise a connection would
stay open after the server has closed it. The server also could not bind its port again.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from muster.coordinator.config.listeners import show
from muster.coordinator.server import Server
from muster.coordinator.system.event_loop import new_event_loop
from muster.testcontrol.errors import CannotBeDone
from muster.testcontrol.machine import ControlledMachine
from muster.testcontrol.server_control import ServerControl
from muster.testing import server_lines
from muster.testing.loop_bridge import FORKED, Lifecycle, LoopBridge, LoopThread
from muster.testing.server_lines import ServerLines
from muster.testing.settings import Given, config_of, ports_to_keep
from muster.testing.verbs import Verbs

Descriptors = Callable[[], Iterable[int]]

_SERVERS: dict[int, Descriptors] = {}


def close_in_forks(server: object, descriptors: Descriptors) -> None:
    """From now on, each forked process closes its copies of this server's sockets."""
    if not _SERVERS and not _is_registered:
        os.register_at_fork(after_in_child=_give_up)
        _is_registered.append(True)
    _SERVERS[id(server)] = descriptors


def forget_server(server: object) -> None:
    """From now on, forked processes do nothing about this server, because it has ended."""
    _SERVERS.pop(id(server), None)


_is_registered: list[bool] = []


def _give_up() -> None:
    """Close the copies in a forked process. Objects still use the numbers of the sockets, so each number becomes
    /dev/null.
    """
    found = {one for descriptors in _SERVERS.values() for one in descriptors() if one >= 0}
    _SERVERS.clear()
    if not found:
        return
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for descriptor in found:
        with suppress(OSError):
            os.dup2(nothing, descriptor, inheritable=False)
    os.close(nothing)


LOOPBACK: Final = "127.0.0.1"
"""The address at which clients on this machine reach a server that listens on all addresses."""


class InThread:
    """A `verbs.Runner` with its server in a thread."""

    def __init__(self, given: Given, directory: Path | None, seed: int | None) -> None:
        """Check the settings. Raises ConfigError."""
        self.bridge = LoopBridge()
        self.lines = ServerLines()
        self.bootstrap_servers = ""
        self._given = given
        self._directory = directory
        self._machine = ControlledMachine(seed)
        self._control: ServerControl | None = None
        self._thread: LoopThread | None = None
        self._ports: list[int] = []
        """The ports that the previous server got for listeners with port 0."""
        self._life = Lifecycle()
        self._failure: BaseException | None = None
        """The exception that test code in a rule has raised. It is kept after the server has ended."""
        # a wrong setting is reported now, not when the server starts
        config_of(given, directory)

    @property
    def is_running(self) -> bool:
        return self._control is not None and not self._life.is_elsewhere

    def start(self) -> None:
        with self._life.changing():
            if self._thread is not None:
                raise CannotBeDone("the server runs already")
            config = config_of(self._given, self._directory)
            self._machine.ports = list(self._ports)
            control = ServerControl(config, machine=self._machine)
            thread = self._thread = LoopThread(new_event_loop, "muster")
            self.bridge.open(thread.start(lambda: server_lines.keep(self.lines), server_lines.keep_no_more))
            try:
                thread.run(control.server.start())
            except BaseException:
                self._end()
                raise
            self._control = control
            self._life.began()
            close_in_forks(control, lambda: _descriptors(control.server))
            bound = [node.bound for node in control.server.nodes]
            self._ports = ports_to_keep(config, [[one.port for one in some] for some in bound])
            self.bootstrap_servers = ",".join(show(some[0].host or LOOPBACK, some[0].port) for some in bound)

    def stop(self) -> None:
        if self._life.is_elsewhere:
            return  # only the process that owns the server stops it
        with self._life.changing():
            if self._control is not None:
                self._finish(stop)

    def kill(self) -> None:
        with self._life.changing():
            self._finish(die)

    def _finish(self, how: Callable[[ServerControl], Any]) -> None:
        control, thread = self._control, self._thread
        if control is None or thread is None:
            raise CannotBeDone("the server does not run")
        self._failure = self.take_failure()
        self._control = None
        try:
            thread.run(how(control))
        finally:
            forget_server(control)
            self._end()

    def _end(self) -> None:
        self.bridge.close()
        if self._thread is not None:
            self._thread.end()
            self._thread = None
        self._life.ended()

    def take_failure(self) -> BaseException | None:
        failure, self._failure = self._failure, None
        control = self._control
        if failure is None and control is not None and self.is_running:
            failure = self.bridge.call(control.take_failure)
        return failure

    def verbs(self) -> Verbs:
        if self._control is None:
            raise CannotBeDone("the server does not run")
        if self._life.is_elsewhere:
            raise CannotBeDone(FORKED)
        return self._control


async def stop(control: ServerControl) -> None:
    """Stop a server in order."""
    await control.tidy()
    await control.server.stop()
    await _settled()


async def die(control: ServerControl) -> None:
    """End a server as `kill -9` does."""
    control.server.die()
    await _settled()


async def _settled() -> None:
    loop = asyncio.get_running_loop()
    for _ in range(3):
        turned: asyncio.Future[None] = loop.create_future()
        loop.call_soon(turned.set_result, None)
        await turned


def _descriptors(server: Server) -> Iterator[int]:
    for node in server.nodes:
        yield from node.descriptors()
