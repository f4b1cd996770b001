"""`--command-config`: which settings can be used, which cannot, and the errors; logins are tried with the server's own
code.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from muster.client.security import LoginFailed, User, librdkafka, login, read
from muster.coordinator.config.checks import ConfigError
from muster.coordinator.security.sasl.exchange import AuthenticationFailed, PlainExchange, PlainUsers
from muster.coordinator.security.sasl.scram import MECHANISMS, Credentials, ScramExchange
from tests.support.certificates import Authority

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SECRET = "hunter2"
SASL = "security.protocol=SASL_PLAINTEXT"


def written(folder: Path, text: str) -> Path:
    """A client.properties with this text."""
    file = folder / "client.properties"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("security.protocol=TLS", "security.protocol=TLS is not known; expected one of PLAINTEXT, SSL,"),
        (SASL, "sasl.mechanism=GSSAPI, Kafka's default, is not supported; expected one of PLAIN, SCRAM-SHA-256,"),
        (f"{SASL}\nsasl.mechanism=SCRAM", "sasl.mechanism=SCRAM is not supported; expected"),
        (f"{SASL}\nsasl.mechanism=PLAIN", f"sasl.jaas.config is missing: {PLAIN} required username="),
        (
            f"{SASL}\nsasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN} required username=a password={SECRET}",
            "sasl.jaas.config cannot be read: it does not end in a semicolon",
        ),
        (
            f"{SASL}\nsasl.mechanism=PLAIN\nsasl.jaas.config={SCRAM} required username=a password={SECRET};",
            f"sasl.jaas.config is for {SCRAM}; with sasl.mechanism=PLAIN {PLAIN} is needed",
        ),
        (
            f"{SASL}\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={SCRAM} required password={SECRET};",
            "sasl.jaas.config has no username",
        ),
        (
            "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=/nowhere.pem",
            "ssl.truststore.location /nowhere.pem cannot be read: No such file",
        ),
        (
            "security.protocol=SSL\nssl.endpoint.identification.algorithm=ldaps",
            "ssl.endpoint.identification.algorithm=ldaps is not known",
        ),
        ("security.protocol=\\u12", "four hexadecimal digits must follow"),
    ],
)
def test_unusable_client_properties_are_refused_in_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(ConfigError) as said:
        read(file)
    assert sentence in str(said.value)
    assert str(said.value).startswith(f"--command-config {file}")
    assert SECRET not in str(said.value)
    assert "\n" not in str(said.value)


def test_a_missing_command_config_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file or directory"):
        read(tmp_path / "none")


def test_key_stores_of_each_type_are_translated_for_librdkafka(tmp_path: Path) -> None:
    authority = Authority()
    own = authority.signed("CN=me").pkcs12(tmp_path / "me.p12", SECRET)
    ca = tmp_path / "ca.pem"
    ca.write_text(authority.pem)
    file = written(
        tmp_path,
        f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN} required "
        f'username="a" password="{SECRET}";\nssl.truststore.type=PEM\nssl.truststore.location={ca}\n'
        f"ssl.keystore.type=PKCS12\nssl.keystore.location={own}\nssl.keystore.password={SECRET}\n"
        "ssl.endpoint.identification.algorithm=\n",
    )
    security = read(file)
    assert SECRET not in repr(security)
    options = dict(librdkafka(security))
    assert options["ssl.ca.pem"] == authority.pem
    assert options["ssl.certificate.pem"].count("BEGIN CERTIFICATE") == 2
    assert "PRIVATE KEY" in options["ssl.key.pem"]
    assert {name: options[name] for name in options if not name.endswith(".pem")} == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "a",
        "sasl.password": SECRET,
        "ssl.endpoint.identification.algorithm": "none",
    }


def exchanged(user: User, server: ScramExchange | PlainExchange) -> None:
    """Let the client and the server exchange messages until both are done."""
    exchange = login(user, lambda: "nonce")
    token: bytes | None = next(exchange)
    while token is not None:
        answer = server.evaluate(token)
        try:
            token = exchange.send(answer)
        except StopIteration:
            token = None
    assert server.is_complete


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_scram_login_succeeds_against_our_own_server(mechanism: str) -> None:
    name = "al,i=ce"
    of = MECHANISMS[mechanism]
    credential = of.credential(b"salt", of.salted(SECRET, b"salt", 4096), 4096)
    credentials = Credentials(of, {name: credential}.get, lambda: "more", b"drawn")
    server = ScramExchange(credentials)
    exchanged(User(mechanism, name, SECRET), server)
    assert server.user == name
    with pytest.raises(AuthenticationFailed):
        exchanged(User(mechanism, name, "wrong"), ScramExchange(credentials))


def test_a_plain_login_succeeds_against_our_own_server() -> None:
    server = PlainExchange(PlainUsers({"user_alice": SECRET}))
    exchanged(User("PLAIN", "alice", SECRET), server)
    assert server.user == "alice"


@pytest.mark.parametrize(
    ("first", "final", "sentence"),
    [
        (b"e=other-error", b"", "cannot be read"),
        (b"r=another,s=c2FsdA==,i=4096", b"", "not an answer to ours"),
        (b"r=nonce1,s=c2FsdA==,i=2000000000", b"", "not an answer to ours"),
        (b"r=nonce1,s=c2FsdA==,i=1", b"v=AAAA", "does not know the password"),
    ],
)
def test_a_server_with_wrong_scram_answers_is_refused(first: bytes, final: bytes, sentence: str) -> None:
    exchange = login(User("SCRAM-SHA-256", "a", "b"), lambda: "nonce")
    assert next(exchange) == b"n,,n=a,r=nonce"

    def answered() -> None:
        exchange.send(first)
        exchange.send(final)

    with pytest.raises(LoginFailed, match=sentence):
        answered()


def test_health_without_security_imports_no_tls_code() -> None:
    look = (
        "import sys; from muster.cli import health; from muster.client import kafka_client; "
        "print(sorted({'ssl', 'asyncio', 'muster.client.security'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
