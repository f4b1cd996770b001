"""Measures the memory of offsets, members and transactional ids, and how long it takes to load and compact a log.

Kafka's own load of the same files is measured, too. The last figure is how much CPU time events add to a rebalance.
`python -m bench.memory` prints all figures but the last.
"""

from __future__ import annotations

import ctypes
import gc
import json
import logging
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import structlog

from bench import log as log_bench
from bench import measure
from bench.scenarios import Target
from muster.client.event_reader import Events
from muster.client.kafka_client import KafkaClient
from muster.coordinator.config.listeners import Address
from muster.coordinator.groups.common.image import NO_TOPICS
from muster.coordinator.groups.common.settings import GroupSettings
from muster.coordinator.groups.core import GroupCore
from muster.coordinator.log import FileStorage, LogManager, LogSettings, batches
from muster.coordinator.runtime.group_coordinator.record_codec import RecordCodec
from muster.coordinator.runtime.loader import replay_chunks
from muster.coordinator.runtime.transaction_coordinator.record_codec import RecordCodec as TransactionRecordCodec
from muster.coordinator.state_machine.interface import Now, Respond
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.transactions.commands import TransactionSettings
from muster.coordinator.transactions.core import TransactionCore
from muster.protocol.consumer import encode_assignment, encode_subscription
from muster.protocol.message import Message
from muster.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from muster.protocol.messages.group_records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from muster.protocol.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from muster.protocol.messages.transaction_records.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from muster.protocol.records import OFFSETS, TRANSACTION_STATE
from tests.support.servers import REPOSITORY, KafkaServer, MusterServer

ALL_MEMBERS, MEMBERS_EACH, CLIENTS = 100_000, 100, 500
ALL_OFFSETS, OFFSETS_EACH = 1_000_000, 100
ALL_IDS, OPEN_EVERY = 100_000, 10
"""The number of transactional ids. One of `OPEN_EVERY` has an open transaction."""
RECORDS = 1_000_000
LOG_RUNS = 5
BEGIN = Now(1_000, 1_700_000_000_000)
CLOCK = ManualClock(*BEGIN)
PER_BATCH = {1: "one by one", 10: "10 in a batch"}
LOAD = "load of 1,000,000 commits by the server, ms"
EVENTS = "what events add to a rebalance, % of its CPU"
PER_READ = 100
SETTLES = 30
"""How many groups of a thousand members join. There are many, since the system counts CPU time in steps of 10 ms."""
LOADED = re.compile(r"Finished loading of metadata from __consumer_offsets-0 .* in (\d+)ms")

Samples = defaultdict[str, defaultdict[str, list[float]]]


def figures(samples: Samples) -> None:
    """Measure the figures that need only one process. Nothing else runs meanwhile."""
    for what in ("memory", "log", "ids"):
        done = subprocess.run(
            [sys.executable, "-m", "bench.memory", what], cwd=REPOSITORY, capture_output=True, text=True, check=True
        )
        for name, value in json.loads(done.stdout).items():
            samples[name]["muster"].append(value)


# -- memory


def group_records() -> Iterable[tuple[Message, Message]]:
    """Make records of groups of consumers. Each member has its own id, client and partitions."""
    subscription = encode_subscription(ConsumerProtocolSubscription(["orders"]), 3)
    for group in range(ALL_MEMBERS // MEMBERS_EACH):
        members = []
        for number in range(MEMBERS_EACH):
            owned = list(range(number * 10, number * 10 + 10))
            topics = [ConsumerProtocolAssignmentTopicPartition("orders", owned)]
            assignment = encode_assignment(ConsumerProtocolAssignment(topics), 3)
            client = f"client-{(group + number) % CLIENTS}"
            member_id = f"{client}-{group:08x}-0000-4000-8000-{number:012x}"
            host = f"/10.0.{number}.{group % 50}"
            members.append(MemberMetadata(member_id, None, client, host, 300_000, 45_000, subscription, assignment))
        value = GroupMetadataValue("consumer", 7, "range", members[0].member_id, BEGIN.wall_ms, members)
        yield GroupMetadataKey(f"group-{group}"), value


def offset_records() -> Iterable[tuple[Message, Message]]:
    """Make records of the offsets that those groups have committed."""
    topic_id = bytes(range(16))
    for group in range(ALL_OFFSETS // OFFSETS_EACH):
        for partition in range(OFFSETS_EACH):
            value = OffsetCommitValue(group * 1000 + partition, 3, "", BEGIN.wall_ms + partition, -1, topic_id)
            yield OffsetCommitKey(f"group-{group}", "orders", partition), value


def replay(core: GroupCore, records: Iterable[tuple[Message, Message]], version: int) -> None:
    """Replay records from their bytes, as a load does."""
    sum(replay_chunks(_chunks(records, version), RecordCodec(0).reader(), core, CLOCK))


def _chunks(records: Iterable[tuple[Message, Message]], version: int) -> Iterator[bytes]:
    rows: list[tuple[bytes, bytes]] = []
    for key, value in records:
        rows.append((OFFSETS.encode_key(key), OFFSETS.encode_value(value, version)))
        if len(rows) == PER_READ:
            yield bytes(batches.build(rows, timestamp_ms=BEGIN.wall_ms))
            rows = []


def resident_bytes() -> float:
    """The resident memory of this process, without freed memory."""
    gc.collect()
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
    return measure.resident_mb(os.getpid()) * 1024 * 1024


def memory_figures() -> dict[str, float]:
    """The bytes of memory for each member and each committed offset, with their groups, by how much the process
    grows.
    """
    members, offsets = (GroupCore(GroupSettings(), NO_TOPICS) for _ in range(2))
    replay(GroupCore(GroupSettings(), NO_TOPICS), [next(iter(group_records()))] * 100, 3)  # makes single objects
    empty = resident_bytes()
    replay(members, group_records(), 3)
    members.loaded(BEGIN)
    with_members = resident_bytes()
    replay(offsets, offset_records(), 4)
    offsets.loaded(BEGIN)
    return {
        "memory of a member, one of 100,000, bytes": (with_members - empty) / ALL_MEMBERS,
        "memory of a committed offset, one of 1,000,000, bytes": (resident_bytes() - with_members) / ALL_OFFSETS,
    }


def id_batches() -> list[bytes]:
    """Make the records of transactional ids that compaction leaves: the newest of each id, in a batch of its own."""
    found = []
    for number in range(ALL_IDS):
        is_open = not number % OPEN_EVERY
        partitions = [PartitionsSchema("__consumer_offsets", [number % 50]), PartitionsSchema("orders", [number % 8])]
        value = TransactionLogValue(
            number, number, -1, number % 1_000, -1, 60_000, 1 if is_open else 4, partitions if is_open else [],
            BEGIN.wall_ms + number, BEGIN.wall_ms + number, 2,
        )  # fmt: skip
        key = TransactionLogKey(f"application-{number // 100}-{number:08x}-producer")
        row = TRANSACTION_STATE.encode_key(key), TRANSACTION_STATE.encode_value(value, 1)
        found.append(bytes(batches.build([row], timestamp_ms=BEGIN.wall_ms)))
    return found


def id_figures() -> dict[str, float]:
    """Measure how long transactional ids take to load, and their memory."""
    written = id_batches()
    chunks = [b"".join(written[at : at + PER_READ]) for at in range(0, ALL_IDS, PER_READ)]

    def load(some: list[bytes]) -> TransactionCore:
        core, reader = TransactionCore(TransactionSettings(), _unasked), TransactionRecordCodec(0).reader()
        sum(replay_chunks(some, reader, core, CLOCK))
        core.loaded(BEGIN)
        return core

    load(chunks[:1])  # makes single objects
    before, began_s = resident_bytes(), time.process_time()
    core = load(chunks)
    spent_s = time.process_time() - began_s
    assert core.transactional_id_count == ALL_IDS
    return {
        "load of 100,000 transactional ids, CPU ms": spent_s * 1000,
        "memory of a transactional id, one of 100,000, bytes": (resident_bytes() - before) / ALL_IDS,
    }


def _unasked(transactional_id: str) -> Respond:
    raise AssertionError(f"{transactional_id} is not about to end")


# -- the log


def log_figures() -> dict[str, float]:
    """Measure how fast one core loads and compacts the log."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    gc.disable()
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as directory:
        manager = LogManager(FileStorage(directory), LogSettings())
        manager.open(cluster_id=None, node_id=1, draw_uuid=lambda: bytes(16))
        for partition, (per_batch, words) in enumerate(PER_BATCH.items()):
            log = log_bench.open_log(manager, partition)
            log_bench.fill(log, RECORDS, 1_000, per_batch)
            loads = [log_bench.replay(log) for _ in range(LOG_RUNS)]
            found[f"load of commits, {words}, records/s of one core"] = statistics.median(loads)
            speeds = [log_bench.compact(log, manager) for _ in range(LOG_RUNS)]
            found[f"compaction of commits, {words}, MB/s of one core"] = statistics.median(speeds)
        manager.close(clean=False)
    return found


# -- servers


def load_figures(workdir: Path, samples: Samples, muster: Path, *, with_kafka: bool) -> None:
    """Measure how long each server takes to load the same partition."""
    source = _written(workdir / "written")
    server = MusterServer(workdir / "load-muster", {"offsets.topic.num.partitions": "1"}, executable=muster)
    shutil.copytree(source, server.workdir / "data" / source.name)
    server.start()
    try:
        samples[LOAD]["muster"].append(_muster_load_ms(server))
    finally:
        server.stop()
    if with_kafka:
        samples[LOAD]["kafka"].append(_kafka_load_ms(workdir / "load-kafka", source))


def _written(directory: Path) -> Path:
    manager = LogManager(FileStorage(directory), LogSettings())
    manager.open(cluster_id=None, node_id=1, draw_uuid=lambda: bytes(16))
    log_bench.fill(log_bench.open_log(manager, 0), RECORDS, 1_000, 1)
    manager.close()
    return directory / "__consumer_offsets-0"


def _muster_load_ms(server: MusterServer) -> float:
    with KafkaClient(Address(*server.address)) as cluster:
        events = Events(cluster)
        for value in events.follow(dict.fromkeys(events.ends(), 0)):
            if value["kind"] == "shard_loaded":
                return float(value["took_ms"])
    raise RuntimeError("the events ended")


def _kafka_load_ms(workdir: Path, source: Path) -> float:
    """How long Kafka takes to load the partition, in ms. Kafka must create the topic before its files are replaced."""
    kafka = KafkaServer(workdir, {"offsets.topic.num.partitions": "1"})
    kafka.start()
    kafka.stop()
    logs = workdir / "data" / "logs"
    for path in (logs / source.name).iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in source.iterdir():
        if path.name != "partition.metadata":
            shutil.copy(path, logs / source.name)
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        (logs / name).unlink(missing_ok=True)
    before = os.environ.get("LOG_LEVEL")
    os.environ["LOG_LEVEL"] = "INFO"
    try:
        kafka.start()
        while (loaded := LOADED.search(kafka.log())) is None:
            time.sleep(0.05)
        kafka.stop()
    finally:
        if before is None:
            del os.environ["LOG_LEVEL"]
        else:
            os.environ["LOG_LEVEL"] = before
    return float(loaded[1])


def events_figure(with_events: Target, without_events: Target, samples: Samples) -> None:
    """Let groups of a thousand members join, in turn on a server that writes events and on another server.

    The figure is the CPU time of a join. How often a member joins depends on the order of all members. The servers are
    compared in pairs of runs, because other load on the machine changes within minutes.
    """
    targets = (with_events, without_events)
    try:
        for target in targets:
            target.server.start()
            _us_per_join(target)  # the first group does not count
        for pair in range(SETTLES):
            first, second = targets if pair % 2 else reversed(targets)
            us = {first: _us_per_join(first), second: _us_per_join(second)}
            samples[EVENTS]["muster"].append(100 * (us[with_events] / us[without_events] - 1))
    finally:
        for target in targets:
            if target.server.running:
                target.server.stop()


def _us_per_join(target: Target) -> float:
    settled = target.settle([f"large-{next(target.serial)}"], 1000)
    return settled.server_cpu_s * 1e6 / settled.joins


def main() -> None:
    what = sys.argv[1:] or ["memory", "ids", "log"]
    found: dict[str, float] = {}
    if "memory" in what:
        found |= memory_figures()
    if "ids" in what:
        found |= id_figures()
    if "log" in what:
        found |= log_figures()
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
