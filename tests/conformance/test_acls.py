"""DescribeAcls, CreateAcls and DeleteAcls on a real Kafka. The unit tests expect the same answers of Muster."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.coordinator.api.security.acl_exchanges import CLOSED, EXCHANGES, kafkas, values_of
from tests.support.muster import Client
from tests.support.servers import KAFKA_SCRIPTS, KafkaServer, MusterServer

ACLS = "org.apache.kafka.tools.AclCommand"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


async def ask_all(address: tuple[str, int]) -> list[Any]:
    """The answer to each exchange, each on a connection of its own."""
    found = []
    for exchange in EXCHANGES:
        reader, writer = await asyncio.open_connection(*address)
        try:
            found.append(values_of(await Client(reader, writer, "test").ask(exchange.request, exchange.version)))
        except asyncio.IncompleteReadError:
            found.append(CLOSED)
        finally:
            writer.close()
    return found


@pytest.mark.parametrize(("what", "properties"), [("with an authorizer", AUTHORIZER), ("without one", {})])
def test_acl_requests_are_answered_by_kafka_as_recorded(tmp_path: Path, what: str, properties: dict[str, str]) -> None:
    server = KafkaServer(tmp_path, properties)
    server.start()
    try:
        answers = asyncio.run(ask_all(server.address))
    finally:
        server.stop()
    for exchange, answer, known in zip(EXCHANGES, answers, kafkas()[what], strict=True):
        assert answer == known, exchange.name


def test_kafka_acls_works_on_muster(tmp_path: Path) -> None:
    """The commands of a user: entries for a consumer of a prefix are added, listed, and partly removed."""
    server = MusterServer(tmp_path, AUTHORIZER, in_memory=True)
    server.start()
    try:

        def acls(*arguments: str) -> list[str]:
            command = [KAFKA_SCRIPTS / "kafka-tool.sh", ACLS, "--bootstrap-server", server.bootstrap, *arguments]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
            return [line.strip() for line in done.stdout.splitlines() if "principal=" in line]

        consumer = ("--consumer", "--topic", "orders", "--group", "web", "--resource-pattern-type", "prefixed")
        added = acls("--add", "--allow-principal", "User:web", *consumer)
        assert len(set(added)) == 2
        assert sorted(acls("--list")) == sorted([*set(added), next(line for line in added if "READ" in line)])
        assert (
            len(acls("--list", "--principal", "User:web", "--topic", "orders-eu", "--resource-pattern-type", "match"))
            == 2
        )
        acls("--remove", "--force", "--group", "web", "--resource-pattern-type", "prefixed")
        assert len(acls("--list")) == 2
        denied = acls(
            "--add", "--deny-principal", "User:*", "--deny-host", "10.0.0.1", "--operation", "All", "--cluster"
        )
        assert "permissionType=DENY" in denied[0]
    finally:
        server.stop()
