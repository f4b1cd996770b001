"""Names that clients chose cannot control a terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from muster.cli.groups import show_groups
from muster.cli.output import as_json, fail, print_json, print_table, printing, say, width
from muster.client.event_reader import Events

Capture = pytest.CaptureFixture[str]
NASTY = "a\x1b[2J\r\nb\u202ec\x9bd\u2028e\x00\x7f\ud800"
HARMLESS = "a\\x1b[2J\\r\\nb\\u202ec\\x9bd\\u2028e\\x00\\x7f\\ud800"


def test_json_output_escapes_control_characters_and_keeps_the_text() -> None:
    reported = as_json({"group": NASTY, "letters": "ü支\U000e0001"})
    assert reported.isprintable()
    assert "ü支" in reported
    assert json.loads(reported) == {"group": NASTY, "letters": "ü支\U000e0001"}


def test_table_columns_are_aligned_by_displayed_width(capsys: Capture) -> None:
    print_table(("GROUP", "N", "X"), [(NASTY, 1, "x"), ("支払い", 22, "y"), ("u\u0308", 3, "z")])
    head, *rows = capsys.readouterr().out.splitlines()
    assert [width(row[: row.rindex(last)]) for row, last in zip(rows, "xyz", strict=True)] == [head.rindex("X")] * 3
    assert rows[0].startswith(HARMLESS)


def test_a_name_with_line_breaks_is_printed_on_one_line(capsys: Capture) -> None:
    say(NASTY)
    print_json({"group": NASTY})
    say(NASTY, sys.stderr)
    out, err = capsys.readouterr()
    assert (len(out.split("\n")), err) == (3, HARMLESS + "\n")


def test_a_leave_reason_cannot_forge_a_line_of_the_timeline(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    member = {"member": "m\x1b]0;", "instance": None, "client_id": "c\n", "host": "/h"}
    value: dict[str, Any] = {"kind": "member_left", "group": "g", "time": 0, "member": member,
                             "reason": 'bye\n12:03:07 rebalance 1 → 2"'}  # fmt: skip
    monkeypatch.setattr(Events, "__init__", lambda self, cluster: None)
    monkeypatch.setattr(Events, "upto_now", lambda self, group: iter([value]))
    assert show_groups.history(None, "g", as_json=False, everything=True, last=None) == 0
    day, line = capsys.readouterr().out.splitlines()
    assert day.startswith("---")
    assert 'c\\n, h) left: "bye\\n12:03:07 rebalance' in line
    assert line.isprintable()


def test_errors_of_neither_the_output_nor_a_file_are_raised() -> None:
    def work() -> int:
        raise ConnectionResetError(104, "Connection reset by peer")

    with pytest.raises(ConnectionResetError):
        printing("muster x", work)


def test_a_file_that_cannot_be_used_is_one_sentence(capsys: Capture) -> None:
    def work() -> int:
        raise PermissionError(13, "Permission denied", "other/x")

    assert printing("muster x", work) == 1
    assert capsys.readouterr().err == "muster x: other/x cannot be used: Permission denied\n"


def test_the_reason_of_a_failure_has_no_number(capsys: Capture) -> None:
    assert fail("muster x", FileNotFoundError(2, "No such file or directory", "y"), 2) == 2
    assert fail("muster x", OSError(28, "No space left on device")) == 1
    assert fail("muster x", OSError("y was replaced")) == 1
    assert capsys.readouterr().err.splitlines() == [
        "muster x: y cannot be used: No such file or directory",
        "muster x: No space left on device",
        "muster x: y was replaced",
    ]


def run_printing(code: str, stdout: Any, **environment: str) -> subprocess.CompletedProcess[bytes]:
    imports = "import sys; from muster.cli.output import printing, say"
    command = [sys.executable, "-c", f"{imports}; sys.exit(printing('muster x', {code}))"]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, env=os.environ | environment, check=False)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("code", ["lambda: say('x') or 0", "lambda: sys.stdout.write('x') * 0"])
def test_a_full_disk_behind_stdout_is_one_sentence(code: str) -> None:
    with Path("/dev/full").open("wb") as full:
        done = run_printing(code, full)
    assert (done.returncode, done.stderr) == (
        1,
        b"muster x: its output cannot be written: No space left on device\n",
    )


def test_a_closed_pipe_behind_stdout_is_not_an_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = run_printing("lambda: say('x') or 0", writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_characters_outside_the_encoding_of_stdout_are_escaped() -> None:
    done = run_printing("lambda: say('1 → 2') or 0", subprocess.PIPE, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout) == (0, b"1 \\u2192 2\n")
