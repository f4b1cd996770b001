"""Measures `muster analyze` from start to end for logs that need no Spark."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import time
from pathlib import Path

from bench.explain.row import Row, at_most, plain
from bench.explain.spark import SAMPLE_S, cpu_by_process

_RUNS = 3
_SAMPLE = ("--groups", "19", "--hours", "2")
_RECORDED = Path(__file__).parents[2] / "tests" / "data" / "recorded" / "one.tar.xz"


def small_log(log: Path, folder: Path) -> list[Row]:
    """Measure a real Kafka's log of 19 groups, a small sample, and a large one, without the what-if. The minimum of
    some runs counts.

    The samples also have events and transactions.
    """
    muster = Path(sys.executable).parent / "muster"
    with tarfile.open(_RECORDED) as archive:
        archive.extractall(folder / "recorded", filter="data")
    sample = folder / "small"
    subprocess.run([muster, "log", "sample", sample, *_SAMPLE], check=True, stdout=subprocess.DEVNULL)
    what = "muster analyze, with all that starts, CPU s"
    return [
        *_costs(muster, folder / "recorded" / "log", folder / "of-recorded", f"of a real Kafka's log: {what}", 5),
        *_costs(muster, sample, folder / "of-sample", f"with events and transactions: {what}", 5),
        *_costs(muster, log, folder / "of-log", f"of 1.1 million rows: {what}", 30),
    ]


def _costs(muster: Path, log: Path, out: Path, what: str, limit_s: float) -> list[Row]:
    command = [str(muster), "analyze", str(log), "--what-if", "none", "--out"]
    runs = [_run([*command, f"{out}-{number}"]) for number in range(_RUNS)]
    bytes_read = sum(file.stat().st_size for file in log.glob("__*/*.log"))
    return [
        at_most(what, min(cpu for cpu, _ in runs), limit_s),
        plain("  by the clock, s", min(wall for _, wall in runs)),
        plain("  the log, KiB", bytes_read / 1024),
    ]


def _run(command: list[str]) -> tuple[float, float]:
    """Run a command. Returns the CPU time of all its processes, and the wall time."""
    began = time.monotonic()
    seen: dict[int, float] = {}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            # read repeatedly, because the CPU time of an ended process can no longer be read
            seen |= cpu_by_process(process.pid)
            time.sleep(SAMPLE_S)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return sum(seen.values()), time.monotonic() - began
