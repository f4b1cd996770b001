"""Clients of three libraries that authenticate, with and without TLS. Wrong passwords are refused, and members of a
group authenticate again and again.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from muster import cli
from muster.client import security as security_module
from muster.client.kafka_client import KafkaClient
from muster.coordinator.config.listeners import Address
from tests.e2e.aio import consuming, producing
from tests.e2e.conftest import SERVER
from tests.e2e.sync_clients import KAFKA_PYTHON_CONSUMER, confluent_consumer, kafka
from tests.support.certificates import Authority
from tests.support.servers import QUICK, MusterServer

pytestmark = pytest.mark.skipif(SERVER != "muster" or "MUSTER_TEST_BOOTSTRAP" in os.environ, reason="its own listeners")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")
WAYS = [(protocol, mechanism) for protocol in PROTOCOLS for mechanism in MECHANISMS]
USER, PASSWORD = "alice", "alice's secret"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
JAAS = f'{MODULE} required user_{USER}="{PASSWORD}";'


class Sasl(NamedTuple):
    """A server with SASL on all its listeners."""

    server: MusterServer
    ca: str

    def address(self, listener: str) -> str:
        """The address of a listener."""
        return self.server.address_of(listener)

    def librdkafka(self, protocol: str, mechanism: str, password: str = PASSWORD) -> dict[str, str]:
        """The properties of librdkafka."""
        return {
            "bootstrap.servers": self.address(protocol),
            "security.protocol": protocol,
            "sasl.mechanism": mechanism,
            "sasl.username": USER,
            "sasl.password": password,
            **({"ssl.ca.location": self.ca} if protocol == "SASL_SSL" else {}),
        }

    def python(self, protocol: str, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
        """The settings of the Python clients."""
        return {
            "security_protocol": protocol,
            "sasl_mechanism": mechanism,
            "sasl_plain_username": USER,
            "sasl_plain_password": password,
            **({"ssl_context": ssl.create_default_context(cafile=self.ca)} if protocol == "SASL_SSL" else {}),
        }


@pytest.fixture(scope="module")
def sasl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sasl]:
    folder = tmp_path_factory.mktemp("sasl")
    authority = Authority()
    ca = folder / "ca.pem"
    ca.write_text(authority.pem)
    server = MusterServer(
        folder / "server",
        {
            **QUICK,
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
            "listener.name.sasl_ssl.plain.sasl.jaas.config": JAAS,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": authority.signed("CN=server", host="localhost").pem(folder / "k.pem"),
            "connections.max.reauth.ms": "2000",
        },
        in_memory=True,
        arguments=["--topic", "t:2"],
    )
    server.start()
    try:
        running = Sasl(server, str(ca))
        admin = AdminClient({**running.librdkafka("SASL_PLAINTEXT", "PLAIN"), "log_level": 3}, logger=None)
        for mechanism in ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512:
            info = ScramCredentialInfo(mechanism, 4096)
            upsertion = UserScramCredentialUpsertion(USER, info, PASSWORD.encode(), b"a salt of some bytes")
            for done in admin.alter_user_scram_credentials([upsertion]).values():
                done.result(30)
        yield running
    finally:
        server.stop()


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
async def test_aiokafka_authenticates_with_a_password(sasl: Sasl, protocol: str, mechanism: str) -> None:
    settings, value = sasl.python(protocol, mechanism), f"aiokafka {protocol} {mechanism}".encode()
    async with producing(sasl.address(protocol), **settings) as producer:
        await producer.send_and_wait("t", value)
    async with consuming(sasl.address(protocol), "t", group_id=f"aio-{protocol}-{mechanism}", **settings) as consumer:
        async for record in consumer:
            if record.value == value:
                break
        await consumer.commit()


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_librdkafka_authenticates_with_a_password(sasl: Sasl, protocol: str, mechanism: str) -> None:
    settings, value = sasl.librdkafka(protocol, mechanism), f"librdkafka {protocol} {mechanism}".encode()
    producer = confluent_kafka.Producer({**settings, "log_level": 3}, logger=None)
    producer.produce("t", value)
    assert producer.flush(30) == 0
    names = {name.replace(".", "_"): one for name, one in settings.items() if name != "bootstrap.servers"}
    with confluent_consumer(sasl.address(protocol), **names, group_id=f"rd-{protocol}-{mechanism}") as consumer:
        consumer.subscribe(["t"])
        seen = None
        while seen != value:
            record = consumer.poll(1)
            assert record is None or record.error() is None
            seen = record and record.value()
        consumer.commit(asynchronous=False)


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_kafka_python_authenticates_with_a_password(sasl: Sasl, protocol: str, mechanism: str) -> None:
    settings = {"bootstrap_servers": sasl.address(protocol), **sasl.python(protocol, mechanism)}
    value = f"kafka-python {protocol} {mechanism}".encode()
    with contextlib.closing(kafka.KafkaProducer(**settings)) as producer:
        producer.send("t", value).get(30)
    group = f"py-{protocol}-{mechanism}"
    with contextlib.closing(kafka.KafkaConsumer("t", group_id=group, **settings, **KAFKA_PYTHON_CONSUMER)) as consumer:
        for record in consumer:
            if record.value == value:
                break
        consumer.commit()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_refused(sasl: Sasl, mechanism: str) -> None:
    errors: list[confluent_kafka.KafkaError] = []
    settings = {**sasl.librdkafka("SASL_SSL", mechanism, "not this one"), "error_cb": errors.append, "log_level": 0}
    producer = confluent_kafka.Producer(settings, logger=None)
    while not any(error.code() == confluent_kafka.KafkaError._AUTHENTICATION for error in errors):
        producer.poll(0.1)
    assert PASSWORD not in sasl.server.log()
    assert "not this one" not in sasl.server.log()


def test_members_reauthenticate_without_a_rebalance(sasl: Sasl) -> None:
    """KIP-368: the members authenticate three times while the group lives."""
    names = {
        name.replace(".", "_"): one
        for name, one in sasl.librdkafka("SASL_SSL", "SCRAM-SHA-512").items()
        if name != "bootstrap.servers"
    }
    assigned: list[int] = []

    def on_assign(_: object, partitions: list[object]) -> None:
        assigned.append(len(partitions))

    producer = confluent_kafka.Producer({**sasl.librdkafka("SASL_SSL", "PLAIN"), "log_level": 3}, logger=None)
    producer.produce("t", b"one")
    assert producer.flush(30) == 0
    with confluent_consumer(sasl.address("SASL_SSL"), **names, group_id="again") as consumer:
        consumer.subscribe(["t"], on_assign=on_assign)
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            record = consumer.poll(0.1)
            assert record is None or record.error() is None
        consumer.commit(asynchronous=False)
    assert assigned == [2]
    assert not any("session is over" in line["why"] for line in sasl.server.log_lines("closed a connection"))


def command_config(sasl: Sasl, folder: Path, protocol: str, mechanism: str, password: str = PASSWORD) -> str:
    """A client.properties for Muster's own commands."""
    module = MODULE if mechanism == "PLAIN" else "org.apache.kafka.common.security.scram.ScramLoginModule"
    file = folder / "client.properties"
    file.write_text(
        f"security.protocol={protocol}\nsasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={module} required username="{USER}" password="{password}";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={sasl.ca}\n"
    )
    return str(file)


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_musters_commands_authenticate_with_a_password(
    sasl: Sasl, tmp_path: Path, capsys: pytest.CaptureFixture[str], protocol: str, mechanism: str
) -> None:
    where = ["--bootstrap-server", sasl.address(protocol)]
    config = ["--command-config", command_config(sasl, tmp_path, protocol, mechanism)]
    for command in ["groups", "list"], ["transactions", "list"]:
        assert cli.main([*command, *where, *config, "--json"]) == 0
    assert cli.main(["health", sasl.address(protocol), *config]) == 0
    assert capsys.readouterr().err == ""
    security = security_module.read(Path(config[1]))
    host, _, port = sasl.address(protocol).partition(":")
    with KafkaClient(Address(host, int(port)), security) as cluster:
        cluster.bootstrap._renew_at_ms = 0
        assert set(cluster.topics(["t"])) == {"t"}
        assert cluster.bootstrap._renew_at_ms, "it has authenticated again"
    options = {**dict(security_module.librdkafka(security)), "bootstrap.servers": sasl.address(protocol)}
    assert "t" in confluent_kafka.admin.AdminClient(options, logger=None).list_topics(timeout=30).topics


@pytest.mark.parametrize(
    ("listener", "protocol", "mechanism", "password", "said"),
    [
        (
            "SASL_SSL",
            "SASL_SSL",
            "PLAIN",
            "wrong",
            "refuses alice: Authentication failed: Invalid username or password",
        ),
        (
            "SASL_SSL",
            "SASL_PLAINTEXT",
            "PLAIN",
            PASSWORD,
            "; it speaks TLS: give security.protocol=SSL or SASL_SSL in the",
        ),
        (
            "SASL_PLAINTEXT",
            "SASL_SSL",
            "PLAIN",
            PASSWORD,
            "; it speaks no TLS: give security.protocol=PLAINTEXT or SASL_PLA",
        ),
        (
            "SASL_SSL",
            "SSL",
            "PLAIN",
            PASSWORD,
            "by PLAIN, SCRAM-SHA-256, SCRAM-SHA-512): give security.protocol=SASL_SSL and",
        ),
    ],
)
def test_musters_commands_say_why_authentication_failed(
    sasl: Sasl, tmp_path: Path, capsys: pytest.CaptureFixture[str], listener: str, protocol: str, mechanism: str,
    password: str, said: str,
) -> None:  # fmt: skip
    config = command_config(sasl, tmp_path, protocol, mechanism, password)
    assert cli.main(["groups", "list", "--bootstrap-server", sasl.address(listener), "--command-config", config]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert said in err
    assert PASSWORD not in err


def test_musters_commands_refuse_an_untrusted_certificate(
    sasl: Sasl, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.pem"
    other.write_text(Authority().pem)
    config = command_config(sasl._replace(ca=str(other)), tmp_path, "SASL_SSL", "PLAIN")
    where = sasl.address("SASL_SSL")
    assert cli.main(["groups", "list", "--bootstrap-server", where, "--command-config", config]) == 1
    assert f"{where} is not trusted: " in capsys.readouterr().err
    assert cli.main(["health", where, "--command-config", config]) == 1


TLS_ONLY = "it speaks TLS: give security.protocol=SSL or SASL_SSL in the file of --command-config"
NO_TLS = "it speaks no TLS: give security.protocol=PLAINTEXT or SASL_PLAINTEXT in the file of --command-config"


@pytest.mark.parametrize(
    ("listener", "protocol", "sentence"),
    [
        ("SASL_SSL", "PLAINTEXT", TLS_ONLY),
        ("SASL_PLAINTEXT", "SSL", NO_TLS),
        ("SASL_PLAINTEXT", "PLAINTEXT", f"clients that say who they are (by {', '.join(MECHANISMS)}): give security"),
    ],
)
def test_a_command_says_which_protocol_a_listener_speaks(
    sasl: Sasl, listener: str, protocol: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"security.protocol={protocol}\nssl.truststore.type=PEM\nssl.truststore.location={sasl.ca}\n")
    where = sasl.address(listener)
    assert cli.main(["groups", "list", "--bootstrap-server", where, "--command-config", str(file)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"muster groups list: {where} ")
    assert sentence in said


def test_health_says_whether_a_listener_speaks_tls(sasl: Sasl, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["health", sasl.address("SASL_SSL")]) == 1
    assert capsys.readouterr().err.endswith("; it speaks TLS: give --tls, or --command-config FILE\n")
    assert cli.main(["health", sasl.address("SASL_PLAINTEXT"), "--tls"]) == 1
    assert "; it speaks no TLS: leave --tls out, or give the port of a listener with" in capsys.readouterr().err
    assert cli.main(["health", sasl.address("SASL_SSL"), "--tls"]) == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("describe g", "this user may not see group g: GROUP_AUTHORIZATION_FAILED"),
        ("offsets g", "this user may not see group g: GROUP_AUTHORIZATION_FAILED"),
        ("delete g --execute", "this user may not see group g: GROUP_AUTHORIZATION_FAILED"),
        (
            "offsets reset g --topic t --to-latest",
            "--topic t: nothing is known of the topic: TOPIC_AUTHORIZATION_FAILED",
        ),
        ("history g", "__group_events cannot be read: nothing is known of the topic: TOPIC_AUTHORIZATION_FAILED"),
    ],
)
def test_musters_commands_say_that_a_user_has_no_permission(
    guarded: str, words: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    where, config = guarded.split()
    assert cli.main(["groups", *words.split(), "--bootstrap-server", where, "--command-config", config]) == 1
    assert sentence in capsys.readouterr().err


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that denies a user everything, and the file of that user."""
    folder = tmp_path_factory.mktemp("guarded")
    server = MusterServer(
        folder / "server",
        {
            **QUICK,
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        },
        in_memory=True,
        arguments=["--topic", "t:2", "--user", f"{USER}:{PASSWORD}"],
    )
    server.start()
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    jaas = f'{module} required username="{USER}" password="{PASSWORD}";'
    config = folder / "client.properties"
    config.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config={jaas}\n", encoding="utf-8"
    )
    try:
        yield f"{server.bootstrap} {config}"
    finally:
        server.stop()
