"""Clients of three libraries over TLS, with and without client certificates: what works, and what fails."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from typing import NamedTuple

import confluent_kafka
import pytest

from tests.e2e.aio import consuming, producing
from tests.e2e.conftest import SERVER
from tests.e2e.sync_clients import confluent_consumer, kafka_python_consumer, kafka_python_producer
from tests.support.certificates import Authority
from tests.support.servers import QUICK, MusterServer

pytestmark = pytest.mark.skipif(SERVER != "muster" or "MUSTER_TEST_BOOTSTRAP" in os.environ, reason="its own listeners")
LISTENERS = ("SSL", "MUTUAL")


class Tls(NamedTuple):
    """A server with three listeners: TLS, TLS with client certificates, and no TLS."""

    server: MusterServer
    ca: str
    client: str

    def address(self, listener: str) -> str:
        """The address of a listener."""
        return self.server.address_of(listener)

    def context(self, with_certificate: bool) -> ssl.SSLContext:
        """The TLS context of the Python clients."""
        context = ssl.create_default_context(cafile=self.ca)
        if with_certificate:
            context.load_cert_chain(self.client)
        return context

    def librdkafka(self, listener: str) -> dict[str, str]:
        """The properties of librdkafka."""
        own = {"ssl.certificate.location": self.client, "ssl.key.location": self.client}
        return {
            "bootstrap.servers": self.address(listener),
            "security.protocol": "SSL",
            "ssl.ca.location": self.ca,
            **(own if listener == "MUTUAL" else {}),
        }


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tls]:
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority()
    ca = folder / "ca.pem"
    ca.write_text(authority.pem)
    server = MusterServer(
        folder / "server",
        {
            **QUICK,
            "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,MUTUAL://127.0.0.1:0",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,MUTUAL:SSL",
            "ssl.keystore.location": authority.signed("CN=server", host="localhost").pkcs12(folder / "k.p12", "secret"),
            "ssl.keystore.password": "secret",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(ca),
            "listener.name.mutual.ssl.client.auth": "required",
        },
        in_memory=True,
        arguments=["--topic", "t:2"],
    )
    server.start()
    try:
        yield Tls(server, str(ca), authority.signed("CN=client").pem(folder / "client.pem"))
    finally:
        server.stop()


@pytest.mark.parametrize("listener", LISTENERS)
async def test_aiokafka_works_over_tls(tls: Tls, listener: str) -> None:
    settings = {"security_protocol": "SSL", "ssl_context": tls.context(listener == "MUTUAL")}
    async with producing(tls.address(listener), **settings) as producer:
        await producer.send_and_wait("t", b"aiokafka " + listener.encode())
    async with consuming(tls.address(listener), "t", group_id=f"aio-{listener}", **settings) as consumer:
        async for record in consumer:
            if record.value == b"aiokafka " + listener.encode():
                break
        await consumer.commit()


@pytest.mark.parametrize("listener", LISTENERS)
def test_librdkafka_works_over_tls(tls: Tls, listener: str) -> None:
    settings = tls.librdkafka(listener)
    producer = confluent_kafka.Producer({**settings, "log_level": 3}, logger=None)
    producer.produce("t", b"librdkafka " + listener.encode())
    assert producer.flush(30) == 0
    names = {name.replace(".", "_"): value for name, value in settings.items() if name != "bootstrap.servers"}
    with confluent_consumer(tls.address(listener), **names, group_id=f"rd-{listener}") as consumer:
        consumer.subscribe(["t"])
        seen = None
        while seen != b"librdkafka " + listener.encode():
            record = consumer.poll(1)
            assert record is None or record.error() is None
            seen = record and record.value()
        consumer.commit(asynchronous=False)


@pytest.mark.parametrize("listener", LISTENERS)
def test_kafka_python_works_over_tls(tls: Tls, listener: str) -> None:
    settings = {
        "security_protocol": "SSL",
        "ssl_context": tls.context(listener == "MUTUAL"),
    }
    bootstrap, value = tls.address(listener), b"kafka-python " + listener.encode()
    with kafka_python_producer(bootstrap, **settings) as producer:
        producer.send("t", value).get(30)
    group = f"py-{listener}"
    with kafka_python_consumer(bootstrap, "t", group_id=group, **settings) as consumer:
        for record in consumer:
            if record.value == value:
                break
        consumer.commit()


def test_each_client_gets_the_address_of_its_own_listener(tls: Tls) -> None:
    for listener in LISTENERS:
        brokers = confluent_kafka.Producer(tls.librdkafka(listener), logger=None).list_topics(timeout=30).brokers
        assert [f"{one.host}:{one.port}" for one in brokers.values()] == [tls.address(listener)]


def test_a_client_without_a_required_certificate_is_refused(tls: Tls) -> None:
    settings = {**tls.librdkafka("SSL"), "bootstrap.servers": tls.address("MUTUAL"), "log_level": 0}
    client = confluent_kafka.Producer(settings, logger=None)
    with pytest.raises(confluent_kafka.KafkaException):
        client.list_topics(timeout=2)
    assert {line["listener"] for line in tls.server.log_lines("a TLS handshake failed")} == {"MUTUAL"}
    assert any(
        "peer did not return a certificate" in line["why"] for line in tls.server.log_lines("a TLS handshake failed")
    )


def test_secrets_are_neither_described_nor_logged(tls: Tls) -> None:
    admin = confluent_kafka.admin.AdminClient({**tls.librdkafka("SSL"), "log_level": 3}, logger=None)
    resource = confluent_kafka.admin.ConfigResource("broker", "1")
    (described,) = (done.result(30) for done in admin.describe_configs([resource]).values())
    assert described["ssl.keystore.location"].value.endswith("k.p12")
    hidden = described["ssl.keystore.password"]
    assert (hidden.value, hidden.is_sensitive) == (None, True)
    assert "secret" not in tls.server.log()
