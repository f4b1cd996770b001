"""Kafka's own clients and tools over TLS: with certificates, with PLAIN and with SCRAM. The tools have created the
users.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.clients import JavaClients
from tests.coordinator.security.sasl.bearer_cases import AUDIENCE, ISSUER, Case, Keys
from tests.support.certificates import Authority
from tests.support.servers import KAFKA_SCRIPTS, QUICK, MusterServer, ServerProcess

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
BEARER = "org.apache.kafka.common.security.oauthbearer"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
TOPICS = ("sha256", "sha512", "certificate", "again", "token", "bearer")
"""The topics, one for each group, which reads its records."""
StartJava = Callable[[ServerProcess], JavaClients]


class SecureMuster(MusterServer):
    """A server with listeners of SASL_SSL and of SSL with client certificates."""

    def __init__(self, workdir: Path) -> None:
        authority = Authority()
        workdir.mkdir(parents=True, exist_ok=True)
        self.ca = workdir / "ca.pem"
        self.ca.write_text(authority.pem)
        self.client = authority.signed("CN=java").pkcs12(workdir / "client.p12", "secret")
        self.keys, jwks = Keys(), workdir / "jwks.json"
        jwks.write_text(self.keys.jwks())
        super().__init__(
            workdir,
            {
                **QUICK,
                "listeners": "SASL_SSL://127.0.0.1:0,SSL://127.0.0.1:0",
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
                "sasl.oauthbearer.jwks.endpoint.url": jwks.as_uri(),
                "sasl.oauthbearer.expected.audience": AUDIENCE,
                "sasl.oauthbearer.expected.issuer": ISSUER,
                "delegation.token.secret.key": "the servers' secret",
                "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{PLAIN} required user_admin="admin-secret";',
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": authority.signed("CN=server", host="localhost").pem(workdir / "k.pem"),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.ca),
                "listener.name.ssl.ssl.client.auth": "required",
                "connections.max.reauth.ms": "3000",
            },
            in_memory=True,
            arguments=[word for name in TOPICS for word in ("--topic", f"{name}:2")],
        )

    def settings(self, mechanism: str, user: str, password: str) -> dict[str, str]:
        """Settings of a client, without blanks: blanks separate the words of Clients.java."""
        module = PLAIN if mechanism == "PLAIN" else SCRAM
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module}/**/required/**/username="{user}"/**/password="{password}";',
            **self.trust,
        }

    @property
    def trust(self) -> dict[str, str]:
        """The settings with which a client trusts the server's certificate."""
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.ca)}

    def tool(self, name: str, settings: dict[str, str], *arguments: str, status: int = 0) -> str:
        """Run one of Kafka's tools."""
        file = self.workdir / "client.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        words = ["--bootstrap-server", self.bootstrap, "--command-config", str(file), *arguments]
        done = subprocess.run(
            [KAFKA_SCRIPTS / "kafka-tool.sh", name, *words], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureMuster]:
    server = SecureMuster(tmp_path_factory.mktemp("secure"))
    server.start()
    yield server
    server.stop()


def read_and_written(java: JavaClients, settings: dict[str, str], topic: str) -> None:
    """Check that a group reads what a producer sends."""
    names = {name.replace(".", "_"): value for name, value in settings.items()}
    java.consume("c", f"group-{topic}", topic, **names)
    java.shared_out(["c"], 2)
    java.produce(topic, 0, 50, **names)
    java.wait(lambda: len(java.ledger) == 50, "50 records")


def test_users_set_by_kafka_configs_can_log_in(secure: SecureMuster, start_java: StartJava) -> None:
    admin = secure.settings("PLAIN", "admin", "admin-secret")
    for credential in "SCRAM-SHA-256=[password=bob-secret]", "SCRAM-SHA-512=[iterations=8192,password=bob-secret]":
        # not both at once: Muster refuses that, as Kafka 4.4 does
        words = "--alter", "--entity-type", "users", "--entity-name", "bob", "--add-config", credential
        altered = secure.tool("org.apache.kafka.tools.ConfigCommand", admin, *words)
        assert "Completed updating config for user bob." in altered
    wrong = secure.settings("SCRAM-SHA-512", "bob", "wrong")
    said = secure.tool("org.apache.kafka.tools.TopicCommand", wrong, "--list", status=1)
    assert "due to invalid credentials with SASL mechanism SCRAM-SHA-512" in said
    for mechanism, topic in ("SCRAM-SHA-256", "sha256"), ("SCRAM-SHA-512", "sha512"):
        read_and_written(start_java(secure), secure.settings(mechanism, "bob", "bob-secret"), topic)


def test_a_java_client_with_a_certificate_is_authenticated(secure: SecureMuster, start_java: StartJava) -> None:
    lines = [line for line in secure.log().splitlines() if '"listener": "SSL"' in line and '"listening"' in line]
    address = lines[0].partition('"address": "')[2].partition('"')[0]
    settings = {
        "bootstrap.servers": address, "security.protocol": "SSL", "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": secure.client, "ssl.keystore.password": "secret", "ssl.key.password": "secret",
        **secure.trust,
    }  # fmt: skip
    read_and_written(start_java(secure), settings, "certificate")


def test_kafka_delegation_tokens_works_on_muster(secure: SecureMuster, start_java: StartJava) -> None:
    """A token is made, used by a client, described, renewed and expired."""
    name, admin = "org.apache.kafka.tools.DelegationTokenCommand", secure.settings("PLAIN", "admin", "admin-secret")
    words = "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob"
    said = secure.tool(name, admin, *words)
    row = next(line.split() for line in said.splitlines() if "User:admin" in line)
    token, hmac = row[:2]
    assert row[2:5] == ["User:admin", "User:admin", "[User:bob]"]
    settings = secure.settings("SCRAM-SHA-512", token, hmac)
    settings["sasl.jaas.config"] = settings["sasl.jaas.config"].replace(";", '/**/tokenauth="true";')
    read_and_written(start_java(secure), settings, "token")
    assert token in secure.tool(name, admin, "--describe", "--owner-principal", "User:admin")
    for what in "renew", "expire":
        said = secure.tool(name, admin, f"--{what}", f"--{what if what == 'renew' else 'expiry'}-time-period", "-1",
                           "--hmac", hmac)  # fmt: skip
        assert f"Completed {what} operation" in said
    assert "Total number of tokens : 0" in secure.tool(name, admin, "--describe", "--owner-principal", "User:admin")
    said = secure.tool(name, {**settings, "sasl.jaas.config": settings["sasl.jaas.config"].replace("/**/", " ")},
                       "--describe", status=1)  # fmt: skip
    assert "due to invalid credentials with SASL mechanism SCRAM-SHA-512" in said


def test_a_java_client_with_a_signed_token_is_authenticated(
    secure: SecureMuster, start_java: StartJava, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = secure.workdir / "token.jwt"
    file.write_text(secure.keys.token(Case(""), time.time()))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={file.as_uri()}")
    settings = {
        "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{BEARER}.OAuthBearerLoginModule/**/required;",
        "sasl.login.callback.handler.class": f"{BEARER}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": file.as_uri(), **secure.trust,
    }  # fmt: skip
    read_and_written(start_java(secure), settings, "bearer")


def test_a_java_client_that_authenticates_again_stays_in_its_group(secure: SecureMuster, start_java: StartJava) -> None:
    """KIP-368: Java's clients authenticate again on each connection, before its session ends."""
    java, settings = start_java(secure), secure.settings("PLAIN", "admin", "admin-secret")
    names = {name.replace(".", "_"): value for name, value in settings.items()}
    java.consume("c", "again", "again", **names)
    java.shared_out(["c"], 2)
    for round_ in range(4):
        java.produce("again", 50 * round_, 50, **names)
    assert "its session is over" not in secure.log()
    assert secure.log().count('"group": "again", "cause": "a new member joined"') == 1
