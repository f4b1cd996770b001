"""Writes the results of an analysis, tables and page, with Hadoop's file systems: anywhere that Spark can write.

A Delta Lake table can be a source, and the format of a follower's tables: each version is a transaction. Delta Lake
needs its jar. A failure in Spark becomes one sentence, without names of modules in Java, Scala and Python.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StructType

from muster.pipeline.arguments import CSV, JSON, PARQUET
from muster.pipeline.page_files import first_last, superfluous
from muster.pipeline.preflight import NoDelta, NotUsable, check_out, plain

_CAUSE: Final = "Caused by: "
"""The words before the cause of an error in Java's texts."""
_OURS: Final = re.compile(r"^(?:.*: )?muster\.pipeline\.[\w.]+: (.+)$")
"""The form in which Python shows an error of a source of the pipeline in a worker.

It stands at the end of a traceback, or in its place.
"""


def reason(error: Exception) -> str:
    """The error and its last cause. If the pipeline itself raised the error in a worker, only that error."""
    lines = [line.strip().removeprefix(": ") for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    ours = [match[1] for match in map(_OURS.match, lines) if match is not None]
    if ours:
        return ours[-1]
    first = lines[1] if len(lines) > 1 and lines[0].startswith("An error occurred while calling") else lines[0]
    causes = [line.removeprefix(_CAUSE) for line in lines if line.startswith(_CAUSE)]
    return f"{first}: {causes[-1]}" if causes and causes[-1] not in first else first


EXTENSION: Final = {"spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension"}
"""The settings with which a session must start to use Delta Lake."""
_FEW: Final = "spark.databricks.delta.snapshotPartitions"
"""The setting for the number of parts in which Delta's log of a table is read.

Its default of 50 is slow for tables with few files.
"""
_PARTS: Final = "2"
_CATALOG: Final = ("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")


def prepare(spark: SparkSession, what: str) -> None:
    """Prepare a session that was started with EXTENSION. Raises NoDelta, with the text that `what` needs Delta."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    try:
        jvm.org.apache.spark.util.Utils.classForName(_CATALOG[1], True, False)
    except Py4JError:
        raise NoDelta(
            f"{what}: Delta Lake is not among Spark's jars: for Spark 4.2 give "
            "PYSPARK_SUBMIT_ARGS='--packages io.delta:delta-spark_4.2_2.13:4.4.0 pyspark-shell' "
            "(or --packages to spark-submit), or take Parquet"
        ) from None
    spark.conf.set(*_CATALOG)
    if spark.conf.get(_FEW, None) is None:
        spark.conf.set(_FEW, _PARTS)


def write_delta(table: DataFrame, folder: str) -> None:
    """Replace the rows of a Delta table. Readers see either all old rows or all new rows."""
    table.write.format("delta").mode("overwrite").save(folder)


def check_place(spark: SparkSession, out: str) -> None:
    """Check that a folder can be written into, on any file system. Nothing is left in the folder. Raises NotUsable."""
    probe = f"{out.rstrip('/')}/.probe"
    try:
        if is_local(spark, out):
            check_out(out)
        else:
            write_text(spark, probe, "\n")
            remove(spark, probe)
    except (PySparkException, Py4JError) as error:
        raise NotUsable(f"--out {out}: nothing can be written there ({reason(error)}): give another folder") from error


def is_local(spark: SparkSession, path: str) -> bool:
    """Whether Spark understands a path as one in this machine's file system."""
    return str(file_system(spark, path)[0].getScheme()) == "file"


def write_table(table: DataFrame, folder: str, formats: Sequence[str], *, large: bool = False) -> None:
    """Write a table: Parquet into `folder`, text into FOLDER.csv and FOLDER.json beside it.

    An existing table is replaced. On this machine text is one file, unless the table is `large`. Otherwise it is a
    folder of files.
    """
    if CSV in formats:
        flat = _gathered(_flat(table), large)
        flat.write.mode("overwrite").option("header", "true").option("escape", '"').csv(f"{folder}.{CSV}")
    if JSON in formats:
        _gathered(table, large).write.mode("overwrite").option("ignoreNullFields", "false").json(f"{folder}.{JSON}")
    if not large and is_local(table.sparkSession, folder):
        for kind in (CSV, JSON):
            if kind in formats:
                _make_one(Path(plain(f"{folder}.{kind}")))
    if PARQUET in formats:
        table.write.mode("overwrite").parquet(folder)


def _make_one(folder: Path) -> None:
    """Put the only file in a folder in place of the folder."""
    part = next(folder.glob("part-*"), None)
    aside = folder.with_name(f"{folder.name}.part")
    if part is None:
        aside.touch()
    else:
        part.rename(aside)
    shutil.rmtree(folder)
    aside.rename(folder)


def _gathered(table: DataFrame, large: bool) -> DataFrame:
    return table if large else table.coalesce(1)


def _flat(table: DataFrame) -> DataFrame:
    """The rows with nested columns as JSON, and bytes as base64: CSV has neither."""
    return table.select(
        *(
            F.to_json(field.name).alias(field.name)
            if isinstance(field.dataType, ArrayType | MapType | StructType)
            else F.base64(field.name).alias(field.name)
            if field.dataType.typeName() == "binary"
            else F.col(field.name)
            for field in table.schema.fields
        )
    )


def write_text(spark: SparkSession, path: str, text: str) -> str:
    """Write a small file in place of the old one. Returns its path."""
    if is_local(spark, path):
        local = Path(plain(path))
        local.parent.mkdir(parents=True, exist_ok=True)
        local.write_text(text, encoding="utf-8")
        return str(local)
    system, where = file_system(spark, path)
    stream = system.create(where, True)
    try:
        stream.write(bytearray(text, "utf-8"))
    finally:
        stream.close()
    return path


def write_pages(spark: SparkSession, out: str, pages: Mapping[str, str], write: Callable[[str, str], object]) -> str:
    """Write pages under the names of their files. The first page is written last, because it links to the others.

    Old pages with higher numbers are removed: an earlier analysis had more groups. Returns the path of the first page.
    """
    for name in first_last(pages):
        write(f"{out}/{name}", pages[name])
    for name in superfluous(_names(spark, out), pages):
        remove(spark, f"{out}/{name}")
    path = f"{out}/{next(iter(pages))}"
    return plain(path) if is_local(spark, path) else path


def _names(spark: SparkSession, folder: str) -> list[str]:
    system, where = file_system(spark, folder)
    return [str(one.getPath().getName()) for one in system.listStatus(where)]


def remove(spark: SparkSession, path: str) -> None:
    """Remove a file, or a folder with its content. Nothing happens if it does not exist."""
    if is_local(spark, path):
        local = Path(plain(path))
        if local.is_file():
            local.unlink(missing_ok=True)
        else:
            shutil.rmtree(local, ignore_errors=True)
        return
    system, where = file_system(spark, path)
    system.delete(where, True)


def file_system(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Hadoop's file system of a path, and the path in Hadoop's form."""
    jvm: Any = spark.sparkContext._jvm
    where = jvm.org.apache.hadoop.fs.Path(path)
    return where.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()), where
