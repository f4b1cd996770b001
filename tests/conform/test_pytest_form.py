"""`pytest --pyargs muster.conform --against HOST:PORT`, and the workflow of examples/."""

from __future__ import annotations

import asyncio
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from muster.cli import main
from muster.conform.settings import MAIN
from tests.conform.changing_proxy import changing
from tests.conform.test_session import wrong_generation
from tests.support.muster import running

WORKFLOW = Path(__file__).parents[2] / "examples" / "conform.yml"


async def test_each_story_is_a_test_of_the_broker(pytester: pytest.Pytester) -> None:
    async with running(MAIN) as server, changing(("127.0.0.1", server.bound[0].port), wrong_generation) as proxy:
        words: tuple[Any, ...] = (
            "--pyargs",
            "muster.conform",
            "--against",
            f"127.0.0.1:{proxy.port}",
            "-p",
            "no:asyncio",
        )
        chosen = "join-is-a-barrier or find-coordinator-one"
        result = await asyncio.to_thread(pytester.runpytest_subprocess, *words, "-k", chosen, "-v")
    result.assert_outcomes(passed=1, failed=1, deselected=result.parseoutcomes()["deselected"])
    result.stdout.fnmatch_lines(
        [
            "*test_as_on_kafka?core/find-coordinator-one? PASSED*",
            "FAILED   join-is-a-barrier (core): differs",
            "  | +    A <- join ok generation=5 protocol=range leader=A members=?A:a?",
            "  the answer has * bytes; ?wrong? GenerationId: 4 bytes from byte 11 on",
            "  hurts aiokafka *: with -1: *",
        ]
    )


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--against", "x"], "ERROR: --muster-against 'x' is not HOST:PORT; as in localhost:9092"),
        (
            ["--against", "127.0.0.1:1", "--muster-command-config", "none"],
            "--command-config none cannot be read: No such*",
        ),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(pytester: pytest.Pytester, words: list[str], line: str) -> None:
    result = pytester.runpytest_subprocess("--pyargs", "muster.conform", "-p", "no:asyncio", *words)
    found = [one for one in result.outlines + result.errlines if one.startswith(line.rstrip("*"))]
    assert len(found) == 1, result.outlines
    assert not any("Traceback" in one or one.startswith("E  ") for one in result.outlines)


def test_the_workflow_gives_options_that_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (line,) = re.findall(r"run: muster (conform .*)", WORKFLOW.read_text())
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(line.replace("127.0.0.1:9092", "127.0.0.1:1"))) == 2
    assert "127.0.0.1:1 cannot be reached" in capsys.readouterr().err
