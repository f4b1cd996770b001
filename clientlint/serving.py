"""A server that checks its clients: `muster serve --lint-clients`, `muster lint`, `muster conform --listen`.

The report is given when the server stops, at SIGUSR1, and at the HTTP door: `/client-lint`, `/client-lint.json`.
"""

from __future__ import annotations

import asyncio
import gc
import json
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from muster.clientlint.hook import LintHook
from muster.clientlint.linter import Linter
from muster.clientlint.report import Report, as_json, as_text, report_of
from muster.clientlint.settings import LintSettings
from muster.coordinator.config import Config
from muster.coordinator.server import Serve, Server, serve
from muster.coordinator.system.wall_time import format_wall
from muster.testcontrol.interceptors import Interceptors

if TYPE_CHECKING:
    from muster.clientlint.moments import Moment
    from muster.clientlint.rehearsal import Rehearsal
    from muster.coordinator.http.address import DoorAddress
    from muster.coordinator.server.process import Beside

log = structlog.get_logger("muster.lint")

Say = Callable[[str], object]
"""Prints a text to stdout."""
Done = Callable[[Report], object]


class ClientLint:
    """A `process.Beside`: the linter of a server, and its reports."""

    def __init__(self, server: Server, interceptors: Interceptors, say: Say, done: Done | None = None) -> None:
        """`done` gets the last report."""
        self.rehearsal: Rehearsal | None = None
        self._done = done
        self.linter = Linter()
        self._server = server
        self._interceptors = interceptors
        self._say = say
        self._file = server.config.settings(LintSettings).muster_client_lint_report_file
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Watch the requests from now on."""
        self._interceptors.watch(LintHook(self.linter, self._server).intercept)
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self._on_signal)
        log.info("the requests of clients are checked")

    async def stop(self) -> None:
        """Give the last report."""
        asyncio.get_running_loop().remove_signal_handler(signal.SIGUSR1)
        await self.give_report()
        if self._done is not None:
            self._done(self.report())

    def report(self) -> Report:
        """What was found until now."""
        now = self._server.clock.now()
        self.linter.passed(now.mono_ms)
        played = () if self.rehearsal is None else tuple(self.rehearsal.played)
        return report_of(self.linter, now.wall_ms - now.mono_ms, played)

    async def text(self) -> str:
        """The present report as text; another thread makes it."""
        return await asyncio.to_thread(as_text, self.report(), _clock_time)

    async def json(self) -> str:
        """The present report as JSON; another thread makes it."""
        report = self.report()
        return await asyncio.to_thread(lambda: json.dumps(as_json(report), indent=2))

    async def give_report(self) -> None:
        """Write the report into the file of the settings, or print it."""
        if self._file is None:
            self._say(await self.text())
            return
        path = Path(self._file)
        written = await (self.json() if path.suffix == ".json" else self.text())
        try:
            await asyncio.to_thread(path.write_text, written + "\n", encoding="utf-8")
        except OSError as error:
            log.error("the report about clients could not be written", path=str(path), reason=error.strerror)
            self._say(written)

    def _on_signal(self) -> None:
        task = asyncio.get_running_loop().create_task(self.give_report())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _clock_time(wall_ms: int) -> str:
    return f"{format_wall(wall_ms, '%H:%M:%S')}.{wall_ms % 1000:03}"


class Rehearsed:
    """A `process.Beside`: plays the rehearsal of a server, and then stops the server."""

    def __init__(self, rehearsal: Rehearsal) -> None:
        self._rehearsal = rehearsal
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to play."""
        self._task = asyncio.get_running_loop().create_task(self._play())

    async def stop(self) -> None:
        """End the play."""
        if self._task is not None:
            self._task.cancel()

    async def _play(self) -> None:
        await self._rehearsal.play()
        signal.raise_signal(signal.SIGTERM)


class Together:
    """Several services beside a server, as one: started in order, stopped in the opposite order."""

    def __init__(self, *services: Beside) -> None:
        self._services = services

    async def start(self) -> None:
        """See `process.Beside`."""
        for one in self._services:
            await one.start()

    async def stop(self) -> None:
        """See `process.Beside`."""
        for one in reversed(self._services):
            await one.stop()


def rehearsing(say: Say, moments: Sequence[Moment], done: Done) -> Serve:
    """As `serving`, with a rehearsal. The server stops after the last moment."""

    async def serve_it(config: Config, ready: Callable[[str, int], None]) -> None:
        from muster.clientlint.rehearsal import Rehearsal
        from muster.testcontrol.server_control import ServerControl

        control = ServerControl(config, loaded=gc.freeze)
        lint = ClientLint(control.server, control.interceptors, say, done)
        lint.rehearsal = Rehearsal(control, lint.linter, moments)
        await serve(config, ready, control.server, beside=Together(lint, Rehearsed(lint.rehearsal)))

    return serve_it


def serving(
    say: Say,
    door: DoorAddress | None = None,
    *,
    under_test: bool = False,
    starts_frozen: bool = False,
    done: Done | None = None,
) -> Serve:
    """The function that `server.run` runs. `under_test`: the door has the test control."""

    async def serve_it(config: Config, ready: Callable[[str, int], None]) -> None:
        if door is None:
            server = Server(config, loaded=gc.freeze)
            await serve(config, ready, server, beside=ClientLint(server, Interceptors(server), say, done))
        elif under_test:
            from muster.testcontrol.http.server import ControlDoor, controlled

            control, metrics = controlled(config, starts_frozen=starts_frozen)
            lint = ClientLint(control.server, control.interceptors, say)
            beside = Together(lint, ControlDoor(control, door, metrics, routes(lint)))
            await serve(config, ready, control.server, beside=beside)
        else:
            from muster.coordinator.http.serving import ServerDoor, measured

            server, metrics = measured(config)
            lint = ClientLint(server, Interceptors(server), say)
            await serve(config, ready, server, beside=Together(lint, ServerDoor(door, server, metrics, routes(lint))))

    return serve_it


def routes(lint: ClientLint) -> list[Any]:
    """The routes of a door to the reports."""
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route

    async def text(_: Request) -> Response:
        return PlainTextResponse(await lint.text() + "\n")

    async def in_json(_: Request) -> Response:
        return Response(await lint.json(), media_type="application/json")

    return [Route("/client-lint", text), Route("/client-lint.json", in_json)]
