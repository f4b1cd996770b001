"""The parts of the comparison with real Kafka and its clients: pytest marks, and the files of each part."""

from __future__ import annotations

PARTS = {
    "aiokafka": "aiokafka's own tests of groups, consumers and producers, on the fixture of muster.testing",
    "assignors": "every assignor against Kafka's Java class, on thousands of random inputs",
    "clients": "unmodified Java clients and tools, and franz-go with the consumer protocol",
    "cluster": "three brokers or nodes whose leaders and coordinators move; a database that fails over",
    "conform": "muster conform: every story and probe on Kafka and on Muster, ten times in a row on a busy machine",
    "connect": "three Kafka Connect workers with Muster as their only cluster; one is killed",
    "console": "the console in a headless Chromium, over Muster and over Kafka",
    "docs": "the blocks of docs/ that need Kafka's tools or Spark",
    "deploy": "the files in deploy/, as Compose's loader and Kubernetes' schemas read them",
    "kafka_python": "kafka-python's own tests of groups, transactions and its admin client",
    "kafkajs": "kafkajs's own specs: its admin client, groups, offsets, transactions, ACLs and SASL",
    "languages": "the clients of the test control in Java, Go and TypeScript (examples/)",
    "librdkafka": "librdkafka's own suite, from npm",
    "log": "Kafka's tools read Muster's segments; Kafka and Muster take over each other's logs",
    "pipeline": "the pipeline on a real Kafka, through Spark's own connector, and on a Spark cluster of its own",
    "sarama": "sarama with each way to authenticate, and its admin client on ACLs and users",
    "shares": "share groups: random histories, Java's and librdkafka's clients, Kafka's tools",
    "streams": "applications of Kafka Streams with Muster as their only cluster; Kafka's tools",
    "suites": "the own tests of franz-go, kafka-go, sarama, rust-rdkafka and node-rdkafka, from their registries",
    "transactions": "Kafka's own client, of now and of 3.7, and its tools with transactions",
}
"""Marks, each with what its tests compare. `make conformance-PART` runs a part."""
FILES = {
    "test_aiokafka": "aiokafka", "test_assignors": "assignors", "test_cluster_": "cluster",
    "test_conform": "conform",
    "test_connect_assignors": "assignors", "test_connect_cluster": "connect", "test_console": "console",
    "test_deploy": "deploy", "test_docs": "docs", "test_kafkajs": "kafkajs",
    "test_languages": "languages", "test_librdkafka": "librdkafka", "test_log_": "log", "test_pipeline_": "pipeline",
    "test_java_share_": "shares", "test_java_streams_": "streams", "test_sarama": "sarama", "test_share_": "shares",
    "test_sticky_with_java": "assignors", "test_streams": "streams",
    "test_kafka_python": "kafka_python", "test_suites": "suites", "test_target_records": "log",
    "test_transaction": "transactions",
}  # fmt: skip
"""The part of each file, by the beginning of its name. Any other file belongs to the part `clients`."""
