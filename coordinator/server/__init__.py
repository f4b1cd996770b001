"""Builds a server from all packages, and runs the process. `Server` also runs in a test's own event loop."""

from muster.coordinator.server.process import SWITCH_S, Serve, run, serve, stopping_at_signals
from muster.coordinator.server.server import THIS_MACHINE, Server

__all__ = ["SWITCH_S", "THIS_MACHINE", "Serve", "Server", "run", "serve", "stopping_at_signals"]
