"""Recordings with three brokers: trouble of one broker, and the log of all. Also logs that begin in mid-life."""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from muster.protocol.hashing import group_partition
from tests.pipeline.recording.cast import Group, Stage, now_ms
from tests.support.servers import KafkaCluster

OFFSETS: Final = "__consumer_offsets"
AWAY_S: Final = 120.0
APART_S: Final = 15.0
"""So long after a broker is back, the next one restarts."""
PATIENCE_S: Final = 90.0
AGAIN: Final = "away-broker"
"""The trouble in which the coordinator of some groups is away until its broker is back."""
REPLICAS: Final = 2
"""How many brokers have each partition of a topic."""
ROLLS_S: Final = 6.0
"""So long, the log of the groups rolls each second. Then the cleaner compacts it up to that time."""
CLEANS_S: Final = 8.0
BEGINS_S: Final = 55.0
"""The log is whole from so long after the start on."""
COMPACTED: Final = "compacted"


def properties(trouble: str) -> dict[str, str]:
    """The settings of three brokers. One copy of the offsets is lost with its broker; of three, others go on."""
    return {
        "offsets.topic.replication.factor": "1" if trouble == AGAIN else "3",
        "transaction.state.log.replication.factor": "3",
        "share.coordinator.state.topic.replication.factor": "3",
        "default.replication.factor": str(REPLICAS),
    }


def _partitions(admin: AdminClient) -> dict[int, Any]:
    """The partitions of the log of the groups, as soon as a broker answers."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return dict(admin.list_topics(OFFSETS, timeout=10).topics[OFFSETS].partitions)
        except KafkaException:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.5)


def coordinators(groups: Iterable[str], leaders: Mapping[int, int]) -> dict[str, int]:
    """The broker that coordinates each group, by the leaders of the partitions."""
    return {group: leaders[group_partition(group, len(leaders))] for group in groups}


def hit_by(coordinated: Mapping[str, int]) -> tuple[int, list[str]]:
    """The broker with most groups, and these groups."""
    ((node, _),) = Counter(coordinated.values()).most_common(1)
    return node, [group for group, one in coordinated.items() if one == node]


def _coordinated(cast: Iterable[Group], stage: Stage) -> dict[str, int]:
    leaders = {number: one.leader for number, one in _partitions(stage.admin).items()}
    return coordinators((group.name for group in cast), leaders)


def _wait(stage: Stage, is_so: Callable[[Any], bool]) -> None:
    """Wait until it is so of all partitions of the log of the groups."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if all(map(is_so, _partitions(stage.admin).values())):
            return
        time.sleep(0.2)
    print("the brokers do not settle", flush=True)


def _silence(stage: Stage, how: str, groups: list[str], begun: int) -> None:
    stage.truth.write(kind="silence", how=how, groups=groups, **{"from": begun}, until=now_ms())


def away(cast: list[Group], server: KafkaCluster, stage: Stage) -> None:
    """A broker is away for two minutes, and nobody has its part of the log: its groups have no coordinator."""
    node, hit = hit_by(_coordinated(cast, stage))
    present = threading.Event()
    stage.apart.update(dict.fromkeys(hit, present))
    begun = now_ms()
    server.stop_node(node)
    time.sleep(AWAY_S)
    server.start_node(node)
    _wait(stage, lambda one: one.leader > 0)
    _silence(stage, AGAIN, hit, begun)
    present.set()
    time.sleep(60)


def lost(cast: list[Group], server: KafkaCluster, stage: Stage) -> None:
    """A broker is killed. Its groups are silent until another broker coordinates them. It is back two minutes later."""
    node, hit = hit_by(_coordinated(cast, stage))
    begun = now_ms()
    server.kill_node(node)
    _wait(stage, lambda one: one.leader not in (node, -1))
    _silence(stage, "lost-broker", hit, begun)
    time.sleep(AWAY_S)
    server.start_node(node)
    time.sleep(30)


def rolling(cast: list[Group], server: KafkaCluster, stage: Stage) -> None:
    """All brokers are restarted, one after the other: each group gets other coordinators."""
    for node in (1, 2, 3):
        hit = [group for group, one in _coordinated(cast, stage).items() if one == node]
        begun = now_ms()
        server.stop_node(node)
        _wait(stage, lambda one, node=node: one.leader not in (node, -1))
        _silence(stage, "rolling-brokers", hit, begun)
        server.start_node(node)
        _wait(stage, lambda one: len(one.isrs) == len(one.replicas))
        time.sleep(APART_S)


TROUBLES: Final[Mapping[str, Callable[[list[Group], KafkaCluster, Stage], None]]] = {
    AGAIN: away, "lost-broker": lost, "rolling-brokers": rolling,
}  # fmt: skip
"""The trouble of recordings with three brokers."""


def merge(data: Path) -> None:
    """Put the folders of all brokers together in `data`/logs: of each partition the copy with most bytes."""
    best: dict[str, tuple[int, Path]] = {}
    for folder in data.glob("logs-*/*-*"):
        size = sum(path.stat().st_size for path in folder.glob("*.log"))
        if folder.is_dir() and size > best.get(folder.name, (-1,))[0]:
            best[folder.name] = size, folder
    for name, (_, folder) in best.items():
        if not name.startswith("__cluster"):
            shutil.copytree(folder, data / "logs" / name)


def compact(stage: Stage, how: str) -> None:
    """Compact the log of the groups up to some time: before it only the last record of each key is left."""
    time.sleep(BEGINS_S)
    _configure(stage.admin, {"segment.ms": "1000", "min.cleanable.dirty.ratio": "0"})
    time.sleep(ROLLS_S)
    _configure(stage.admin, {"segment.ms": "604800000"})
    time.sleep(CLEANS_S)
    stage.truth.write(kind="begins", how=how, at=now_ms() - int(CLEANS_S * 1000) + 1_000)


def _configure(admin: AdminClient, values: Mapping[str, str]) -> None:
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in values.items()]
    for done in admin.incremental_alter_configs(
        [ConfigResource(ResourceType.TOPIC, OFFSETS, incremental_configs=entries)]
    ).values():
        done.result(30)


def cut(logs: Path) -> None:
    """Remove what is older than the last segment of each partition of the log of the groups."""
    for folder in logs.glob(f"{OFFSETS}-*"):
        *older, _ = sorted(folder.glob("*.log"))
        for path in older:
            for one in folder.glob(f"{path.stem}.*"):
                one.unlink()
