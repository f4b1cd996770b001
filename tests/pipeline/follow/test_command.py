from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from subprocess import PIPE

import pytest

from muster.pipeline.follow.command import StatusLine, ends_on_signals
from tests.pipeline.follow.test_run import QUICK_TO_START
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


CHILD = """
import sys
from muster.pipeline.analyze import main
from muster.pipeline.follow import command

class Follower:
    def __init__(self, session, following, report_status, stopped):
        self.session, self.stopped = session, stopped

    def run(self):
        print("follows", flush=True)
        self.stopped.wait()
        self.rows = self.session.range(3).count()

    def status(self):
        return f"{self.rows} rows"

command.Follower = Follower
sys.exit(main(sys.argv[1:]))
"""
"""The command with a follower that only asks Java for three rows after the signal."""


def test_a_signal_to_the_process_group_ends_the_follower_in_order(live: Live, tmp_path: Path) -> None:
    """systemd and `timeout` send SIGTERM to the whole group, so Java must not get it."""
    command = [sys.executable, "-c", CHILD, "--bootstrap-server", live.bootstrap, "--follow"]
    command += ["--out", str(tmp_path / "out"), "--master", "local[1]"]
    environment = {**os.environ, **QUICK_TO_START}
    follower = subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True, start_new_session=True, env=environment)
    try:
        assert follower.stdout is not None
        assert follower.stdout.readline() == "follows\n", follower.communicate()
        os.killpg(follower.pid, signal.SIGTERM)
        output, errors = follower.communicate(timeout=600)
    finally:
        follower.kill()
    assert (follower.returncode, errors.count("Traceback")) == (0, 0), errors
    assert output == f"3 rows\ntables: {tmp_path}/out/tables\n"
