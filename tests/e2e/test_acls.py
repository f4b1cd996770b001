"""Access control entries with real clients: made by one, felt by another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from tests.e2e.conftest import create_topic
from tests.e2e.sync_clients import confluent_admin, confluent_consumer, confluent_produce

OPEN = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
EVERYBODY = "User:*"


def entry(kind: ResourceType, name: str, operation: AclOperation, permission: AclPermissionType) -> AclBinding:
    return AclBinding(kind, name, ResourcePatternType.LITERAL, EVERYBODY, "*", operation, permission)


def done(futures: dict[Any, Any]) -> list[Any]:
    return [future.result(20) for future in futures.values()]


def test_confluents_admin_and_clients(start_server: Callable[..., Any]) -> None:
    server = start_server(OPEN, in_memory=True)
    admin = confluent_admin(server.bootstrap)
    create_topic(server, "open", 1)
    create_topic(server, "closed", 1)
    allow = entry(ResourceType.TOPIC, "closed", AclOperation.READ, AclPermissionType.ALLOW)
    deny = entry(ResourceType.TOPIC, "closed", AclOperation.WRITE, AclPermissionType.DENY)
    no_group = entry(ResourceType.GROUP, "closed", AclOperation.ALL, AclPermissionType.DENY)
    done(admin.create_acls([allow, deny, no_group]))
    everything = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    assert set(admin.describe_acls(everything).result(20)) == {allow, deny, no_group}

    assert len(confluent_produce(server.bootstrap, "open", [(None, b"x")])) == 1
    refused: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": server.bootstrap, "log_level": 2})
    producer.produce("closed", b"x", on_delivery=lambda error, _: refused.append(error))
    producer.flush(20)
    assert [error.code() for error in refused] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]

    with confluent_consumer(server.bootstrap, **{"group.id": "closed"}) as consumer:
        consumer.subscribe(["open"])
        message = consumer.poll(20)
        assert message is not None
        error = message.error()
    assert error is not None
    assert error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED

    (gone,) = done(admin.delete_acls([AclBindingFilter(
        ResourceType.TOPIC, "closed", ResourcePatternType.MATCH, None, None, AclOperation.ANY, AclPermissionType.ANY
    )]))  # fmt: skip
    assert set(gone) == {allow, deny}
    assert len(confluent_produce(server.bootstrap, "closed", [(None, b"x")])) == 1
