"""What the image does when it is started by itself, and with the variables of the apache/kafka image."""

from __future__ import annotations

import pytest

from tests.image import dockerfile
from tests.image.container import Container, missing

pytestmark = [pytest.mark.skipif(bool(missing()), reason=missing()), pytest.mark.timeout(120)]
ADVERTISED = "INSIDE://localhost:19092,SIX://[::1]:19093"
PROTOCOLS = "INSIDE:PLAINTEXT,SIX:PLAINTEXT"


def test_the_image_without_settings_serves_and_is_healthy() -> None:
    with Container(port=9092) as container:
        container.wait_for_log(r"^muster ready ")
        assert container.run(*container.health) == (0, "muster health: 127.0.0.1:9092 answers\n")
    assert dockerfile.read().exposed == [9092]


def test_the_image_accepts_the_options_of_muster_serve() -> None:
    with Container(port=9092, command=("--topic", "orders:8", "--check")) as container:
        container.wait_for_log(r"PLAINTEXT")


def test_another_command_replaces_muster_serve() -> None:
    with Container(port=9092, command=("muster", "version")) as container:
        container.wait_for_log(r"^muster \d")


def test_listeners_follow_advertised_listeners_also_in_the_health_check() -> None:
    environment = {"KAFKA_ADVERTISED_LISTENERS": ADVERTISED, "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": PROTOCOLS}
    with Container(port=19092, environment=environment) as container:
        container.wait_for_log(r"Kafka Server started")
        assert container.run(*container.health) == (0, "muster health: 127.0.0.1:19092 answers\n")
        assert container.run("muster", "health", "127.0.0.1:19093")[0] == 0


def test_a_mounted_server_properties_file_replaces_that_of_the_image() -> None:
    file = "/mnt/shared/config/server.properties"
    waits = f"while [ ! -f {file} ]; do sleep 0.1; done; exec muster-entrypoint"
    with Container(port=9092, command=("sh", "-c", waits)) as container:
        container.copy(file, "listeners=PLAINTEXT://:29092\n")
        container.wait_for_log(r"^muster ready .*:29092$")
        assert container.run(*container.health) == (0, "muster health: 127.0.0.1:29092 answers\n")


def test_the_run_script_accepts_variables_as_arguments() -> None:
    command = ("/etc/kafka/docker/run", "KAFKA_LISTENERS=PLAINTEXT://:39092", "KAFKA_NODE_ID=7", "--in-memory")
    with Container(port=39092, command=command) as container:
        container.wait_for_log(r"^\[KafkaServer id=7\] started")
        container.wait_for_log(r"^muster ready .*:39092$")


def test_stores_and_passwords_are_files_among_the_secrets() -> None:
    environment = {
        "KAFKA_ADVERTISED_LISTENERS": "SSL://localhost:9093",
        "KAFKA_SSL_KEYSTORE_FILENAME": "store.pfx",
        "KAFKA_SSL_KEYSTORE_CREDENTIALS": "no-such-file",
    }
    with Container(port=9093, environment=environment) as container:
        container.wait_for_log(r"KAFKA_SSL_KEYSTORE_FILENAME: /etc/kafka/secrets/store.pfx cannot be read")


def test_kafka_storage_in_the_image_accepts_only_random_uuid_and_format() -> None:
    with Container(port=9092, command=("sleep", "60")) as container:
        refused = (
            (["info"], "only random-uuid and format are here"),
            (["format"], "needs --cluster-id"),
            (["format", "-t", "abc", "--add-scram", "SCRAM-SHA-256=[name=a/b,password=x]"], "is not SCRAM-SHA-512="),
        )
        for arguments, said in refused:
            status, out = container.run("kafka-storage", *arguments)
            assert (status, said in out) == (1, True), out
        command = ["kafka-storage", "format", "--cluster-id=first", "--ignore-formatted", "-c", "any"]
        assert container.run(*command) == (0, "kafka-storage: the cluster's id is first\n")
        assert container.run(*command, "-t", "second") == (0, "kafka-storage: already formatted\n")
        assert container.run("cat", "/var/lib/muster/formatted/cluster.id") == (0, "first")
        ids = {container.run("kafka-storage", "random-uuid")[1].strip() for _ in range(3)}
        assert [len(one) for one in ids] == [22, 22, 22]
