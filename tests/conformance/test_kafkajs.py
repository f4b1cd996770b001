"""kafkajs's own specs on three brokers of Muster: its admin client, groups, offsets, transactions, ACLs and SASL.

    git clone https://github.com/tulios/kafkajs && (cd kafkajs && npm install --ignore-scripts)
    make conformance-kafkajs KAFKAJS=kafkajs

The package of npm has no specs, so a checkout is needed. It is copied; in the copy, free ports are used. Tried with
2.2.4: 619 of 633 tests pass.
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
from tests.support.servers import QUICK, NodesServer, free_ports

CHECKOUT = os.environ.get("KAFKAJS", "")
pytestmark = [
    pytest.mark.skipif(not CHECKOUT, reason="KAFKAJS names no checkout of kafkajs with its node_modules"),
    pytest.mark.timeout(3400),
]
SPECS = ("src/admin", "src/broker", "src/cluster", "src/consumer", "src/producer")
OTHERWISE = {
    "Broker > createAcls request", "Broker > describeAcls request", "Broker > describeConfigs request",
    "Broker > describeConfigs request without config names returns all config entries",
    "Broker > ListOffsets v0 request",
    "Broker > Produce Record batch request to a topic with max timestamp difference configured",
    "Broker > Heartbeat request", "Broker > OffsetCommit request", "Broker > OffsetCommit request with metadata",
    "Broker > OffsetFetch request", "Broker > TxnOffsetCommit ignores invalid transaction fields",
    "Broker > alterPartitionReassignments request",
    "Consumer recovers from offset out of range",
    "Consumer trigger rebalance if partitions change after metadata update",
}  # fmt: skip
"""The suite was written for Kafka 2.4, and these tests fail on Kafka 4.4, too. They want null for the empty string, an
old version of ListOffsets, a config that is gone, a SyncGroup by an unknown member, an offset of no transaction, a
reassignment that is still under way, and a container.
"""
THEIRS = range(9092, 9101)
"""The ports of three brokers with these listeners, in the suite."""
LISTENERS = ("PLAINTEXT", "SSL", "SASL_SSL")
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS = 'user_test="testtest" user_bob="bobbob" user_alice="alicealice"'
SCRAM = {ScramMechanism.SCRAM_SHA_256: b"testtestscram=256", ScramMechanism.SCRAM_SHA_512: b"testtestscram=512"}


@pytest.fixture
def suite(tmp_path: Path) -> Iterator[Path]:
    """A copy of the suite, for a running server."""
    first = free_ports(len(THEIRS))
    copy = tmp_path / "kafkajs"
    copied(Path(CHECKOUT).resolve(), copy, first)
    server = NodesServer(
        tmp_path / "server",
        {
            **QUICK,
            "node.id": "0",
            "default.replication.factor": "2",
            "num.partitions": "2",
            "listeners": ",".join(f"{name}://localhost:{first + row}" for row, name in enumerate(LISTENERS)),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{PLAIN} required {USERS};",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": Authority().signed("CN=server", host="localhost").pem(tmp_path / "k.pem"),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            "super.users": "User:test;User:ANONYMOUS;User:testscram",
        },
    )
    server.start()
    try:
        admin = AdminClient({"bootstrap.servers": f"localhost:{first}", "log_level": 3}, logger=None)
        for mechanism, password in SCRAM.items():
            user = UserScramCredentialUpsertion("testscram", ScramCredentialInfo(mechanism, 8192), password)
            for done in admin.alter_user_scram_credentials([user]).values():
                done.result(60)
        yield copy
    finally:
        server.stop()


def copied(checkout: Path, copy: Path, first: int) -> None:
    """Copy the suite for brokers with other ports: `first` is the first one."""
    shutil.copytree(checkout, copy, symlinks=True, ignore=shutil.ignore_patterns("node_modules", ".git", "website"))
    (copy / "node_modules").symlink_to(checkout / "node_modules")
    for file in [*copy.glob("src/**/*.spec.js"), copy / "testHelpers" / "index.js"]:
        port = re.compile(rf"\b({'|'.join(map(str, THEIRS))})\b")
        file.write_text(port.sub(lambda found: str(int(found[0]) - THEIRS[0] + first), file.read_text()))


def test_the_tests_of_kafkajs_pass_on_muster(suite: Path) -> None:
    out = suite / "results.json"
    done = subprocess.run(
        ["npx", "jest", "--forceExit", "--runInBand", "--reporters=default", "--json", f"--outputFile={out}", *SPECS],
        cwd=suite, env={**os.environ, "KAFKA_VERSION": "2.4", "NODE_ENV": "test"}, capture_output=True, text=True,
        timeout=3000, check=False,
    )  # fmt: skip
    assert out.is_file(), done.stderr[-5000:]
    results: dict[str, Any] = json.loads(out.read_text())
    tests = [one for suite in results["testResults"] for one in suite["assertionResults"]]
    failed = {one["fullName"]: one["failureMessages"] for one in tests if one["status"] == "failed"}
    assert failed.keys() == OTHERWISE, json.dumps(failed, indent=1)
    assert len([one for one in tests if one["status"] == "passed"]) >= 600
