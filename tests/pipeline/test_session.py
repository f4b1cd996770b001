from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from muster.pipeline.java import java_home
from muster.pipeline.session import of_a_new_one, open_session
from tests.pipeline.conftest import TIMEOUT_S


def test_the_session_that_there_is_is_taken_and_told_what_the_pipeline_needs(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    for master in ("local[7]", None):
        assert open_session(master) is spark
        assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_spark_is_quiet_and_its_workers_run_on_this_interpreter(spark: SparkSession) -> None:
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    jvm = spark._jvm  # what the JVM itself holds, as log4j has no Python side
    assert jvm is not None
    log4j = jvm.org.apache.logging.log4j
    assert log4j.LogManager.getRootLogger().getLevel().toString() == "ERROR"
    source = log4j.core.LoggerContext.getContext(False).getConfiguration().getConfigurationSource()
    assert "pipeline" in str(source.getLocation())


def test_large_records_do_not_fill_a_worker(spark: SparkSession) -> None:
    assert int(spark.conf.get("spark.sql.execution.arrow.maxBytesPerBatch") or 0) <= 32 << 20


def test_a_garbage_collector_that_is_asked_for_everywhere_is_no_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of them and Java does not start."""
    home = java_home() or os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else "java"

    def status(options: str) -> int:
        return subprocess.run([java, *options.split(), "-version"], capture_output=True, timeout=TIMEOUT_S).returncode

    alone = of_a_new_one(local=True)["spark.driver.defaultJavaOptions"]
    assert status(alone) == 0
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseSerialGC")
    assert status(alone) == 1
    assert status(of_a_new_one(local=True)["spark.driver.defaultJavaOptions"]) == 0
