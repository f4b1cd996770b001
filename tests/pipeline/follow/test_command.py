from __future__ import annotations

import os
import signal
import threading

import pytest

from muster.pipeline.follow.command import StatusLine, ends_on_signals


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
