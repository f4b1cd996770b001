"""Measures a follower (`muster analyze --follow`): how long it takes until its tables hold a batch of commits.

The rows "of the CPU s" are a profile. The phases are those of the follower's thread.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from py4j.clientserver import JavaClient  # type: ignore[import-untyped]  # it has no types

from bench.explain.row import Row, at_most, plain
from bench.explain.spark import CORES, Measured, SparkMeter
from muster.pipeline.follow import run
from muster.pipeline.follow.run import Follower, Following
from muster.pipeline.follow.store import Store
from muster.pipeline.follow.tail import Tail
from muster.pipeline.sources.options import BOOTSTRAP
from muster.pipeline.wanted import Wanted
from muster.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.muster import Client

BATCHES: Final = 4
"""How many batches are measured; the first one does not count."""
GROUPS, PARTITIONS = 100, 100
TOPIC: Final = "followed"
_SAMPLE: Final = ("--groups", "30", "--hours", "4")
_GOAL_S: Final = 3
_POLL_S: Final = 0.05
_PHASES: Final[tuple[tuple[str, Any, str], ...]] = (
    ("looking for new rows", Tail, "next"),
    ("reading and staging them", run, "append"),
    ("merging chunks", run, "merge"),
    ("making tables", run, "refresh"),
    ("showing the tables", Store, "show"),
)
"""What a follower does, by the functions that do it."""


class Phases:
    """The CPU time of the phases of a follower in its thread, and its calls into Java."""

    def __init__(self) -> None:
        self.spent_s: defaultdict[str, float] = defaultdict(float)
        self.calls = 0
        for name, of, function in _PHASES:
            setattr(of, function, self._timed(name, getattr(of, function)))
        ask = JavaClient.send_command

        def counted(*given: Any, **named: Any) -> Any:
            self.calls += 1
            return ask(*given, **named)

        JavaClient.send_command = counted

    def _timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any, **named: Any) -> Any:
            began_s = time.thread_time()
            try:
                return function(*given, **named)
            finally:
                self.spent_s[name] += time.thread_time() - began_s

        return timed


def following(_log: Path, folder: Path) -> list[Row]:
    """Measure batches of `GROUPS` x `PARTITIONS` commits. A server has the sample of a log, which was read before."""
    muster, sample = str(Path(sys.executable).parent / "muster"), folder / "sample"
    subprocess.run([muster, "log", "sample", sample, *_SAMPLE], check=True, stdout=subprocess.DEVNULL)
    command = [muster, "serve", "--data-dir", str(sample), "--listen", "127.0.0.1:0", "--log-level", "error"]
    meter, phases = SparkMeter(folder), Phases()
    with subprocess.Popen([*command, "--topic", f"{TOPIC}:{PARTITIONS}"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().split()[-1]
        stopped = threading.Event()
        what = Following({BOOTSTRAP: address}, str(folder / "out"), Wanted(), trigger_ms=100, page_every=0)
        follower = Follower(meter.spark, what, stopped=stopped)
        thread = threading.Thread(target=follower.run)
        thread.start()
        try:
            _wait(follower, thread, 1)
            costs: list[Measured] = []
            own: list[float] = []
            for number in range(BATCHES):
                if number == 1:
                    phases.spent_s.clear()
                    phases.calls, jobs = 0, _jobs(meter)
                wanted = _rows(follower) + GROUPS * PARTITIONS
                asyncio.run(_commit(address, number))
                began_s = time.process_time()
                costs.append(meter.measure(partial(_wait, follower, thread, wanted)))
                own.append(time.process_time() - began_s)
            jobs = _jobs(meter) - jobs
        finally:
            stopped.set()
            thread.join()
            server.terminate()
    # this process makes tables too
    cpu_s = statistics.median(spent.cpu_s + more for spent, more in zip(costs[1:], own[1:], strict=True))
    rows, count = f"{GROUPS * PARTITIONS:,} rows", BATCHES - 1
    return [
        at_most(f"--follow: a batch of {rows}, s on {CORES} cores (CPU s / {CORES})", cpu_s / CORES, _GOAL_S),
        plain("  by the clock, from the last commit until the tables have it, s", _median_s(costs[1:])),
        plain("  rows that were read before", wanted - BATCHES * GROUPS * PARTITIONS),
        plain("  of the CPU s, Java and its Python workers", statistics.median(one.cpu_s for one in costs[1:])),
        *(plain(f"  of the CPU s, {name} (mean)", phases.spent_s[name] / count) for name, *_ in _PHASES),
        plain("  jobs of Spark (mean)", jobs / count),
        plain("  calls into Java (mean)", phases.calls / count),
    ]


def _median_s(costs: Sequence[Measured]) -> float:
    return statistics.median(one.wall_s for one in costs)


def _jobs(meter: SparkMeter) -> int:
    """The number of Spark's jobs until now."""
    found: int = meter.spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs()
    return found


def _rows(follower: Follower) -> int:
    return sum(follower.manifest.rows.values())


def _wait(follower: Follower, thread: threading.Thread, rows: int) -> None:
    """Wait until the tables hold so many rows of the log. Raises RuntimeError when the follower has ended."""
    while True:
        manifest = follower.manifest
        if manifest.version and manifest.built == manifest.batch and sum(manifest.rows.values()) >= rows:
            return
        if not thread.is_alive():
            raise RuntimeError("the follower has ended")
        time.sleep(_POLL_S)


async def _commit(address: str, offset: int) -> None:
    host, _, port = address.rpartition(":")
    client = Client(*await asyncio.open_connection(host, int(port)), "bench")
    rows = [OffsetCommitRequestPartition(index, offset, -1, "") for index in range(PARTITIONS)]
    for number in range(GROUPS):
        topics = [OffsetCommitRequestTopic(TOPIC, partitions=rows)]
        answer = await client.ask(OffsetCommitRequest(f"followed-{number}", -1, "", None, topics=topics), 8)
        if any(row.error_code for row in answer.topics[0].partitions):
            raise RuntimeError(f"a commit failed: {answer.topics[0].partitions[0].error_code}")
    client.writer.close()
