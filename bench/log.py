"""`python -m bench.log` measures how fast one core loads and compacts the log of `__consumer_offsets`.

It also measures how late the event loop is while the log cleaner works.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import random
import statistics
import tempfile
import time
from threading import Event

import structlog

from muster.coordinator.groups.common.image import NO_TOPICS
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.log import FileStorage, LogConfig, LogManager, LogSettings, SharedSync, UnifiedLog, batches
from muster.coordinator.log.cleaning.cleaner import Cleaner
from muster.coordinator.log.cleaning.compaction import Compaction, Throttle
from muster.coordinator.log.cleaning.job import examine
from muster.coordinator.runtime.group_coordinator.record_codec import RecordCodec
from muster.coordinator.runtime.loader import replay_chunks
from muster.coordinator.system.clock import LoopClock, ManualClock
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from muster.protocol.records import OFFSETS

NOW = 1_700_000_000_000
CONFIG = LogConfig(segment_bytes=104_857_600, cleanup_policy=("compact",))
LOAD_CHUNK_BYTES = 256 * 1024
TICKS = 3000


def fill(log: UnifiedLog, records: int, groups: int, per_batch: int) -> None:
    """Write commits of random groups and partitions as the coordinator does, and roll the last segment."""
    draw = random.Random(1)
    topic_id = bytes(range(16))
    pairs = []
    for number in range(records):
        key = OffsetCommitKey(f"group-{draw.randrange(groups)}", "orders-topic", draw.randrange(16))
        value = OffsetCommitValue(number, -1, "", NOW + number, -1, topic_id)
        pairs.append((OFFSETS.encode_key(key), OFFSETS.encode_value(value, 4)))
        if len(pairs) == per_batch:
            log.append(0, batches.build(pairs, timestamp_ms=NOW + number), wall_ms=NOW)
            pairs = []
    log.roll(NOW)


def open_log(manager: LogManager, partition: int) -> UnifiedLog:
    return manager.open_log("__consumer_offsets", partition, config=CONFIG)


def replay(log: UnifiedLog) -> float:
    """How many records one core reads, checks, decodes and replays in a second."""
    core, reader, clock = GroupCore(GroupSettings(), NO_TOPICS), RecordCodec(0).reader(), ManualClock()
    begin = time.process_time()
    count = sum(replay_chunks(log.replay(chunk_bytes=LOAD_CHUNK_BYTES), reader, core, clock))
    return count / (time.process_time() - begin)


def compact(log: UnifiedLog, manager: LogManager) -> float:
    """How many MB one core compacts in a second, without pauses."""
    found = examine(log, None, NOW)
    work = Compaction(
        manager.storage, found.plan(LogSettings(), NOW), Throttle(Event(), cpu_share=1, bytes_per_second=1e18)
    )
    begin = time.process_time()
    work.find()
    for group in work.groups:
        work.write(group)
    return found.dirty_bytes / 1e6 / (time.process_time() - begin)


async def lateness_ms(manager: LogManager, *, with_cleaner: bool) -> tuple[list[float], float]:
    """How late calls are that are due after 1 ms, and the share of CPU time of all other work."""
    loop = asyncio.get_running_loop()
    cleaner = Cleaner(manager, LoopClock(loop), SharedSync(loop.call_soon_threadsafe, threads=1))
    if with_cleaner:
        cleaner.check_logs()
    late: list[float] = []
    begin, used, own = time.perf_counter(), time.process_time(), time.thread_time()
    for _ in range(TICKS):
        wanted = time.perf_counter() + 0.001
        await asyncio.sleep(0.001)
        late.append((time.perf_counter() - wanted) * 1000)
    share = (time.process_time() - used - (time.thread_time() - own)) / (time.perf_counter() - begin)
    await asyncio.to_thread(cleaner.stop)
    return late, share


def describe(late: list[float]) -> str:
    cuts = statistics.quantiles(late, n=1000)
    return f"p50 {cuts[499]:.2f}, p99 {cuts[989]:.2f}, p99.9 {cuts[998]:.2f} ms"


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.log", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--groups", type=int, default=1_000, help="of 16 partitions each (default: 1000)")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    gc.disable()
    with tempfile.TemporaryDirectory() as directory:
        manager = LogManager(FileStorage(directory), LogSettings())
        manager.open(cluster_id=None, node_id=1, draw_uuid=lambda: bytes(16))
        for partition, per_batch in enumerate((1, 10)):
            log = open_log(manager, partition)
            fill(log, options.records, options.groups, per_batch)
            print(f"{options.records} commits, {per_batch} in a batch, {log.size_bytes / 1e6:.0f} MB")
            print(f"  load: {statistics.median(replay(log) for _ in range(5)):.0f} records/s of one core")
            print(f"  compact: {statistics.median(compact(log, manager) for _ in range(5)):.0f} MB/s of one core")
        alone, _ = asyncio.run(lateness_ms(manager, with_cleaner=False))
        beside, share = asyncio.run(lateness_ms(manager, with_cleaner=True))
        print(f"the event loop is late, alone: {describe(alone)}; beside the cleaner: {describe(beside)}")
        print(f"the cleaner takes {share:.0%} of a core")
        manager.close(clean=False)


if __name__ == "__main__":
    main()
