"""`muster conform` on the command line."""

from __future__ import annotations

import pytest

from muster.cli import main
from muster.cli.options.conform import SETS as OFFERED
from muster.conform.settings import SETS

STORY = "find-coordinator-one"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "HOST:PORT of a broker was expected"),
        (["localhost:1", "--level", "kore"], "--level 'kore': one of core, classic, "),
        (["localhost:1", "--story", "join-is-a-barier"], "there is no such story; did you mean join-is-a-barrier?"),
        (["localhost:1", "--as", "5.0"], "--as 5.0: one of 4.4, 4.3, 4.2, 4.1, 4.0, 3.9 was expected"),
        (["localhost:1", "--as", "new"], "--as new: one of"),
        (["localhost:1", "--html", "/nowhere/x.html"], "--html /nowhere/x.html cannot be written: there is no folder"),
        (["localhost:1", "--json", "/"], "--json / cannot be written: it is a folder; give a file"),
        (["localhost:1", "--listen", "9"], "--listen serves clients, and localhost:1 names a broker; give one"),
        (["127.0.0.1:1"], "127.0.0.1:1 cannot be reached: Connection refused; is a server listening there?\n"),
    ],
)
def test_what_cannot_be_run_is_said_in_a_sentence(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["conform", *words]) == 2
    assert why in capsys.readouterr().err


def test_settings_are_printed_as_properties(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", "--settings"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert dict(line.split("=", 1) for line in lines) == SETS["main"]
    assert main(["conform", "--settings", "delayed"]) == 0
    assert "group.initial.rebalance.delay.ms=600" in capsys.readouterr().out
    assert tuple(SETS) == OFFERED
