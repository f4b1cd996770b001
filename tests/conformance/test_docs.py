"""The blocks of docs/ that need Kafka's tools or Spark are pasted and run. `tests/test_page_blocks` has all others."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from muster.cli import main
from tests.conformance.test_pipeline_cluster import bare_environment
from tests.support.pasted_docs import blocks
from tests.support.servers import KAFKA_SCRIPTS, MusterServer
from tools.pyspark_env import write_entry, write_zip

BIN = Path(sys.executable).parent
WITH_TOOLS = (
    *("docs/commands.md", "docs/consumer-groups.md", "docs/quotas.md", "docs/share-groups.md"),
    "docs/streams-groups.md",
)
ACLS = "docs/authorization.md"
CLASSES = {
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-client-metrics.sh": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-configs.sh": "org.apache.kafka.tools.ConfigCommand",
}
"""The class of each tool on the pages."""


def tool_commands(page: str) -> list[str]:
    """The commands of Kafka's tools in the blocks of a page."""
    return [line for block in blocks(page) for line in block.commands if line.startswith("kafka-")]


def called(line: str, server: MusterServer) -> str:
    """Run a command of a page on a server; its stdout."""
    tool, *words = shlex.split(line.replace("localhost:9092", server.bootstrap))
    command = [KAFKA_SCRIPTS / "kafka-tool.sh", CLASSES[tool], *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, (line, done.stdout, done.stderr)
    return done.stdout


def test_kafkas_tools_take_the_commands_of_the_pages(tmp_path: Path) -> None:
    server = MusterServer(tmp_path, in_memory=True)
    server.start()
    try:
        for page in WITH_TOOLS:
            lines = tool_commands(page)
            assert lines, page
            for line in lines:
                assert "Completed" in called(line, server) or "kafka-client-metrics" in line, line
    finally:
        server.stop()


def test_kafka_acls_takes_the_command_of_the_page_and_the_properties_above_it(tmp_path: Path) -> None:
    [properties] = blocks(ACLS, "properties")
    given = dict(line.split("=", 1) for line in properties.text.splitlines())
    # nobody has authenticated in this test
    server = MusterServer(tmp_path, given | {"super.users": f"{given['super.users']};User:ANONYMOUS"}, in_memory=True)
    server.start()
    try:
        [line] = tool_commands(ACLS)
        assert "principal=User:web" in called(line, server)
    finally:
        server.stop()


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a group log `muster-data`."""
    folder = tmp_path_factory.mktemp("sample")
    assert main(["log", "sample", str(folder / "muster-data"), "--groups", "3", "--hours", "1"]) in (0, None)
    return folder


@pytest.mark.timeout(900)
def test_the_python_of_the_page_about_the_pipeline_runs_on_spark(sample: Path) -> None:
    [block] = blocks("docs/pipeline.md", "python")
    code = block.text.replace("payments*", "*")  # the groups of a sample have other names
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=sample, capture_output=True, text=True, timeout=800, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "transactions" in done.stdout
    assert "took_ms" in done.stdout
    assert (sample / "report" / "report.html").is_file()


@pytest.mark.timeout(900)
def test_spark_submit_takes_the_command_with_only_the_code(sample: Path) -> None:
    lines = [line for block in blocks("docs/pipeline.md", "sh") for line in block.commands]
    [line] = [line for line in lines if line.startswith("spark-submit") and line.endswith("…")]
    dist = sample / "dist"
    dist.mkdir()
    write_zip(dist / "muster.zip")
    write_entry(dist / "analyze.py")
    own = line.replace("spark://master.example:7077", "local[1]").replace(
        "…", "muster-data --out submitted --what-if none"
    )
    tool, *words = shlex.split(own)
    python = {"PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [BIN / tool, *words],
        cwd=sample,
        env=bare_environment() | python,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert (sample / "submitted" / "report.html").is_file()


def test_spark_submit_has_the_options_of_the_command_with_an_environment() -> None:
    """`test_pipeline_cluster` runs this way on a cluster of several machines."""
    text = (Path(__file__).with_name("test_pipeline_cluster.py")).read_text(encoding="utf-8")
    lines: list[Any] = [line for block in blocks("docs/pipeline.md", "sh") for line in block.commands]
    [line] = [line for line in lines if line.startswith("spark-submit") and "--archives" in line]
    options = [word for word in shlex.split(line.partition(" dist/analyze.py")[0]) if word.startswith("--")]
    assert [word for word in options if word != "--master" and word not in text] == []
