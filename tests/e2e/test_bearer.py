"""Clients of three libraries with tokens: good ones, expired ones, keys that are exchanged, a group that goes on while
its members bring new tokens.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest
from aiokafka.abc import AbstractTokenProvider

from tests.coordinator.security.sasl.bearer_cases import AUDIENCE, ISSUER, After, Case, Keys
from tests.e2e.aio import consuming, producing
from tests.e2e.conftest import SERVER
from tests.e2e.sync_clients import CONFLUENT_CONSUMER, KAFKA_PYTHON_CONSUMER, kafka
from tests.support.servers import QUICK, MusterServer

pytestmark = pytest.mark.skipif(SERVER != "muster" or "MUSTER_TEST_BOOTSTRAP" in os.environ, reason="its own listeners")
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"


class Bearer(NamedTuple):
    """A server that takes tokens, and who makes them."""

    server: MusterServer
    keys: Keys
    jwks: Path

    def token(self, kid: str = "rsa", seconds: int = 300) -> str:
        """Good for so long."""
        return self.keys.token(Case("", {"iat": After(-99), "exp": After(seconds)}, kid=kid), time.time())

    def librdkafka(self, seconds: int = 300, **more: Any) -> dict[str, Any]:
        """Properties of librdkafka."""

        def bring(_: object) -> tuple[str, float]:
            # half the time is told, so that a new one is there when the old one ends
            return self.token(seconds=seconds), time.time() + seconds / 2

        return {
            "bootstrap.servers": self.server.bootstrap, "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER", "oauth_cb": bring, "log_level": 0, **more,
        }  # fmt: skip


@pytest.fixture(scope="module")
def bearer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bearer]:
    folder, keys = tmp_path_factory.mktemp("bearer"), Keys()
    jwks = folder / "jwks.json"
    jwks.write_text(keys.jwks("rsa"))
    properties = {
        **QUICK,
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": HANDLER,
        "sasl.oauthbearer.jwks.endpoint.url": jwks.as_uri(),
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.clock.skew.seconds": "0",
    }
    server = MusterServer(folder / "server", properties, in_memory=True, arguments=["--topic", "t:2"])
    server.start()
    yield Bearer(server, keys, jwks)
    server.stop()


class AioTokens(AbstractTokenProvider):
    """Of aiokafka."""

    def __init__(self, bearer: Bearer) -> None:
        self._bearer = bearer

    async def token(self) -> str:
        """The token."""
        return self._bearer.token()


class PythonTokens(kafka.net.sasl.oauth.AbstractTokenProvider):  # type: ignore[misc]
    """Of kafka-python."""

    def __init__(self, bearer: Bearer, **_: object) -> None:
        self._bearer = bearer

    def token(self) -> str:
        """The token."""
        return self._bearer.token()


async def test_aiokafka(bearer: Bearer) -> None:
    settings: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": AioTokens(bearer),
    }  # fmt: skip
    address = bearer.server.bootstrap
    async with producing(address, **settings) as producer:
        await producer.send_and_wait("t", b"aiokafka")
    async with consuming(address, "t", group_id="aio", **settings) as consumer:
        async for record in consumer:
            if record.value == b"aiokafka":
                break
        await consumer.commit()


def test_kafka_python(bearer: Bearer) -> None:
    settings: dict[str, Any] = {
        "bootstrap_servers": bearer.server.bootstrap, "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": PythonTokens(bearer),
    }  # fmt: skip
    with contextlib.closing(kafka.KafkaProducer(**settings)) as producer:
        producer.send("t", b"kafka-python").get(30)
    with contextlib.closing(kafka.KafkaConsumer("t", group_id="py", **settings, **KAFKA_PYTHON_CONSUMER)) as consumer:
        for record in consumer:
            if record.value == b"kafka-python":
                break
        consumer.commit()


def test_a_group_goes_on_while_tokens_end(bearer: Bearer) -> None:
    """librdkafka brings a new token on each connection before the time of the old one is over; no rebalance."""
    assigned: list[int] = []
    producer = confluent_kafka.Producer(bearer.librdkafka(), logger=None)
    producer.poll(0)
    producer.produce("t", b"librdkafka")
    assert producer.flush(30) == 0
    settings = {**CONFLUENT_CONSUMER, **bearer.librdkafka(4), "group.id": "again"}
    with contextlib.closing(confluent_kafka.Consumer(settings, logger=None)) as consumer:
        consumer.subscribe(["t"], on_assign=lambda _, partitions: assigned.append(len(partitions)))
        deadline = time.monotonic() + 5.5
        while time.monotonic() < deadline:
            record = consumer.poll(0.1)
            assert record is None or record.error() is None
        consumer.commit(asynchronous=False)
    assert assigned == [2]
    assert "its session is over" not in bearer.server.log()


def test_tokens_that_are_refused_until_their_key_is_there(bearer: Bearer) -> None:
    """An expired one, and one whose key comes later: the file is read anew."""
    told: list[str] = []

    def refused(error: confluent_kafka.KafkaError) -> None:
        if error.code() == confluent_kafka.KafkaError._AUTHENTICATION:
            told.append(error.str())

    kid, seconds = "rsa", -5
    settings = bearer.librdkafka(**{"error_cb": refused, "reconnect.backoff.max.ms": 200})
    settings["oauth_cb"] = lambda _: (bearer.token(kid, seconds), time.time() + 1.5)
    producer = confluent_kafka.Producer(settings, logger=None)
    while not told:
        producer.poll(0.1)
    kid, seconds = "any", 300
    while bearer.server.log().count("none of the 1 keys is the one that it asks for") < 1:
        producer.poll(0.1)
    bearer.jwks.write_text(bearer.keys.jwks("rsa", "any"))
    producer.produce("t", b"at last")
    assert producer.flush(30) == 0
    assert "invalid_token" in told[0]
    assert '"why": "it has expired"' in bearer.server.log()
    assert bearer.token() not in bearer.server.log()
