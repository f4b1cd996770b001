"""`muster serve` that caches no request (`coordinator.api.cached_requests`): what the cache is measured against."""

from __future__ import annotations

import sys
from functools import partial

from muster import cli
from muster.coordinator import server

if __name__ == "__main__":
    server.Server = partial(server.Server, caches=False)  # type: ignore[assignment, misc]  # `serve` asks for it
    sys.exit(cli.main())
