"""`muster serve --control`: the server as usual, with its control beside it."""

from __future__ import annotations

import gc
from collections.abc import Callable

from muster.coordinator.config import Config
from muster.coordinator.server import Serve, serve
from muster.testcontrol.http.server import ControlServer
from muster.testcontrol.seeded import ControlledMachine
from muster.testcontrol.server_control import ServerControl


def serving(host: str, port: int, token: str | None = None, *, starts_frozen: bool = False) -> Serve:
    """The function that `server.run` runs. `starts_frozen`: time is frozen until the control moves it."""

    async def serve_it(config: Config, ready: Callable[[str, int], None]) -> None:
        machine = ControlledMachine(starts_frozen=starts_frozen)
        rehearsal = ServerControl(config, machine=machine, loaded=gc.freeze)
        control = ControlServer(rehearsal, host, port, token)
        await serve(config, ready, rehearsal.server, beside=control)

    return serve_it
