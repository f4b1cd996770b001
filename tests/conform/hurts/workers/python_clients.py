"""One trial of a Python client: produce, consume in a group, commit, leave, and begin again behind the commit.

    python -m tests.conform.hurts.workers.python_clients CLIENT BOOTSTRAP TOPIC GROUP SECONDS

Each finished stage is a line: `produced`, `consumed FIRST`, `committed`, `closed`, `resumed FIRST`. An error is `error
STAGE TEXT`, and ends the trial.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

RECORDS = 3


def say(*words: object) -> None:
    print(*words, flush=True)


class Late(Exception):
    """A stage has not ended in time."""


async def with_aiokafka(bootstrap: str, topic: str, group: str, seconds: float) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def produce(count: int) -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, request_timeout_ms=5_000)
        await producer.start()
        try:
            for number in range(count):
                await producer.send_and_wait(topic, str(number).encode(), partition=0)
        finally:
            await producer.stop()

    async def consumer() -> Any:
        made = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=300,
            request_timeout_ms=5_000,
        )
        await made.start()
        return made

    async def consume(made: Any, count: int) -> int:
        first = None
        while count:
            record = await made.getone()
            first = int(record.offset) if first is None else first
            count -= 1
        assert first is not None
        return first

    async def stage(name: str, job: Any) -> Any:
        try:
            return await asyncio.wait_for(job, seconds)
        except TimeoutError:
            say("error", name, "Late")
        except BaseException as error:  # noqa: BLE001  # the trial reports it
            say("error", name, type(error).__name__, error)
        raise SystemExit(0)

    await stage("produce", produce(RECORDS))
    say("produced")
    one = await stage("join", consumer())
    say("consumed", await stage("consume", consume(one, RECORDS)))
    # heartbeats are sent meanwhile
    await asyncio.sleep(1)
    await stage("commit", one.commit())
    say("committed")
    await stage("close", one.stop())
    say("closed")
    await stage("produce", produce(1))
    two = await stage("join", consumer())
    say("resumed", await stage("resume", consume(two, 1)))
    await stage("close", two.stop())


def with_confluent(bootstrap: str, topic: str, group: str, seconds: float, protocol: str) -> None:
    from confluent_kafka import Consumer, KafkaException, Producer

    told: list[str] = []

    def note(error: Any) -> None:
        told.append(str(error))

    def produce(count: int) -> None:
        failed: list[Any] = []

        def delivered(error: Any, _: Any) -> None:
            if error:
                failed.append(error)

        producer = Producer(
            {"bootstrap.servers": bootstrap, "message.timeout.ms": int(seconds * 1000), "error_cb": note}
        )
        for number in range(count):
            producer.produce(topic, str(number), partition=0, on_delivery=delivered)
        if producer.flush(seconds):
            raise Late
        if failed:
            raise KafkaException(failed[0])

    def consumer() -> Any:
        made = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "group.protocol": protocol,
                **({"session.timeout.ms": 6_000, "heartbeat.interval.ms": 300} if protocol == "classic" else {}),
                "error_cb": note,
            }
        )
        made.subscribe([topic])
        return made

    def consume(made: Any, count: int) -> int:
        end, first = time.monotonic() + seconds, None
        while count:
            message = made.poll(0.2)
            if message is not None and message.error():
                raise KafkaException(message.error())
            if message is not None:
                first = int(message.offset()) if first is None else first
                count -= 1
            elif time.monotonic() > end:
                raise Late
        assert first is not None
        return first

    def stage(name: str, job: Any) -> Any:
        try:
            return job()
        except BaseException as error:  # noqa: BLE001  # the trial reports it
            say("error", name, type(error).__name__, error, "|", *dict.fromkeys(told))
            raise SystemExit(0) from None

    stage("produce", lambda: produce(RECORDS))
    say("produced")
    one = consumer()
    say("consumed", stage("consume", lambda: consume(one, RECORDS)))
    end = time.monotonic() + 1
    while time.monotonic() < end:
        one.poll(0.1)
    stage("commit", lambda: one.commit(asynchronous=False))
    say("committed")
    one.close()
    say("closed")
    stage("produce", lambda: produce(1))
    two = consumer()
    say("resumed", stage("resume", lambda: consume(two, 1)))
    two.close()


def with_kafka_python(bootstrap: str, topic: str, group: str, seconds: float) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    def produce(count: int) -> None:
        producer = KafkaProducer(
            bootstrap_servers=bootstrap, request_timeout_ms=5_000, max_block_ms=int(seconds * 1000)
        )
        try:
            for number in range(count):
                producer.send(topic, str(number).encode(), partition=0).get(seconds)
        finally:
            producer.close(1)

    def consumer() -> Any:
        return KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=300,
        )

    def consume(made: Any, count: int) -> int:
        end, first = time.monotonic() + seconds, None
        while count > 0:
            for records in made.poll(200).values():
                first = int(records[0].offset) if first is None else first
                count -= len(records)
            if time.monotonic() > end:
                raise Late
        assert first is not None
        return first

    def stage(name: str, job: Any) -> Any:
        try:
            return job()
        except BaseException as error:  # noqa: BLE001  # the trial reports it
            say("error", name, type(error).__name__, error)
            raise SystemExit(0) from None

    stage("produce", lambda: produce(RECORDS))
    say("produced")
    one = stage("join", consumer)
    say("consumed", stage("consume", lambda: consume(one, RECORDS)))
    end = time.monotonic() + 1
    while time.monotonic() < end:
        one.poll(100)
    stage("commit", one.commit)
    say("committed")
    stage("close", one.close)
    say("closed")
    stage("produce", lambda: produce(1))
    two = stage("join", consumer)
    say("resumed", stage("resume", lambda: consume(two, 1)))
    stage("close", two.close)


def main(client: str, bootstrap: str, topic: str, group: str, seconds: str) -> None:
    if client == "aiokafka":
        asyncio.run(with_aiokafka(bootstrap, topic, group, float(seconds)))
    elif client.startswith("confluent-kafka"):
        protocol = "consumer" if client.endswith("-consumer") else "classic"
        with_confluent(bootstrap, topic, group, float(seconds), protocol)
    else:
        with_kafka_python(bootstrap, topic, group, float(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
