"""A Spark session that is set up for the pipeline: quiet, its workers on this interpreter, format("muster") known."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from muster.pipeline.java import java_home
from muster.pipeline.sources.format import MusterSource

_QUIET: Final = Path(__file__).with_name("log4j2.properties")

LOCAL: Final = {
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # long exception texts are searched by a regular expression, in threads with small stacks
    "spark.driver.extraJavaOptions": f"-Xss8m -Dlog4j2.configurationFile={_QUIET}",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
"""On one machine, unless told otherwise."""

ALWAYS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
}


def open_session(master: str | None = "local[*]", settings: Mapping[str, str] | None = None) -> SparkSession:
    """The session there is, or a new one on `master` (None: what spark-submit says). Raises NoJava."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("muster")
    if SparkSession.getActiveSession() is None and master is not None:
        home = java_home()
        if home is not None:
            os.environ["JAVA_HOME"] = home
        builder = builder.master(master)
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        for name, value in (LOCAL if master.startswith("local") else {}).items():
            builder = builder.config(name, value)
    for name, value in {**ALWAYS, **(settings or {})}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(MusterSource)
    return spark
