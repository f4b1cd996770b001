"""What `muster analyze` costs from end to end when there is little to analyse: to start is most of it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from bench.explain.row import Row, at_most, plain
from bench.explain.spark import SAMPLE_S, cpu_by_process

_RUNS = 3
_SAMPLE = ("--groups", "19", "--hours", "2")


def small_log(_log: Path, folder: Path) -> list[Row]:
    """Of a small sample, without the what-if; the least of some runs."""
    muster = Path(sys.executable).parent / "muster"
    sample = folder / "small"
    subprocess.run([muster, "log", "sample", sample, *_SAMPLE], check=True, stdout=subprocess.DEVNULL)
    command = [str(muster), "analyze", str(sample), "--what-if", "none", "--out"]
    runs = [_run([*command, str(folder / f"out-{number}")]) for number in range(_RUNS)]
    bytes_read = sum(file.stat().st_size for file in sample.glob("__*/*.log"))
    return [
        plain("log, KiB", bytes_read / 1024),
        at_most("muster analyze, with Java and all that starts, CPU s", min(cpu for cpu, _ in runs), 25),
        plain("  by the clock, s", min(wall for _, wall in runs)),
    ]


def _run(command: list[str]) -> tuple[float, float]:
    """CPU time of a command and of all that it starts, and what the clock says."""
    began = time.monotonic()
    seen: dict[int, float] = {}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            # again and again, for what has ended leaves its time to nobody
            seen |= cpu_by_process(process.pid)
            time.sleep(SAMPLE_S)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return sum(seen.values()), time.monotonic() - began
