"""librdkafka's own test suite on Muster: groups, offsets, transactions, admin client, producers, consumers, ACLs, SASL.

Its sources are in a package of npm. The suite is built once, and nothing of it is changed. The suite of 2.15.1 is the
newest in a registry; it also runs with the newer librdkafka of confluent-kafka. Needs npm, make, a C++ compiler, and
rapidjson-dev of Debian, without which four tests skip themselves.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tests.conformance.packages import kept, npm_package, run
from tests.support.certificates import Authority
from tests.support.servers import QUICK, MusterServer, kafka_jars

PACKAGE = "@confluentinc/kafka-javascript@1.10.1"
SHA512 = "KVePUBn21EqCVP9mfxzEuM3SYJHHEF7X+iiC2e43QQgDSyEaksInmCGooT3w5q+cNAdkSCrK71j0ICfqoSqZLw=="
VERSION = "2.15.1"
KNOWN = "4.1.0"
"""The version of Kafka that the suite is to expect. From 4.2 on it has tests of share groups."""
OPTIONS = ["-L", "-Q", "-K"]
"""Only tests with a broker, in their quick form, without known failures."""
ELSEWHERE = ("0115", "0119", "0126", "0135", "0142")
"""Tests of listeners with authentication. They run by themselves, or need an authorization server."""
KNOWS_SHARES = "4.2.0"
SHARES = tuple(f"0{number}" for number in (*range(170, 182), 184, 185))
"""Tests of share consumers that need a broker. 0190 also needs a collector of the clients' metrics."""
TRIES = 2
NO_SHARE = "do_test:"
"""The subtests of a test that are not about share groups, where the suite does not look at the broker's version."""
pytestmark = [
    pytest.mark.skipif(shutil.which("npm") is None or shutil.which("g++") is None, reason="needs npm and g++"),
    pytest.mark.timeout(4000),
]
ROOT = Path(__file__).resolve().parents[2]
LISTENERS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
USER, PASSWORD = "alice", "alice-secret"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
UNSECURED = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)
TOOLS = {"acls": "AclCommand", "topics": "TopicCommand"}
"""Kafka's tools that the suite calls: kafka-NAME.sh."""
TOOL = """#!/bin/sh
exec {root}/tests/kafka/kafka-tool.sh org.apache.kafka.tools.{tool} "$@"
"""
RUN_CLASS = """#!/bin/sh
exec java -cp "$CLASSPATH:{jars}/*" "$@"
"""
MAKEFILE = """\
.PHONY: java
java:
\t$(MAKE) -s -C java all
"""


def build(folder: Path) -> None:
    """Build the library and its tests in a folder."""
    sources = npm_package(PACKAGE, SHA512, folder) / "deps" / "librdkafka"
    run(["./configure", "--disable-gssapi", "--disable-curl"], sources)
    run(["make", "libs"], sources)
    run(["make", "-C", "tests", "build"], sources)


def lay_out(folder: Path, sources: Path) -> None:
    """Make what the suite reads beside tests/, where it runs: a schema, Kafka's tools and Java programs."""
    jars, tests = kafka_jars(), folder / "tests"
    tests.mkdir()
    (folder / "src").symlink_to(sources / "src")
    (folder / "libs").symlink_to(jars)
    (tests / "java").symlink_to(sources / "tests" / "java")
    (tests / "Makefile").write_text(MAKEFILE)
    scripts = {f"kafka-{name}.sh": TOOL.format(root=ROOT, tool=tool) for name, tool in TOOLS.items()}
    (folder / "bin").mkdir()
    for name, text in {**scripts, "kafka-run-class.sh": RUN_CLASS.format(jars=jars)}.items():
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)


class Suite(NamedTuple):
    """A server, and the folder where the tests run."""

    sources: Path
    folder: Path
    ports: dict[str, int]
    ca: Path

    def only(self, number: str, protocol: str, mechanism: str = "", subtests: str = "") -> dict[str, str]:
        """Run the tests of a number, over a listener: their states by name."""
        lines = [f"security.protocol={protocol}"]
        if protocol.endswith("SSL"):
            lines.append(f"ssl.ca.location={self.ca}")
        if protocol.startswith("SASL"):
            lines.append(f"sasl.mechanism={mechanism}")
        if mechanism == "OAUTHBEARER":
            lines += ["sasl.oauthbearer.config=principal=alice", "enable.sasl.oauthbearer.unsecure.jwt=true"]
        elif mechanism:
            lines += [f"sasl.username={USER}", f"sasl.password={PASSWORD}"]
        variables = {"TESTS": number, "SUBTESTS": subtests}
        found, said = self.run(f"{number}-{protocol}-{mechanism}", protocol, ["-a"], lines, variables)
        assert found, said[-3000:]
        # a skipped test counts as passed, too: at least one test must have run
        assert not subtests or re.search(rf"{subtests.rstrip(':')}\w*:\d+.*: PASS ", said), said[-3000:]
        assert "FAILED" not in found.values(), [line for line in said.splitlines() if "FAIL" in line.upper()][-20:]
        return found

    def run(
        self,
        name: str,
        protocol: str,
        options: list[str],
        lines: list[str],
        variables: Mapping[str, str],
        library: Path | None = None,
    ) -> tuple[dict[str, str], str]:
        """Run the suite with lines of its configuration: the states of tests by name, and its output."""
        config = self.folder / "test.conf"
        own = [f"bootstrap.servers=localhost:{self.ports[protocol]}", "test.topic.random=true"]
        config.write_text("\n".join([*own, *lines, "test.timeout.multiplier=3"]) + "\n")
        paths = [*([library] if library else []), self.sources / "src", self.sources / "src-cpp"]
        done = subprocess.run(
            [str(self.sources / "tests" / "test-runner"), "-p1", *options],
            cwd=self.folder / "tests",
            env={
                **os.environ, "RDKAFKA_TEST_CONF": str(config), "TEST_KAFKA_VERSION": KNOWN,
                "KAFKA_PATH": str(self.folder), "BROKERS": f"localhost:{self.ports[protocol]}",
                "LD_LIBRARY_PATH": os.pathsep.join(map(str, paths)), **variables,
            },
            capture_output=True, text=True, timeout=3600, check=False,
        )  # fmt: skip
        said = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
        (self.folder / f"{name}.log").write_text(said)
        found = dict(re.findall(r"^\|\s*(\d{4}_\w+)\s*\|\s*(\w+)", said, re.MULTILINE))
        return found, said


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    sources = kept(f"librdkafka-{VERSION}", build) / "package" / "deps" / "librdkafka"
    folder = tmp_path_factory.mktemp("librdkafka")
    authority = Authority()
    ca = folder / "ca.pem"
    ca.write_text(authority.pem)
    lay_out(folder, sources)
    oauth = "oauthbearer.sasl.server.callback.handler.class"
    server = MusterServer(
        folder / "server",
        {
            **QUICK,
            # the suite expects members that start together to get one assignment, and topics of four partitions
            "group.initial.rebalance.delay.ms": "1000",
            "num.partitions": "4",
            "default.replication.factor": "3",
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
        yield Suite(sources, folder, ports, ca)
    finally:
        server.stop()


def test_librdkafka_producers_without_permission_are_refused(suite: Suite) -> None:
    """The second half of this test wants the refusal to need longer than the call that asks for it: on Muster the
    call itself fails.
    """
    _, said = suite.run("0115", "PLAINTEXT", [], [], {"TESTS": "0115"})
    assert re.search(r"Test producer auth with topic known.*PASS", said), said[-3000:]
    assert "produce() failed: Broker: Topic authorization failed" in said or "0115_producer_auth PASSED" in said


def test_librdkafka_consumers_without_permission_are_refused(suite: Suite) -> None:
    assert suite.only("0119", "PLAINTEXT") == {"0119_consumer_auth": "PASSED"}


@pytest.mark.parametrize(
    "subtests", ["do_test_CreateAcls", "do_test_DescribeAcls", "do_test_DeleteAcls", "do_test_UserScram"]
)
def test_acls_and_users_of_librdkafkas_admin_client_work(suite: Suite, subtests: str) -> None:
    assert suite.only("0081", "SASL_SSL", "SCRAM-SHA-512", subtests) == {"0081_admin": "PASSED"}


@pytest.mark.parametrize("protocol", LISTENERS[2:])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_librdkafka_clients_accept_changed_credentials(suite: Suite, protocol: str, mechanism: str) -> None:
    assert suite.only("0135", protocol, mechanism, NO_SHARE) == {"0135_sasl_credentials": "PASSED"}


def test_librdkafka_token_callbacks_work(suite: Suite) -> None:
    assert suite.only("0128", "SASL_SSL", "OAUTHBEARER", NO_SHARE) == {"0128_sasl_callback_queue": "PASSED"}


@pytest.mark.parametrize(
    ("mechanism", "subtests"),
    [
        ("PLAIN", "do_test_consumer:"),
        ("PLAIN", "do_test_reauth_failure:"),
        ("SCRAM-SHA-512", "do_test_producer:"),
        ("SCRAM-SHA-512", "do_test_txn_producer:"),
        ("OAUTHBEARER", "do_test_oauthbearer:"),
    ],
)
def test_librdkafka_clients_that_authenticate_again_lose_no_record(suite: Suite, mechanism: str, subtests: str) -> None:
    """librdkafka's suite needs a broker with connections.max.reauth.ms of 10 s."""
    assert suite.only("0142", "SASL_SSL", mechanism, subtests) == {"0142_reauthentication": "PASSED"}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_suite_of_librdkafka_passes(suite: Suite, protocol: str) -> None:
    """With the consumer protocol it runs on confluent-kafka's librdkafka. What fails is run once more: members of a
    busy server have longer sessions, and some tests wait for their end.
    """
    variables = {"TEST_CONSUMER_GROUP_PROTOCOL": protocol, "TESTS_SKIP": ",".join(ELSEWHERE)}
    library = newest(suite.folder / "newest") if protocol == "consumer" else None
    found, said = suite.run(protocol, "PLAINTEXT", OPTIONS, [], variables, library)
    failed = [name[:4] for name, state in found.items() if state == "FAILED"]
    assert len([name for name, state in found.items() if state == "PASSED"]) >= 85, said[-20_000:]
    if failed:
        found, said = suite.run("again", "PLAINTEXT", OPTIONS, [], {**variables, "TESTS": ",".join(failed)}, library)
        assert "FAILED" not in found.values(), said[-20_000:]


@pytest.mark.parametrize("number", SHARES)
def test_librdkafkas_tests_of_share_consumers_pass(suite: Suite, number: str) -> None:
    variables = {"TESTS": number, "TEST_KAFKA_VERSION": KNOWS_SHARES}
    for _ in range(TRIES):  # members of a busy server have longer sessions, and some tests wait for their end
        found, said = suite.run(f"share-{number}", "PLAINTEXT", ["-L", "-K"], [], variables)
        if "FAILED" not in found.values():
            break
    assert "FAILED" not in found.values(), said[-20_000:]
    assert re.search(r"PASS ", said), said[-3000:]


def newest(folder: Path) -> Path:
    """A folder with the librdkafka of confluent-kafka's wheel."""
    (found,) = (Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs").glob("librdkafka-*.so.1")
    folder.mkdir()
    shutil.copy(found, folder / "librdkafka.so.1")
    return folder
