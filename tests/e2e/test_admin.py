"""What the admin clients of the three libraries ask: topics, groups, offsets, settings, the cluster."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource as AioConfigResource
from aiokafka.admin.config_resource import ConfigResourceType as AioConfigResourceType
from aiokafka.errors import TopicAlreadyExistsError
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicCollection,
)
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, OffsetSpec, ResourceType
from confluent_kafka.admin import NewPartitions as ConfluentNewPartitions
from confluent_kafka.admin import NewTopic as ConfluentNewTopic

from tests.e2e.aio import Member, administering, consuming, members, read, send_numbered, shared_out
from tests.e2e.ledger import Ledger, eventually_sync
from tests.e2e.sync_clients import (
    confluent_admin,
    confluent_consumer,
    confluent_member,
    confluent_produce,
    confluent_read,
    kafka,
    kafka_python_admin,
    kafka_python_consumer,
    kafka_python_read,
    thread_members,
)
from tests.support.servers import ServerProcess

DYNAMIC_BROKER, DYNAMIC_GROUP = 2, 8
"""Values of ConfigSource."""

NewTopicName = Callable[[int], str]
NewName = Callable[[str], str]


async def test_aiokafka_creates_describes_and_deletes_topics(server: ServerProcess, new_name: NewName) -> None:
    topic = new_name("aio")
    async with administering(server.bootstrap) as admin:
        answer = await admin.create_topics([NewTopic(topic, 3, 1, topic_configs={"retention.ms": "60000"})])
        assert [row[1] for row in answer.topic_errors] == [0]
        assert topic in await admin.list_topics()
        answer = await admin.create_topics([NewTopic(topic, 3, 1)])
        assert [row[1] for row in answer.topic_errors] == [TopicAlreadyExistsError.errno]
        await admin.create_partitions({topic: NewPartitions(5)})
        (described,) = await admin.describe_topics([topic])
        assert sorted(partition["partition"] for partition in described["partitions"]) == list(range(5))
        resource = AioConfigResource(AioConfigResourceType.TOPIC, topic)
        (configs,) = await admin.describe_configs([resource])
        assert ("retention.ms", "60000") in [(row[0], row[1]) for row in configs.resources[0][4]]
        await admin.delete_topics([topic])
        assert topic not in await admin.list_topics()


async def test_aiokafka_describes_and_deletes_groups(
    server: ServerProcess, new_topic: NewTopicName, group: str
) -> None:
    topic, ledger = new_topic(4), Ledger()
    pair = [Member(name, ledger, server.bootstrap, [topic], group) for name in ("a", "b")]
    async with administering(server.bootstrap) as admin:
        async with members(*pair):
            await shared_out(pair, 4)
            assert (group, "consumer") in await admin.list_consumer_groups()
            (answer,) = await admin.describe_consumer_groups([group])
            (description,) = answer.groups
            error_code, group_id, state, protocol_type, protocol, described = description[:6]
            assert (error_code, group_id, state, protocol_type) == (0, group, "Stable", "consumer")
            assert protocol == "roundrobin"
            assert sorted(member[1] for member in described) == ["a", "b"]
            await send_numbered(server.bootstrap, topic, 4, 8)
        offsets = await admin.list_consumer_group_offsets(group)
        assert all(partition.topic == topic for partition in offsets)
        assert (await admin.find_coordinator(group)) == 1
        (answer,) = await admin.describe_consumer_groups([group])
        assert answer.groups[0][2] == "Empty"


def test_librdkafka_creates_describes_and_deletes_topics(server: ServerProcess, new_name: NewName) -> None:
    topic, admin = new_name("confluent"), confluent_admin(server.bootstrap)
    new = ConfluentNewTopic(topic, 3, 1, config={"cleanup.policy": "compact"})
    assert admin.create_topics([new])[topic].result(10) is None
    with pytest.raises(KafkaException, match="already exists"):
        admin.create_topics([new])[topic].result(10)
    with pytest.raises(KafkaException):
        admin.create_topics([ConfluentNewTopic("not/legal", 1, 1)])["not/legal"].result(10)
    with pytest.raises(KafkaException):
        admin.create_topics([ConfluentNewTopic("three-replicas", 1, 3)])["three-replicas"].result(10)
    assert admin.create_partitions([ConfluentNewPartitions(topic, 4)])[topic].result(10) is None
    with pytest.raises(KafkaException):
        admin.create_partitions([ConfluentNewPartitions(topic, 2)])[topic].result(10)
    assert len(admin.list_topics(topic, 10).topics[topic].partitions) == 4
    described = admin.describe_topics(TopicCollection([topic]))[topic].result(10)
    assert [partition.id for partition in described.partitions] == [0, 1, 2, 3]
    assert described.topic_id is not None
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    configs = admin.describe_configs([resource])[resource].result(10)
    assert configs["cleanup.policy"].value == "compact"
    assert not configs["cleanup.policy"].is_default
    assert configs["segment.bytes"].value == "1073741824"
    assert configs["segment.bytes"].is_default
    assert admin.delete_topics([topic])[topic].result(10) is None
    with pytest.raises(KafkaException):
        admin.delete_topics([topic])[topic].result(10)


def test_librdkafka_describes_and_deletes_groups(server: ServerProcess, new_topic: NewTopicName, group: str) -> None:
    topic, ledger, admin = new_topic(4), Ledger(), confluent_admin(server.bootstrap)
    member = confluent_member("member", ledger, server.bootstrap, topic, group)
    with thread_members(member):
        eventually_sync(lambda: len(member.assignment) == 4, "all partitions")
        confluent_produce(server.bootstrap, topic, [(None, b"v")] * 5, partition=1)
        eventually_sync(lambda: len(ledger) == 5, "5 records")
        listed = {row.group_id: row for row in admin.list_consumer_groups().result(10).valid}
        assert (listed[group].state, listed[group].is_simple_consumer_group) == (ConsumerGroupState.STABLE, False)
        description = admin.describe_consumer_groups([group])[group].result(10)
        assert (description.state, description.partition_assignor) == (ConsumerGroupState.STABLE, "range")
        (described,) = description.members
        assert (described.client_id, len(described.assignment.topic_partitions)) == ("member", 4)
        with pytest.raises(KafkaException):
            admin.delete_consumer_groups([group])[group].result(10)
    only_empty = admin.list_consumer_groups(states={ConsumerGroupState.EMPTY}).result(10).valid
    assert group in [row.group_id for row in only_empty]
    asked = ConsumerGroupTopicPartitions(group, [ConfluentPartition(topic, 1), ConfluentPartition(topic, 2)])
    (answer,) = admin.list_consumer_group_offsets([asked]).values()
    assert [partition.offset for partition in answer.result(10).topic_partitions] == [5, -1001]
    altered = ConsumerGroupTopicPartitions(group, [ConfluentPartition(topic, 1, 2)])
    admin.alter_consumer_group_offsets([altered])[group].result(10)
    with confluent_consumer(server.bootstrap, group_id=group) as consumer:
        consumer.subscribe([topic])
        assert [message.offset() for message in confluent_read(consumer, 3)] == [2, 3, 4]
    assert admin.delete_consumer_groups([group])[group].result(10) is None
    assert group not in [row.group_id for row in admin.list_consumer_groups().result(10).valid]


def test_librdkafka_reads_offsets_cluster_and_configs(server: ServerProcess, new_topic: NewTopicName) -> None:
    topic, admin = new_topic(1), confluent_admin(server.bootstrap)
    confluent_produce(server.bootstrap, topic, [(None, b"v")] * 5, partition=0)
    partition = ConfluentPartition(topic, 0)
    assert admin.list_offsets({partition: OffsetSpec.earliest()})[partition].result(10).offset == 0
    assert admin.list_offsets({partition: OffsetSpec.latest()})[partition].result(10).offset == 5
    assert admin.list_offsets({partition: OffsetSpec.max_timestamp()})[partition].result(10).offset in range(5)
    cluster = admin.describe_cluster().result(10)
    (node,) = cluster.nodes
    assert f"{node.host}:{node.port}" == server.bootstrap
    assert len(cluster.cluster_id) == 22
    assert cluster.controller.id == node.id
    resource = ConfigResource(ConfigResource.Type.BROKER, str(node.id))
    configs = admin.describe_configs([resource])[resource].result(10)
    assert configs["group.initial.rebalance.delay.ms"].value == "0"
    assert configs["group.max.session.timeout.ms"].value == "1800000"


def test_kafka_python_creates_and_deletes_topics_and_groups(
    server: ServerProcess, new_topic: NewTopicName, new_name: NewName, group: str
) -> None:
    topic = new_name("python")
    with kafka_python_admin(server.bootstrap) as admin:
        admin.create_topics([kafka.admin.NewTopic(topic, 2, 1)])
        assert topic in admin.list_topics()
        admin.create_partitions({topic: kafka.admin.NewPartitions(3)})
        (described,) = admin.describe_topics([topic])
        assert len(described["partitions"]) == 3
        confluent_produce(server.bootstrap, topic, [(None, b"v")] * 5, partition=1)
        with kafka_python_consumer(server.bootstrap, topic, group_id=group, client_id="python") as consumer:
            kafka_python_read(consumer, 5)
            consumer.commit()
            assert [row["group_state"] for row in admin.list_groups() if row["group_id"] == group] == ["Stable"]
            described = admin.describe_groups([group])[group]
            assert described["group_state"] == "Stable"
            assert [member["client_id"] for member in described["members"]] == ["python"]
        offsets = admin.list_group_offsets([group])[group]
        assert offsets[kafka.TopicPartition(topic, 1)].offset == 5
        admin.delete_groups([group])
        assert group not in [row["group_id"] for row in admin.list_groups()]
        assert len(admin.describe_cluster()["brokers"]) == 1
        admin.delete_topics([topic])
        assert topic not in admin.list_topics()


async def test_deleting_a_topic_deletes_its_committed_offsets(
    server: ServerProcess, new_topic: NewTopicName, group: str
) -> None:
    topic = new_topic(1)
    await send_numbered(server.bootstrap, topic, 1, 5)
    async with consuming(server.bootstrap, topic, group_id=group) as consumer:
        await read(consumer, 5)
        await consumer.commit()
    async with administering(server.bootstrap) as admin:
        assert TopicPartition(topic, 0) in await admin.list_consumer_group_offsets(group)
        await admin.delete_topics([topic])
        await admin.create_topics([NewTopic(topic, 1, 1)])
        await send_numbered(server.bootstrap, topic, 1, 3)
        async with consuming(server.bootstrap, topic, group_id=group) as consumer:
            assert [record.offset for record in await read(consumer, 3)] == [0, 1, 2]


def test_broker_configs_changed_at_run_time_apply_at_once(
    server: ServerProcess, new_topic: NewTopicName, group: str
) -> None:
    """librdkafka's own tests ask for it too; a topic then takes the broker's new value at once."""
    topic = new_topic(1)
    admin = confluent_admin(server.bootstrap)

    def alter(kind: ResourceType, name: str, key: str, text: str | None) -> None:
        operation = AlterConfigOpType.DELETE if text is None else AlterConfigOpType.SET
        entry = ConfigEntry(key, text, incremental_operation=operation)
        resource = ConfigResource(kind, name, incremental_configs=[entry])
        (future,) = admin.incremental_alter_configs([resource]).values()
        future.result(10)

    def described(kind: ResourceType, name: str, key: str) -> tuple[str, int]:
        (future,) = admin.describe_configs([ConfigResource(kind, name)]).values()
        entry = future.result(10)[key]
        return entry.value, entry.source

    broker, on_topic = (ResourceType.BROKER, "1"), (ResourceType.TOPIC, topic)
    alter(*broker, "sasl.kerberos.min.time.before.relogin", "58000")
    assert described(*broker, "sasl.kerberos.min.time.before.relogin") == ("58000", DYNAMIC_BROKER)
    default = described(*on_topic, "max.message.bytes")
    alter(*broker, "message.max.bytes", "1000")
    try:
        assert described(*on_topic, "max.message.bytes") == ("1000", DYNAMIC_BROKER)
        delivered: list[str] = []
        producer = Producer({"bootstrap.servers": server.bootstrap})
        producer.produce(topic, b"x" * 2000, on_delivery=lambda error, _: delivered.append(error.name()))
        assert producer.flush(10) == 0
        assert delivered == ["MSG_SIZE_TOO_LARGE"]
    finally:
        alter(*broker, "message.max.bytes", None)
    assert described(*on_topic, "max.message.bytes") == default
    alter(ResourceType.GROUP, group, "consumer.session.timeout.ms", "50000")
    assert described(ResourceType.GROUP, group, "consumer.session.timeout.ms") == ("50000", DYNAMIC_GROUP)
    with pytest.raises(KafkaException, match="Cannot update these configs dynamically"):
        alter(*broker, "node.id", "3")
