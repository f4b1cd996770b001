"""Which tests run in the same process when two processes divide the tests (`make test`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

# these need one Spark; they last longest, so that they come first
SPARK = "tests/pipeline/"
# these wait for servers most of the time, so that they run beside Spark
WAITING = "tests/e2e/"


def rank(path: Path | str) -> int:
    """The tests of a low rank start first."""
    text = f"{path}"
    return 0 if SPARK in text else 1 if WAITING in text else 2


class FileScheduling(LoadScopeScheduling):
    """The tests of a file run in one process, so that their shared fixtures are made once. All tests that need Spark
    share one process. pytest-xdist's own groups (`--dist loadgroup`) have no effect with pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        return SPARK if nodeid.startswith(SPARK) else nodeid.partition("::")[0]

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Forget the test: pytest-xdist's own way counts all earlier tests after each test."""
        del duration
        nodeid = self.registered_collections[node][item_index]
        units = self.assigned_work[node]
        scope = self._split_scope(nodeid)
        del units[scope][nodeid]
        if not units[scope]:
            del units[scope]
        self._reschedule(node)
