"""The sources of the pipeline on a real Kafka: over TLS with a password, compressed offsets batches, transactions, and
Spark's own connector.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from muster.pipeline.sources.cluster import ClusterError, bounds
from muster.pipeline.sources.frame import CONNECTOR_OPTIONS, decoded_rows
from muster.pipeline.sources.segment_files import NoSource
from muster.pipeline.sources.segments import Reading
from muster.pipeline.stage import Source, stage
from muster.pipeline.tables.build import build
from tests.pipeline.conftest import spark
from tests.pipeline.connector import places, through_connector
from tests.pipeline.jars import CONNECTOR
from tests.pipeline.live import Live
from tests.support.servers import QUICK, KafkaServer, free_port_pair

__all__ = ["spark"]
PASSWORD = "a-password"
ZSTD = "4"
needs_connector = pytest.mark.skipif(bool(CONNECTOR.why_not()), reason=CONNECTOR.why_not() or "the jars are there")
Spark = SparkSession
(SETTING,) = CONNECTOR_OPTIONS


class SecureKafka(KafkaServer):
    """A Kafka with a second listener: TLS, and a user `reader` with a password."""

    def __init__(self, workdir: Path) -> None:
        super().__init__(
            workdir, {**QUICK, "offsets.topic.compression.codec": ZSTD, "transaction.state.log.num.partitions": "1"}
        )
        self.ca = workdir / "ca.pem"
        self.secure = ""

    def command(self) -> Sequence[str | Path]:
        """The start script with both listeners on free ports."""
        keys = self.workdir / "keys.p12"
        make = [
            "keytool",
            "-genkeypair",
            "-alias",
            "k",
            "-keyalg",
            "RSA",
            "-dname",
            "CN=127.0.0.1",
            "-ext",
            "san=ip:127.0.0.1",
        ]
        store = ["-keystore", str(keys), "-storetype", "PKCS12", "-storepass", PASSWORD]
        subprocess.run([*make, *store], check=True, capture_output=True)
        show = ["keytool", "-exportcert", "-rfc", "-alias", "k", *store]
        self.ca.write_bytes(subprocess.run(show, check=True, capture_output=True).stdout)
        port, secure = free_port_pair(), free_port_pair()
        self.bootstrap, self.secure = f"127.0.0.1:{port}", f"127.0.0.1:{secure}"
        plain, tls = f"PLAINTEXT://127.0.0.1:{port}", f"SASL_SSL://127.0.0.1:{secure}"
        login = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_reader="{PASSWORD}";'
        self.properties |= {
            "listeners": f"{plain},{tls},CONTROLLER://127.0.0.1:{port + 1}",
            "advertised.listeners": f"{plain},{tls}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
            "ssl.keystore.location": str(keys),
            "ssl.keystore.password": PASSWORD,
            "ssl.keystore.type": "PKCS12",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": login,
        }
        return super().command()

    def client(self, password: str = PASSWORD) -> dict[str, str]:
        """Options of a client (librdkafka) that connects over TLS."""
        return {
            "bootstrap.servers": self.secure,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "reader",
            "sasl.password": password,
            "ssl.ca.location": str(self.ca),
        }


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    """A Kafka with groups and transactions in its log."""
    server = SecureKafka(tmp_path_factory.mktemp("kafka"))
    server.start()
    try:
        Live({"bootstrap.servers": server.bootstrap}).fill(transactions=True)
        yield server
    finally:
        server.stop()


def options(client: dict[str, str]) -> dict[str, str]:
    """The options of format("muster")."""
    return {f"kafka.{name}": value for name, value in client.items()}


def decoded(reading: Any, **how: str) -> Any:
    return reading.format("muster").options(rows="decoded", **how).load()


FACTS = ("producer_id", "producer_epoch", "is_transactional")


def test_kafka_over_tls_and_its_segments_give_the_same_rows(kafka: SecureKafka, spark: Spark) -> None:
    folder = str(kafka.workdir / "data" / "logs")
    for isolation, aborted in (("read_committed", 0), ("read_uncommitted", 4)):
        cluster, segments = (
            decoded(spark.read, isolationLevel=isolation, numPartitions="2", **how).orderBy(
                "log_partition", "log_offset"
            )
            for how in (options(kafka.client()), {"path": folder})
        )
        rows = [row.asDict(recursive=True) for row in segments.collect()]
        assert len([row for row in rows if row["committed_offset"] == 200]) == aborted
        assert len([row for row in rows if row["is_transactional"]]) == 4 + aborted
        assert [row.asDict(recursive=True) for row in cluster.collect()] == [row | dict.fromkeys(FACTS) for row in rows]
        assert {row["kind"] for row in rows} == {"commit", "classic"}


def test_kafka_over_tls_and_its_segments_give_the_same_transactions(
    kafka: SecureKafka, spark: Spark, tmp_path: Path
) -> None:
    folder = str(kafka.workdir / "data" / "logs")
    found = []
    for number, source in enumerate((Source(kafka=kafka.client()), Source(path=folder))):
        inputs = stage(spark, source, str(tmp_path / str(number))).inputs
        rows = build(inputs, ["transactions"])["transactions"].orderBy("start_ms").collect()
        assert [(row["transactional_id"], row["outcome"], row["cause"], row["source"]) for row in rows] == [
            ("x", "committed", "client", "log"),
            ("x", "aborted", "client", "log"),
        ]
        found.append([(row["offsets"], row["groups"]) for row in rows])
    # over a cluster neither batches nor markers can be seen
    assert found == [[(None, None)] * 2, [(4, ["with-members"])] * 2]


def test_the_offsets_batches_of_kafka_are_compressed(kafka: SecureKafka) -> None:
    first = next(
        path for path in (kafka.workdir / "data" / "logs").glob("__consumer_offsets-*/*.log") if path.stat().st_size
    )
    assert first.read_bytes()[22] & 7 == int(ZSTD)


def test_a_wrong_password_is_reported_as_failed_authentication(
    kafka: SecureKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.pipeline.sources.cluster.ANSWER_TIMEOUT_S", 5.0)
    with pytest.raises(ClusterError, match="Authentication failed"):
        bounds(kafka.client("wrong"), Reading())


def test_a_stream_over_tls_goes_on_from_its_checkpoint(kafka: SecureKafka, spark: Spark, tmp_path: Path) -> None:
    how = options(kafka.client())
    for group in ("first", "second"):
        rows = decoded(spark.readStream, maxRowsPerTrigger="100", **how).writeStream.format("parquet")
        rows = rows.option("path", str(tmp_path / "table")).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = rows.trigger(availableNow=True).start()
        query.awaitTermination()
        assert places(spark.read.parquet(str(tmp_path / "table"))) == places(decoded(spark.read, **how))
        assert max(progress.numInputRows for progress in query.recentProgress) <= 100
        Live({"bootstrap.servers": kafka.bootstrap}).commit(group, 5)


@needs_connector
@pytest.mark.parametrize("named", [{}, {"subscribe": "", "subscribePattern": "__consumer_off.*"}])
def test_sparks_connector_reads_all_rows_by_the_recipe(kafka: SecureKafka, spark: Spark, named: dict[str, str]) -> None:
    wanted = places(decoded(spark.read, **options(kafka.client())))
    assert places(decoded_rows(through_connector(spark.read, kafka.bootstrap, **named))) == wanted


@needs_connector
def test_sparks_connector_reads_no_rows_without_the_setting(kafka: SecureKafka, spark: Spark) -> None:
    spark.conf.set(SETTING, "false")
    try:
        assert through_connector(spark.read, kafka.bootstrap).count() == 0
        with pytest.raises(NoSource, match=f"{SETTING}=true"):
            decoded_rows(through_connector(spark.read, kafka.bootstrap))
    finally:
        spark.conf.set(SETTING, "true")


@needs_connector
def test_a_stream_of_sparks_connector_reads_all_rows_by_the_recipe(
    kafka: SecureKafka, spark: Spark, tmp_path: Path
) -> None:
    rows = decoded_rows(through_connector(spark.readStream, kafka.bootstrap, startingOffsets="earliest")).writeStream
    rows = rows.format("parquet").option("path", str(tmp_path / "table"))
    rows = rows.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    rows.start().awaitTermination()
    assert places(spark.read.parquet(str(tmp_path / "table"))) == places(decoded(spark.read, **options(kafka.client())))
