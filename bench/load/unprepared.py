"""`muster serve` that prepares no request (`coordinator.api.prepared`), beside which the prepared path is measured."""

from __future__ import annotations

import sys
from functools import partial

from muster import cli
from muster.coordinator import server

if __name__ == "__main__":
    server.Server = partial(server.Server, prepares=False)  # type: ignore[assignment, misc]  # `serve` asks for it
    sys.exit(cli.main())
