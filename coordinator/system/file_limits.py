"""How many files this process may have open, and how its nodes divide them between logs and connections.

Nodes also share the open files of logs (`log.storage.open_files.OF_THIS_PROCESS`) and the levels of log lines.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol
from weakref import WeakSet

RESERVED_FILES: Final = 192
"""File descriptors that neither connections nor logs may use: for listeners, small files, compaction and the like."""
LOGS_AT_FIRST: Final = 64
"""The number of files that connections always leave to logs, whether logs use them or not."""


def allowed_files() -> int | None:
    """Raise the limit of open files as far as possible, and return it; None without a limit."""
    try:
        import resource
    except ImportError:  # Windows does not have `resource`
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError):
            # some systems give fewer files than they promise; the process works with the files that it gets
            pass
    return None if soft == resource.RLIM_INFINITY else soft


class FileShares(NamedTuple):
    """Divides the files of a process. Logs may have half of all, less the reserved files; connections get the rest."""

    allowed: int

    @property
    def kept_back(self) -> int:
        """The files that neither connections nor logs may use."""
        return min(RESERVED_FILES, self.allowed // 4)

    @property
    def least_of_logs(self) -> int:
        """The number of files that connections always leave to logs."""
        return min(LOGS_AT_FIRST, self.allowed // 4)

    def logs(self, connections: int) -> int:
        """How many files of logs may be open beside `connections`."""
        left = self.allowed - self.kept_back - connections
        return max(min(self.allowed // 2 - self.kept_back, left), self.least_of_logs)

    def connections(self, logs: int) -> int:
        """How many connections are allowed beside `logs` files."""
        return self.allowed - self.kept_back - max(logs, self.least_of_logs)


class WithConnections(Protocol):
    """A node of this process."""

    def connection_count(self) -> int:
        """How many connections the node has now."""


class ProcessFiles:
    """The files that the process may have open, which its nodes share."""

    def __init__(self) -> None:
        self._shares: FileShares | None = None
        self._nodes: WeakSet[WithConnections] = WeakSet()

    def ask(self) -> bool:
        """Determine the limit, before nodes join; return whether it exists."""
        allowed = allowed_files()
        self._shares = None if allowed is None else FileShares(allowed)
        return allowed is not None

    def join(self, node: WithConnections) -> None:
        """Count the connections of a node from now on."""
        self._nodes.add(node)

    def leave(self, node: WithConnections) -> None:
        """Count the connections of a stopped node no longer."""
        self._nodes.discard(node)

    def max_logs(self) -> int:
        """How many files of logs may be open now."""
        assert self._shares is not None
        return self._shares.logs(sum(node.connection_count() for node in self._nodes))

    def max_connections(self, node: WithConnections, logs: int) -> int:
        """How many connections a node may have, beside `logs` files of logs and the connections of other nodes."""
        assert self._shares is not None
        if len(self._nodes) == 1 and node in self._nodes:  # this is called for each new connection
            return self._shares.connections(logs)
        others = sum(other.connection_count() for other in self._nodes if other is not node)
        return self._shares.connections(logs) - others


PROCESS_FILES: Final = ProcessFiles()
