"""Answers `GET /metrics` by HTTP, on the server's own event loop. It changes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import structlog

from muster.coordinator.history.metrics import CONTENT_TYPE, Metric, text
from muster.coordinator.system.clock import Clock
from muster.coordinator.system.http_server import HttpServer, Limits, Request, Response

log = structlog.get_logger("muster.metrics")

MOST_BYTES: Final = 64 * 1024
"""Most bytes of a request's body, which is ignored."""
MOST_CLIENTS: Final = 20
"""Most clients at the same time: usually one client reads the metrics."""
PATIENCE_MS: Final = 10_000
"""The timeout of a request, and of its answer. A client that asks less often connects anew each time."""


class MetricsServer:
    """See the module. `http`: the HTTP server that listens."""

    def __init__(self, clock: Clock, host: str, port: int, collect: Callable[[], Awaitable[Iterable[Metric]]]) -> None:
        """`port` 0: a free port. `collect` returns the present metrics."""
        busy = _plain(503, f"{MOST_CLIENTS} connections are open already\n")
        limits = Limits(MOST_BYTES, MOST_CLIENTS, PATIENCE_MS)
        self.http = HttpServer(clock, host, port, limits, self._answer, busy, "metrics")
        self._collect = collect

    async def start(self) -> None:
        """Listen. Raises CannotListen."""
        await self.http.start()
        log.info("metrics are told", address=f"http://{self.http.host}:{self.http.port}/metrics")

    async def stop(self) -> None:
        """Stop to listen and to answer. Harmless when it does not listen."""
        await self.http.stop()

    async def _answer(self, request: Request) -> Response:
        if request.target.partition("?")[0] != "/metrics":
            return _plain(404, "there is /metrics, and nothing else\n")
        if request.method not in ("GET", "HEAD"):
            return _plain(405, "GET it\n")
        try:
            return Response(200, CONTENT_TYPE, text(await self._collect()).encode())
        except Exception as error:  # an error of the program costs this answer, not the server
            log.error("metrics could not be collected", exc_info=error)
            return _plain(500, "a fault of the server, which its log has\n")


def _plain(status: int, what: str) -> Response:
    return Response(status, "text/plain", what.encode())
