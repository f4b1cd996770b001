"""The engine of an analysis on Spark, and the session of `muster analyze`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from muster.pipeline.arguments import DELTA, PARQUET, Arguments
from muster.pipeline.engine import no_earlier
from muster.pipeline.frames.spark import planned_once
from muster.pipeline.kept import ParquetTable, kept
from muster.pipeline.output import EXTENSION, check_place, reason, remove, write_pages, write_table, write_text
from muster.pipeline.preflight import SparkFailed, check_master
from muster.pipeline.progress import quiet
from muster.pipeline.published import published
from muster.pipeline.safe_path import worker_settings
from muster.pipeline.session import UNSEEN_PLANS, open_session, settings_for, traceback_setting
from muster.pipeline.sources.source import Source, bytes_of, table_kind
from muster.pipeline.stage import stage
from muster.pipeline.staged import Staged
from muster.pipeline.tables.schema import LARGE, TABLES
from muster.pipeline.wanted import Wanted


class OnSpark:
    """Makes the tables on a session of Spark. See `engine.Engine`."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def running(self) -> AbstractContextManager[None]:
        return nullcontext()

    def making_facts(self) -> AbstractContextManager[None]:
        return planned_once(self._spark)

    def check_place(self, out: str) -> None:
        check_place(self._spark, out)

    def stage(self, source: Source, folder: str, wanted: Wanted) -> Staged:
        return stage(self._spark, source, folder, wanted)

    def earlier(self, folder: str, names: Sequence[str]) -> Sequence[DataFrame]:
        try:
            return [self._read(name, f"{folder}/tables/{name}") for name in names]
        except AnalysisException as error:
            raise no_earlier(folder) from error

    def write(self, rows: DataFrame, name: str, folder: str, beside: str, texts: Sequence[str]) -> DataFrame:
        write_table(published(rows, name), folder, (PARQUET,))
        found = self._read(name, folder)
        write_table(published(found, name), beside, texts, large=name in LARGE)
        return found

    def kept(self, folders: Mapping[str, Sequence[str]]) -> dict[str, ParquetTable]:
        return kept(self._spark, folders, TABLES)

    def write_pages(self, out: str, pages: Mapping[str, str]) -> str:
        return write_pages(self._spark, out, pages, lambda path, text: write_text(self._spark, path, text))

    def remove(self, path: str) -> None:
        remove(self._spark, path)

    def forget(self) -> None:
        self._spark.catalog.clearCache()

    def _read(self, name: str, folder: str) -> DataFrame:
        return self._spark.read.schema(from_arrow_schema(TABLES[name])).parquet(folder)


@contextmanager
def session(asked: Arguments, source: Source) -> Iterator[SparkSession]:
    """The session for an analysis; it ends with the block. Raises NoJava, NotUsable, and SparkFailed."""
    with spark_errors():
        check_master(asked.master)
        with quiet(asked.verbose):
            is_delta = asked.path is not None and table_kind(asked.path) == DELTA
            settings = settings_for(asked.master, bytes_of(source)) | worker_settings() | UNSEEN_PLANS
            settings |= traceback_setting(asked.verbose) | (EXTENSION if is_delta else {})
            spark = open_session(asked.master, settings, knows_format=False)
        try:
            yield spark
        finally:
            spark.stop()


@contextmanager
def spark_errors() -> Iterator[None]:
    """Errors of Spark in this block become SparkFailed, with one sentence."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise SparkFailed(reason(error)) from error
