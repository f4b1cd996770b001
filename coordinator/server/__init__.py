"""The composition root: it builds a server of all packages, and runs the process.

Only this package knows all others. `Server` can be used in a test's own event loop; `run` is the whole process.
"""

from muster.coordinator.server.process import SWITCH_S, Serve, run, serve, stopping_at_signals
from muster.coordinator.server.server import THIS_MACHINE, Server

__all__ = ["SWITCH_S", "THIS_MACHINE", "Serve", "Server", "run", "serve", "stopping_at_signals"]
