from __future__ import annotations

import os
import subprocess
import sys

import pytest
from pyspark.sql import SparkSession

from muster.pipeline.session import open_session
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
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseSerialGC")
    code = "from muster.pipeline.session import open_session; print(open_session('local[1]').range(3).count())"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S)
    assert done.stdout == "3\n"
