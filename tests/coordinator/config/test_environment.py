"""The environment's names, as the apache/kafka image maps them."""

import pytest

from muster.coordinator.config.sources import properties_of_environment, property_name


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS", "group.initial.rebalance.delay.ms"),
        ("KAFKA_NODE_ID", "node.id"),
        ("KAFKA_A__B", "a_b"),
        ("KAFKA_A___B", "a-b"),
        ("KAFKA_A____B", "a-.b"),
        ("KAFKA_LISTENER_NAME_MY___NET_SSL_CLIENT_AUTH", "listener.name.my-net.ssl.client.auth"),
        ("KAFKA_num_partitions", "num.partitions"),
        ("KAFKA_KAFKA_METRICS_REPORTERS", "kafka.metrics.reporters"),
        ("KAFKA_", None),
        ("KAFKA", None),
        ("kafka_num_partitions", None),
        ("PATH", None),
        ("KAFKA_HEAP_OPTS", None),
        ("KAFKA_OPTS", None),
        ("KAFKA_VERSION", None),
        ("KAFKA_LOG4J_LOGGERS", None),
        ("KAFKA_LOG4J_ROOT_LOGLEVEL", None),
        ("KAFKA_TOOLS_LOG4J_LOGLEVEL", None),
        ("KAFKA_GC_LOG_OPTS", None),
        ("KAFKA_JVM_PERFORMANCE_OPTS", None),
        ("KAFKA_JMX_HOSTNAME", None),
        ("KAFKA_JMX_OPTS", None),
    ],
)
def test_environment_names_become_property_names(variable: str, name: str | None) -> None:
    assert property_name(variable) == name


def test_properties_keep_the_name_of_their_variable() -> None:
    environment = {"KAFKA_NUM_PARTITIONS": "3", "HOME": "/root", "KAFKA_OPTS": "-Xmx1g"}
    assert properties_of_environment(environment) == {"num.partitions": ("KAFKA_NUM_PARTITIONS", "3")}
