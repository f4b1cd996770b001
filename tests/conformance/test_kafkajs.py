"""The ACL and SASL specs of kafkajs's own suite, as far as they need one broker, on Muster.

    git clone https://github.com/tulios/kafkajs && (cd kafkajs && npm install --ignore-scripts) make conformance-kafkajs
    KAFKAJS=kafkajs

The checkout is copied. In the copy, free ports are used, and topics have one replica. Tried with 2.2.4: 67 of 69 tests
pass. The other two want null where Kafka 4.3 and Muster send the empty string as the message of no error.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tests.support.certificates import Authority
from tests.support.servers import QUICK, MusterServer, free_port_pair

CHECKOUT = os.environ.get("KAFKAJS", "")
pytestmark = [
    pytest.mark.skipif(not CHECKOUT, reason="KAFKAJS names no checkout of kafkajs with its node_modules"),
    pytest.mark.timeout(900),
]
SPECS = (
    "src/admin/__tests__/createAcls.spec.js",
    "src/admin/__tests__/deleteAcls.spec.js",
    "src/admin/__tests__/describeAcls.spec.js",
    "src/admin/__tests__/connection.spec.js",
    "src/broker/__tests__/createAcls.spec.js",
    "src/broker/__tests__/deleteAcls.spec.js",
    "src/broker/__tests__/describeAcls.spec.js",
    "src/broker/__tests__/reauthenticate.spec.js",
    "src/broker/__tests__/connect.spec.js",
    "src/broker/__tests__/disconnect.spec.js",
    "src/consumer/__tests__/connection.spec.js",
)
OTHERWISE = {"Broker > createAcls request", "Broker > describeAcls request"}
"""Kafka before 3.0 sent null in these answers: tests/coordinator/api/security/acls_of_kafka.json has the answers of
4.3.
"""
PORTS = {"PLAINTEXT": (9092, 9095, 9098), "SSL": (9093, 9096, 9099), "SASL_SSL": (9094, 9097, 9100)}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS = 'user_test="testtest" user_bob="bobbob" user_alice="alicealice"'
SCRAM = {ScramMechanism.SCRAM_SHA_256: b"testtestscram=256", ScramMechanism.SCRAM_SHA_512: b"testtestscram=512"}


@pytest.fixture
def suite(tmp_path: Path) -> Iterator[Path]:
    """A copy of the suite, for a running server."""
    ports = {name: free_port_pair() for name in PORTS}
    copy = tmp_path / "kafkajs"
    copied(Path(CHECKOUT).resolve(), copy, ports)
    server = MusterServer(
        tmp_path / "server",
        {
            **QUICK,
            "listeners": ",".join(f"{name}://localhost:{port}" for name, port in ports.items()),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{PLAIN} required {USERS};",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": Authority().signed("CN=server", host="localhost").pem(tmp_path / "k.pem"),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            "super.users": "User:test;User:ANONYMOUS;User:testscram",
        },
        in_memory=True,
    )
    server.start()
    try:
        admin = AdminClient({"bootstrap.servers": f"localhost:{ports['PLAINTEXT']}", "log_level": 3}, logger=None)
        for mechanism, password in SCRAM.items():
            user = UserScramCredentialUpsertion("testscram", ScramCredentialInfo(mechanism, 8192), password)
            for done in admin.alter_user_scram_credentials([user]).values():
                done.result(60)
        yield copy
    finally:
        server.stop()


def copied(checkout: Path, copy: Path, ports: dict[str, int]) -> None:
    """Copy the suite; its three brokers become one."""
    shutil.copytree(checkout, copy, symlinks=True, ignore=shutil.ignore_patterns("node_modules", ".git", "website"))
    (copy / "node_modules").symlink_to(checkout / "node_modules")
    for file in [*copy.glob("src/**/*.spec.js"), copy / "testHelpers" / "index.js"]:
        text = file.read_text()
        for name, theirs in PORTS.items():
            text = re.sub(rf"\b({'|'.join(map(str, theirs))})\b", str(ports[name]), text)
        file.write_text(re.sub(r"replicationFactor: [23]", "replicationFactor: 1", text))


def test_the_tests_of_kafkajs_pass_on_muster(suite: Path) -> None:
    out = suite / "results.json"
    done = subprocess.run(
        ["npx", "jest", "--forceExit", "--runInBand", "--reporters=default", "--json", f"--outputFile={out}", *SPECS],
        cwd=suite, env={**os.environ, "KAFKA_VERSION": "2.4", "NODE_ENV": "test"}, capture_output=True, text=True,
        timeout=800, check=False,
    )  # fmt: skip
    assert out.is_file(), done.stderr[-5000:]
    results: dict[str, Any] = json.loads(out.read_text())
    states: dict[str, str] = {
        one["fullName"]: one["status"] for suite in results["testResults"] for one in suite["assertionResults"]
    }
    assert len([state for state in states.values() if state == "passed"]) >= 60
    assert {name for name, state in states.items() if state == "failed"} == OTHERWISE, done.stderr[-5000:]
