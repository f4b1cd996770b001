"""One seed is one history of a node. A failure names the seed, and the trace shows the events."""

from __future__ import annotations

import traceback
from typing import Any, Final

from structlog.testing import capture_logs

from muster.coordinator.api.exchange import NO_INTERCEPT, Intercept
from tests.torture.node.brokers import Brokers
from tests.torture.node.world import Broken, World

BUGS: Final = frozenset(
    {
        "a handler failed",
        "an answer could not be encoded",
        "a request was answered twice",
        "an error in the event loop",
    }
)
"""Log lines that only a bug writes."""


class History:
    """The history of this module. `failure`: the error."""

    def __init__(self, seed: int, intercept: Intercept = NO_INTERCEPT, *, brokers: bool = False) -> None:
        """`brokers`: the process has three brokers, which stop, die, stand still and return."""
        self.seed = seed
        self.brokers = brokers
        self.world = (Brokers if brokers else World)(seed, intercept)
        self.failure: BaseException | None = None
        self.log: list[Any] = []

    def run(self) -> None:
        """Play the history."""
        with capture_logs() as log:
            try:
                self.world.play()
                self._read(log)
            except Exception as error:  # noqa: BLE001  # whatever breaks, the seed must be reported
                self.failure = error
            finally:
                self.world.close()
        self.log = log

    def _read(self, log: list[Any]) -> None:
        for line in log:
            if line["event"] in BUGS:
                raise Broken(f"the log says: {line}")


def described(history: History, *, in_full: bool = False) -> str:
    """The failure, and how to see it again; `in_full`: with the events before it."""
    again = f"again: make torture ARGS='--nodes 1 --kills 0 --seed {history.seed}'"
    if history.brokers:
        again = f"again: make simulate ARGS='--brokers --seeds 1 --start {history.seed}'"
    head = f"seed {history.seed}: {history.failure!r}\n  {again}"
    if not in_full or history.failure is None:
        return head
    lines = [str(line) for line in history.log if line["log_level"] in ("warning", "error")]
    trace = traceback.format_exception(history.failure)
    return "\n".join([*history.world.trace, *lines, *trace, head])
