"""A Spark session for the pipeline: quiet, its workers on this interpreter, format("muster") registered.

It needs fewer calls from Python into Java, because it keeps what PySpark requests again and again. For each column
PySpark requests the same classes and methods by name. Java searches every jar for them: a quarter of the time of
planning the tables.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyspark
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
"""Their names in PySpark. If a later version uses other names, it simply requests them each time."""


class _Methods:
    """A Java class; each of its methods is looked up once."""

    def __init__(self, of: Any) -> None:
        self._of = of

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._of, name)
        setattr(self, name, method)
        return method


def cache_classes(spark: SparkSession) -> None:
    """Keep these classes for a session."""
    jvm = spark.sparkContext._jvm
    held = vars(jvm)
    for name in CLASSES:
        if name not in held:
            held[name] = _Methods(getattr(jvm, name))


def keep_objects(spark: SparkSession) -> None:
    """Keep what Python made in Java until the session ends.

    A call reports each object that is no longer needed: two of five calls that plans need.
    """
    spark.sparkContext._gateway.gateway_property.enable_memory_management = False  # type: ignore[union-attr]


_QUIET: Final = Path(__file__).with_name("log4j2.properties")
_LEVEL: Final = "spark.log.level"

_HIDE_TRACEBACK: Final = "spark.sql.execution.pyspark.udf.hideTraceback.enabled"

LOCAL: Final = {
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    # the code of all plans of an analysis, so that the next one in the same session finds it. Spark's default is a
    # hundred. With a million commits their table took 15 s of the JVM's CPU the second time instead of 19
    "spark.sql.codegen.cache.maxEntries": "1000",
    "spark.ui.enabled": "false",
    # not visible anyway: plans of a thousand queries fill a quarter of the memory
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
    # each query is written as text, with the queries of all kept tables that it starts from. That is more than the
    # memory holds
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.maxPlanStringLength": "8000",
}
"""On one machine, unless the caller gives other settings."""

UNSEEN_PLANS: Final = {
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.maxPlanStringLength": "100",
    "spark.sql.debug.maxToStringFields": "2",
}
"""For a session in which nobody asks Spark for its plans.

Spark writes each plan as text, for a page that is not served. With a small log that is a seventh of the time of plans.
"""

ALWAYS: Final = {
    "spark.sql.session.timeZone": "UTC",
    # other programs than Spark read this too
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    # records may be large: a worker gets so many bytes at once
    "spark.sql.execution.arrow.maxBytesPerBatch": str(16 << 20),
}


_FOR_A_BATCH: Final = (
    # pauses do not matter here
    "-XX:+UseParallelGC",
    # an analysis runs much code that is hot for a second or two. With four times Java's thresholds the second compiler
    # does not take the core that the work needs
    "-XX:Tier4InvocationThreshold=20000",
    "-XX:Tier4MinInvocationThreshold=2400",
    "-XX:Tier4CompileThreshold=60000",
    "-XX:Tier4BackEdgeThreshold=160000",
    # the code that Spark writes for a plan may be one long method
    "-XX:-DontCompileHugeMethods",
)
"""Options of Java. In a new JVM all tables of a million commits take a fifth less CPU with them."""


_MANY_NAMES: Final = (
    "-XX:+UnlockExperimentalVMOptions",
    # Java's table of the names in classes has space for 32,768, and Spark has many more. Searching its full places took
    # 6 % of the time. It grows late
    "-XX:SymbolTableSize=524288",
)
_FOR_LITTLE: Final = (
    "-XX:TieredStopAtLevel=1",
    # with that Java keeps space for only a fifth of the code, which is too little
    "-XX:ReservedCodeCacheSize=240m",
    # so much is loaded and made in any case. With space for it from the beginning the collector does not visit all of
    # it again and again
    "-XX:MetaspaceSize=256m",
    "-Xmn300m",
    # as large as it may become, from the beginning (Java takes no more than that). Each time that the old generation
    # had grown, Java visited all of it
    "-XX:InitialRAMPercentage=50",
    *_MANY_NAMES,
    "-XX:+UseSerialGC",
)
LITTLE: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.python.daemon.module": "muster.pipeline.worker_daemon",
}
"""For a log so small that preparation costs more than the work.

Spark writes no code for each plan, and does not compile well; nothing is spread over tasks. An analysis of 14,000 rows
takes half the CPU time (98 s to 49 s, both under much other load).
"""
_FIRST: Final = (
    *("spark-catalyst", "scala-library", "spark-core", "spark-sql", "scala-reflect", "spark-sql-api", "parquet-column"),
    *("log4j-core", "jackson-databind", "hadoop-client-api", "parquet-jackson", "arrow-vector", "parquet-encoding"),
    *("spark-network-common", "hadoop-client-runtime", "parquet-format-structures", "netty-common", "parquet-hadoop"),
    *("antlr4-runtime", "netty-transport", "jackson-core", "spark-common-utils", "netty-buffer", "log4j-api", "py4j"),
)
"""The jars with most classes, by name.

Java searches one jar after the other for each class. Of Spark's 280 these are far behind by their names. That is 1.5 s
of CPU of a start and a first small query. It was 17.3 to 15.8 s, three beside each other under much other load.
"""
_FOR_SOME: Final = (
    *("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m", "-XX:-DontCompileHugeMethods", *_MANY_NAMES),
    "-XX:+UseParallelGC",
)
ALL_CORES: Final = "local[*]"
ONE_CORE: Final = "local[1]"


SMALL_BYTES: Final = 8 << 20
"""A log with fewer bytes is small, some hundred thousand rows: starting costs more than the work."""
MIDDLING_BYTES: Final = 64 << 20
"""The work for a log with fewer bytes ends before it pays that Java compiles well.

With 220,000 rows that spares a third of all CPU time: 144 s to 100 s, both under much load.
"""


def settings_for(master: str | None, log_bytes: int | None) -> tuple[str | None, dict[str, str]]:
    """Master and settings for a log of that size (None: not known).

    A small log gets one core: each core would have its own Python workers, which import the same modules. A user who
    names a master other than this machine's cores gets that one.
    """
    if master != ALL_CORES or log_bytes is None or log_bytes >= MIDDLING_BYTES:
        return master, {}
    if log_bytes >= SMALL_BYTES:
        return master, _java(_FOR_SOME)
    return ONE_CORE, {**LITTLE, **_java(_FOR_LITTLE)}


def _java(options: tuple[str, ...]) -> dict[str, str]:
    """The setting of Java's options. The last of these options is the collector."""
    return {"spark.driver.defaultJavaOptions": " ".join(options if _collector_is_free() else options[:-1])}


def open_session(
    master: str | None = "local[*]",
    settings: Mapping[str, str] | None = None,
    *,
    knows_format: bool = True,
    keeps_objects: bool = False,
) -> SparkSession:
    """The existing session, or a new one on `master`; None: as spark-submit says. Raises NoJava.

    The workers of a new session run on this interpreter unless PYSPARK_PYTHON is set, and it logs only errors.
    `settings` may ask for Spark's progress bar (spark.ui.showConsoleProgress). `knows_format`: whether format("muster")
    is needed: to register it Spark starts its own Python. `keeps_objects`: see `keep_objects`.
    """
    builder = SparkSession.builder.appName("muster")
    options = {**ALWAYS, **(settings or {})}
    if master is not None and SparkSession.getActiveSession() is None:
        _prepare(master)
        builder = builder.master(master)
        options = {**new_session_settings(local=master.startswith("local")), **options}
    for name, value in options.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if spark.conf.get(_LEVEL, None) is None:
        spark.sparkContext.setLogLevel("ERROR")
    cache_classes(spark)
    if keeps_objects:
        keep_objects(spark)
    if knows_format:
        spark.dataSource.register(MusterSource)
    return spark


def traceback_setting(verbose: bool) -> dict[str, str]:
    """The setting that shows, or hides, Python's traceback of an error in a worker."""
    return {_HIDE_TRACEBACK: str(not verbose).lower()}


def _prepare(master: str) -> None:
    """Set what Spark reads only from the environment."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = home
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def new_session_settings(*, local: bool) -> dict[str, str]:
    """The settings of a session that is created here."""
    # a regular expression searches long exception texts, in threads with small stacks
    java = "-Xss8m"
    if _QUIET.is_file():  # the file does not exist if Muster is read from a zip
        java += f' "-Dlog4j2.configurationFile={_QUIET}"'
    return {
        "spark.driver.defaultJavaOptions": " ".join(_FOR_A_BATCH if _collector_is_free() else _FOR_A_BATCH[1:]),
        "spark.driver.extraJavaOptions": java,
        # the place in Python of each column is a third of the time of plans
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # the error of a source is a sentence, and its place in Python says no more
        _HIDE_TRACEBACK: "true",
        # muster analyze draws its own bar
        "spark.ui.showConsoleProgress": "false",
        **(LOCAL | _class_path() if local else {}),
    }


def _class_path() -> dict[str, str]:
    """The setting that makes Java search the jars of `_FIRST` first.

    It is empty if a file gives Spark settings, because the file may have such a setting.
    """
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    folder = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf")
    if (folder / "spark-defaults.conf").exists():
        return {}
    jars: dict[str, str] = {}
    for jar in sorted((home / "jars").glob("*.jar")):
        # NAME-1.2.jar, or with the version of Scala: NAME_2.13-1.2.jar
        name = re.match(r"(.+?)(?:_[0-9.]+)?-[0-9]", jar.name)
        if name is not None:
            jars.setdefault(name[1], str(jar))
    first = [jars[name] for name in _FIRST if name in jars]
    return {"spark.driver.extraClassPath": os.pathsep.join(first)} if first else {}


def _collector_is_free() -> bool:
    """Whether no garbage collector is set for every Java here: Java does not start with two."""
    return not any(
        "GC" in os.environ.get(name, "") for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
    )
