"""The README, line by line: its blocks are pasted and run in their order, and print what the README shows.

The ports 9092 and 9094 may be taken on the machine of the tests. Free ports replace them; nothing else is changed.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from muster.cli import build_parser
from muster.version import VERSION
from tests.support.pasted_docs import Block, blocks
from tests.support.servers import MusterServer, free_port_pair

ROOT = Path(__file__).resolve().parents[1]
README = "README.md"
BIN = Path(sys.executable).parent
TRIED = {"make", "first-steps", "quickstart", "install", "serve", "cluster", "test", "control", "analyze"}
VARIES = (
    (r"\d\d\d\d\\-\d\d\\-\d\d", r"\\d{4}-\\d\\d-\\d\\d"),
    (r"\d\d:\d\d:\d\d", r"\\d\\d:\\d\\d:\\d\\d"),
    (r"[\d.]+\\ (?:ms|s)\b", r"[\\d.]+ (?:ms|s)"),
    (r"(ann|bob|cid)\\-[0-9a-f]{8}", r"\\w+-[0-9a-f]{8}"),
    (r"client\\ (ann|bob|cid)", r"client \\w+"),
)
"""Parts of an output that differ from run to run: escaped text, and the pattern for it."""


def named(name: str) -> list[Block]:
    """The blocks of a test; at least one must exist."""
    found = blocks(README, name=name)
    assert found, name
    return found


def commands(name: str) -> list[str]:
    """The shell lines of these blocks, without the comments behind them."""
    return [line.partition("  #")[0].strip() for block in named(name) for line in block.commands]


def shown(block: Block) -> str:
    """The output that the README shows behind a block."""
    rows = blocks(README)
    return rows[rows.index(block) + 1].text


def pattern(line: str) -> str:
    """The pattern of an output line, with patterns for the parts that vary."""
    found = re.escape(line)
    for varies, with_pattern in VARIES:
        found = re.sub(varies, with_pattern, found)
    return found


def make(*words: str) -> str:
    """Do what make would do: make may not install anything here."""
    done = subprocess.run(["make", "-n", *words], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with what the commands need: the examples, and a `.venv`."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("node_modules", "target"))
    (tmp_path / ".venv").symlink_to(BIN.parent)
    return tmp_path


def pasted(command: str, cwd: Path, **environment: str) -> str:
    """Run a line in the shell: its stdout."""
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, shell=True, cwd=cwd, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PATH": path, **environment},
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@contextmanager
def serving(command: str, cwd: Path) -> Iterator[str]:
    """Run a line that starts a server until its first line comes; the server ends in order."""
    with (cwd / "stderr").open("w") as stderr, subprocess.Popen(
        [BIN / "muster", *shlex.split(command)[1:]], cwd=cwd, stdout=subprocess.PIPE, stderr=stderr, text=True
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line, (cwd / "stderr").read_text()
            yield line.strip()
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, (cwd / "stderr").read_text()


def test_each_block_of_the_readme_is_tested() -> None:
    for number, block in enumerate(rows := blocks(README)):
        if block.language in ("sh", "python"):
            assert block.name in TRIED, (block.line, "no test pastes this block")
        else:
            assert block.language == "text", block.line
            assert rows[number - 1].language == "sh", (block.line, "an output stands behind its command")


def test_the_readme_names_make_serve_and_make_test() -> None:
    assert commands("make") == ["make serve", "make test"]
    assert "muster serve --in-memory --listen 127.0.0.1:0" in make("serve", "ARGS=--in-memory --listen 127.0.0.1:0")
    assert "pytest" in make("test")


def test_the_readme_prints_the_quickstart_in_ten_lines() -> None:
    source = (ROOT / "examples" / "quickstart.py").read_text(encoding="utf-8")
    assert [block.text for block in named("quickstart")] == [source]
    assert len([line for line in source.splitlines() if line]) == 10


def test_the_first_steps_of_the_readme_print_the_shown_output(checkout: Path) -> None:
    """The steps run one after another, on a server as `make serve` starts it. Each step uses what the steps before
    left.
    """
    ran = [command.split()[-1] for command in commands("first-steps")]
    assert ran == ["examples/quickstart.py", "examples/share_a_topic.py", "couriers"]
    server = MusterServer(checkout / "server", in_memory=True)
    server.start()
    try:
        for example in (checkout / "examples").glob("*.py"):
            text = example.read_text(encoding="utf-8")
            example.write_text(text.replace("localhost:9092", server.bootstrap), encoding="utf-8")
        outputs = []
        for block in named("first-steps"):
            (command,) = block.commands
            here = f" --bootstrap-server {server.bootstrap}" if "/muster groups" in command else ""
            outputs.append((shown(block).splitlines(), pasted(command + here, checkout).splitlines()))
    finally:
        server.stop()
    *firsts, (history, lines) = outputs
    for expected, got in firsts:
        assert got == expected
    # two members that leave at the same time may be seen one after the other
    left = iter(lines)
    for line in history[:-1]:
        assert any(re.fullmatch(pattern(line), one) for one in left), (line, lines)
    ends = re.sub(r"generation\\ \d+", r"generation \\d+", pattern(history[-1])).replace(
        re.escape(", 1 more before it"), "(?:, 1 more before it)?"
    )
    assert re.fullmatch(ends, lines[-1]), lines


def test_the_wheel_is_built_with_the_build_requirements_alone() -> None:
    assert commands("install") == ["make wheel", f"pip install dist/muster_kafka-{VERSION}-py3-none-any.whl"]
    steps = make("VENV=.venv-that-is-not-there", "wheel")
    assert re.findall(r"requirements/\w+\.txt", steps) == ["requirements/build.txt"]
    assert " wheel --no-deps " in steps


def test_the_readme_names_the_wheel_and_its_extras() -> None:
    text = (ROOT / README).read_text(encoding="utf-8")
    assert set(re.findall(r"muster_kafka-[\w.]+-py3", text)) == {f"muster_kafka-{VERSION}-py3"}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    table = text.partition("| extra | for |")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"(?m)^\| `(\w+)` \|", table)) == sorted(extras)
    assert set(re.findall(r"(?:\.whl|muster-kafka)\[(\w+)\]", text)) <= {*extras}


def test_the_serve_commands_of_the_readme_start_a_server(checkout: Path) -> None:
    ways, configured, asked = commands("serve")
    with serving(f"{ways} --listen 127.0.0.1:0", checkout) as line:
        assert re.fullmatch(r"muster ready 127\.0\.0\.1:\d+", line)
        assert (checkout / "orders-data" / "orders-7").is_dir()
    port = str(free_port_pair())
    properties = checkout / "examples" / "server.properties"
    properties.write_text(properties.read_text().replace("9092", port))
    with serving(configured, checkout) as line:
        assert line == f"muster ready 127.0.0.1:{port}"
    assert "usage: muster serve" in pasted(asked, checkout)


def test_cluster_try_of_the_readme_starts_a_cluster(checkout: Path) -> None:
    install, trial = commands("cluster")
    assert install.startswith("pip install")
    assert f"{trial}\n" in make("try", "ARGS=--nodes 3")
    (block,) = named("cluster")
    port = free_port_pair()
    expected = shown(block).strip()
    # from the last to the first: a replacement may be the number of the next port
    for place in (2, 1, 0):
        expected = expected.replace(f":{9092 + place}", f":{port + place}")
    with serving(f"{trial} --listen localhost:{port}", checkout) as line:
        assert line == expected


@pytest.mark.parametrize("plugins", [("-p", "no:asyncio"), ()])
def test_the_test_of_the_readme_passes(plugins: tuple[str, ...], pytester: pytest.Pytester) -> None:
    """The test runs with pytest and Muster alone, and beside pytest-asyncio in its default mode."""
    (block,) = named("test")
    pytester.makepyfile(test_orders=block.text)
    pytester.runpytest_subprocess(*plugins, "-p", "no:cacheprovider", "test_orders.py").assert_outcomes(passed=1)


def test_the_control_commands_of_the_readme_work(checkout: Path) -> None:
    server, *verbs = commands("control")
    control = f"127.0.0.1:{free_port_pair()}"
    with serving(f"{server.replace('127.0.0.1:9094', control)} --listen 127.0.0.1:0", checkout):
        for verb in verbs:
            pasted(verb, checkout, MUSTER_CONTROL=control)


def test_the_analyze_commands_of_the_readme_are_valid() -> None:
    """Only the command lines are checked; tests/pipeline tests what they do."""
    pipeline, *analyses = commands("analyze")
    assert "muster analyze muster-sample" in make(*pipeline.split()[1:])
    for command in analyses:
        options = build_parser().parse_args(shlex.split(command)[1:])
        assert options.command == "analyze"
