"""Write the results of an analysis, tables and page, through Hadoop's file systems: anywhere that Spark can write."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it
from pyspark.sql.types import ArrayType, MapType, StructType

from muster.pipeline.failure import reason
from muster.pipeline.formats import CSV, JSON, PARQUET
from muster.pipeline.preflight import NotUsable, check_out

LARGE: Final = ("commits",)
"""Tables as long as the log. Of the others each text format is one file."""


def check_place(spark: SparkSession, out: str) -> None:
    """Check that a folder can be written into, wherever it is. It leaves nothing behind. Raises NotUsable."""
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
    """Whether a path is one of this machine's file system, for Spark."""
    return str(file_system(spark, path)[0].getScheme()) == "file"


def write_table(table: DataFrame, folder: str, formats: Sequence[str], *, large: bool = False) -> None:
    """Write a table: Parquet into `folder`, text into FOLDER.csv and FOLDER.json beside it. Existing ones are replaced.

    Text is one file on this machine, unless the table is `large`; elsewhere it is a folder of files.
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
    """Put the one file of a folder in its place."""
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
    """Nested columns as JSON, for CSV has none; bytes in base64."""
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
    """Write a small file, replacing what was there; where it lies now."""
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
    """Write pages by the names of their files, the first one last, because it has links to the others. Further pages
    of an earlier time, when there were more groups, go. Where the first page lies.
    """
    first, *others = pages
    for name in (*others, first):
        write(f"{out}/{name}", pages[name])
    stem = first.removesuffix(".html")
    for name in _names(spark, out):
        if re.fullmatch(re.escape(stem) + r"-\d+\.html", name) and name not in pages:
            remove(spark, f"{out}/{name}")
    path = f"{out}/{first}"
    return plain(path) if is_local(spark, path) else path


def _names(spark: SparkSession, folder: str) -> list[str]:
    """The names in a folder."""
    system, where = file_system(spark, folder)
    return [str(one.getPath().getName()) for one in system.listStatus(where)]


def remove(spark: SparkSession, path: str) -> None:
    """Remove a file, or a folder and all in it; harmless when it is not there."""
    if is_local(spark, path):
        local = Path(plain(path))
        if local.is_file():
            local.unlink(missing_ok=True)
        else:
            shutil.rmtree(local, ignore_errors=True)
        return
    system, where = file_system(spark, path)
    system.delete(where, True)


def plain(path: str) -> str:
    """A path of this machine, given as a URL or not, as Python takes it."""
    return path.removeprefix("file://") if path.startswith("file://") else path.removeprefix("file:")


def file_system(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Hadoop's file system of a path, and the path as Hadoop has it."""
    jvm: Any = spark.sparkContext._jvm
    where = jvm.org.apache.hadoop.fs.Path(path)
    return where.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()), where
