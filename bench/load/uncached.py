"""Runs `muster serve` without cached requests (`coordinator.api.cached_requests`), to measure what the cache saves."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence

from muster import cli
from muster.coordinator import server
from muster.coordinator.config import Config
from muster.coordinator.server import Server, process


async def serve(config: Config, ready: Callable[[str, int], None]) -> None:
    """Serve as `muster serve` does, but cache no request."""
    await process.serve(config, ready, Server(config, caches=False, loaded=gc.freeze))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with this server. `cli.serve` looks up `serve` when it starts the server."""
    server.serve = serve  # type: ignore[assignment]  # the command passes only these two arguments
    return cli.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
