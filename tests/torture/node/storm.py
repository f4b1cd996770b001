"""One seed is one history of a node. A failure says the seed, and the trace says what happened."""

from __future__ import annotations

from typing import Any, Final

from structlog.testing import capture_logs

from tests.torture.node.world import Broken, World

BUGS: Final = frozenset(
    {
        "a handler failed",
        "an answer could not be encoded",
        "a request was answered twice",
        "a fault in the event loop",
    }
)
"""Lines of the log that only a bug writes."""


class Storm:
    """See the module. `failure`: what went wrong."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.world = World(seed)
        self.failure: BaseException | None = None
        self.log: list[Any] = []

    def run(self) -> None:
        """Play it."""
        with capture_logs() as log:
            try:
                self.world.play()
                self._read(log)
            except Exception as error:  # noqa: BLE001 - whatever breaks, the seed must be told
                self.failure = error
        self.log = log

    def _read(self, log: list[Any]) -> None:
        for line in log:
            if line["event"] in BUGS:
                raise Broken(f"the log says: {line}")
