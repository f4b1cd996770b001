"""Measures a follower (`muster analyze --follow`): how long it takes until its tables hold a batch of commits."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Final

from bench.explain.row import Row, at_most, plain
from bench.explain.spark import CORES, SparkMeter
from muster.pipeline.follow.run import Follower, Following
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


def following(_log: Path, folder: Path) -> list[Row]:
    """Measure batches of `GROUPS` x `PARTITIONS` commits. A server has the sample of a log, which was read before."""
    muster, sample = str(Path(sys.executable).parent / "muster"), folder / "sample"
    subprocess.run([muster, "log", "sample", sample, *_SAMPLE], check=True, stdout=subprocess.DEVNULL)
    command = [muster, "serve", "--data-dir", str(sample), "--listen", "127.0.0.1:0", "--log-level", "error"]
    meter = SparkMeter(folder)
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
            costs = []
            for number in range(BATCHES):
                wanted = _rows(follower) + GROUPS * PARTITIONS
                asyncio.run(_commit(address, number))
                began_s = time.process_time()
                spent = meter.measure(partial(_wait, follower, thread, wanted))
                # this process makes tables too
                costs.append(spent._replace(cpu_s=spent.cpu_s + time.process_time() - began_s))
        finally:
            stopped.set()
            thread.join()
            server.terminate()
    cpu_s, wall_s = (statistics.median(values) for values in zip(*costs[1:], strict=True))
    rows = f"{GROUPS * PARTITIONS:,} rows"
    return [
        at_most(f"--follow: a batch of {rows}, s on {CORES} cores (CPU s / {CORES})", cpu_s / CORES, _GOAL_S),
        plain("  by the clock, from the last commit until the tables have it, s", wall_s),
        plain("  rows that were read before", wanted - BATCHES * GROUPS * PARTITIONS),
    ]


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
