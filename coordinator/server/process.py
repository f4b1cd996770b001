"""The process of a server, from its start to the signal that ends it, on the running event loop."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, Protocol

import structlog

from muster.coordinator.config import Config
from muster.coordinator.net.listener import WILDCARDS
from muster.coordinator.server.server import Server
from muster.coordinator.system import memory
from muster.coordinator.system.event_loop import new_event_loop

log = structlog.get_logger("muster.server")

SWITCH_S: Final = 0.001
"""How long a computing thread may delay the event loop each time. Python's default is 5 ms."""


class Beside(Protocol):
    """A service beside a server. The service runs from before the server is ready until the server stops."""

    async def start(self) -> None:
        """Start, because the server listens. Raises OSError."""

    async def stop(self) -> None:
        """Stop, because the server is about to stop. The call has no effect if the service was not started."""


async def serve(
    config: Config, ready: Callable[[str, int], None], server: Server | None = None, *, beside: Beside | None = None
) -> None:
    """Start, call `ready(host, port)` of the first listener, and stop at SIGTERM, SIGINT or SIGHUP."""
    # signal handlers precede the start, which may be long; the first process of a container has no other handlers
    stop = stopping_at_signals()
    # loaded objects live as long as the process: the garbage collector need not scan them again and again
    server = Server(config, loaded=gc.freeze) if server is None else server
    await server.start()
    if beside is not None:
        try:
            await beside.start()
        except OSError:
            await server.stop()
            raise
    sys.setswitchinterval(SWITCH_S)
    memory.limit_collections()
    first = server.bound[0]
    if not stop.is_set():
        ready("localhost" if first.host in WILDCARDS else first.host, first.port)
    await stop.wait()
    if beside is not None:
        await beside.stop()
    await server.stop()
    log.info("stopped")


def stopping_at_signals() -> asyncio.Event:
    """Make the running event loop log its errors, and set the event at SIGTERM, SIGINT or SIGHUP."""
    loop, stop, signals = asyncio.get_running_loop(), asyncio.Event(), _signals_to_stop()
    loop.set_exception_handler(_log_exception)
    for number in signals:
        loop.add_signal_handler(number, _on_signal, loop, number, stop, signals)
    return stop


def _signals_to_stop() -> list[signal.Signals]:
    stopping = [signal.SIGTERM, signal.SIGINT]
    hangup = getattr(signal, "SIGHUP", None)
    if hangup is not None and signal.getsignal(hangup) != signal.SIG_IGN:
        stopping.append(hangup)
    return stopping


def _on_signal(
    loop: asyncio.AbstractEventLoop, number: int, stop: asyncio.Event, signals: Iterable[signal.Signals]
) -> None:
    log.info("stopping", signal=signal.Signals(number).name)
    stop.set()
    for one in signals:
        # a second signal ends the process at once
        loop.remove_signal_handler(one)


def _log_exception(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    log.error(context.get("message", "an error in the event loop"), exc_info=context.get("exception"))


Serve = Callable[[Config, Callable[[str, int], None]], Coroutine[Any, Any, None]]


def run(config: Config, ready: Callable[[str, int], None], serve: Serve = serve) -> int:
    """Run `serve` on uvloop where it is installed. Returns the exit status. Raises the errors of `Server.start`."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve(config, ready))
    return 0
