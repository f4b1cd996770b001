"""Some nodes of a cluster, a database that fails, and a ledger of what was acknowledged. A seed is a history.

Each node in office appends to some logs, moves their starts, makes and deletes topics, and has them compacted. Checked:
each node that takes office finds everything that was acknowledged, where it was and as it was; nothing is there twice;
nobody is in office with another; and when the faults are over, somebody soon is.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from muster.coordinator.database import copy
from muster.coordinator.log import LogConfig, LogManager, LogSettings, MemoryStorage, batches
from muster.coordinator.log.cleaning.cleaner import Cleaner
from muster.coordinator.machine import Machine
from muster.simulation.cluster.database import FaultyStore, Tables
from muster.simulation.cluster.node import Node
from muster.simulation.world import World

LEASE_MS = 9_000
SETTINGS = LogSettings(log_cleaner_backoff_ms=3_000, log_cleaner_min_cleanable_ratio=0.1)
PLAIN = LogConfig(segment_bytes=600, retention_ms=-1)
COMPACTED = LogConfig(segment_bytes=600, cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.1)
KEYS = 5
TOPICS = {"plain": (b"p" * 16, 2), "compacted": (b"c" * 16, 1)}


class Ledger:
    """What was acknowledged: by log, offset -> (key, value)."""

    def __init__(self) -> None:
        self.acked: dict[tuple[bytes, int], dict[int, tuple[bytes, bytes]]] = {}
        self.asked_start: dict[tuple[bytes, int], int] = {}
        self.deleted: set[bytes] = set()
        self.count = 0

    def ack(self, log: tuple[bytes, int], offset: int, record: tuple[bytes, bytes]) -> None:
        self.acked.setdefault(log, {})[offset] = record
        self.count += 1


class ClusterWorld(World):
    """See the module."""

    def __init__(self, seed: int, *, nodes: int = 3) -> None:
        super().__init__(Random(seed))
        self.seed = seed
        self.tables = Tables(self)
        self.ledger = Ledger()
        self.faults: list[str] = []
        self.drawn = 0
        self.terms = 0
        self.serving: list[ToyServer] = []
        self.nodes: list[Node] = []
        self.processes: list[Node] = []
        """All that there were."""
        for number in range(nodes):
            self._begin(number)

    def fault(self, what: str) -> None:
        self.faults.append(f"seed {self.seed}, ms {self.ms}: {what}")

    def _begin(self, number: int) -> None:
        node = Node(self, self.tables, f"node-{number}", LEASE_MS, self._open_server, self.fault)
        self.processes.append(node)
        if number < len(self.nodes):
            self.nodes[number] = node
        else:
            self.nodes.append(node)
        self._set_faults(node)

    def _set_faults(self, node: Node) -> None:
        node.store.faults = 0 if self.calm else self.rng.choice((0, 10, 50, 200))
        node.store.slow_ms = 3 if self.calm else self.rng.choice((3, 30, 1_000, 4_000))

    def _open_server(self, node: Node, machine: Machine) -> ToyServer:
        self.terms += 1
        return ToyServer(self, node, machine)

    # ---- what goes wrong

    def trouble(self, _: Any = None) -> None:
        if self.calm:
            return
        rng = self.rng
        number = rng.randrange(len(self.nodes))
        node = self.nodes[number]
        what = rng.choice(("kill", "kill", "stop", "pause", "pause", "cut", "outage", "long outage", "mood", "mood"))
        if what in ("kill", "stop") and node.alive:
            (node.kill if what == "kill" else node.stop)()
            self.later(rng.randrange(5_000), lambda _: self._return(number))
        elif what == "pause":
            node.stand_still(rng.choice((100, 5_000, 12_000, 30_000)))
        elif what == "cut":
            node.store.is_cut = True
            self.later(rng.choice((500, 5_000, 15_000)), lambda _: setattr(node.store, "is_cut", False))
        elif what.endswith("outage"):
            self.tables.is_down = True
            self.later(15_000 if what[0] == "l" else 2_000, lambda _: setattr(self.tables, "is_down", False))
        else:
            self._set_faults(node)
        self.later(rng.randrange(200, 8_000), self.trouble)

    def _return(self, number: int) -> None:
        if self.nodes[number].alive and not self.calm:
            self.later(500, lambda _: self._return(number))  # it still stops
        elif not self.nodes[number].alive:
            self._begin(number)

    def make_calm(self) -> None:
        self.calm = True
        self.tables.is_down = False
        for number, node in enumerate(self.nodes):
            node.store.is_cut = False
            self._set_faults(node)
            if not node.alive:
                self._begin(number)

    def end(self) -> None:
        """Nobody is there any more."""
        for node in self.processes:
            node.close()

    # ---- checking

    def serves(self, server: ToyServer) -> None:
        for other in self.serving:
            if other.is_up and other.node.alive and not other.node.stands_still:
                self.fault(f"{server.node.name} and {other.node.name} are both in office")
        self.serving = [other for other in self.serving if other.is_up and other.node.alive] + [server]

    def check(self, logs: LogManager, who: str) -> None:
        for (topic_id, index), acked in self.ledger.acked.items():
            name = next((name for name, (one, _) in TOPICS.items() if one == topic_id), None)
            if name is not None:
                log = logs.get(name, index)
                if log is None:
                    self.fault(f"{who}: the log {name}-{index} is gone")
                else:
                    self._check_log(log, acked, self.ledger.asked_start.get((topic_id, index), 0), who)

    def _check_log(self, log: Any, acked: dict[int, tuple[bytes, bytes]], asked_start: int, who: str) -> None:
        found: dict[int, tuple[bytes, bytes]] = {}
        for chunk in log.replay():
            for _, records in batches.read(chunk):
                offsets = [record.offset for record in records]
                if found and offsets and offsets[0] <= max(found):
                    self.fault(f"{who}: {log.directory}: offset {offsets[0]} is there twice")
                found.update((record.offset, (record.key or b"", record.value or b"")) for record in records)
        values = [value for _, value in found.values()]
        if len(set(values)) != len(values):
            self.fault(f"{who}: {log.directory}: a record is there twice")
        if log.start_offset > asked_start:
            self.fault(f"{who}: {log.directory} begins at {log.start_offset}, and only {asked_start} was asked for")
        newest = {key: offset for offset, (key, _) in sorted(found.items())}
        for offset, record in acked.items():
            if offset < log.start_offset:
                continue
            if found.get(offset) == record:
                continue
            if log.config.compacts and offset not in found and newest.get(record[0], -1) > offset:
                continue
            self.fault(f"{who}: {log.directory}: offset {offset} was {record}, and is {found.get(offset)}")


class ToyServer:
    """In the place of `coordinator.server.Server`: appends to logs, and does with them what a server does."""

    def __init__(self, world: ClusterWorld, node: Node, machine: Machine) -> None:
        self.world, self.node, self.machine = world, node, machine
        self.is_up = False
        self.epochs: dict[str, int] = {}
        self.bound = ("nowhere", 0)

    async def start(self) -> None:
        storage: Any = self.machine.storage(None)
        post = asyncio.get_running_loop().call_soon_threadsafe
        sync = self.machine.workers(post, 1)
        self.logs = LogManager(storage, SETTINGS, sync=sync, engine=self.machine.engine())
        self.logs.open(cluster_id=None, node_id=1, draw_uuid=self.machine.draw_uuid)
        self._drop_others()
        for name, (topic_id, count) in TOPICS.items():
            for index in range(count):
                log = self.logs.open_log(
                    name, index, config=COMPACTED if name == "compacted" else PLAIN, topic_id=topic_id
                )
                self.epochs[f"{name}-{index}"] = log.leader_epoch + 1
        self.world.check(self.logs, self.node.name)
        self.is_up = True
        self.world.serves(self)
        self.cleaner = Cleaner(self.logs, self.node.clock, self.machine.workers(post, 1), cpu_share=1.0)
        self.cleaner.start()
        self._later()

    def _drop_others(self) -> None:
        """Topics that were to be deleted, or of which nobody knows: as `Strays` does."""
        for name, index in self.logs.folders.on_disk():
            if name not in TOPICS:
                self.logs.remove(self.logs.delete(name, index, topic_id=b"x" * 16))

    def _later(self) -> None:
        at_ms = self.node.clock.mono_ms() + 1 + self.world.rng.randrange(300)
        self.node.clock.call_at(at_ms, self._act)

    def _act(self) -> None:
        if not self.is_up:
            return
        rng, world = self.world.rng, self.world
        name, (topic_id, count) = rng.choice(list(TOPICS.items()))
        index = rng.randrange(count)
        log = self.logs.get(name, index)
        assert log is not None
        what = rng.randrange(100)
        if log.failure is not None:
            pass
        elif what == 0 and not log.config.compacts:
            start = rng.randrange(log.start_offset, log.durable_offset + 1)
            key = topic_id, index
            world.ledger.asked_start[key] = max(world.ledger.asked_start.get(key, 0), start)
            log.delete_records_before(start)
        elif what == 1:
            self._short_lived()
        else:
            for _ in range(rng.randrange(1, 4)):
                self._append(log, topic_id, index)
        self._later()

    def _append(self, log: Any, topic_id: bytes, index: int) -> None:
        world = self.world
        records = []
        for _ in range(world.rng.randrange(1, 4)):
            world.drawn += 1
            records.append((b"k%d" % world.rng.randrange(KEYS), b"%d" % world.drawn))
        batch = batches.build(records, timestamp_ms=world.wall_ms)
        first = log.append(self.epochs[log.directory], batch, wall_ms=world.wall_ms).base_offset

        def durable(error: Exception | None) -> None:
            if error is None:
                for number, record in enumerate(records):
                    world.ledger.ack((topic_id, index), first + number, record)

        log.when_durable(first + len(records), durable)

    def _short_lived(self) -> None:
        """A topic that comes, gets a record, and goes."""
        topic_id = self.machine.draw_uuid()
        name = f"short-{self.world.rng.randrange(1_000_000)}"
        log = self.logs.open_log(name, 0, config=PLAIN, topic_id=topic_id)
        log.append(0, batches.build([(b"k", b"v")], timestamp_ms=1), wall_ms=1)

        def delete() -> None:
            if self.is_up:
                self.logs.remove(self.logs.delete(name, 0, topic_id=topic_id))

        self.node.clock.call_at(self.node.clock.mono_ms() + self.world.rng.randrange(500), delete)

    async def stop(self) -> None:
        self.is_up = False
        self.cleaner.stop()
        self.logs.close(clean=True)


def final_check(world: ClusterWorld) -> None:
    """What is in the tables when nobody is there any more."""
    storage = MemoryStorage()
    store = FaultyStore(world, world.tables, lambda act: act(), Random(0), timeout_ms=1_000)
    loop = asyncio.new_event_loop()
    task = loop.create_task(copy.make(store, storage, world.tables.identity, 1))
    while not task.done():
        loop.run_until_complete(asyncio.sleep(0))
        world.run(lambda: False, 5)
    loop.close()
    task.result()
    logs = LogManager(storage, SETTINGS)
    logs.open(cluster_id=None, node_id=1, draw_uuid=lambda: bytes(16))
    for name, (topic_id, count) in TOPICS.items():
        for index in range(count):
            config = COMPACTED if name == "compacted" else PLAIN
            logs.open_log(name, index, config=config, topic_id=topic_id)
    world.check(logs, "the tables")


def play(seed: int, for_ms: int = 120_000) -> ClusterWorld:
    """One history; its `faults` should be empty."""
    world = ClusterWorld(seed)
    world.later(2_000, world.trouble)
    world.run(lambda: bool(world.faults), for_ms)
    if not world.faults:
        world.make_calm()
        world.run(lambda: False, 45_000)  # the longest pause is over
        before = world.ledger.count
        if not world.run(lambda: world.ledger.count > before + 10 or bool(world.faults), 3 * LEASE_MS):
            world.fault("the faults are over, and nobody serves")
    for node in world.nodes:
        node.stop()
    world.run(lambda: all(not node.alive for node in world.nodes) or bool(world.faults), 20_000)
    if not world.faults:
        if any(node.alive for node in world.nodes):
            world.fault("a node does not stop")
        final_check(world)
    world.end()
    return world
