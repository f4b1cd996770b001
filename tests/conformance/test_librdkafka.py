"""The tests of librdkafka's own suite about authentication and authorization, on Muster.

    git clone --branch v2.8.0 https://github.com/confluentinc/librdkafka cd librdkafka && ./configure --disable-gssapi
    && make libs && make -C tests build make conformance-librdkafka LIBRDKAFKA=librdkafka

Nothing of the checkout is changed. The program runs in a folder of its own, with a `test.conf` for each listener.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tests.support.certificates import Authority
from tests.support.servers import QUICK, MusterServer

CHECKOUT = os.environ.get("LIBRDKAFKA", "")
pytestmark = [
    pytest.mark.skipif(not CHECKOUT, reason="LIBRDKAFKA names no checkout of librdkafka whose tests are built"),
    pytest.mark.timeout(900),
]
ROOT = Path(__file__).resolve().parents[2]
LISTENERS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
USER, PASSWORD = "alice", "alice-secret"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
UNSECURED = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)
KAFKA_ACLS = f"""#!/bin/sh
exec {ROOT}/tests/kafka/kafka-tool.sh org.apache.kafka.tools.AclCommand "$@"
"""


class Suite(NamedTuple):
    """A server, and the folder where the tests run."""

    folder: Path
    ports: dict[str, int]
    ca: Path

    def run(self, number: str, protocol: str, mechanism: str = "", subtests: str = "") -> dict[str, str]:
        """Run the tests of a number, over a listener: their states by name."""
        lines = [f"bootstrap.servers=localhost:{self.ports[protocol]}", f"security.protocol={protocol}"]
        if protocol.endswith("SSL"):
            lines.append(f"ssl.ca.location={self.ca}")
        if protocol.startswith("SASL"):
            lines.append(f"sasl.mechanism={mechanism}")
        if mechanism == "OAUTHBEARER":
            lines += ["sasl.oauthbearer.config=principal=alice", "enable.sasl.oauthbearer.unsecure.jwt=true"]
        elif mechanism:
            lines += [f"sasl.username={USER}", f"sasl.password={PASSWORD}"]
        lines += ["test.topic.random=true", "test.timeout.multiplier=3"]
        config = self.folder / "test.conf"
        config.write_text("\n".join(lines) + "\n")
        done = subprocess.run(
            [str(Path(CHECKOUT).resolve() / "tests" / "test-runner"), "-a", "-p1"],
            cwd=self.folder,
            env={
                **os.environ, "RDKAFKA_TEST_CONF": str(config), "TESTS": number, "TEST_KAFKA_VERSION": "4.0.0",
                "KAFKA_PATH": str(self.folder), "BROKERS": f"localhost:{self.ports[protocol]}", "SUBTESTS": subtests,
                "LD_LIBRARY_PATH": os.pathsep.join(str(Path(CHECKOUT).resolve() / one) for one in ("src", "src-cpp")),
            },
            capture_output=True, text=True, timeout=800, check=False,
        )  # fmt: skip
        said = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
        (self.folder / f"{number}-{protocol}-{mechanism}.log").write_text(said)
        found = dict(re.findall(r"^\|\s*(\d{4}_\w+)\s*\|\s*(\w+)", said, re.MULTILINE))
        assert found, said[-3000:]
        # a skipped test counts as passed, too: at least one test must have run
        assert not subtests or re.search(rf"{subtests}\w*:\d+.*: PASS ", said), said[-3000:]
        assert "FAILED" not in found.values(), [line for line in said.splitlines() if "FAIL" in line.upper()][-20:]
        return found


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    folder = tmp_path_factory.mktemp("librdkafka")
    authority = Authority()
    ca = folder / "ca.pem"
    ca.write_text(authority.pem)
    (folder / "bin").mkdir()
    script = folder / "bin" / "kafka-acls.sh"
    script.write_text(KAFKA_ACLS)
    script.chmod(0o755)
    oauth = "oauthbearer.sasl.server.callback.handler.class"
    server = MusterServer(
        folder / "server",
        {
            **QUICK,
            "listeners": ",".join(f"{name}://localhost:0" for name in LISTENERS),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            **{
                f"listener.name.{name}.{key}": value
                for name in ("sasl_plaintext", "sasl_ssl")
                for key, value in (
                    ("plain.sasl.jaas.config", f'{PLAIN} required user_{USER}="{PASSWORD}";'),
                    (oauth, UNSECURED),
                )
            },
            "connections.max.reauth.ms": "10000",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": authority.signed("CN=server", host="localhost").pem(folder / "k.pem"),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
        },
        in_memory=True,
        arguments=["--nodes", "3"],  # the suite makes topics with three replicas
    )
    server.start()
    try:
        found = {line["listener"]: line["address"] for line in reversed(server.log_lines("listening"))}
        ports = {name: int(found[name].rpartition(":")[2]) for name in LISTENERS}
        admin = AdminClient({"bootstrap.servers": f"localhost:{ports['PLAINTEXT']}", "log_level": 3}, logger=None)
        for mechanism in ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512:
            user = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
            for done in admin.alter_user_scram_credentials([user]).values():
                done.result(60)
        yield Suite(folder, ports, ca)
    finally:
        server.stop()


def test_librdkafka_producers_without_permission_are_refused(suite: Suite) -> None:
    assert suite.run("0115", "PLAINTEXT") == {"0115_producer_auth": "PASSED"}


def test_librdkafka_consumers_without_permission_are_refused(suite: Suite) -> None:
    assert suite.run("0119", "PLAINTEXT") == {"0119_consumer_auth": "PASSED"}


@pytest.mark.parametrize(
    "subtests", ["do_test_CreateAcls", "do_test_DescribeAcls", "do_test_DeleteAcls", "do_test_UserScram"]
)
def test_acls_and_users_of_librdkafkas_admin_client_work(suite: Suite, subtests: str) -> None:
    assert suite.run("0081", "SASL_SSL", "SCRAM-SHA-512", subtests) == {"0081_admin": "PASSED"}


@pytest.mark.parametrize("protocol", LISTENERS[2:])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_librdkafka_clients_accept_changed_credentials(suite: Suite, protocol: str, mechanism: str) -> None:
    assert suite.run("0135", protocol, mechanism) == {"0135_sasl_credentials": "PASSED"}


def test_librdkafka_token_callbacks_work(suite: Suite) -> None:
    assert suite.run("0128", "SASL_SSL", "OAUTHBEARER") == {"0128_sasl_callback_queue": "PASSED"}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_librdkafka_clients_that_authenticate_again_lose_no_record(suite: Suite, mechanism: str) -> None:
    """librdkafka's suite needs a broker with connections.max.reauth.ms of 10 s."""
    assert suite.run("0142", "SASL_SSL", mechanism) == {"0142_reauthentication": "PASSED"}
