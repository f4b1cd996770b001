"""Clients of three libraries with tokens: good and expired tokens, new keys, and a group whose members renew their
tokens.
"""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest
from aiokafka.abc import AbstractTokenProvider

from muster import cli
from muster.client import security
from muster.client.kafka_client import KafkaClient
from muster.coordinator.config.listeners import Address
from tests.coordinator.security.sasl.bearer_cases import AUDIENCE, ISSUER, After, Case, Keys
from tests.e2e.aio import consuming, producing
from tests.e2e.conftest import SERVER
from tests.e2e.sync_clients import CONFLUENT_CONSUMER, kafka, kafka_python_consumer, kafka_python_producer
from tests.support.servers import QUICK, MusterServer

pytestmark = pytest.mark.skipif(SERVER != "muster" or "MUSTER_TEST_BOOTSTRAP" in os.environ, reason="its own listeners")
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"


class Bearer(NamedTuple):
    """A server that accepts tokens, and the keys that sign them."""

    server: MusterServer
    keys: Keys
    jwks: Path

    def token(self, kid: str = "rsa", seconds: int = 300) -> str:
        """A token that is valid for this time."""
        return self.keys.token(Case("", {"iat": After(-99), "exp": After(seconds)}, kid=kid), time.time())

    def librdkafka(self, seconds: int = 300, **more: Any) -> dict[str, Any]:
        """Properties of librdkafka."""

        def bring(_: object) -> tuple[str, float]:
            # the client gets half of the lifetime, so that it has a new token when the old one ends
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
    """The tokens of an aiokafka client."""

    def __init__(self, bearer: Bearer) -> None:
        self._bearer = bearer

    async def token(self) -> str:
        """The token."""
        return self._bearer.token()


class PythonTokens(kafka.net.sasl.oauth.AbstractTokenProvider):
    """The tokens of a kafka-python client."""

    def __init__(self, bearer: Bearer, **_: object) -> None:
        self._bearer = bearer

    def token(self) -> str:
        """The token."""
        return self._bearer.token()


async def test_aiokafka_authenticates_with_a_token(bearer: Bearer) -> None:
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


def test_kafka_python_authenticates_with_a_token(bearer: Bearer) -> None:
    settings: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": PythonTokens(bearer),
    }  # fmt: skip
    with kafka_python_producer(bearer.server.bootstrap, **settings) as producer:
        producer.send("t", b"kafka-python").get(30)
    with kafka_python_consumer(bearer.server.bootstrap, "t", group_id="py", **settings) as consumer:
        for record in consumer:
            if record.value == b"kafka-python":
                break
        consumer.commit()


def test_a_group_keeps_working_while_tokens_expire(bearer: Bearer) -> None:
    """librdkafka sends a new token on each connection before the old one expires; there is no rebalance."""
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


def test_a_token_is_refused_until_its_key_is_known(bearer: Bearer) -> None:
    """An expired token is refused, and a token whose key comes later is accepted then: the file is read again."""
    errors: list[str] = []

    def refused(error: confluent_kafka.KafkaError) -> None:
        if error.code() == confluent_kafka.KafkaError._AUTHENTICATION:
            errors.append(error.str())

    kid, seconds = "rsa", -5
    settings = bearer.librdkafka(**{"error_cb": refused, "reconnect.backoff.max.ms": 200})
    settings["oauth_cb"] = lambda _: (bearer.token(kid, seconds), time.time() + 1.5)
    producer = confluent_kafka.Producer(settings, logger=None)
    while not errors:
        producer.poll(0.1)
    kid, seconds = "any", 300
    while bearer.server.log().count("none of the 1 keys is the one that it asks for") < 1:
        producer.poll(0.1)
    bearer.jwks.write_text(bearer.keys.jwks("rsa", "any"))
    producer.produce("t", b"at last")
    assert producer.flush(30) == 0
    assert "invalid_token" in errors[0]
    assert '"why": "it has expired"' in bearer.server.log()
    assert bearer.token() not in bearer.server.log()


def command_config(folder: Path, options: str, *lines: str) -> Path:
    """A client.properties for Muster's own commands."""
    file = folder / "client.properties"
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    start = (
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\nsasl.jaas.config={module} required {options};"
    )
    file.write_text("\n".join([start, *lines]))
    return file


class TokenEndpoint(http.server.BaseHTTPRequestHandler):
    """Gives the server's `token` to whoever has the right secret."""

    def do_POST(self) -> None:
        """Answer one request."""
        self.rfile.read(int(self.headers["Content-Length"]))
        is_good = self.headers["Authorization"] == "Basic " + base64.b64encode(b"me:secret").decode()
        body = json.dumps({"access_token": self.server.token(), "expires_in": 60, "token_type": "Bearer"})
        self.send_response(200 if is_good else 401)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body.encode() if is_good else b"{}")

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def endpoint(bearer: Bearer) -> Iterator[str]:
    """The URL of the endpoint."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), TokenEndpoint)
    server.token = bearer.token
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/token"
    server.shutdown()
    server.server_close()
    thread.join()


def test_musters_commands_authenticate_with_tokens(
    bearer: Bearer, endpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = tmp_path / "token.jwt"
    token.write_text(bearer.token())
    for options, line in (
        (f'oauth.access.token="{bearer.token()}"', ""),
        ("", f"sasl.oauthbearer.token.endpoint.url={token.as_uri()}"),
        ("clientId=me clientSecret=secret", f"sasl.oauthbearer.token.endpoint.url={endpoint}"),
    ):
        file = command_config(tmp_path, options, line)
        where = ["--bootstrap-server", bearer.server.bootstrap, "--command-config", str(file)]
        for command in "groups", "transactions":
            assert cli.main([command, "list", *where, "--json"]) == 0
        host, _, port = bearer.server.bootstrap.partition(":")
        with KafkaClient(Address(host, int(port)), security.read(file)) as cluster:
            cluster.bootstrap._renew_at_ms = 0
            assert set(cluster.topics(["t"])) == {"t"}
            assert cluster.bootstrap._renew_at_ms, "it has authenticated again"
    # `muster analyze` lets librdkafka ask the identity provider
    asked = {
        **dict(security.librdkafka(security.read(file))),
        "bootstrap.servers": bearer.server.bootstrap,
    }
    admin = confluent_kafka.admin.AdminClient({**asked, "log_level": 0}, logger=None)
    assert "t" in admin.list_topics(timeout=30).topics
    assert capsys.readouterr().err == ""


def test_musters_commands_say_why_they_have_no_token(
    bearer: Bearer, endpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for options, line, said in (
        (f'oauth.access.token="{bearer.token(seconds=-5)}"', "", 'refuses the token: {"status":"invalid_token"}'),
        ("", "sasl.oauthbearer.token.endpoint.url=file:///nowhere", "there is no token to show to"),
        ("clientId=me clientSecret=wrong", f"sasl.oauthbearer.token.endpoint.url={endpoint}", "HTTP 401"),
    ):
        file = command_config(tmp_path, options, line)
        where = ["--bootstrap-server", bearer.server.bootstrap, "--command-config", str(file)]
        assert cli.main(["groups", "list", *where]) == 1
        errors = capsys.readouterr().err
        assert said in errors
        assert errors.count("\n") == 1
        assert "wrong" not in errors
