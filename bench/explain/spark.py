"""A Spark for measures, and what its processes use: the JVM, its Python workers, the driver (Linux's /proc)."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession

from bench.measure import resident_mb
from muster.pipeline.session import open_session
from tests.pipeline.connector import jars

CORES: Final = 2
SAMPLE_S: Final = 0.1
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


class Memory(NamedTuple):
    """Peaks, MiB."""

    driver_and_jvm: float
    worker: float
    """Of the largest one."""


class Measured(NamedTuple):
    """What a job cost."""

    cpu_s: float
    """User and system, of the JVM and its workers."""
    wall_s: float


def children_of(pid: int) -> list[int]:
    """All descendants that there are now."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            except (OSError, IndexError):
                continue  # it has ended
            parents.setdefault(int(fields[1]), []).append(int(folder.name))
    found, open_pids = [], [pid]
    while open_pids:
        children = parents.get(open_pids.pop(), [])
        found += children
        open_pids += children
    return found


def tree_cpu_s(pid: int) -> float:
    """CPU time of a process and its descendants so far, those that have ended too."""
    total = 0
    for one in (pid, *children_of(pid)):
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue  # it has ended: its parent has its time
        total += sum(map(int, fields[11:15]))
    return total / _TICKS_PER_S


class Bench:
    """A session of its own."""

    def __init__(self, folder: Path, settings: dict[str, str] | None = None) -> None:
        self.folder = folder
        found = {"spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true", **(settings or {})}
        if connector := jars():
            found["spark.jars"] = ",".join(map(str, connector))
        self.spark: SparkSession = open_session(f"local[{CORES}]", found)
        gateway: Any = self.spark.sparkContext._gateway
        self._jvm: int = gateway.proc.pid

    def parquet(self, rows: Any) -> None:
        """Write a DataFrame."""
        target = self.folder / "table"
        rows.write.mode("overwrite").parquet(str(target))
        shutil.rmtree(target)

    def measure(self, job: Callable[[], Any]) -> Measured:
        """What one run costs."""
        cpu, start = tree_cpu_s(self._jvm), time.monotonic()
        job()
        return Measured(tree_cpu_s(self._jvm) - cpu, time.monotonic() - start)

    def best(self, job: Callable[[], Any], runs: int = 3) -> Measured:
        """The least of several runs, after one that is not counted: others use the machine too."""
        job()
        return min(self.measure(job) for _ in range(runs))

    @contextmanager
    def memory(self) -> Iterator[Callable[[], Memory]]:
        """Look at the memory until the end; the function tells the peaks."""
        over = threading.Event()
        peaks = [0.0, 0.0]

        def look() -> None:
            while not over.wait(SAMPLE_S):
                both = resident_mb(self._jvm) + resident_mb(os.getpid())
                peaks[0] = max(peaks[0], both)
                for child in children_of(self._jvm):
                    try:
                        peaks[1] = max(peaks[1], resident_mb(child))
                    except (OSError, RuntimeError):
                        continue  # it has ended

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield lambda: Memory(*peaks)
        finally:
            over.set()
            thread.join()
