"""Each block of code on the pages is run by a test, or checked by one here.

`make conformance-docs` runs the blocks that need Kafka's tools or Spark.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.coordinator.config import load
from muster.pipeline.whatif.settings import from_json
from tests.support.pasted_docs import ROOT, Block, blocks

PAGES = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))]
ALL = [block for page in PAGES for block in blocks(page)]
RUN = {
    "docs/cluster.md": "tests/e2e/test_cluster_page.py",
    "docs/conform-in-ten-minutes.md": "tests/conform/test_ten_minutes.py",
    "docs/docker.md": "tests/image/test_page.py",
    "docs/testcontrol.md": "tests/testing/test_testcontrol_page.py",
    "docs/testing.md": "tests/testing/test_recipes.py",
}
"""Pages, and the test that runs their blocks by name."""
PYTHON_ELSEWHERE = {
    "docs/pipeline-spark.md": "tests/pipeline/test_pages.py",
    "docs/pipeline.md": "tests/conformance/test_docs.py",
}
SHELL = ("sh", "bash", "console")
TOOLS = "tests/conformance/test_docs.py"


def is_run(block: Block) -> bool:
    """Whether the test of its page runs the block, which names it."""
    return bool(block.name) and block.page in RUN


def commands() -> Iterator[tuple[str, str]]:
    """The commands of shell blocks that no test runs by name, and commands that begin a text, each with its page."""
    for block in ALL:
        if block.language in SHELL and not is_run(block):
            yield from ((block.page, line.partition("  #")[0].strip()) for line in block.commands)
        elif block.language == "text" and block.text.startswith("kafka-"):
            yield from ((block.page, line) for line in block.commands)


def test_each_test_that_runs_blocks_names_its_page() -> None:
    for page, test in (RUN | PYTHON_ELSEWHERE).items():
        assert Path(page).name in (ROOT / test).read_text(encoding="utf-8"), (page, test)


def test_each_block_is_of_a_kind_that_is_tested() -> None:
    checked = {*SHELL, "python", "json", "properties", "text", "mermaid", "yaml"}
    of_other_languages = {"java", "go", "ts", "csharp"}  # `make conformance-languages` runs the examples in whole
    assert [(one.page, one.line) for one in ALL if one.language not in checked | of_other_languages] == []


def program(line: str) -> str:
    return line.split()[0]


@pytest.mark.parametrize(("page", "line"), sorted(set(commands())))
def test_a_command_of_a_page_can_be_called_so(page: str, line: str) -> None:
    """`muster …` is tested in `test_commands_page`, Kafka's tools and spark-submit in `tests/conformance/test_docs`."""
    words = shlex.split(line)
    if words[0] == "make":
        assert subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, check=False).returncode == 0
    elif words[0] == "mkdir":
        assert line == "mkdir environment && tar -xzf dist/muster-env.tar.gz -C environment"
    else:
        assert words[0] in ("muster", "spark-submit") or re.fullmatch(r"kafka-[a-z-]+\.sh", words[0]), (page, line)


def test_the_conformance_test_has_each_page_with_commands_of_kafkas_tools_and_spark() -> None:
    text = (ROOT / TOOLS).read_text(encoding="utf-8")
    pages = {page for page, line in commands() if line.startswith(("kafka-", "spark-submit"))}
    assert pages
    assert [page for page in sorted(pages) if f'"{page}"' not in text] == []


PYTHON = [block for block in ALL if block.language == "python" and block.page not in PYTHON_ELSEWHERE]


def test_each_python_block_is_run() -> None:
    here = [block for block in PYTHON if not is_run(block)]
    assert {block.page for block in here} == {"docs/assignors.md", "docs/docker.md"}


def run(source: str, names: dict[str, Any]) -> None:
    """Run a block. It may use `await` at its top level, or objects that need a running event loop."""
    code = compile(source, "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    async def in_a_loop() -> None:
        result = eval(code, names)
        if inspect.isawaitable(result):
            await result

    asyncio.run(in_a_loop())


def test_the_first_example_about_strategies_gives_the_shown_assignment() -> None:
    first, _ = blocks("docs/assignors.md", "python")
    rows = first.text.splitlines()
    names: dict[str, Any] = {}
    run("\n".join([*rows[:-2], f"found = {rows[-2]}"]), names)
    assert names["found"] == ast.literal_eval(rows[-1].removeprefix("# "))


def test_a_consumer_of_aiokafka_takes_a_strategy_as_on_the_page() -> None:
    _, second = blocks("docs/assignors.md", "python")
    names: dict[str, Any] = {}
    run(f"{second.text}\nawait consumer.stop()", names)
    assert names["chosen"].name == "sticky"


def test_the_containers_of_the_docker_page_exist() -> None:
    """A container needs an engine. So only the names of its class and methods are looked up."""
    containers = pytest.importorskip("testcontainers.kafka", reason="needs testcontainers")
    for block in blocks("docs/docker.md", "python"):
        names: dict[str, Any] = {"KafkaContainer": containers.KafkaContainer}
        tree = ast.parse(block.text)
        imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
        run("\n".join(map(ast.unparse, imports)), names)
        methods = [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
        assert methods, block.line
        assert [name for name in methods if not hasattr(names["KafkaContainer"], name)] == [], block.line


def test_the_blocks_of_properties_are_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All properties of a block exist, and have values of the right form. Files that they name do not exist here."""
    monkeypatch.setattr("muster.coordinator.config.security.check_security", lambda config: None)
    found = [block for block in ALL if block.language == "properties"]
    assert len(found) > 4
    for block in found:
        file = tmp_path / "server.properties"
        file.write_text(block.text, encoding="utf-8")
        config = load(file=file, strict=True)
        assert config is not None, block.page


CHECKS: dict[str, Callable[[Any], object]] = {"docs/pipeline-what-if.md": from_json}
"""What reads the JSON of a page, beyond its syntax."""


@pytest.mark.parametrize("block", [one for one in ALL if one.language == "json"], ids=lambda one: one.page)
def test_the_json_of_a_page_can_be_read(block: Block) -> None:
    found = json.loads(block.text)
    assert found
    if block.page in CHECKS:
        assert CHECKS[block.page](found)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool, of Debian's package prometheus")
def test_prometheus_accepts_the_configuration_of_the_metrics_page(tmp_path: Path) -> None:
    [block] = blocks("docs/metrics.md", "yaml")
    file = tmp_path / "prometheus.yml"
    file.write_text(block.text, encoding="utf-8")
    done = subprocess.run(
        ["promtool", "check", "config", "--syntax-only", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
