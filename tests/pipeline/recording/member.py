"""One consumer process of a recording (`record`): a member of a group, by one of the Python client libraries. Lines on
stdin are its commands. It writes lines of JSON, each with the time by its own clock, about what happens to it.

Commands: `stop`; `sleep S` (do not poll for S seconds); `back N [PARTITION]` (seek back by N records, on one partition
or on all; forward if N is negative); `stick PARTITION` (stay at the position of the partition, and commit it again and
again); `pause PARTITION` (neither read the partition nor commit it); `go PARTITION` (read it again); `subscribe TOPIC`;
`rate N` (read at most N records in a second from now on); `hang` (do not poll until the next line); `wake`.
Reports: `assigned` and `revoked` with the partitions; `committed` with the offsets (commits by hand: not all libraries
report automatic ones); `back`; `left`. RecordedMember.java does the same.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Final, NamedTuple, Protocol

import aiokafka
import confluent_kafka
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.coordinator.assignors import range as aio_range
from aiokafka.coordinator.assignors import roundrobin as aio_roundrobin

with warnings.catch_warnings():
    # kafka-python reads its schemas in a way that Python 3.11 deprecates
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.structs import OffsetAndMetadata

TURN_S: Final = 0.1
"""How long it waits for records before it reads its next command."""
WRITER_S: Final = 10.0
"""How long it waits for each step of a transaction."""

Place = tuple[str, int]
"""Topic and partition."""


class Settings(NamedTuple):
    """The settings of a process."""

    client: str
    bootstrap: str
    group: str
    client_id: str
    instance_id: str | None
    topics: list[str]
    assignor: str
    """range, roundrobin or cooperative-sticky."""
    session_ms: int
    heartbeat_ms: int
    commit_ms: int
    commits: str
    """auto: the client's own commits; hand: every offset by hand, also when partitions are given up; transactions: as
    by hand, but a producer commits (confluent and Java).
    """
    max_poll_ms: int
    rewinds: int = 0
    """The member goes back by this number of records whenever it gets partitions."""
    alone: tuple[int, ...] = ()
    """The consumer takes these partitions itself: it is no member."""
    starts_at: int | None = None
    """Where a consumer without a group begins; None: at the committed offset."""
    rate: int = 0
    """The consumer reads at most this number of records in a second; 0: as many as it can."""
    protocol: str = "classic"
    """classic or consumer (KIP-848: confluent and Java; the broker sets session, heartbeats and assignors)."""
    metadata_ms: int = 300_000
    """How often it looks for topics that have grown or are new."""
    batch_s: float = 0.5
    """With a rate: it reads the records of so many seconds at once, and polls again when it has processed them."""

    @property
    def by_hand(self) -> bool:
        """Whether the process commits, and not its client library."""
        return self.commits != "auto"

    @property
    def at_once(self) -> int | None:
        """At most this number of records is read at once; None: as many as there are."""
        return max(int(self.rate * self.batch_s), 1) if self.rate else None


Tell = Callable[..., None]


class Library(Protocol):
    """What a client library must do here."""

    async def start(self) -> None:
        """Start."""

    async def turn(self) -> int:
        """Wait for records for a moment, read them, and return their number."""

    async def places(self) -> dict[Place, int]:
        """The positions of the consumer in all its partitions."""

    async def commit(self, places: Mapping[Place, int]) -> None:
        """Commit."""

    async def seek(self, places: Mapping[Place, int]) -> None:
        """Seek to these positions."""

    def pause(self, place: Place, on: bool) -> None:
        """Stop reading a partition, or continue."""

    def subscribe(self, topics: list[str]) -> None:
        """Subscribe to these topics."""

    async def close(self) -> None:
        """Close in order."""


class Confluent:
    """A consumer of confluent-kafka (librdkafka)."""

    def __init__(self, settings: Settings, tell: Tell) -> None:
        self._settings, self._tell = settings, tell
        self._revoke: Callable[[], None] = lambda: None
        self._writer = _Writer(settings) if settings.commits == "transactions" else None
        self._is_incremental = "coop" in settings.assignor or settings.protocol == "consumer"
        instance = {} if settings.instance_id is None else {"group.instance.id": settings.instance_id}
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": settings.bootstrap,
                "group.id": settings.group,
                "client.id": settings.client_id,
                "max.poll.interval.ms": max(settings.max_poll_ms, settings.session_ms),
                "topic.metadata.refresh.interval.ms": settings.metadata_ms,
                **_protocol(settings),
                "enable.auto.commit": settings.commits == "auto",
                "auto.commit.interval.ms": settings.commit_ms,
                "auto.offset.reset": "earliest",
                "log_level": 2,
                **instance,
            }
        )

    async def start(self) -> None:
        if not self._settings.alone:
            self.subscribe(self._settings.topics)
            return
        begin = self._settings.starts_at
        self._consumer.assign(
            [
                confluent_kafka.TopicPartition(topic, one, *([] if begin is None else [begin]))
                for topic in self._settings.topics
                for one in self._settings.alone
            ]
        )

    def subscribe(self, topics: list[str]) -> None:
        self._consumer.subscribe(topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)

    def _assigned(self, consumer: Any, partitions: list[Any]) -> None:
        back = self._settings.rewinds
        if back and partitions:
            places = consumer.committed(partitions, timeout=5)
            for one in places:
                one.offset = max(one.offset - back, 0)
            consumer.commit(offsets=places, asynchronous=False)
            consumer.incremental_assign(places) if self._is_incremental else consumer.assign(places)
        self._tell("assigned", partitions=[one.partition for one in partitions])

    def _revoked(self, consumer: Any, partitions: list[Any]) -> None:
        if self._settings.by_hand and partitions:
            with suppress(confluent_kafka.KafkaException):
                self._commit([one for one in consumer.position(partitions) if one.offset >= 0])
        self._tell("revoked", partitions=[one.partition for one in partitions])

    def _lost(self, consumer: Any, partitions: list[Any]) -> None:
        self._tell("lost", partitions=[one.partition for one in partitions])

    async def turn(self) -> int:
        return len(self._consumer.consume(self._settings.at_once or 500, TURN_S))

    async def places(self) -> dict[Place, int]:
        at = self._consumer.position(self._consumer.assignment())
        return {(one.topic, one.partition): one.offset for one in at if one.offset >= 0}

    async def commit(self, places: Mapping[Place, int]) -> None:
        self._commit([_place(*one) for one in places.items()])

    def _commit(self, places: list[Any]) -> None:
        if self._writer is None:
            self._consumer.commit(offsets=places, asynchronous=False)
        elif places:
            self._writer.commit(places, self._consumer.consumer_group_metadata())

    async def seek(self, places: Mapping[Place, int]) -> None:
        for one in places.items():
            self._consumer.seek(_place(*one))

    def pause(self, place: Place, on: bool) -> None:
        (self._consumer.pause if on else self._consumer.resume)([confluent_kafka.TopicPartition(*place)])

    async def close(self) -> None:
        self._consumer.close()


class _Writer:
    """The producer of an exactly-once application: it commits offsets in transactions."""

    def __init__(self, settings: Settings) -> None:
        self._names = {"bootstrap.servers": settings.bootstrap, "transactional.id": settings.client_id}
        self._producer: Any = None

    def commit(self, places: list[Any], member: Any) -> None:
        """Commit in one transaction. After an error, the next producer ends what this one has begun."""
        try:
            if self._producer is None:
                self._producer = confluent_kafka.Producer({**self._names, "log_level": 2})
                self._producer.init_transactions(WRITER_S)
            self._producer.begin_transaction()
            self._producer.send_offsets_to_transaction(places, member, WRITER_S)
            self._producer.commit_transaction(WRITER_S)
        except confluent_kafka.KafkaException:
            self._producer = None
            raise


def _protocol(settings: Settings) -> dict[str, Any]:
    if settings.protocol == "consumer":
        return {"group.protocol": "consumer", "group.remote.assignor": settings.assignor}
    return {
        "session.timeout.ms": settings.session_ms,
        "heartbeat.interval.ms": settings.heartbeat_ms,
        "partition.assignment.strategy": settings.assignor,
    }


def _place(place: Place, offset: int) -> Any:
    return confluent_kafka.TopicPartition(*place, offset)


class KafkaPython(AsyncConsumerRebalanceListener):
    """A consumer of kafka-python."""

    ASSIGNORS: Final = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }

    def __init__(self, settings: Settings, tell: Tell) -> None:
        self._settings, self._tell = settings, tell
        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=settings.bootstrap,
            group_id=settings.group,
            client_id=settings.client_id,
            group_instance_id=settings.instance_id,
            session_timeout_ms=settings.session_ms,
            heartbeat_interval_ms=settings.heartbeat_ms,
            max_poll_interval_ms=settings.max_poll_ms,
            metadata_max_age_ms=settings.metadata_ms,
            enable_auto_commit=settings.commits == "auto",
            auto_commit_interval_ms=settings.commit_ms,
            auto_offset_reset="earliest",
            fetch_min_bytes=20_000,  # the records of half a second at once: otherwise it takes much CPU
            partition_assignment_strategy=(self.ASSIGNORS[settings.assignor],),
        )

    async def start(self) -> None:
        self.subscribe(self._settings.topics)

    def subscribe(self, topics: list[str]) -> None:
        self._consumer.subscribe(topics, listener=self)

    async def on_partitions_revoked(self, revoked: Any) -> None:
        if self._settings.by_hand and revoked:
            with suppress(kafka.errors.KafkaError):
                offsets = self._consumer._subscription.all_consumed_offsets()
                await self._consumer._coordinator._commit_offsets_sync_async(offsets, 5_000)
        self._tell("revoked", partitions=[one.partition for one in revoked])

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self._tell("assigned", partitions=[one.partition for one in assigned])

    async def on_partitions_lost(self, lost: Any) -> None:
        self._tell("lost", partitions=[one.partition for one in lost])

    async def turn(self) -> int:
        read = self._consumer.poll(timeout_ms=int(TURN_S * 1000), max_records=self._settings.at_once)
        return sum(map(len, read.values()))

    async def places(self) -> dict[Place, int]:
        found = {(one.topic, one.partition): self._position(one) for one in self._consumer.assignment()}
        return {place: at for place, at in found.items() if at is not None}

    def _position(self, one: Any) -> int | None:
        state = self._consumer._subscription.assignment.get(one)
        return None if state is None or state.position is None else int(state.position.offset)

    async def commit(self, places: Mapping[Place, int]) -> None:
        self._consumer.commit(
            {kafka.TopicPartition(*place): OffsetAndMetadata(at, "", -1) for place, at in places.items()}
        )

    async def seek(self, places: Mapping[Place, int]) -> None:
        for place, at in places.items():
            self._consumer.seek(kafka.TopicPartition(*place), at)

    def pause(self, place: Place, on: bool) -> None:
        (self._consumer.pause if on else self._consumer.resume)(kafka.TopicPartition(*place))

    async def close(self) -> None:
        self._consumer.close()


class Aiokafka(ConsumerRebalanceListener):
    """A consumer of aiokafka."""

    ASSIGNORS: Final = {
        "range": aio_range.RangePartitionAssignor,
        "roundrobin": aio_roundrobin.RoundRobinPartitionAssignor,
    }

    def __init__(self, settings: Settings, tell: Tell) -> None:
        self._settings, self._tell = settings, tell
        self._consumer: Any = None

    async def start(self) -> None:
        settings = self._settings
        self._consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=settings.bootstrap,
            group_id=settings.group,
            client_id=settings.client_id,
            group_instance_id=settings.instance_id,
            session_timeout_ms=settings.session_ms,
            heartbeat_interval_ms=settings.heartbeat_ms,
            max_poll_interval_ms=settings.max_poll_ms,
            metadata_max_age_ms=settings.metadata_ms,
            rebalance_timeout_ms=max(settings.max_poll_ms, settings.session_ms),
            enable_auto_commit=settings.commits == "auto",
            auto_commit_interval_ms=settings.commit_ms,
            auto_offset_reset="earliest",
            partition_assignment_strategy=(self.ASSIGNORS[settings.assignor],),
        )
        await self._consumer.start()
        self.subscribe(settings.topics)

    def subscribe(self, topics: list[str]) -> None:
        self._consumer.subscribe(topics, listener=self)

    async def on_partitions_revoked(self, revoked: Any) -> None:
        if self._settings.by_hand and revoked:
            with suppress(aiokafka.errors.KafkaError):
                await self.commit(await self.places())
        self._tell("revoked", partitions=[one.partition for one in revoked])

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self._tell("assigned", partitions=[one.partition for one in assigned])

    async def turn(self) -> int:
        read = await self._consumer.getmany(timeout_ms=int(TURN_S * 1000), max_records=self._settings.at_once)
        return sum(map(len, read.values()))

    async def places(self) -> dict[Place, int]:
        found = {}
        for one in self._consumer.assignment():
            with suppress(aiokafka.errors.KafkaError, TimeoutError):
                found[one.topic, one.partition] = await asyncio.wait_for(self._consumer.position(one), 1)
        return found

    async def commit(self, places: Mapping[Place, int]) -> None:
        await self._consumer.commit({aiokafka.TopicPartition(*place): at for place, at in places.items()})

    async def seek(self, places: Mapping[Place, int]) -> None:
        for place, at in places.items():
            self._consumer.seek(aiokafka.TopicPartition(*place), at)

    def pause(self, place: Place, on: bool) -> None:
        (self._consumer.pause if on else self._consumer.resume)(aiokafka.TopicPartition(*place))

    async def close(self) -> None:
        await self._consumer.stop()


class Sharing(Confluent):
    """A consumer of a share group, by confluent-kafka. It has neither positions nor commits."""

    def __init__(self, settings: Settings, tell: Tell) -> None:
        self._settings, self._tell = settings, tell
        names = {"bootstrap.servers": settings.bootstrap, "group.id": settings.group, "client.id": settings.client_id}
        self._consumer = confluent_kafka.ShareConsumer({**names, "log_level": 2})

    def subscribe(self, topics: list[str]) -> None:
        self._consumer.subscribe(topics)

    async def turn(self) -> int:
        return len(list(self._consumer.poll(TURN_S)))

    async def places(self) -> dict[Place, int]:
        return {}


LIBRARIES: Final[Mapping[str, Any]] = {
    "confluent": Confluent, "kafka-python": KafkaPython, "aiokafka": Aiokafka, "sharing": Sharing,
}  # fmt: skip
_ERRORS: Final = (
    confluent_kafka.KafkaException,
    kafka.errors.KafkaError,
    aiokafka.errors.KafkaError,
    RuntimeError,
    AssertionError,
)
"""The errors of a library for a commit during a rebalance; kafka-python also asserts."""


class _Life:
    """One process while it runs."""

    def __init__(self, settings: Settings, tell: Tell) -> None:
        self._settings, self._tell = settings, tell
        self._library: Library
        self._rate = settings.rate
        self._reported = deque[str]()
        self._held: dict[int, bool] = {}
        """Partitions that it does not read; True: it commits them again and again."""
        self._due = 0.0

    async def run(self, reported: deque[str]) -> None:
        self._reported = reported
        await self._start()
        self._due = time.monotonic() + self._settings.commit_ms / 1000
        while True:
            await self._commit_when_due()
            await self._turn()
            while reported:
                line = reported.popleft()
                if line == "stop":
                    return await self._stop()
                with suppress(*_ERRORS):
                    await self._do(*line.split())

    async def _start(self) -> None:
        """Start the library, as often as needed: the broker may be away."""
        while True:
            with suppress(*_ERRORS):
                self._library = LIBRARIES[self._settings.client](self._settings, self._tell)
                return await self._library.start()
            await asyncio.sleep(1)

    async def _turn(self) -> None:
        try:
            read = await self._library.turn()
        except _ERRORS:
            await asyncio.sleep(TURN_S)
        else:
            if self._rate:
                await asyncio.sleep(read / self._rate)

    async def _stop(self) -> None:
        if self._settings.by_hand:
            with suppress(*_ERRORS):
                await self._commit()
        self._tell("leaving")
        await self._library.close()
        self._tell("left")

    async def _commit_when_due(self) -> None:
        if self._settings.by_hand and time.monotonic() >= self._due:
            self._due = time.monotonic() + self._settings.commit_ms / 1000
            with suppress(*_ERRORS):
                await self._commit()

    async def _commit(self) -> None:
        places = await self._library.places()
        wanted = {place: at for place, at in places.items() if self._held.get(place[1], True)}
        if wanted:
            await self._library.commit(wanted)
            self._tell("committed", places=[[*place, at] for place, at in wanted.items()])

    async def _do(self, verb: str, *words: str) -> None:
        if verb == "sleep":
            time.sleep(float(words[0]))  # noqa: ASYNC251  # nothing goes on meanwhile: that is what is asked for
        elif verb == "hang":
            while not self._reported:
                time.sleep(TURN_S)  # noqa: ASYNC251  # as above
        elif verb == "rate":
            self._rate = int(words[0])
        elif verb == "back":
            await self._back(int(words[0]), words[1:])
        elif verb == "subscribe":
            self._library.subscribe(list(words))
        elif verb != "wake":
            partition = int(words[0])
            self._held.pop(partition, None)
            if verb != "go":
                self._held[partition] = verb == "stick"
            for place in await self._library.places():
                if place[1] == partition:
                    self._library.pause(place, verb != "go")

    async def _back(self, records: int, partitions: Iterable[str]) -> None:
        only = set(map(int, partitions))
        places = await self._library.places()
        new = {place: max(at - records, 0) for place, at in places.items() if not only or place[1] in only}
        await self._library.seek(new)
        if self._settings.by_hand:
            await self._library.commit(new)
        self._tell("back", places=[[*place, at] for place, at in new.items()])


def main(settings: dict[str, Any], wire: Connection) -> None:
    """Run the process: `wire` has its lines."""
    wanted = Settings(**settings)
    reported: deque[str] = deque()
    lock = threading.Lock()

    def tell(what: str, **more: object) -> None:
        with lock, suppress(OSError):
            wire.send({"at": int(time.time() * 1000), "what": what, **more})

    def listen() -> None:
        with suppress(EOFError, OSError):
            while True:
                reported.append(wire.recv())
        reported.append("stop")

    logging.disable(logging.CRITICAL)  # otherwise libraries write very many lines while the broker is away
    threading.Thread(target=listen, daemon=True).start()
    asyncio.run(_Life(wanted, tell).run(reported))
