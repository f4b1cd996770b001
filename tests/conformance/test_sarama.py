"""sarama with each way to authenticate, and its admin client for ACL entries and SCRAM users, on Muster.

    git clone https://github.com/IBM/sarama make conformance-sarama SARAMA=sarama

sarama's own suite has no test of ACLs or SASL with a broker (its functional tests use neither). So its SCRAM example is
run unchanged, and `Sarama.go` beside it. Needs Go; the checkout is copied. Tried with v1.50.2.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.certificates import Authority
from tests.support.servers import QUICK, MusterServer, free_port_pair

CHECKOUT = os.environ.get("SARAMA", "")
pytestmark = [
    pytest.mark.skipif(not CHECKOUT, reason="SARAMA names no checkout of sarama"),
    pytest.mark.timeout(900),
]
LISTENERS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
WAYS = [("PLAINTEXT", ""), ("SSL", ""), *((one, mechanism) for one in LISTENERS[2:] for mechanism in MECHANISMS)]
USER, PASSWORD = "alice", "alice-secret"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
UNSECURED = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)
EXPECTED = """consumed x
entry Literal User:bob Read
entry Prefixed User:bob Read
deleted 2
user carol kafka server: Not an error, why are you printing me?
credentials of carol: 1 kafka server: Not an error, why are you printing me?
credentials of nobody: 0 Unknown error, how did this happen? Error code = 91
"""


class Programs(NamedTuple):
    """A server, sarama's example and our program."""

    ports: dict[str, int]
    ca: Path
    example: Path
    ours: Path

    def run(self, protocol: str, mechanism: str, password: str = PASSWORD) -> subprocess.CompletedProcess[str]:
        """Run our program, over a listener."""
        return subprocess.run(
            [str(self.ours), f"localhost:{self.ports[protocol]}", protocol, mechanism, USER, password, str(self.ca)],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    folder = tmp_path_factory.mktemp("sarama")
    copy = folder / "sarama"
    shutil.copytree(Path(CHECKOUT).resolve(), copy, ignore=shutil.ignore_patterns(".git"))
    example = copy / "examples" / "sasl_scram_client"
    ours = example / "muster"
    ours.mkdir()
    shutil.copy(example / "scram_client.go", ours)
    shutil.copy(Path(__file__).parent / "Sarama.go", ours / "main.go")
    built = [folder / "example", folder / "ours"]
    for target, out in zip((".", "./muster"), built, strict=True):
        done = subprocess.run(
            ["go", "build", "-mod=mod", "-o", str(out), target],
            cwd=example,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    ports = {name: free_port_pair() for name in LISTENERS}
    authority = Authority()
    ca = folder / "ca.pem"
    ca.write_text(authority.pem)
    oauth = "oauthbearer.sasl.server.callback.handler.class"
    properties = {
        **QUICK,
        "listeners": ",".join(f"{name}://localhost:{port}" for name, port in ports.items()),
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": authority.signed("CN=server", host="localhost").pem(folder / "k.pem"),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{USER};User:ANONYMOUS",
    }
    for name in ("sasl_plaintext", "sasl_ssl"):
        properties[f"listener.name.{name}.plain.sasl.jaas.config"] = f'{PLAIN} required user_{USER}="{PASSWORD}";'
        properties[f"listener.name.{name}.{oauth}"] = UNSECURED
    server = MusterServer(
        folder / "server", properties, in_memory=True, arguments=["--topic", "t:2", "--user", f"{USER}:{PASSWORD}"]
    )
    server.start()
    yield Programs(ports, ca, *built)
    server.stop()


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_sarama_clients_and_its_admin_client_work_on_muster(programs: Programs, protocol: str, mechanism: str) -> None:
    done = programs.run(protocol, mechanism)
    assert sorted(done.stdout.splitlines()) == sorted(EXPECTED.splitlines()), done.stderr


@pytest.mark.parametrize("mechanism", MECHANISMS[:3])
def test_sarama_with_a_wrong_password_is_refused(programs: Programs, mechanism: str) -> None:
    done = programs.run("SASL_SSL", mechanism, "wrong")
    assert done.returncode == 1
    assert "failed: kafka" in done.stdout


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
@pytest.mark.parametrize("tls", [False, True])
def test_the_example_program_of_sarama_works_on_muster(programs: Programs, algorithm: str, tls: bool) -> None:
    port = programs.ports["SASL_SSL" if tls else "SASL_PLAINTEXT"]
    done = subprocess.run(
        [
            str(programs.example), "-brokers", f"localhost:{port}", "-username", USER, "-passwd", PASSWORD,
            "-algorithm", algorithm, "-topic", "t", *(["-tls", "-tls-skip-verify"] if tls else []),
        ],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "wrote message at partition" in done.stdout, done.stdout + done.stderr
