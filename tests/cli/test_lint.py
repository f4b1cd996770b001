"""`muster lint`, and `muster conform --listen`, which is the same server."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from muster.cli import main


def test_a_moment_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", "--rehearse", "--moment", "nothing"]) == 2
    assert "there is no moment nothing; there are rebalance, expired" in capsys.readouterr().err


def test_a_report_that_cannot_be_written_is_refused_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", "--report", str(tmp_path)]) == 2
    assert f"--report {tmp_path} cannot be written: it is a folder; give a file" in capsys.readouterr().err


def test_a_port_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", "--listen", "nowhere"]) == 2
    assert "muster lint: " in capsys.readouterr().err


def test_conform_is_a_server_for_clients_and_reports_at_its_end(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    muster = Path(sys.executable).parent / "muster"
    command = [muster, "conform", "--listen", "127.0.0.1:0", "--json", report]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("muster ready 127.0.0.1:")
        process.send_signal(signal.SIGTERM)
    assert process.returncode == 0
    assert json.loads(report.read_text())["findings"] == []
