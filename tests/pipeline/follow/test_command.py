from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from subprocess import PIPE
from threading import Event

import pytest

from muster.pipeline.follow.command import StatusLine, ends_on_signals
from tests.pipeline.live import Live


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_for_the_end_and_the_second_kills(number: signal.Signals) -> None:
    stopped = threading.Event()
    before = signal.getsignal(number)
    with ends_on_signals(stopped):
        os.kill(os.getpid(), number)
        assert stopped.wait(10)
        assert signal.getsignal(number) is signal.SIG_DFL
    assert signal.getsignal(number) is before


def test_the_status_line_is_written_only_to_terminals(capsys: pytest.CaptureFixture[str]) -> None:
    for on in (False, True):
        line = StatusLine(on=on)
        for text in ("one", "one", "two"):
            line(text)
        line.end()
        assert capsys.readouterr().err == ("\r\x1b[Kone\r\x1b[Ktwo\r\x1b[K" if on else "")


def test_a_signal_to_the_process_group_ends_the_follower_in_order(live: Live, tmp_path: Path) -> None:
    """systemd and `timeout` send SIGTERM to the whole group, so Java must not get it."""
    command = [sys.executable, "-m", "muster.cli", "analyze", "--bootstrap-server", live.bootstrap, "--follow"]
    command += ["--trigger", "1s", "--out", str(tmp_path / "out"), "--master", "local[1]"]
    follower = subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True, start_new_session=True)
    try:
        while not (tmp_path / "out" / "tables").exists():
            assert follower.poll() is None, follower.communicate()
            Event().wait(0.1)
        os.killpg(follower.pid, signal.SIGTERM)
        output, errors = follower.communicate(timeout=600)
    finally:
        follower.kill()
    assert (follower.returncode, errors.count("Traceback")) == (0, 0), errors
    assert f"tables: {tmp_path}/out/tables" in output
