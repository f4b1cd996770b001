"""What Testcontainers' Kafka modules do with an image, read from their sources (mid 2026).

Each module sets variables, lets a shell wait for a script, and writes that script once the mapped port is known. Then
it waits for a line in the log. The scripts here are as those modules write them. Python's module itself runs in
`test_muster_container`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
RUNNING = r".*Transitioning from RECOVERY to RUNNING.*"
STARTED_WITH_ZOOKEEPER = r".*\[KafkaServer id=\d+\] started.*"
LIMIT = str(2**63 - 1)


@dataclass(frozen=True)
class Mapped:
    """What a module knows when the container runs."""

    port: int
    hostname: str
    host: str = "localhost"
    address: str = "127.0.0.1"


@dataclass(frozen=True)
class Module:
    """One way of starting a Kafka container."""

    name: str
    port: int
    """The port in the container that is mapped."""
    environment: Mapping[str, str]
    script_path: str
    script: Callable[[Mapped], str]
    waits_for: str | None
    """The line in the log; None: for the health check."""
    command: tuple[str, ...]
    entrypoint: tuple[str, ...] | None = None
    script_mode: int = 0o777
    copied_when: str | None = None
    """The log line after which the script is copied; None: at once."""
    inside: str = ""
    """An address in the container's network that has to answer."""
    aliases: str = ""
    secure: bool = False
    """The mapped port is that of a listener with TLS and SCRAM."""


def _waits(path: str, run: str = "") -> str:
    return f"while [ ! -f {path} ]; do sleep 0.1; done; {run}{path}"


_SINGLE = {
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
}
_TRANSACTIONS = {
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
}
_KRAFT = {
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_NODE_ID": "1",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
}
_MAP = "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT"

# Java: modules/kafka/src/main/java/org/testcontainers/kafka/{KafkaContainer,ConfluentKafkaContainer,KafkaHelper}.java

_JAVA_SCRIPT = "/tmp/testcontainers_start.sh"


def _java(name: str, run: str, listener: str = "") -> Module:
    """`listener` is that of withListener(HOST:PORT)."""
    more = f",TC-0://{listener}" if listener else ""
    return Module(
        name=name,
        port=9092,
        environment={
            **_SINGLE,
            **_TRANSACTIONS,
            **_KRAFT,
            "CLUSTER_ID": CLUSTER_ID,
            "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092,BROKER://0.0.0.0:9093,CONTROLLER://0.0.0.0:9094" + more,
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": f"{_MAP},CONTROLLER:PLAINTEXT"
            + (",TC-0:PLAINTEXT" if more else ""),
            "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": LIMIT,
        },
        command=("sh", "-c", _waits(_JAVA_SCRIPT)),
        script_path=_JAVA_SCRIPT,
        script=lambda at: (
            "#!/bin/bash\n"
            f"export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{at.host}:{at.port},BROKER://{at.hostname}:9093{more}\n"
            f"{run} \n"
        ),
        waits_for=RUNNING,
        inside=listener or "c0ffee0fcafe:9093",
        aliases=listener.partition(":")[0],
    )


# Java: modules/kafka/src/main/java/org/testcontainers/containers/KafkaContainer.java, the older one


def _old_java(kraft: bool) -> Module:
    listeners = "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092"
    if kraft:
        before = (
            "sed -i '/KAFKA_ZOOKEEPER_CONNECT/d' /etc/confluent/docker/configure\n"
            f"echo 'kafka-storage format --ignore-formatted -t \"{CLUSTER_ID}\" -c /etc/kafka/kafka.properties' "
            ">> /etc/confluent/docker/configure\n"
        )
        more = {
            **_KRAFT,
            "CLUSTER_ID": CLUSTER_ID,
            "KAFKA_LISTENERS": f"{listeners},CONTROLLER://0.0.0.0:9094",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": f"{_MAP},CONTROLLER:PLAINTEXT",
        }
    else:
        before = (
            "echo '' > /etc/confluent/docker/ensure \n"
            "echo 'clientPort=2181' > /tmp/zookeeper.properties\n"
            "echo 'dataDir=/var/lib/zookeeper/data' >> /tmp/zookeeper.properties\n"
            "echo 'dataLogDir=/var/lib/zookeeper/log' >> /tmp/zookeeper.properties\n"
            "zookeeper-server-start /tmp/zookeeper.properties &\n"
        )
        more = {
            "KAFKA_ZOOKEEPER_CONNECT": "localhost:2181",
            "KAFKA_LISTENERS": listeners,
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": _MAP,
        }
    return Module(
        name=f"java-old-{'kraft' if kraft else 'zookeeper'}",
        port=9093,
        environment={
            **_SINGLE,
            **_TRANSACTIONS,
            **more,
            "KAFKA_BROKER_ID": "1",
            "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": LIMIT,
        },
        entrypoint=("sh",),
        command=("-c", _waits(_JAVA_SCRIPT)),
        script_path=_JAVA_SCRIPT,
        script=lambda at: (
            "#!/bin/bash\n"
            f"export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{at.host}:{at.port},BROKER://{at.hostname}:9092\n"
            f"{before}/etc/confluent/docker/run \n"
        ),
        waits_for=RUNNING if kraft else STARTED_WITH_ZOOKEEPER,
        inside="c0ffee0fcafe:9092",
    )


# Go: modules/kafka/kafka.go

_GO_SCRIPT = "/usr/sbin/testcontainers_start.sh"
_GO = Module(
    name="go",
    port=9093,
    environment={
        **_SINGLE,
        **_TRANSACTIONS,
        **_KRAFT,
        "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092,CONTROLLER://0.0.0.0:9094",
        "KAFKA_REST_BOOTSTRAP_SERVERS": "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092,CONTROLLER://0.0.0.0:9094",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": f"{_MAP},CONTROLLER:PLAINTEXT",
        "KAFKA_BROKER_ID": "1",
        "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": LIMIT,
    },
    entrypoint=("sh",),
    command=("-c", _waits(_GO_SCRIPT, "bash ")),
    script_path=_GO_SCRIPT,
    script_mode=0o755,
    script=lambda at: (
        "#!/bin/bash\n"
        "source /etc/confluent/docker/bash-config\n"
        f"export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{at.host}:{at.port},BROKER://{at.hostname}:9092\n"
        "echo Starting Kafka KRaft mode\n"
        "sed -i '/KAFKA_ZOOKEEPER_CONNECT/d' /etc/confluent/docker/configure\n"
        'echo \'kafka-storage format --ignore-formatted -t "$(kafka-storage random-uuid)" '
        "-c /etc/kafka/kafka.properties' >> /etc/confluent/docker/configure\n"
        "echo '' > /etc/confluent/docker/ensure\n"
        "/etc/confluent/docker/configure\n"
        "/etc/confluent/docker/launch"
    ),
    waits_for=RUNNING,
    inside="c0ffee0fcafe:9092",
)

# Node: packages/modules/kafka/src/kafka-container.ts, with images of version 8 and later (without ZooKeeper)

_NODE_READY = "Waiting for script..."
SECURE_PORT = 9096
SCRAM = ("app-user", "userPassword")
KEY_STORE_PASSWORD = "serverKeystorePassword"


def _node(secure: bool) -> Module:
    listeners = "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092,CONTROLLER://0.0.0.0:9094"
    more: dict[str, str] = {}
    create_user = ""
    if secure:
        listeners = f"SECURE://0.0.0.0:{SECURE_PORT},{listeners}"
        more = {
            "KAFKA_SSL_PROTOCOL": "TLSv1.2",
            "KAFKA_SSL_KEYSTORE_LOCATION": "/etc/kafka/secrets/server.keystore.pfx",
            "KAFKA_SSL_KEYSTORE_PASSWORD": KEY_STORE_PASSWORD,
            "KAFKA_SSL_KEYSTORE_TYPE": "PKCS12",
            "KAFKA_SASL_ENABLED_MECHANISMS": "SCRAM-SHA-512",
            "KAFKA_LISTENER_NAME_SECURE_SCRAM-SHA-512_SASL_JAAS_CONFIG": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
        }
        create_user = (
            f'echo \'kafka-storage format --ignore-formatted -t "{CLUSTER_ID}" -c /etc/kafka/kafka.properties '
            f'--add-scram "SCRAM-SHA-512=[name={SCRAM[0]},password={SCRAM[1]}]"\' >> /etc/confluent/docker/configure\n'
        )
    protocols = _MAP + (",SECURE:SASL_SSL" if secure else "")

    def script(at: Mapped) -> str:
        reported = f"BROKER://{at.hostname}:9092,PLAINTEXT://{at.host}:{at.port}"
        if secure:
            # the mapped port here is that of the secure listener
            reported = f"BROKER://{at.hostname}:9092,PLAINTEXT://{at.host}:9093,SECURE://{at.host}:{at.port}"
        return f"#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS={reported}\n{create_user}/etc/confluent/docker/run \n"

    return Module(
        name="node-sasl-ssl" if secure else "node",
        port=SECURE_PORT if secure else 9093,
        environment={
            **_SINGLE,
            **_KRAFT,
            **more,
            "CLUSTER_ID": CLUSTER_ID,
            "KAFKA_BROKER_ID": "1",
            "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
            "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": LIMIT,
            "KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE": "false",
            "KAFKA_ADVERTISED_LISTENERS": "BROKER://localhost:9092",
            "KAFKA_LISTENERS": listeners,
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": f"{protocols},CONTROLLER:PLAINTEXT",
        },
        entrypoint=("sh",),
        command=("-c", f"echo '{_NODE_READY}'; {_waits(_JAVA_SCRIPT)}"),
        script_path=_JAVA_SCRIPT,
        script=script,
        copied_when=_NODE_READY,
        waits_for=None,
        inside="c0ffee0fcafe:9092",
        secure=secure,
    )


# .NET: src/Testcontainers.Kafka/{KafkaBuilder,ApacheConfiguration,ConfluentConfiguration}.cs


def _dotnet(apache: bool) -> Module:
    """Images named apache/…, and those of Confluent, which are started with a ZooKeeper by default."""
    path = "/testcontainers.sh"
    before, run = "", "exec /etc/kafka/docker/run\n"
    more: dict[str, str] = {
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    }
    if not apache:
        before = (
            "echo '' > /etc/confluent/docker/ensure\n"
            "echo 'clientPort=2181' > zookeeper.properties\n"
            "echo 'dataDir=/var/lib/zookeeper/data' >> zookeeper.properties\n"
            "echo 'dataLogDir=/var/lib/zookeeper/log' >> zookeeper.properties\n"
            "zookeeper-server-start zookeeper.properties &\n"
        )
        run = "exec /etc/confluent/docker/run\n"
        more = {"KAFKA_ZOOKEEPER_CONNECT": "localhost:2181"}
    return Module(
        name="dotnet-apache" if apache else "dotnet-confluent",
        port=9092,
        environment={
            **_SINGLE,
            **_TRANSACTIONS,
            "KAFKA_LISTENERS": "PLAINTEXT://:9092,BROKER://:9093,CONTROLLER://:9094",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "KAFKA_BROKER_ID": "1",
            "KAFKA_NODE_ID": "1",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
            "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": LIMIT,
            "CLUSTER_ID": CLUSTER_ID,
            **more,
        },
        entrypoint=("/bin/sh", "-c"),
        command=(_waits(path),),
        script_path=path,
        script_mode=0o755,
        # without own listeners a comma is left at the end
        script=lambda at: (
            f"#!/bin/bash\n{before}"
            f"export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{at.host}:{at.port},BROKER://{at.address}:9093,\n{run}"
        ),
        waits_for=RUNNING if apache else r"\[KafkaServer id=\d+\] started",
        inside="c0ffee0fcafe:9093",
    )


MODULES = (
    _java("java", "/etc/kafka/docker/run"),
    _java("java-listener", "/etc/kafka/docker/run", "kafka:19092"),
    _java("java-confluent", "/etc/confluent/docker/run"),
    _old_java(kraft=True),
    _old_java(kraft=False),
    _GO,
    _node(secure=False),
    _node(secure=True),
    _dotnet(apache=True),
    _dotnet(apache=False),
)
