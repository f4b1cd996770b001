"""Runs `muster serve` without cached requests (`coordinator.api.cached_requests`), to measure what the cache saves."""

from __future__ import annotations

import sys
from functools import partial

from muster import cli
from muster.coordinator import server

if __name__ == "__main__":
    server.Server = partial(server.Server, caches=False)  # type: ignore[assignment, misc]  # `muster serve` calls server.Server
    sys.exit(cli.main())
