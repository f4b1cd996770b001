"""A Spark session for the pipeline: it prints little, and it knows format("muster").

Its workers run on the same interpreter as this process. The session needs fewer calls from Python into Java, because it
keeps what PySpark requests again and again. For each column PySpark requests the same classes and methods by their
names. Java searches every jar for them. That was a quarter of the time for planning the tables.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from muster.pipeline.sources.spark_source import MusterSource
from muster.pipeline.spark_home import java_home

CLASSES: Final = (
    "functions",
    "org.apache.spark.sql.functions",
    "PythonSQLUtils",
    "PythonUtils",
    "org.apache.spark.api.python.PythonUtils",
    "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.sql.expressions.Window",
    "org.apache.spark.sql.types.Metadata",
)
"""The classes that are kept, by the names that PySpark uses. If a later version uses other names, PySpark requests the
classes each time.
"""


class _Methods:
    """A Java class whose methods are each found only once."""

    def __init__(self, of: Any) -> None:
        self._of = of

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._of, name)
        setattr(self, name, method)
        return method


def cache_classes(spark: SparkSession) -> None:
    """Keep these classes for the time of a session."""
    jvm = spark.sparkContext._jvm
    held = vars(jvm)
    for name in CLASSES:
        if name not in held:
            held[name] = _Methods(getattr(jvm, name))


_QUIET: Final = Path(__file__).with_name("log4j2.properties")
_LEVEL: Final = "spark.log.level"

_HIDE_TRACEBACK: Final = "spark.sql.execution.pyspark.udf.hideTraceback.enabled"

LOCAL: Final = {
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    # Spark keeps the code of all plans of an analysis, so that the next analysis in the session finds it. Spark's
    # default is the code of a hundred plans. With a hundred, the table of a million commits took 19 s of CPU the second
    # time instead of 15
    "spark.sql.codegen.cache.maxEntries": "1000",
    "spark.ui.enabled": "false",
    # nobody sees these plans, and plans of a thousand queries fill a quarter of the memory
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
    # each query is written as text, together with the queries of all kept tables that it reads. The memory cannot hold
    # all of these texts
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.maxPlanStringLength": "8000",
}
"""Spark's settings on one machine, unless the caller gives other settings."""

UNSEEN_PLANS: Final = {
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.maxPlanStringLength": "100",
    "spark.sql.debug.maxToStringFields": "2",
}
"""Settings for a session in which nobody asks Spark for its plans.

Spark writes each plan as text, for a page that is not served.
"""

ALWAYS: Final = {
    "spark.sql.session.timeZone": "UTC",
    # other programs than Spark read these times too
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    # records may be large, so a worker gets at most this many bytes at once
    "spark.sql.execution.arrow.maxBytesPerBatch": str(16 << 20),
}


_FOR_A_BATCH: Final = (
    # pauses of this collector do not matter here
    "-XX:+UseParallelGC",
    # an analysis runs much code that is hot for a second or two. With four times Java's thresholds, the second compiler
    # does not use the core that the work needs
    "-XX:Tier4InvocationThreshold=20000",
    "-XX:Tier4MinInvocationThreshold=2400",
    "-XX:Tier4CompileThreshold=60000",
    "-XX:Tier4BackEdgeThreshold=160000",
    # for a plan, Spark may write code with one long method
    "-XX:-DontCompileHugeMethods",
)
"""Options of Java for an analysis in a new JVM.

With them, all tables of a million commits take a fifth less CPU.
"""


_MANY_NAMES: Final = (
    "-XX:+UnlockExperimentalVMOptions",
    # Java's table for the names in classes has space for 32,768 names, and Spark has many more. The searches in the
    # full table took 6 % of the time. The table grows too late
    "-XX:SymbolTableSize=524288",
)
_FIRST: Final = (
    *("spark-catalyst", "scala-library", "spark-core", "spark-sql", "scala-reflect", "spark-sql-api", "parquet-column"),
    *("log4j-core", "jackson-databind", "hadoop-client-api", "parquet-jackson", "arrow-vector", "parquet-encoding"),
    *("spark-network-common", "hadoop-client-runtime", "parquet-format-structures", "netty-common", "parquet-hadoop"),
    *("antlr4-runtime", "netty-transport", "jackson-core", "spark-common-utils", "netty-buffer", "log4j-api", "py4j"),
)
"""The names of the jars that have most of the needed classes.

Java searches one jar after the other for each class. Among Spark's 280 jars these come late by their names. A start
with a small query takes 15.8 s of CPU instead of 17.3 s if they are first. (Three such starts ran beside each other,
with much other load.)
"""
_FOR_SOME: Final = (
    *("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m", "-XX:-DontCompileHugeMethods", *_MANY_NAMES),
    "-XX:+UseParallelGC",
)
ALL_CORES: Final = "local[*]"
MIDDLING_BYTES: Final = 64 << 20
"""With fewer bytes than this, the work ends before Java's better compiler pays off.

Without that compiler, 220,000 rows take 100 s of CPU instead of 144 s (both with much load).
"""


def settings_for(master: str | None, log_bytes: int | None) -> dict[str, str]:
    """Spark's settings for a log with `log_bytes` (None: not known). On another machine, its own settings hold."""
    if master != ALL_CORES or log_bytes is None or log_bytes >= MIDDLING_BYTES:
        return {}
    return _java(_FOR_SOME)


def _java(options: tuple[str, ...]) -> dict[str, str]:
    """The setting with these options of Java. The last option must be the one that chooses the collector."""
    return {"spark.driver.defaultJavaOptions": " ".join(options if _collector_is_free() else options[:-1])}


def open_session(
    master: str | None = "local[*]",
    settings: Mapping[str, str] | None = None,
    *,
    knows_format: bool = True,
    is_apart: bool = False,
) -> SparkSession:
    """The existing session, or a new session on `master` (None: the master that spark-submit chose). Raises NoJava.

    The workers of a new session run on this interpreter, unless PYSPARK_PYTHON is set. A new session logs only errors.
    `settings` may ask for Spark's progress bar (spark.ui.showConsoleProgress). `knows_format`: whether format("muster")
    is needed. To register it, Spark starts a Python process. `is_apart`: whether Java gets a process group of its own.
    Then a signal to the group of this process does not end Java.
    """
    builder = SparkSession.builder.appName("muster")
    options = {**ALWAYS, **(settings or {})}
    if master is not None and SparkSession.getActiveSession() is None:
        _prepare(master)
        builder = builder.master(master)
        options = {**new_session_settings(local=master.startswith("local")), **options}
    for name, value in options.items():
        builder = builder.config(name, value)
    if is_apart and SparkContext._gateway is None:
        conf = SparkConf().setAll(list(options.items()))
        gateway = launch_gateway(conf, {"process_group": 0})  # type: ignore[no-untyped-call]  # lacks annotations
        SparkContext._ensure_initialized(gateway=gateway, conf=conf)
    spark = builder.getOrCreate()
    if spark.conf.get(_LEVEL, None) is None:
        spark.sparkContext.setLogLevel("ERROR")
    cache_classes(spark)
    if knows_format:
        spark.dataSource.register(MusterSource)
    return spark


def traceback_setting(verbose: bool) -> dict[str, str]:
    """The setting that shows, or hides, Python's traceback of an error in a worker."""
    return {_HIDE_TRACEBACK: str(not verbose).lower()}


def _prepare(master: str) -> None:
    """Set what Spark reads only from environment variables."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = home
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def new_session_settings(*, local: bool) -> dict[str, str]:
    """The settings of a session that is created here. `local`: whether it runs on this machine."""
    # the threads have small stacks, and a regular expression that searches long exception texts needs a large one
    java = "-Xss8m"
    if _QUIET.is_file():  # the file does not exist if Muster is read from a zip archive
        java += f' "-Dlog4j2.configurationFile={_QUIET}"'
    return {
        "spark.driver.defaultJavaOptions": " ".join(_FOR_A_BATCH if _collector_is_free() else _FOR_A_BATCH[1:]),
        "spark.driver.extraJavaOptions": java,
        # to find the place in Python of each column took a third of the time for plans
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # the error of a source is a sentence, and its place in Python adds nothing
        _HIDE_TRACEBACK: "true",
        # muster analyze shows its own progress bar
        "spark.ui.showConsoleProgress": "false",
        **(LOCAL | _class_path() if local else {}),
    }


def _class_path() -> dict[str, str]:
    """The setting that makes Java search the jars of `_FIRST` first.

    It is empty if a file gives Spark its settings, because the file may have this setting.
    """
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    folder = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf")
    if (folder / "spark-defaults.conf").exists():
        return {}
    jars: dict[str, str] = {}
    for jar in sorted((home / "jars").glob("*.jar")):
        # a jar is called NAME-1.2.jar, or NAME_2.13-1.2.jar with the version of Scala
        name = re.match(r"(.+?)(?:_[0-9.]+)?-[0-9]", jar.name)
        if name is not None:
            jars.setdefault(name[1], str(jar))
    first = [jars[name] for name in _FIRST if name in jars]
    return {"spark.driver.extraClassPath": os.pathsep.join(first)} if first else {}


def _collector_is_free() -> bool:
    """Whether the environment sets no garbage collector for every Java. Java does not start with two collectors."""
    return not any(
        "GC" in os.environ.get(name, "") for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
    )
