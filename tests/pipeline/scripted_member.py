"""One consumer process of a scripted history (`scripted_processes`): a member of a group, by the client library that
JSON names. Lines on stdin are its commands. It writes its generation and the number of its partitions to stdout.

`python -m tests.pipeline.scripted_member JSON`, JSON an object with the fields of `Settings`. Lines on stdin:
`subscribe TOPIC...`, `rejoin`, `stop`; the end of stdin is a `stop` too. Lines on stdout: `GENERATION ASSIGNED LEADS`
(0 or 1), whenever that has changed; generation 0 or less: in none. ScriptedMember.java does the same.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

import confluent_kafka
import kafka
from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import KafkaError

TURN_S: Final = 0.1
"""How long it waits for records before it reads its next command."""


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
    commit_ms: int
    commits: str
    """auto: the client's own commits; parting: by hand, also when partitions are given up; now-and-then: only by hand.
    """
    protocol: str = "classic"
    """classic, or consumer (KIP-848): then the server sets session, heartbeat and assignor."""

    @property
    def heartbeat_ms(self) -> int:
        """The clients' default, if the session timeout allows it."""
        return min(3_000, self.session_ms // 3)


class Consumer(Protocol):
    """What a client library must do here."""

    def turn(self) -> None:
        """Wait for records for a moment, and read them."""

    def status(self) -> tuple[int, int, bool]:
        """The generation, the number of its partitions, and whether it is the leader."""

    def commit(self) -> None:
        """Commit its positions."""

    def subscribe(self, topics: list[str]) -> None:
        """Subscribe to these topics."""

    def rejoin(self) -> None:
        """Join again without a visible reason."""

    def close(self) -> None:
        """Close in order."""


class Confluent:
    """A consumer of confluent-kafka (librdkafka)."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        instance = {} if settings.instance_id is None else {"group.instance.id": settings.instance_id}
        protocol: dict[str, Any] = {"group.protocol": "consumer"}
        if settings.protocol == "classic":
            protocol = {
                "session.timeout.ms": settings.session_ms,
                "heartbeat.interval.ms": settings.heartbeat_ms,
                "partition.assignment.strategy": settings.assignor,
            }
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": settings.bootstrap,
                "group.id": settings.group,
                "client.id": settings.client_id,
                "enable.auto.commit": settings.commits == "auto",
                "auto.commit.interval.ms": settings.commit_ms,
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 1_500,
                "log_level": 3,
                **protocol,
                **instance,
            }
        )
        self.subscribe(settings.topics)

    def subscribe(self, topics: list[str]) -> None:
        self._consumer.subscribe(topics, on_revoke=self._revoked)

    def _revoked(self, consumer: Any, partitions: list[Any]) -> None:
        if self._settings.commits == "parting":
            self.commit()

    def turn(self) -> None:
        self._consumer.consume(500, TURN_S)

    def status(self) -> tuple[int, int, bool]:
        raw = bytes(self._consumer.consumer_group_metadata())
        generation = int.from_bytes(raw[7:11], sys.byteorder, signed=True)
        return generation, len(self._consumer.assignment()), False

    def commit(self) -> None:
        with suppress(confluent_kafka.KafkaException):
            self._consumer.commit(asynchronous=False)

    def rejoin(self) -> None:
        """Do nothing: the library has no such call."""
        raise NotImplementedError

    def close(self) -> None:
        self._consumer.close()


class KafkaPython(AsyncConsumerRebalanceListener):
    """A consumer of kafka-python."""

    ASSIGNORS: Final = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=settings.bootstrap,
            group_id=settings.group,
            client_id=settings.client_id,
            group_instance_id=settings.instance_id,
            session_timeout_ms=settings.session_ms,
            heartbeat_interval_ms=settings.heartbeat_ms,
            enable_auto_commit=settings.commits == "auto",
            auto_commit_interval_ms=settings.commit_ms,
            auto_offset_reset="earliest",
            metadata_max_age_ms=1_500,
            fetch_min_bytes=100_000,  # the records of half a second at once: otherwise it takes much CPU
            partition_assignment_strategy=(self.ASSIGNORS[settings.assignor],),
        )
        self.subscribe(settings.topics)

    @property
    def _coordinator(self) -> Any:
        return self._consumer._coordinator

    def subscribe(self, topics: list[str]) -> None:
        self._consumer.subscribe(topics, listener=self)

    async def on_partitions_revoked(self, revoked: Any) -> None:
        if self._settings.commits == "parting":
            with suppress(KafkaError):
                offsets = self._consumer._subscription.all_consumed_offsets()
                await self._coordinator._commit_offsets_sync_async(offsets, 5_000)

    async def on_partitions_assigned(self, assigned: Any) -> None:
        pass

    async def on_partitions_lost(self, lost: Any) -> None:
        pass

    def turn(self) -> None:
        self._consumer.poll(timeout_ms=int(TURN_S * 1000))

    def status(self) -> tuple[int, int, bool]:
        now = self._coordinator.generation_if_stable()
        leads = bool(getattr(self._coordinator, "_is_leader", False))
        return 0 if now is None else now.generation_id, len(self._consumer.assignment()), leads

    def commit(self) -> None:
        with suppress(KafkaError):
            self._consumer.commit()

    def rejoin(self) -> None:
        self._coordinator.request_rejoin()

    def close(self) -> None:
        self._consumer.close()


CLIENTS: Final[Mapping[str, type[Confluent] | type[KafkaPython]]] = {
    "confluent": Confluent,
    "kafka-python": KafkaPython,
}


def _read(reported: deque[str]) -> None:
    for line in sys.stdin:
        reported.append(line)
    reported.append("stop")


def main() -> None:
    """Run the process."""
    settings = Settings(**json.loads(sys.argv[1]))
    reported: deque[str] = deque()
    threading.Thread(target=_read, args=(reported,), daemon=True).start()
    consumer: Consumer = CLIENTS[settings.client](settings)
    said, due = None, time.monotonic() + settings.commit_ms / 1000
    while True:
        consumer.turn()
        if (status := consumer.status()) != said:
            said = status
            print(status[0], status[1], int(status[2]), flush=True)
        if settings.commits != "auto" and time.monotonic() >= due:
            due = time.monotonic() + settings.commit_ms / 1000 * random.uniform(0.5, 1.5)
            consumer.commit()
        while reported:
            verb, *words = reported.popleft().split()
            if verb == "subscribe":
                consumer.subscribe(words)
            elif verb == "rejoin":
                consumer.rejoin()
            else:
                if settings.commits == "parting":
                    consumer.commit()
                consumer.close()
                return


if __name__ == "__main__":
    main()
