"""How Spark's Python workers are started for a small log."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from pathlib import Path

from muster.pipeline import worker_daemon
from tests.pipeline.conftest import TIMEOUT_S

TWO_TASKS = """
import gc
import json

import pyarrow as pa

from muster.pipeline.safe_path import worker_settings
from muster.pipeline.session import LITTLE, ONE_CORE, open_session

spark = open_session(ONE_CORE, LITTLE | worker_settings(), knows_format=False)


def looked_through(batches):
    for _ in batches:
        yield pa.RecordBatch.from_pylist([{"frozen": gc.get_freeze_count(), "others": len(gc.get_objects())}])


rows = spark.range(1).mapInArrow(looked_through, "frozen long, others long")
print(json.dumps([row.asDict() for _ in range(2) for row in rows.collect()]))
spark.stop()
"""


def test_garbage_collection_skips_a_workers_modules_after_its_first_task(tmp_path: Path) -> None:
    """The daemon runs in a folder whose files have the names of modules that workers need: none of them is imported."""
    for name in ("grp", "random", "json", "numpy", "pickle", "pyspark"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a script of the user')\n")
    done = subprocess.run(
        [sys.executable, "-P", "-c", TWO_TASKS],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=True, cwd=tmp_path,
    )  # fmt: skip
    first, second = json.loads(done.stdout.splitlines()[-1])
    # the first task loads Spark and Arrow
    assert second["frozen"] > first["frozen"] + 1_000
    assert second["others"] < first["others"] / 2, (first, second)


def test_a_task_is_run_by_sparks_own_worker() -> None:
    reported: list[tuple[object, bool]] = []

    def task(sock: object, authenticated: bool) -> int:
        reported.append((sock, authenticated))
        return 3

    before, worker_daemon._worker = worker_daemon._worker, task
    frozen = gc.get_freeze_count()
    try:
        assert worker_daemon.worker("a socket", True) == 3
        assert reported == [("a socket", True)]
        assert gc.get_freeze_count() > frozen
    finally:
        worker_daemon._worker = before
