"""Some nodes of a cluster, a database that fails, and a ledger of what was acknowledged. A seed is a history.

Each node appends to the partitions that it leads, moves their starts, rolls and compacts them, gives some to other
nodes, and creates and deletes topics. Each leader must find all that earlier leaders have acknowledged, unchanged and
at its offset, also in segments that it has not read at the beginning. Nothing may be there twice. Its knowledge of
producers and aborted transactions must equal the log. No two leaders acknowledge in one epoch. A node that has lost its
registration serves no more. When the faults are over, each partition has a leader again. What a client could read of a
leader stays, also when a synchronous standby that was cut off is promoted.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

from muster.coordinator.config import Config, load
from muster.coordinator.log import LogConfig, LogManager, LogOffline, LogSettings, MemoryStorage, batches
from muster.coordinator.log.cleaning.cleaner import Cleaner
from muster.coordinator.log.producers.state import KEPT_BATCHES
from muster.coordinator.log.records.headers import whole_batches
from muster.coordinator.log.records.markers import EndMarker
from muster.coordinator.log.segments.absence import with_absent_segments
from muster.coordinator.properties.live import Live
from muster.coordinator.server.machine import Machine
from muster.coordinator.system.jobs import Job, JobQueue, PendingResult, to_its_end
from muster.coordinator.topics import leadership
from muster.coordinator.topics.cluster_image import Endpoint
from muster.coordinator.topics.configs import TopicConfigs
from muster.coordinator.topics.creation import NewTopic
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.leadership import Place
from muster.coordinator.topics.settings import TopicSettings
from muster.coordinator.topics.topics import Topics
from muster.postgres import local_replica
from muster.postgres.membership import Membership
from muster.simulation.cluster.faulty_store import FaultyStore
from muster.simulation.cluster.node import Node
from muster.simulation.cluster.tables import Tables
from muster.virtual.world import World

LEASE_MS = 9_000
SETTINGS = LogSettings(log_cleaner_backoff_ms=3_000, log_cleaner_min_cleanable_ratio=0.1)
PLAIN = {"segment.bytes": "1048576", "retention.ms": "-1", "segment.ms": "20000"}
COMPACTED = {**PLAIN, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"}
KEYS = 5
MAX_ACTS_WITHOUT_SEAT = 10
"""A node that has lost its registration finishes its current work; it does not wait for the database first."""
SNAPSHOTS = ("metadata.log.max.record.bytes.between.snapshots=3000", "metadata.log.max.snapshot.interval.ms=40000")
SNAPSHOT_RECORDS = 5
"""The number of records of a part: most snapshots have several parts."""
IN_PARTS = ("muster.cluster.segment.bytes=1500", "muster.cluster.cache.bytes=6000")
"""Most of a log is absent when it is taken over, and is removed again after it was read."""
PRODUCERS = 3
TROUBLES = ("kill", "kill", "stop", "pause", "pause", "cut", "outage", "long outage", "mood", "mood")
TOPICS = {"plain": (PLAIN, 4), "compacted": (COMPACTED, 2)}


Log = tuple[str, int]
"""A partition of a topic that is never deleted."""
Record = tuple[bytes, bytes]


class Ledger:
    """What was acknowledged: by partition, offset -> (key, value); and by which leader, in which leader epoch."""

    def __init__(self, fault: Callable[[str], object]) -> None:
        self.acked: dict[Log, dict[int, Record]] = {}
        self.epochs: dict[Log, dict[int, int]] = {}
        self.asked_start: dict[Log, int] = {}
        self.leaders: dict[tuple[str, int, int], object] = {}
        self.count = 0
        self._fault = fault

    def served(self, log: Log, records: dict[int, Record], epoch: int) -> None:
        """What a leader gives to readers: it must stay, like what was acknowledged."""
        acked, epochs = self.acked.setdefault(log, {}), self.epochs.setdefault(log, {})
        for offset, record in records.items():
            if acked.setdefault(offset, record) != record:
                self._fault(f"{log}: offset {offset} was {acked[offset]}, and was read as {record}")
            epochs.setdefault(offset, epoch)

    def ack(self, log: Log, offset: int, record: Record, epoch: int, leader: object) -> None:
        known = self.acked.setdefault(log, {}).setdefault(offset, record)
        self.epochs.setdefault(log, {}).setdefault(offset, epoch)
        if known != record:
            self._fault(f"{log}: offset {offset} was acknowledged as {known}, and as {record}")
        if self.leaders.setdefault((*log, epoch), leader) is not leader:
            self._fault(f"{log}: two leaders have acknowledged in epoch {epoch}")
        self.count += 1


class FoundInLog:
    """What was read of a log, part by part."""

    def __init__(self) -> None:
        self.records: dict[int, Record] = {}
        self.twice: list[int] = []
        self.batches: dict[int, list[int]] = {}
        """The offsets of the batches of each producer."""
        self.aborted: set[tuple[int, int]] = set()
        """Producers and the offsets of their abort markers whose data exists."""
        self._open: set[int] = set()

    def add(self, data: bytes, since: int, log: Any) -> int:
        """Add what was read. Records before `since` do not count. Returns the offset after the data."""
        end = since
        for header, records in batches.read(data):
            end = header.next_offset
            offsets = [record.offset for record in records if record.offset >= since]
            if not offsets:
                continue
            if header.is_control:
                if header.producer_id in self._open and not _commits(records):
                    self.aborted.add((header.producer_id, header.last_offset))
                self._open.discard(header.producer_id)
                continue
            if header.producer_id >= 0:
                self.batches.setdefault(header.producer_id, []).append(header.base_offset)
                self._open.add(header.producer_id)
            if offsets[0] in self.records:
                self.twice.append(offsets[0])
            self.records.update(
                (record.offset, (record.key or b"", record.value or b"")) for record in records
                if record.offset >= log.start_offset
            )  # fmt: skip
        return end


def _commits(records: Any) -> bool:
    """Whether the record of a marker says COMMIT."""
    return int.from_bytes(records[0].key[2:4], "big") == 1


def _read(log: Any, offset: int) -> Job[bytes]:
    """Whole batches from an offset on, read by a job without steps."""
    if offset < log.start_offset:
        offset = log.start_offset
    data = log.read(offset, 700)
    return data[: whole_batches(data)[0]]
    yield None


class ClusterWorld(World):
    """See the module."""

    def __init__(
        self, seed: int, *, nodes: int = 3, snapshots: bool = True, hints: bool = True, standby: bool = True
    ) -> None:
        """`snapshots`: the metadata log gets snapshots, many of them, and producers have transactions. `hints`: the
        database gives some nodes hints. `standby`: it has a standby that is sometimes cut off, and may be promoted.
        """
        super().__init__(Random(seed))
        self.properties = (*SNAPSHOTS, *IN_PARTS) if snapshots else ()
        self.has_producers = snapshots
        self._troubles = TROUBLES + ("standby", "standby") * standby
        self._hints = (0, 0, 500, 1_000) if hints else (0,)
        self.seed = seed
        self.tables = Tables(self)
        self.faults: list[str] = []
        self.ledger = Ledger(self.fault)
        self.drawn = 0
        self.terms = 0
        self.moves = 0
        self.checks = 0
        """How many logs a leader has read to their end."""
        self.absent = 0
        """How many segments leaders had not read when they began."""
        self.aborted = 0
        self.nodes: list[Node] = []
        self.processes: list[Node] = []
        """All nodes that ever existed."""
        for number in range(nodes):
            self._begin(number)

    def fault(self, what: str) -> None:
        self.faults.append(f"seed {self.seed}, ms {self.ms}: {what}")

    def _begin(self, number: int) -> None:
        node = Node(self, self.tables, f"node-{number}", LEASE_MS, self._open_server, self.fault, self.properties)
        self.processes.append(node)
        if number < len(self.nodes):
            self.nodes[number] = node
        else:
            self.nodes.append(node)
        self._set_faults(node)

    def _set_faults(self, node: Node) -> None:
        faults = 0 if self.calm else self.rng.choice((0, 10, 50, 200))
        slow_ms = 3 if self.calm else self.rng.choice((3, 30, 1_000, 4_000))
        hints = self.rng.choice(self._hints)
        for store in (node.store, node.reads):
            store.faults, store.slow_ms, store.hints = faults, slow_ms, hints

    def _open_server(self, node: Node, config: Config, machine: Machine, membership: Membership) -> ToyServer:
        self.terms += 1
        return ToyServer(self, node, machine, membership, config.node_id)

    # ---- faults

    def trouble(self, _: Any = None) -> None:
        if self.calm:
            return
        rng = self.rng
        number = rng.randrange(len(self.nodes))
        node = self.nodes[number]
        what = rng.choice(self._troubles)
        if what in ("kill", "stop") and node.alive:
            (node.kill if what == "kill" else node.stop)()
            self.later(rng.randrange(5_000), lambda _: self._return(number))
        elif what == "pause":
            node.suspend(rng.choice((100, 5_000, 12_000, 30_000)))
        elif what == "cut":
            node.cut(True)
            self.later(rng.choice((500, 5_000, 15_000)), lambda _: node.cut(False))
        elif what == "standby":
            self.tables.cut_standby()
            end = rng.choice((self.tables.join_standby, self.tables.promote_standby))
            self.later(rng.choice((500, 2_000, 6_000, 15_000)), lambda _: end())
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
        self.tables.join_standby()
        for number, node in enumerate(self.nodes):
            node.cut(False)
            self._set_faults(node)
            if not node.alive:
                self._begin(number)

    def end(self) -> None:
        """End all nodes."""
        for node in self.processes:
            node.close()

    # ---- checking

    def acked_before(self, place: Log, epoch: int) -> dict[int, Record]:
        """What leaders of earlier epochs have acknowledged of a partition so far."""
        epochs = self.ledger.epochs.get(place, {})
        return {offset: one for offset, one in self.ledger.acked.get(place, {}).items() if epochs[offset] < epoch}

    def check(self, log: Any, place: Log, acked: dict[int, Record], found: FoundInLog, who: str) -> None:
        """Check that the log that a leader has found has everything that earlier leaders have acknowledged."""
        self.checks += 1
        self._check_log(log, acked, found.records, self.ledger.asked_start.get(place, 0), who)
        for what in found.twice:
            self.fault(f"{who}: {log.directory}: offset {what} is there twice")

    def _check_log(
        self, log: Any, acked: dict[int, Record], found: dict[int, Record], asked_start: int, who: str
    ) -> None:
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
    """Replaces `coordinator.server.Server`: it leads partitions and appends to them, as a server does."""

    def __init__(self, world: ClusterWorld, node: Node, machine: Machine, membership: Membership, node_id: int) -> None:
        self.world, self.node, self.machine, self.membership, self.node_id = world, node, machine, membership, node_id
        membership.housekeeping.part_records = SNAPSHOT_RECORDS
        self.is_up = False
        self.acts_without_seat = 0
        self.seen: dict[int, Any] = {}
        self.bound = ("nowhere", 0)

    async def start(self) -> None:
        storage: Any = self.machine.storage(None)
        post = asyncio.get_running_loop().call_soon_threadsafe
        clock = self.node.clock
        sync = self.machine.workers(post, 1)
        self.logs = LogManager(storage, SETTINGS, sync=sync, engine=self.machine.engine())
        identity = self.logs.open(cluster_id=None, node_id=self.node_id, draw_uuid=self.machine.draw_uuid)
        self.job_queue = JobQueue(clock)
        configs = TopicConfigs(Live(load(listen="127.0.0.1:9092", in_memory=True)))
        self.topics = Topics(
            TopicSettings(),
            clock,
            self.logs,
            identity,
            configs,
            self.machine.draw_uuid,
            shared_log=self.membership.shared_log,
        )
        self.topics.load()
        await self._do(
            self.membership.joining(
                self.topics, self.job_queue, identity.cluster_id, None, {"L": Endpoint("h", 1)}, lambda *_: None
            )
        )
        for name, (given, partitions) in TOPICS.items():
            topic = NewTopic(name, self.machine.draw_uuid(), partitions=partitions, configs=given)
            if name not in self.topics.by_name:
                with contextlib.suppress(ApiError):  # another node was first
                    await self._do(self.topics.creating(topic))
        self.membership.begin([ToyNode(self)])
        self.is_up = True
        self.cleaner = Cleaner(self.logs, clock, self.machine.workers(post, 1), cpu_share=1.0)
        self.cleaner.start()
        self._later()

    async def _do(self, job: Any) -> Any:
        return await to_its_end(self.job_queue, job)

    def _later(self) -> None:
        at_ms = self.node.clock.mono_ms() + 1 + self.world.rng.randrange(300)
        self.node.clock.call_at(at_ms, self._act)

    def _act(self) -> None:
        if not self.is_up:
            return
        self.acts_without_seat += bool(self.membership._writer.failure)
        if self.acts_without_seat == MAX_ACTS_WITHOUT_SEAT:
            self.fault(AssertionError("it has lost its seat, and still serves"))
        rng = self.world.rng
        name, (_, count) = rng.choice(list(TOPICS.items()))
        index = rng.randrange(count)
        partition = self.topics.open.partition(name, index)
        what = rng.randrange(100)
        if what == 0:
            self._short_lived()
        elif partition is not None and not partition.closed and partition.log.failure is None:
            self._see(partition, (name, index))
            log = partition.log
            if what > 80 and self.world.has_producers and not log.config.compacts and log.knows_producers:
                self._in_transaction(partition, (name, index))
            elif what == 1 and not log.config.compacts:
                start = rng.randrange(log.start_offset, log.durable_offset + 1)
                asked = self.world.ledger.asked_start
                asked[name, index] = max(asked.get((name, index), 0), start)
                log.delete_records_before(start)
            elif what == 2:
                log.roll(self.node.clock.now().wall_ms)
            elif what in (3, 4):
                self._move(name, index)
            else:
                for _ in range(rng.randrange(1, 4)):
                    self._append(partition, (name, index))
        self._later()

    def _see(self, partition: Any, place: Log) -> None:
        if self.seen.get(id(partition)) is not partition:
            self.seen[id(partition)] = partition
            self.world.moves += 1
            self.world.absent += sum(segment.is_absent for segment in partition.log.segments)
            self.job_queue.run(self._checking(partition, place), lambda _: None, self)

    def _checking(self, partition: Any, place: Log) -> Job[None]:
        """Read all of a log, as a client does that begins at its start."""
        world, log, found = self.world, partition.log, FoundInLog()
        acked = world.acked_before(place, partition.leader_epoch)
        offset = log.start_offset
        with contextlib.suppress(LogOffline):
            while offset < log.end_offset:
                offset = max(offset, log.start_offset)
                durable_offset = log.durable_offset
                data = yield from with_absent_segments(log.fetch_segment, lambda: _read(log, offset))  # noqa: B023  # it is called at once
                if partition.closed or log.failure is not None:
                    return
                offset = found.add(data, offset, log)
                if not log.config.compacts:  # of these records the newest of each key stays
                    served = {at: one for at, one in found.records.items() if at < durable_offset}
                    world.ledger.served(place, served, partition.leader_epoch)
                yield None
            if world.has_producers:
                yield from partition.loading_producers()
            if offset == log.end_offset and not partition.closed and log.failure is None:
                who = f"node {self.node_id} ({self.node.name})"
                world.check(log, place, acked, found, who)
                if world.has_producers and not log.config.compacts:
                    yield from self._check_producers(log, found, who)

    def _check_producers(self, log: Any, found: FoundInLog, who: str) -> Job[None]:
        """Check that the known state of producers equals the whole log, for the producers that the log has
        completely.
        """
        world = self.world
        for producer_id, batches_there in found.batches.items():
            known = log.producers.get(producer_id)
            there = [offset for offset in batches_there if offset >= log.start_offset][-KEPT_BATCHES:]
            has = None if known is None else [one.base_offset for one in known.batches]
            # if records were removed meanwhile, nobody can say how many
            if there and (has is None or has[-len(there) :] != there):
                world.fault(f"{who}: {log.directory}: producer {producer_id} has batches at {there}, known are {has}")
        reported: set[Any] = set()
        for segment in list(log.segments):
            part = yield from with_absent_segments(
                log.fetch_segment,
                lambda: log.producers.aborted_in(max(segment.base_offset, log.start_offset), 1 << 20),  # noqa: B023  # it is called at once
            )
            reported.update((one.producer_id, one.last_offset) for one in part)
        world.aborted += len(found.aborted)
        missing = {one for one in found.aborted if one[1] >= log.start_offset} - reported
        if missing and log.failure is None:
            world.fault(f"{who}: {log.directory}: aborted transactions are not told of: {sorted(missing)}")

    def _in_transaction(self, partition: Any, place: Log) -> None:
        """A batch of a producer's transaction, or its end."""
        log, epoch, rng = partition.log, partition.leader_epoch, self.world.rng
        producer_id = rng.randrange(PRODUCERS)
        known = log.producers.get(producer_id)
        if known is not None and known.transaction_start is not None and rng.randrange(2):
            marker = EndMarker(producer_id, 0, rng.randrange(2) == 0, 0, 0)
            log.append_marker(epoch, marker, wall_ms=self.world.wall_ms)
        else:
            sequence = 0 if known is None else known.next_sequence
            self._append(partition, place, producer_id, sequence)

    def _append(self, partition: Any, place: Log, producer_id: int = -1, sequence: int = -1) -> None:
        """Append a batch. `producer_id`: of a transaction; -1: none."""
        world, log, epoch = self.world, partition.log, partition.leader_epoch
        records = []
        for _ in range(world.rng.randrange(1, 4)):
            world.drawn += 1
            records.append((b"k%d" % world.rng.randrange(KEYS), b"%d" % world.drawn))
        in_transaction = producer_id >= 0
        batch = batches.build(
            records, timestamp_ms=world.wall_ms, producer_id=producer_id, producer_epoch=0 if in_transaction else -1,
            base_sequence=sequence, transactional=in_transaction,
        )  # fmt: skip
        first = log.append(epoch, batch, wall_ms=world.wall_ms).base_offset

        def durable(error: Exception | None) -> None:
            if error is None:
                for number, record in enumerate(records):
                    world.ledger.ack(place, first + number, record, epoch, self)

        log.when_durable(first + len(records), durable)

    def _move(self, name: str, index: int) -> None:
        """Move a partition as kafka-reassign-partitions.sh does."""
        state = self.topics.state
        place, live = Place(state.topics[name], index), leadership.living(state)
        if not live:
            return
        leader = self.world.rng.choice(live)

        def moving() -> Any:
            with contextlib.suppress(ApiError):  # the database is unavailable
                yield from self.membership.changing(
                    lambda: leadership.reassigned(place, [leader], live, bytes(16)), place
                )

        self.job_queue.run(moving(), lambda _: None, self)

    def unregister(self, broker_id: int) -> None:
        """Unregister a broker as kafka-cluster.sh does."""

        def unregistering() -> Any:
            with contextlib.suppress(ApiError):  # the database is unavailable, or the broker is not registered
                yield from self.membership.unregistering(broker_id)

        self.job_queue.run(unregistering(), lambda _: None, self)

    def _short_lived(self) -> None:
        """Create a topic, append records, and delete it."""
        name = f"short-{self.world.rng.randrange(1_000_000)}"
        topic = NewTopic(name, self.machine.draw_uuid(), partitions=2, configs=PLAIN)

        def living() -> Any:
            try:
                yield from self.topics.creating(topic)
                for partition in self.topics.by_name[name].partitions:
                    if partition is not None:
                        partition.log.append(partition.leader_epoch, batches.build([(b"k", b"v")], timestamp_ms=1),
                                             wall_ms=1)  # fmt: skip
                later = PendingResult()
                self.node.clock.call_at(self.node.clock.mono_ms() + self.world.rng.randrange(500), lambda: later(None))
                yield later
                yield from self.topics.deleting(self.topics.by_name[name])
            except ApiError:
                pass  # the database is unavailable

        self.job_queue.run(living(), lambda _: None, self)

    closed = False

    def fault(self, error: Exception) -> None:
        self.world.fault(f"{self.node.name}: {error!r}")

    async def stop(self) -> None:
        self.is_up = False
        if hasattr(self, "cleaner"):
            self.cleaner.stop()
        self.logs.close(clean=True)


class ToyNode:
    """Replaces `nodes.running_node.RunningNode` and its `Node`."""

    def __init__(self, server: ToyServer) -> None:
        self.node: Any = self
        self.topics, self.clock, self.job_queue = server.topics, server.node.clock, server.job_queue
        self.routing: Any = SimpleNamespace(shards=())
        self.cluster: Any = None

    def update_image(self, image: Any) -> None:
        self.cluster = image

    def resign_lost_shards(self) -> None:
        """Do nothing: there are no shards."""

    activate_shards = resign_lost_shards


def final_check(world: ClusterWorld) -> None:
    """The content of the tables when all nodes have ended."""
    storage = MemoryStorage()
    store = FaultyStore(world, world.tables, lambda act: act(), Random(0), timeout_ms=1_000)
    logs = LogManager(storage, SETTINGS)
    logs.open(cluster_id=None, node_id=1, draw_uuid=lambda: bytes(16))
    loop = asyncio.new_event_loop()

    async def pause(_: int) -> None:
        pass

    for row in list(world.tables.logs.values()):
        if row.topic not in TOPICS:
            continue
        task = loop.create_task(local_replica.fetch(store, storage, row.topic, row.partition, row.topic_id, pause))
        while not task.done():
            loop.run_until_complete(asyncio.sleep(0))
            world.run(lambda: False, 5)
        found = task.result()
        logs.note_copy(row.topic, row.partition, found.end_offset, row.start_offset)
        compacted = LogConfig(cleanup_policy=("compact",)) if row.topic == "compacted" else LogConfig(retention_ms=-1)
        log = logs.open_log(row.topic, row.partition, config=compacted, topic_id=row.topic_id)
        place, in_tables = (row.topic, row.partition), FoundInLog()
        for chunk in log.replay():
            in_tables.add(chunk, log.start_offset, log)
        world.check(log, place, world.acked_before(place, 1_000_000), in_tables, "the tables")
    loop.close()
    there = {(row.topic, row.partition) for row in world.tables.logs.values()}
    for place in world.ledger.acked:
        if place not in there:
            world.fault(f"the log of {place} is gone")


def play(
    seed: int, for_ms: int = 120_000, *, snapshots: bool = True, hints: bool = True, standby: bool = True
) -> ClusterWorld:
    """One history; its `faults` should be empty."""
    world = ClusterWorld(seed, snapshots=snapshots, hints=hints, standby=standby)
    try:
        _play(world, for_ms)
    except AssertionError as error:  # the faults of the tables
        world.fault(str(error))
    finally:
        world.end()
    return world


def _play(world: ClusterWorld, for_ms: int) -> None:
    world.later(2_000, world.trouble)
    world.run(lambda: bool(world.faults), for_ms)
    if not world.faults:
        world.make_calm()
        world.run(lambda: False, 45_000)  # the longest pause is over
        before = {place: len(acked) for place, acked in world.ledger.acked.items()}
        places = [(name, index) for name, (_, count) in TOPICS.items() for index in range(count)]

        def all_are_led() -> bool:
            acked = world.ledger.acked
            return all(len(acked.get(place, ())) > before.get(place, 0) + 3 for place in places)

        if not world.run(lambda: all_are_led() or bool(world.faults), 3 * LEASE_MS):
            world.fault("the faults are over, and a partition has no leader")
    for node in world.nodes:
        node.stop()
    world.run(lambda: all(not node.alive for node in world.nodes) or bool(world.faults), 20_000)
    if not world.faults:
        if any(node.alive for node in world.nodes):
            world.fault("a node does not stop")
        final_check(world)
