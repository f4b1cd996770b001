from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from muster.pipeline.session import (
    ALL_CORES,
    MIDDLING_BYTES,
    new_session_settings,
    open_session,
    settings_for,
)
from muster.pipeline.sources.source import COMPRESSED, Source, bytes_of
from muster.pipeline.spark_home import java_home
from tests.pipeline.conftest import TIMEOUT_S


def test_an_existing_session_is_used_with_the_pipelines_settings(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    for master in ("local[7]", None):
        assert open_session(master) is spark
        assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_spark_is_quiet_and_its_workers_run_on_this_interpreter(spark: SparkSession) -> None:
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    jvm = spark._jvm  # the loggers of the JVM itself, because log4j has no Python side
    assert jvm is not None
    log4j = jvm.org.apache.logging.log4j
    assert log4j.LogManager.getRootLogger().getLevel().toString() == "ERROR"
    source = log4j.core.LoggerContext.getContext(False).getConfiguration().getConfigurationSource()
    assert "pipeline" in str(source.getLocation())


def test_the_largest_jars_are_searched_first(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = new_session_settings(local=True)["spark.driver.extraClassPath"].split(os.pathsep)
    jvm = spark._jvm
    assert jvm is not None
    # Spark's own folder of settings comes before the jars
    seen = [path for path in jvm.System.getProperty("java.class.path").split(os.pathsep) if path.endswith(".jar")]
    assert seen[: len(asked)] == asked
    assert all(Path(jar).is_file() for jar in asked)
    names = [Path(jar).name for jar in asked]
    # each of these jars, and no other jar with the same beginning
    assert [name.split("_")[0] for name in names[:4:3]] == ["spark-catalyst", "spark-sql"]
    assert len(names) >= 20  # another Spark may have fewer of them
    assert "spark.driver.extraClassPath" not in new_session_settings(local=False)
    # a user with a file of Spark settings may have a class path there
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").touch()
    assert "spark.driver.extraClassPath" not in new_session_settings(local=True)


def test_large_records_do_not_fill_a_worker(spark: SparkSession) -> None:
    assert int(spark.conf.get("spark.sql.execution.arrow.maxBytesPerBatch") or 0) <= 32 << 20


def test_a_globally_set_garbage_collector_is_no_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two collectors Java does not start."""
    home = java_home() or os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else "java"

    def status(options: str) -> int:
        return subprocess.run([java, *options.split(), "-version"], capture_output=True, timeout=TIMEOUT_S).returncode

    alone = new_session_settings(local=True)["spark.driver.defaultJavaOptions"]
    assert status(alone) == 0
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseSerialGC")
    assert status(alone) == 1
    assert status(new_session_settings(local=True)["spark.driver.defaultJavaOptions"]) == 0


def test_a_session_suits_the_log_unless_a_master_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_TOOL_OPTIONS", raising=False)
    java = "spark.driver.defaultJavaOptions"
    settings = settings_for(ALL_CORES, MIDDLING_BYTES - 1)
    assert list(settings) == [java]
    assert "-XX:TieredStopAtLevel=1" in settings[java]
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseG1GC")
    assert "GC" not in settings_for(ALL_CORES, 0)[java]
    assert settings_for(ALL_CORES, MIDDLING_BYTES) == settings_for(ALL_CORES, None) == {}
    for named in ("local[4]", "spark://master:7077", None):
        assert settings_for(named, 0) == {}


def test_java_accepts_all_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_TOOL_OPTIONS", raising=False)
    home = java_home() or os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else "java"
    reported = settings_for(ALL_CORES, 0)["spark.driver.defaultJavaOptions"].split()
    subprocess.run([java, "-Xmx1g", *reported, "-version"], capture_output=True, timeout=TIMEOUT_S, check=True)


def test_the_size_of_a_log_includes_all_topics_about_groups(tmp_path: Path) -> None:
    for topic, size in (("__consumer_offsets-0", 100), ("orders-0", 1_000), ("__group_events-0", 10)):
        (tmp_path / topic).mkdir()
        with (tmp_path / topic / f"{0:020}.log").open("wb") as file:
            file.truncate(size)
    assert bytes_of(Source(path=str(tmp_path))) == 110
    with (tmp_path / "__group_events-0" / f"{0:020}.log").open("r+b") as file:
        file.write(bytes(16) + b"\2" + bytes(5) + b"\4")  # a batch of version 2, compressed by zstd
        file.truncate(25)
    assert bytes_of(Source(path=str(tmp_path))) == 100 + COMPRESSED * 25
    assert bytes_of(Source(kafka={"bootstrap.servers": "127.0.0.1:1"})) is None
