"""How three processes divide the tests (`make test`), and the work to compile them.

Two cores serve three processes: the tests of Spark and of servers wait for other processes most of the time.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from _pytest.assertion import rewrite
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    import pytest
    from xdist.workermanage import WorkerController

# the tests of Spark share one session; they last longest, so they come first
SPARK = "spark"
# these tests wait for servers most of the time, so they run beside Spark
WAITING = "tests/e2e/"
# each of these takes more than 8 s of CPU, or waits for a Java of its own. The longest come first: at the end only
# short files are left, so that no process waits long for another
DEAR = (
    "tests/worst/test_apis.py",
    "tests/budget/test_budget.py",
    "tests/simulation/cluster/test_cluster.py",
    "tests/torture/test_node.py",
    "tests/pipeline/follow/test_command.py",
    "tests/pipeline/episodes/test_recorded_claims.py",
    "tests/stories/test_virtual.py",
    "tests/cli/test_serve.py",
    "tests/coordinator/topics/test_damage.py",
    "tests/torture/wire/test_chapter.py",
    "tests/exactly_once/test_exactly_once.py",
    "tests/torture/test_kills.py",
    "tests/simulation/test_simulation.py",
    "tests/budget/test_growth.py",
    "tests/test_lint_rules.py",
)


@cache
def needs_spark(path: Path) -> bool:
    """Whether a test file asks for the session of Spark (`tests/pipeline/conftest.py`)."""
    return "/tests/pipeline/" in f"{path}" and f"{SPARK}: SparkSession" in path.read_text(encoding="utf-8")


def rank(path: Path) -> int:
    """The tests of a low rank start first."""
    text = f"{path}"
    if needs_spark(path):
        return 0
    if WAITING in text:
        return 1
    return 2 + next((place for place, name in enumerate(DEAR) if text.endswith(name)), len(DEAR))


def compile_apart(config: pytest.Config) -> None:
    """In the second and third of three processes: compile the test files, each process from another place.

    A process ends at the first file that another process has compiled. So a fresh clone compiles each file once.
    """
    worker = getattr(config, "workerinput", {}).get("workerid")
    if worker not in ("gw1", "gw2") or sys.dont_write_bytecode:
        return
    state = config.stash[rewrite.assertstate_key]
    paths = sorted((config.rootpath / "tests").rglob("test_*.py"))
    for path in reversed(paths) if worker == "gw1" else paths[len(paths) // 2 :]:
        compiled = rewrite.get_cache_dir(path) / f"{path.stem}{rewrite.PYC_TAIL}"
        if rewrite._read_pyc(path, compiled, state.trace) is not None:
            return
        source, code = rewrite._rewrite_test(path, config)
        compiled.parent.mkdir(exist_ok=True)
        rewrite._write_pyc(state, code, source, compiled)


class FileScheduling(LoadScopeScheduling):
    """The tests of a file run in one process, so that their shared fixtures are made once. All files that need Spark
    share one process. pytest-xdist's own groups (`--dist loadgroup`) have no effect with pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return SPARK if needs_spark(self.config.rootpath / file) else file

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
