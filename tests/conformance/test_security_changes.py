"""Security changes while clients of four libraries are connected: certificates expire or are replaced, ACL entries are
removed. Other groups must not notice.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.conformance.clients import JavaClients
from tests.e2e.aio import producing
from tests.e2e.ledger import eventually_sync
from tests.e2e.sync_clients import KAFKA_PYTHON_CONSUMER, confluent_consumer, kafka
from tests.support.certificates import Authority
from tests.support.servers import KAFKA_SCRIPTS, QUICK, MusterServer, ServerProcess

TOPICS = ("rotated", "revoked", "t")
EXPIRED = datetime.datetime(2021, 1, 1, tzinfo=datetime.UTC)
KAFKA_PYTHON = """
import ssl, sys
import kafka
bootstrap, ca, own = sys.argv[1:]
context = ssl.create_default_context(cafile=ca)
context.load_cert_chain(own)
kafka.KafkaProducer(bootstrap_servers=bootstrap, security_protocol="SSL", ssl_context=context).send("t", b"x").get(5)
"""
StartJava = Callable[[ServerProcess], JavaClients]


class Changing(MusterServer):
    """A server that accepts only clients with a certificate; ACL entries say who may do what. CN=admin may do
    everything.
    """

    def __init__(self, workdir: Path) -> None:
        workdir.mkdir(parents=True, exist_ok=True)
        self.authority, self.next = Authority(), Authority("CN=Next")
        self.ca = workdir / "ca.pem"
        self.ca.write_text(self.authority.pem + self.next.pem)
        self.key = workdir / "k.pem"
        self.authority.signed("CN=server", host="localhost").pem(self.key)
        self.pems = {
            "admin": self.authority.signed("CN=admin").pem(workdir / "admin.pem"),
            "web": self.authority.signed("CN=web").pem(workdir / "web.pem"),
            "expired": self.authority.signed("CN=web", end=EXPIRED).pem(workdir / "expired.pem"),
        }
        super().__init__(
            workdir,
            {
                **QUICK,
                "listeners": "SSL://127.0.0.1:0",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.key),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.ca),
                "ssl.client.auth": "required",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:CN=admin",
            },
            in_memory=True,
            arguments=[word for name in TOPICS for word in ("--topic", f"{name}:2")],
        )

    def java(self, who: str) -> dict[str, str]:
        """The properties of Kafka's clients."""
        return {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.pems[who],
        }

    def librdkafka(self, who: str) -> dict[str, Any]:
        """The properties of librdkafka."""
        return {
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.ca),
            "ssl.certificate.location": self.pems[who],
            "ssl.key.location": self.pems[who],
        }

    def python(self, who: str) -> dict[str, Any]:
        """The settings of the Python clients."""
        context = ssl.create_default_context(cafile=str(self.ca))
        context.load_cert_chain(self.pems[who])
        return {"security_protocol": "SSL", "ssl_context": context}

    def entries(self, change: Callable[[AdminClient], dict[Any, Any]]) -> None:
        """Change ACL entries, and wait until they apply."""
        settings = {"bootstrap.servers": self.bootstrap, **self.librdkafka("admin"), "log_level": 3}
        admin = AdminClient(settings, logger=None)
        for done in change(admin).values():
            done.result(60)

    def why(self, event: str) -> list[str]:
        """The reasons in these lines of the log."""
        return [str(line.get("why", "")) for line in self.log_lines(event)]


@pytest.fixture(scope="module")
def changing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Changing]:
    server = Changing(tmp_path_factory.mktemp("changing"))
    server.start()
    allowed = [
        AclBinding(kind, name, ResourcePatternType.LITERAL, "User:CN=web", "*", operation, AclPermissionType.ALLOW)
        for kind, name, operation in (
            (ResourceType.TOPIC, "*", AclOperation.READ),
            (ResourceType.TOPIC, "*", AclOperation.WRITE),
            (ResourceType.GROUP, "*", AclOperation.READ),
        )
    ]
    try:
        server.entries(lambda admin: admin.create_acls(allowed))
        yield server
    finally:
        server.stop()


async def test_a_client_with_an_expired_certificate_is_refused(changing: Changing, tmp_path: Path) -> None:
    settings = {"bootstrap.servers": changing.bootstrap, **changing.librdkafka("expired"), "log_level": 0}
    with pytest.raises(confluent_kafka.KafkaException):
        confluent_kafka.Producer(settings, logger=None).list_topics(timeout=5)
    with pytest.raises(Exception, match=r"KafkaConnectionError|Unable to bootstrap"):
        async with producing(changing.bootstrap, **changing.python("expired")):
            pass
    # in a process of its own: it leaves sockets open when it fails
    words = [
        sys.executable,
        "-W",
        "ignore",
        "-c",
        KAFKA_PYTHON,
        changing.bootstrap,
        changing.ca,
        changing.pems["expired"],
    ]
    done = await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "NoBrokersAvailable" in done.stderr or "KafkaTimeoutError" in done.stderr
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in changing.java("expired").items()))
    done = await asyncio.to_thread(
        subprocess.run,
        [KAFKA_SCRIPTS / "kafka-tool.sh", "org.apache.kafka.tools.TopicCommand", "--bootstrap-server",
         changing.bootstrap, "--command-config", file, "--list"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "SslAuthenticationException" in done.stdout + done.stderr
    reasons = changing.why("a TLS handshake failed")
    assert len([why for why in reasons if "certificate has expired" in why]) >= 4, reasons


def test_a_removed_acl_applies_at_once_on_open_connections(changing: Changing, start_java: StartJava) -> None:
    """On connections that are open, for clients that have written and read a moment before."""
    java, reported = start_java(changing), []
    names = {name.replace(".", "_"): value for name, value in changing.java("web").items()}
    java.produce("revoked", 0, 20, **names)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": changing.bootstrap, **changing.librdkafka("web"), "log_level": 0}, logger=None
    )
    python = kafka.KafkaProducer(bootstrap_servers=changing.bootstrap, **changing.python("web"), retries=0)

    def sent() -> list[object]:
        reported.clear()
        try:
            producer.produce("revoked", b"x", on_delivery=lambda error, _: reported.append(error and error.name()))
            producer.flush(30)
        except confluent_kafka.KafkaException as error:
            reported.append(error.args[0].name())
        try:
            python.send("revoked", b"x").get(30)
            reported.append(None)
        except kafka.errors.KafkaError as error:
            reported.append(type(error).__name__)
        return list(reported)

    options = {name.replace(".", "_"): value for name, value in changing.librdkafka("web").items()}
    with (
        contextlib.closing(python),
        confluent_consumer(changing.bootstrap, **options, group_id="revoked") as consumer,
    ):
        consumer.subscribe(["revoked"])
        assert sent() == [None, None]
        while (record := consumer.poll(1)) is None or record.error() is not None:
            pass
        consumer.commit(asynchronous=False)
        denied = [
            AclBinding(kind, "revoked", ResourcePatternType.LITERAL, "User:CN=web", "*", operation,
                       AclPermissionType.DENY)
            for kind, operation in ((ResourceType.TOPIC, AclOperation.WRITE), (ResourceType.GROUP, AclOperation.READ))
        ]  # fmt: skip
        changing.entries(lambda admin: admin.create_acls(denied))
        assert sent() == ["TOPIC_AUTHORIZATION_FAILED", "TopicAuthorizationFailedError"]
        with pytest.raises(confluent_kafka.KafkaException) as refused:
            consumer.commit(message=record, asynchronous=False)
        assert refused.value.args[0].code() == confluent_kafka.KafkaError.GROUP_AUTHORIZATION_FAILED
        java.tell("produce", "revoked", "20", "1", *(f"{key}={value}" for key, value in changing.java("web").items()))
        eventually_sync(lambda: bool(java.failures), "Java to be refused", 60)
        assert "TopicAuthorizationException" in java.failures[0]
        java.failures.clear()
        gone = [
            AclBindingFilter(one.restype, "revoked", ResourcePatternType.LITERAL, None, None, AclOperation.ANY,
                             AclPermissionType.DENY)
            for one in denied
        ]  # fmt: skip
        changing.entries(lambda admin: admin.delete_acls(gone))
        # librdkafka refuses the topic by itself until it has asked for its metadata again, a second later
        eventually_sync(lambda: sent() == [None, None], "all to be let in again", 30)


def test_a_replaced_server_certificate_causes_no_rebalance(changing: Changing, start_java: StartJava) -> None:
    """Existing connections stay. New connections get the new certificate, which another authority has signed."""
    java = start_java(changing)
    names = {name.replace(".", "_"): value for name, value in changing.java("web").items()}
    java.consume("c", "rotated", "rotated", **names)
    java.shared_out(["c"], 2)
    java.produce("rotated", 0, 20, **names)
    options = {name.replace(".", "_"): value for name, value in changing.librdkafka("web").items()}
    with confluent_consumer(changing.bootstrap, **options, group_id="rotated-too") as consumer:
        consumer.subscribe(["rotated"])
        while (record := consumer.poll(1)) is None or record.error() is not None:
            pass
        new = changing.key.with_suffix(".new")
        changing.next.signed("CN=server", host="localhost").pem(new)
        os.replace(new, changing.key)
        eventually_sync(lambda: bool(changing.why("certificates were read anew")), "the server to look", 30)
        assert issuer(changing) == "Next"
        java.produce("rotated", 20, 20, **names)
        java.wait(lambda: len(java.ledger) == 40, "40 records")
        context = {**changing.python("web"), **KAFKA_PYTHON_CONSUMER}
        with contextlib.closing(
            kafka.KafkaConsumer("rotated", bootstrap_servers=changing.bootstrap, group_id="comes", **context)
        ) as comer:
            assert next(comer).topic == "rotated"
        consumer.commit(asynchronous=False)
    log = changing.log()
    for group in "rotated", "rotated-too":
        assert log.count(f'"group": "{group}", "cause": "a new member joined"') == 1


def issuer(server: Changing) -> str:
    """The name of the issuer of the certificate that a new connection gets."""
    context = server.python("web")["ssl_context"]
    with (
        socket.create_connection(server.address, timeout=30) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        rows = dict(row[0] for row in connection.getpeercert()["issuer"])
    return str(rows["commonName"])
