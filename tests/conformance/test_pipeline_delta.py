"""Delta Lake, in separate processes, because Spark must be started with its jars. A follower writes tables, each
version in one transaction, and an analysis reads a raw copy of the log.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.follow.test_run import QUICK_TO_START
from tests.pipeline.jars import DELTA
from tests.pipeline.live import TOPIC, Live
from tests.support.servers import QUICK, MusterServer

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(DELTA.why_not()), reason=DELTA.why_not() or "the jars are there"),
]

READ = """
import json, sys
from muster.pipeline.output import EXTENSION, prepare
from muster.pipeline.follow.store import saved
from muster.pipeline.session import open_session

out, bootstrap, raw = sys.argv[1:]
spark = open_session("local[2]", EXTENSION)
prepare(spark, out)
found = {}
for name, kept in saved(spark, out).items():
    # without the columns that are added for readers
    table = spark.read.format("delta").load(f"{out}/tables/{name}").select(*kept.columns)
    history = spark.sql(f"DESCRIBE HISTORY delta.`{out}/tables/{name}`")
    same = table.exceptAll(kept).isEmpty() and kept.exceptAll(table).isEmpty() if name != "generations" else True
    found[name] = {"rows": table.count(), "kept": kept.count(), "same": same, "versions": history.count()}
logged = spark.read.format("muster").option("bootstrap.servers", bootstrap).load()
logged.write.format("delta").save(raw)
print(json.dumps(found))
"""
"""`generations` has arrays of structs, by which not every engine can compare rows: only its rows are counted."""


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    server = MusterServer(tmp_path / "server", QUICK)
    server.start()
    try:
        yield Live({"bootstrap.servers": server.bootstrap})
    finally:
        server.stop()


def run(*command: str | Path) -> str:
    jars = ",".join(map(str, DELTA.all()))
    env = {**os.environ, **QUICK_TO_START, "PYSPARK_SUBMIT_ARGS": f"--jars {jars} pyspark-shell"}
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=env, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def analyze(*options: str | Path) -> str:
    return run("-m", "muster.cli", "analyze", "--master", "local[2]", *options)


def test_a_follower_writes_and_reads_delta_lake_tables(live: Live, tmp_path: Path) -> None:
    out, raw = tmp_path / "out", tmp_path / "raw"
    live.create(TOPIC, 4)
    follow = ("--bootstrap-server", live.bootstrap, "--follow", "--once", "--table-format", "delta", "--out", out)
    live.commit("first", 3)
    analyze(*follow)
    live.commit("first", 2)
    live.commit("second", 4)
    analyze(*follow)
    found: dict[str, Any] = json.loads(run("-c", READ, out, live.bootstrap, raw).splitlines()[-1])
    assert found["commits"] == {"rows": 36, "kept": 36, "same": True, "versions": 2}
    for name, table in found.items():
        assert table["same"], name
        assert table["rows"] == table["kept"], name
        # Delta makes no version when nothing replaces nothing
        assert table["versions"] == (2 if table["rows"] else 1), name
    reported = analyze(raw, "--out", tmp_path / "of-the-copy", "--format", "json", "--what-if", "none")
    assert "2 groups" in reported
