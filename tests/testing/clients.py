"""One consumer of each client library, in a thread of its own, that reads and commits until it is stopped."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import confluent_kafka
from aiokafka.errors import KafkaError

from muster.testing import WaitFailed
from tests.e2e.aio import consuming
from tests.e2e.sync_clients import confluent_consumer, kafka, kafka_python_consumer


@contextmanager
def aiokafka_consumer(bootstrap: str, topic: str, group_id: str, client_id: str) -> Iterator[None]:
    """aiokafka, on an event loop of its own."""

    async def consume(over: threading.Event) -> None:
        async with consuming(bootstrap, topic, group_id=group_id, client_id=client_id) as consumer:
            while not over.is_set():
                if await consumer.getmany(timeout_ms=50):
                    with suppress(KafkaError):  # it was removed: it joins again
                        await consumer.commit()

    with _running(lambda over: asyncio.run(consume(over))):
        yield


@contextmanager
def confluent(bootstrap: str, topic: str, group_id: str, client_id: str, protocol: str = "classic") -> Iterator[None]:
    """librdkafka."""

    def consume(over: threading.Event) -> None:
        with confluent_consumer(bootstrap, group_id=group_id, client_id=client_id, group_protocol=protocol) as consumer:
            consumer.subscribe([topic])
            while not over.is_set():
                message = consumer.poll(0.05)
                if message is not None and message.error() is None:
                    with suppress(confluent_kafka.KafkaException):  # it was removed: it joins again
                        consumer.commit(message=message, asynchronous=False)

    with _running(consume):
        yield


@contextmanager
def confluent_next(bootstrap: str, topic: str, group_id: str, client_id: str) -> Iterator[None]:
    """librdkafka with the consumer protocol of KIP-848."""
    with confluent(bootstrap, topic, group_id, client_id, "consumer"):
        yield


@contextmanager
def kafka_python(bootstrap: str, topic: str, group_id: str, client_id: str) -> Iterator[None]:
    """kafka-python."""

    def consume(over: threading.Event) -> None:
        with kafka_python_consumer(bootstrap, topic, group_id=group_id, client_id=client_id) as consumer:
            while not over.is_set():
                # a shorter one sometimes never returns: see `attempts`
                if consumer.poll(timeout_ms=500):
                    with suppress(kafka.errors.KafkaError):  # it was removed: it joins again
                        consumer.commit()

    with _running(consume):
        yield


@contextmanager
def _running(consume: Callable[[threading.Event], object]) -> Iterator[None]:
    over = threading.Event()
    thread = threading.Thread(target=consume, args=(over,))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


CLIENTS: Final = {
    "aiokafka": aiokafka_consumer,
    "confluent": confluent,
    "confluent-consumer": confluent_next,
    "kafka-python": kafka_python,
}


def attempts(client: str, body: Callable[[str], None]) -> None:
    """Run `body(group id)`; for kafka-python up to three times. Version 3.0 sometimes does not wake its own thread.
    Then it neither polls nor sends heartbeats until its session is over.
    """
    most = 3 if client == "kafka-python" else 1
    for number in range(most):
        try:
            body(f"{client}-{number}")
            return
        except WaitFailed:
            if number == most - 1:
                raise
