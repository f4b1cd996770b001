"""Access control entries with real clients: one client makes them, another is bound by them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.e2e.conftest import SERVER, create_topic
from tests.e2e.ledger import eventually_sync
from tests.e2e.sync_clients import confluent_admin, confluent_consumer, confluent_produce, confluent_read

OPEN = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
EVERYBODY = "User:*"


def entry(kind: ResourceType, name: str, operation: AclOperation, permission: AclPermissionType) -> AclBinding:
    return AclBinding(kind, name, ResourcePatternType.LITERAL, EVERYBODY, "*", operation, permission)


def done(futures: dict[Any, Any]) -> list[Any]:
    return [future.result(20) for future in futures.values()]


def test_acl_entries_made_with_librdkafka_apply_to_its_clients(start_server: Callable[..., Any]) -> None:
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


@pytest.mark.skipif(SERVER != "muster" or "MUSTER_TEST_BOOTSTRAP" in os.environ, reason="its own listeners")
def test_a_user_may_do_exactly_what_its_acl_entries_allow(start_server: Callable[..., Any]) -> None:
    """The usual shape of a production cluster: users with passwords, a super user, entries for a prefix."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    server = start_server(
        {
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{module} required user_admin="a" user_web="w";',
            "authorizer.class.name": OPEN["authorizer.class.name"],
            "super.users": "User:admin",
        },
        in_memory=True,
        arguments=["--topic", "orders-eu:1", "--topic", "secret:1"],
    )
    addresses: list[str] = []

    def is_listening() -> bool:
        addresses.extend(line["address"] for line in server.log_lines() if line.get("listener") == "SASL_PLAINTEXT")
        return bool(addresses)

    eventually_sync(is_listening)
    address = addresses[0]

    def user(name: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": name,
            "sasl.password": name[0],
        }

    admin = AdminClient(user("admin"))
    allowed = [
        AclBinding(
            kind, name, ResourcePatternType.PREFIXED, "User:web", "*", AclOperation.READ, AclPermissionType.ALLOW
        )
        for kind, name in ((ResourceType.TOPIC, "orders"), (ResourceType.GROUP, "web"))
    ]
    done(admin.create_acls(allowed))
    assert {"orders-eu", "secret"} <= set(admin.list_topics(timeout=60).topics)
    assert {name for name in AdminClient(user("web")).list_topics(timeout=60).topics if name[0] != "_"} == {"orders-eu"}

    delivered: list[tuple[str, int | None]] = []
    for name in ("admin", "web"):
        producer = Producer(user(name))
        producer.produce(
            "orders-eu",
            name,
            on_delivery=lambda error, message: delivered.append((message.value(), error and error.code())),
        )
        producer.flush(20)
    assert delivered == [(b"admin", None), (b"web", KafkaError.TOPIC_AUTHORIZATION_FAILED)]

    reading = {**user("web"), "group.id": "web-1", "auto.offset.reset": "earliest"}
    with confluent_consumer(address, **reading) as consumer:
        consumer.subscribe(["orders-eu"])
        (message,) = confluent_read(consumer, 1)
        assert message.value() == b"admin"
        consumer.commit(asynchronous=False)
    eventually_sync(lambda: any('"denied"' in line and "User:web" in line for line in server.log().splitlines()))
