"""Measures `muster groups explain`: a server with some 20,000 records of groups, and one question about one of them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from bench.explain.row import Row, at_most, plain
from muster.pipeline.sources.segments import read_segments

_RUNS = 3
_SAMPLE = ("--groups", "30", "--hours", "4")
_GROUP = "flapping-1"
_ALL = "4000d"
_CPU_S = 3
_CLOCK_S = 5


def one_group(_log: Path, folder: Path) -> list[Row]:
    """Measure the command with all that starts. The minimum of some runs counts."""
    muster, sample = str(Path(sys.executable).parent / "muster"), folder / "sample"
    subprocess.run([muster, "log", "sample", sample, *_SAMPLE], check=True, stdout=subprocess.DEVNULL)
    records = sum(batch.num_rows for batch in read_segments(str(sample)))
    # time stands still, so the server removes no member
    still = ("--control", "127.0.0.1:0", "--virtual-time", "--log-level", "error")
    command = [muster, "serve", "--data-dir", str(sample), "--listen", "127.0.0.1:0", *still]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().split()[-1]
        question = [muster, "groups", "explain", _GROUP, "--since", _ALL, "--bootstrap-server", address]
        runs = [_run(question) for _ in range(_RUNS)]
        server.terminate()
    return [
        at_most("muster groups explain, of a live server, with all that starts, CPU s", min(runs)[0], _CPU_S),
        at_most("  by the clock, s", min(wall for _, wall in runs), _CLOCK_S),
        plain("  records of the offsets log", records),
    ]


def _run(command: list[str]) -> tuple[float, float]:
    """Run a command. Returns its CPU time and the wall time."""
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return used.ru_utime + used.ru_stime, time.monotonic() - began
