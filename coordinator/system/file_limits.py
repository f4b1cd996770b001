"""How many files this process may have open, and how logs and connections share them. Opens none.

File descriptors belong to the process. So this is the one thing that nodes in the same process share, together with the
files of their logs (`log.storage.open_files.OF_THIS_PROCESS`) and the levels of the log lines.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol
from weakref import WeakSet

RESERVED_FILES: Final = 192
"""File descriptors kept back from connections and logs: for listeners, small files, compaction and the like."""
LOGS_AT_FIRST: Final = 64
"""Files of logs that connections leave room for, whether they are open or not."""


def allowed_files() -> int | None:
    """How many files the process may have open, after asking for as many as it may have. None: any number."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError):
            # some systems give less than they promise; what there is must do
            pass
    return None if soft == resource.RLIM_INFINITY else soft


class FileShares(NamedTuple):
    """How the files that a process may open are shared: some are reserved, and at most half are for logs. Connections
    get what logs do not need, except for a few; logs get what connections leave.
    """

    allowed: int

    @property
    def kept_back(self) -> int:
        """Neither connections' nor logs'."""
        return min(RESERVED_FILES, self.allowed // 4)

    @property
    def least_of_logs(self) -> int:
        """What connections always leave to logs."""
        return min(LOGS_AT_FIRST, self.allowed // 4)

    def logs(self, connections: int) -> int:
        """How many files of logs may be open beside so many connections."""
        left = self.allowed - self.kept_back - connections
        return max(min(self.allowed // 2 - self.kept_back, left), self.least_of_logs)

    def connections(self, logs: int) -> int:
        """How many connections there may be beside so many files of logs."""
        return self.allowed - self.kept_back - max(logs, self.least_of_logs)


class WithConnections(Protocol):
    """A node of this process."""

    def connection_count(self) -> int:
        """How many connections it has now."""


class ProcessFiles:
    """The files that the process may have open, as its nodes share them."""

    def __init__(self) -> None:
        self._shares: FileShares | None = None
        self._nodes: WeakSet[WithConnections] = WeakSet()

    def ask(self) -> bool:
        """Whether there is any bound: to be asked before nodes join."""
        allowed = allowed_files()
        self._shares = None if allowed is None else FileShares(allowed)
        return allowed is not None

    def join(self, node: WithConnections) -> None:
        """A node has connections from now on."""
        self._nodes.add(node)

    def leave(self, node: WithConnections) -> None:
        """It has stopped."""
        self._nodes.discard(node)

    def most_logs(self) -> int:
        """How many files of logs may be open now."""
        assert self._shares is not None
        return self._shares.logs(sum(node.connection_count() for node in self._nodes))

    def most_connections(self, node: WithConnections, logs: int) -> int:
        """How many connections a node may have beside so many files of logs, and the connections of the others."""
        assert self._shares is not None
        if len(self._nodes) == 1 and node in self._nodes:  # asked for each connection that comes
            return self._shares.connections(logs)
        others = sum(other.connection_count() for other in self._nodes if other is not node)
        return self._shares.connections(logs) - others


PROCESS_FILES: Final = ProcessFiles()
