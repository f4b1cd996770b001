"""A real Kafka with the StandardAuthorizer gives the answers in the table for clients without permission, for each API.

The client comes from 127.0.0.2, and only that host is refused: Kafka's own connections come from 127.0.0.1.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from muster.coordinator.api.registry import SERVED
from muster.protocol.api import api_named
from muster.protocol.errors import ErrorCode
from muster.protocol.message import Message
from muster.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
)
from muster.protocol.messages.find_coordinator import FindCoordinatorRequest
from muster.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.coordinator.api.authorization_cases import CASES, Case, Question, commit
from tests.support.muster import Client
from tests.support.servers import KafkaServer

PROPERTIES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "group.initial.rebalance.delay.ms": "0",
}
REFUSED_HOST = "127.0.0.2"
OPERATIONS = {
    3: AclOperation.READ,
    4: AclOperation.WRITE,
    5: AclOperation.CREATE,
    6: AclOperation.DELETE,
    7: AclOperation.ALTER,
    8: AclOperation.DESCRIBE,
    9: AclOperation.CLUSTER_ACTION,
    10: AclOperation.DESCRIBE_CONFIGS,
    11: AclOperation.ALTER_CONFIGS,
    12: AclOperation.IDEMPOTENT_WRITE,
}
TYPES = {2: ResourceType.TOPIC, 3: ResourceType.GROUP, 4: ResourceType.BROKER, 5: ResourceType.TRANSACTIONAL_ID}
AGAIN = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)


class Kafka:
    """The server, the topic t, and the group g with a committed offset."""

    def __init__(self, server: KafkaServer) -> None:
        self.server = server
        self.admin = AdminClient({"bootstrap.servers": server.bootstrap})
        _done(self.admin.create_topics([NewTopic("t", 1, 1)]))
        everything = [*((TYPES[kind], "*") for kind in (2, 3, 5)), (TYPES[4], "kafka-cluster")]
        _done(
            self.admin.create_acls([_acl(*one, "*", AclOperation.ALL, AclPermissionType.ALLOW) for one in everything])
        )
        self.topic_id = self.ask(MetadataRequest([MetadataRequestTopic(name="t")])).topics[0].topic_id
        self.ask(FindCoordinatorRequest(coordinator_keys=["g"]))
        for _ in range(60):
            if self.ask(commit(self.topic_id)).topics[0].partitions[0].error_code == 0:
                return
            time.sleep(0.5)
        raise AssertionError("the group coordinator did not start")

    def ask(self, request: Message, version: int | None = None) -> Any:
        """The answer to a client of the host that may be refused."""
        key = api_named(type(request).__name__.removesuffix("Request")).key
        return asyncio.run(self._ask(request, SERVED[key].max_version if version is None else version))

    async def _ask(self, request: Message, version: int) -> Any:
        host, port = self.server.address
        reader, writer = await asyncio.open_connection(host, port, local_addr=(REFUSED_HOST, 0))
        try:
            return newest(await Client(reader, writer, "test").ask(said_in(version, request), version))
        finally:
            writer.close()

    @contextmanager
    def refusing(self, questions: tuple[Question, ...]) -> Iterator[None]:
        """Refuse these questions inside the block."""
        acls = [
            _acl(TYPES[kind], name, REFUSED_HOST, OPERATIONS[operation], AclPermissionType.DENY)
            for operation, kind, name in questions
        ]
        if not acls:
            yield
            return
        _done(self.admin.create_acls(acls))
        time.sleep(0.3)  # until the broker has fetched them from the controller
        yield
        same = ("restype", "name", "resource_pattern_type", "principal", "host", "operation", "permission_type")
        _done(self.admin.delete_acls([AclBindingFilter(*(getattr(acl, field) for field in same)) for acl in acls]))
        time.sleep(0.1)


def said_in(version: int, request: Message) -> Message:
    """The cases have the newest form; only this case needs an older form for Kafka."""
    if isinstance(request, AddPartitionsToTxnRequest) and version < 4:
        (one,) = request.transactions
        return AddPartitionsToTxnRequest((), one.transactional_id, one.producer_id, one.producer_epoch, one.topics)
    return request


def newest(answer: Any) -> Any:
    """The answer, converted to the newest form in the same way."""
    if isinstance(answer, AddPartitionsToTxnResponse) and answer.results_by_topic_v3_and_below:
        answer.results_by_transaction = [AddPartitionsToTxnResult("", answer.results_by_topic_v3_and_below)]
    return answer


def _acl(kind: Any, name: str, host: str, operation: Any, permission: Any) -> AclBinding:
    return AclBinding(kind, name, ResourcePatternType.LITERAL, "User:*", host, operation, permission)


def _done(futures: dict[Any, Any]) -> None:
    for future in futures.values():
        future.result()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    server = KafkaServer(tmp_path_factory.mktemp("kafka"), PROPERTIES)
    server.start()
    yield Kafka(server)
    server.stop()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_kafka_answers_a_refused_client_as_recorded(kafka: Kafka, case: Case) -> None:
    with kafka.refusing(case.refused):
        for _ in range(20):
            answer = kafka.ask(case.request(kafka.topic_id), case.version)
            if getattr(answer, "error_code", 0) not in AGAIN:
                break
            time.sleep(0.3)
        assert case.shown(answer) == case.expected
