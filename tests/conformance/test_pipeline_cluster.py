"""The pipeline on a Spark cluster: a standalone master and a worker, started from the pip-installed distribution. Their
own Python has neither Muster nor its dependencies.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark
import pytest

from muster.pipeline.decode import decode_all
from muster.pipeline.sources.segments import read_segments
from tests.pipeline.live import Live
from tests.protocol.golden import GOLDEN
from tests.support.servers import QUICK, MusterServer
from tools.pyspark_env import ENTRY, ENVIRONMENT, ZIP, write_entry, write_environment, write_zip

BIN = Path(pyspark.__file__).parent / "bin"
START_TIMEOUT_S = 60.0
JOB_TIMEOUT_S = 1_500.0
pytestmark = pytest.mark.timeout(1_800)


def bare_environment() -> dict[str, str]:
    """An environment without anything of this virtual environment."""
    mine = ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV", "SPARK_HOME")
    path = [one for one in os.environ["PATH"].split(os.pathsep) if Path(one) != Path(sys.executable).parent]
    kept = {name: value for name, value in os.environ.items() if name not in mine}
    return kept | {"PATH": os.pathsep.join(path), "SPARK_LOCAL_IP": "127.0.0.1"}


class Standalone:
    """A master and a worker, each a JVM."""

    def __init__(self, workdir: Path) -> None:
        self.workdir = workdir
        self._processes: list[subprocess.Popen[bytes]] = []
        host = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        self.url = self._start("master", [*host], r"Starting Spark master at (spark://\S+)")
        limits = ["--cores", "1", "--memory", "1g", "--work-dir", str(workdir / "work")]
        self._start("worker", [*host, *limits, self.url], r"Successfully (registered) with master")

    def _start(self, name: str, arguments: list[str], ready: str) -> str:
        main = f"org.apache.spark.deploy.{name}.{name.capitalize()}"
        log = self.workdir / f"{name}.log"
        with log.open("wb") as out:
            command = [BIN / "spark-class", main, *arguments]
            process = subprocess.Popen(command, stdout=out, stderr=out, cwd=self.workdir, env=bare_environment())
        self._processes.append(process)
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and process.poll() is None:
            if found := re.search(ready, log.read_text(errors="replace")):
                return found[1]
            time.sleep(0.1)
        self.stop()
        raise AssertionError(f"the {name} did not start:\n{log.read_text(errors='replace')}")

    def stop(self) -> None:
        """Stop both."""
        for process in reversed(self._processes):
            process.terminate()
            process.wait(30)

    def submit(self, cwd: Path, program: Path, options: list[str], arguments: list[str], **env: str) -> str:
        """Run an analysis with spark-submit; its output."""
        small = ["spark.executor.memory=700m", "spark.ui.enabled=false", "spark.sql.shuffle.partitions=2"]
        confs = [word for setting in small for word in ("--conf", setting)]
        command = [BIN / "spark-submit", "--master", self.url, *confs, *options, program, *arguments]
        done = subprocess.run(
            command,
            cwd=cwd,
            env=bare_environment() | env,
            capture_output=True,
            text=True,
            timeout=JOB_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-8000:]}"
        return done.stdout


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    cluster = Standalone(tmp_path_factory.mktemp("spark"))
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of `make pyspark-env`."""
    out = tmp_path_factory.mktemp("packed")
    write_environment(out / ENVIRONMENT)
    write_zip(out / ZIP)
    write_entry(out / ENTRY)
    return out


@pytest.fixture(scope="module")
def unpacked(packed: Path) -> Path:
    """The archive, unpacked on the machine that runs spark-submit."""
    root = packed / "here" / "environment"
    root.mkdir(parents=True)
    with tarfile.open(packed / ENVIRONMENT) as archive:
        archive.extractall(root, filter="tar")
    return root


def imports_muster(python: str | Path, env: Mapping[str, str]) -> bool:
    return (
        subprocess.run([python, "-c", "import muster"], cwd="/", env=env, capture_output=True, check=False).returncode
        == 0
    )


def groups_in(out: Path, table: str) -> set[Any]:
    return set(pq.read_table(out / "tables" / table, columns=["group"]).column("group").to_pylist())


def test_the_pipeline_on_spark_runs_with_a_packed_environment(
    standalone: Standalone, packed: Path, unpacked: Path, tmp_path: Path
) -> None:
    assert not imports_muster("python3", bare_environment())
    server = MusterServer(tmp_path / "server", QUICK, in_memory=True)
    server.start()
    try:
        Live({"bootstrap.servers": server.bootstrap}).fill()
        said = standalone.submit(
            unpacked.parent,
            packed / ENTRY,
            [
                "--archives",
                f"{packed / ENVIRONMENT}#environment",
                "--conf",
                "spark.pyspark.python=./environment/bin/python",
            ],
            ["--bootstrap-server", server.bootstrap, "--out", str(tmp_path / "out"), "--what-if", "none"],
        )
    finally:
        server.stop()
    assert "with-members" in groups_in(tmp_path / "out", "generations")
    assert {f"group-{number}" for number in range(8)} <= groups_in(tmp_path / "out", "commits")
    assert "tables:" in said
    # the executor ran in a folder of its own, with the environment unpacked there
    assert list(standalone.workdir.glob("work/app-*/*/environment/bin/python"))


JOB = """
import sys
from muster.pipeline.session import open_session
spark = open_session(None)
spark.read.format("muster").option("rows", "decoded").load(sys.argv[1]).write.parquet(sys.argv[2])
"""


def test_the_pipeline_on_spark_runs_with_the_zip_of_its_code(
    standalone: Standalone, packed: Path, unpacked: Path, tmp_path: Path
) -> None:
    lacking = tmp_path / "python"
    unpacked.rename(lacking)
    for path in (lacking / "lib").glob("python*/site-packages/muster"):
        path.rename(tmp_path / "muster-put-aside")
    python = lacking / "bin" / "python"
    assert not imports_muster(python, bare_environment())
    (tmp_path / "job.py").write_text(JOB)
    log, out = str(GOLDEN / "offsets-log"), tmp_path / "out"
    code = ["--py-files", str(packed / ZIP)]
    standalone.submit(tmp_path, tmp_path / "job.py", code, [log, str(out)], PYSPARK_PYTHON=str(python))
    wanted = [row for batch in decode_all(read_segments(log)) for row in batch.column("log_offset").to_pylist()]
    assert sorted(pq.read_table(out).column("log_offset").to_pylist()) == sorted(wanted)
