"""A Spark for measures. Reads the resources of its JVM, Python workers and driver from Linux's /proc."""

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

from bench.measure import cpu_s, resident_mb
from muster.pipeline.session import UNSEEN_PLANS, open_session
from tests.pipeline.jars import CONNECTOR

CORES: Final = 2
SAMPLE_S: Final = 0.2


class Memory(NamedTuple):
    """The peaks of memory, in MiB."""

    driver_and_jvm: float
    worker: float
    """The peak of the largest Python worker."""


class Measured(NamedTuple):
    """The cost of one job."""

    cpu_s: float
    """The user and system time of the JVM and its Python workers."""
    wall_s: float


class Runs(NamedTuple):
    """The cost of a job that ran several times."""

    first: Measured
    """The first run, in which Java also compiles."""
    warm: Measured
    """The median, by CPU time, of the later runs."""


def children_of(pid: int) -> list[int]:
    """All present descendants of a process: children, their children, and so on."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            except (OSError, IndexError):
                continue  # this process has ended
            parents.setdefault(int(fields[1]), []).append(int(folder.name))
    found, open_pids = [], [pid]
    while open_pids:
        children = parents.get(open_pids.pop(), [])
        found += children
        open_pids += children
    return found


def cpu_by_process(pid: int) -> dict[int, float]:
    """The CPU time until now of a process, and of each of its present descendants."""
    found: dict[int, float] = {}
    for one in (pid, *children_of(pid)):
        try:
            found[one] = cpu_s(one)
        except OSError:
            continue  # this process has ended
    return found


class SparkMeter:
    """A Spark session and the cost of its jobs."""

    def __init__(self, folder: Path, settings: dict[str, str] | None = None) -> None:
        self.folder = folder
        # `muster analyze` has the same settings
        found = {**UNSEEN_PLANS, "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true", **(settings or {})}
        if connector := CONNECTOR.all():
            found["spark.jars"] = ",".join(map(str, connector))
        self.spark: SparkSession = open_session(f"local[{CORES}]", found)
        gateway: Any = self.spark.sparkContext._gateway
        self._jvm: int = gateway.proc.pid

    def parquet(self, rows: Any) -> None:
        """Write a DataFrame as Parquet."""
        target = self.folder / "table"
        rows.write.mode("overwrite").parquet(str(target))
        shutil.rmtree(target)

    def measure(self, job: Callable[[], Any]) -> Measured:
        """Measure one run. The CPU times of processes are read repeatedly, because that of an ended worker is lost."""
        before, start = cpu_by_process(self._jvm), time.monotonic()
        seen = dict(before)
        with _again_and_again(lambda: seen.update(cpu_by_process(self._jvm))):
            job()
        wall_s = time.monotonic() - start
        seen.update(cpu_by_process(self._jvm))
        return Measured(sum(spent - before.get(pid, 0.0) for pid, spent in seen.items()), wall_s)

    def runs(self, job: Callable[[], Any], count: int = 3) -> Runs:
        """Run the job several times: the cost of the first run, and the median of the others."""
        first = self.measure(job)
        return Runs(first, sorted(self.measure(job) for _ in range(count))[count // 2])

    @contextmanager
    def memory(self) -> Iterator[Callable[[], Memory]]:
        """Watch the memory until the end of the block. The function that the block gets returns the peaks."""
        peaks = [0.0, 0.0]
        java = os.readlink(f"/proc/{self._jvm}/exe")

        def look() -> None:
            peaks[0] = max(peaks[0], resident_mb(self._jvm) + resident_mb(os.getpid()))
            for child in children_of(self._jvm):
                try:
                    # a process that the JVM starts is at first a fork, and seems to have the JVM's memory
                    if os.readlink(f"/proc/{child}/exe") != java:
                        peaks[1] = max(peaks[1], resident_mb(child))
                except (OSError, RuntimeError):
                    continue  # this process has ended

        with _again_and_again(look):
            yield lambda: Memory(*peaks)


@contextmanager
def _again_and_again(look: Callable[[], None]) -> Iterator[None]:
    """Call a function every `SAMPLE_S` in a thread, until the end of the block."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(SAMPLE_S):
            look()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
