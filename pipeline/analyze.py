"""A whole analysis, from the source to the page.

`run` is for programs, `main` for the command line and spark-submit (`submit.py`).
"""

from __future__ import annotations

import argparse
import shutil
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Final, NamedTuple

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from muster.pipeline import arguments as args
from muster.pipeline.arguments import DELTA, HTML, PARQUET
from muster.pipeline.follow.command import follow
from muster.pipeline.follow.manifest import NotOurs
from muster.pipeline.frames.spark import planned_once
from muster.pipeline.kept import kept
from muster.pipeline.output import (
    EXTENSION,
    LARGE,
    NoDelta,
    check_place,
    reason,
    remove,
    write_pages,
    write_table,
    write_text,
)
from muster.pipeline.preflight import NotUsable, check_master, check_out
from muster.pipeline.progress import Progress, quiet
from muster.pipeline.published import published
from muster.pipeline.report.content import About, Chosen
from muster.pipeline.report.page import pages
from muster.pipeline.report.select import select
from muster.pipeline.report.summary import WIDTH, text
from muster.pipeline.safe_path import worker_settings
from muster.pipeline.session import UNSEEN_PLANS, open_session, settings_for, traceback_setting
from muster.pipeline.sources.cluster import ClusterError
from muster.pipeline.sources.options import BadOption
from muster.pipeline.sources.segment_files import NoSource
from muster.pipeline.spark_home import NoJava, slim_home
from muster.pipeline.stage import Source, Staged, bytes_of, check, stage, table_kind
from muster.pipeline.tables.build import build, unusable
from muster.pipeline.tables.comparison import check_time, comparison, earlier, overlap_ms, sides
from muster.pipeline.tables.schema import TABLES
from muster.pipeline.wanted import ALL, Wanted
from muster.pipeline.whatif.job import what_if
from muster.pipeline.whatif.settings import DEFAULT_GRID, BadSetting, Setting, parse

STAGE: Final = ".stage"


class Analysis(NamedTuple):
    """The result of an analysis."""

    about: About
    tables: Mapping[str, DataFrame]
    """The tables by their names, as they are written in `out`."""
    chosen: Chosen
    """The rows of the tables that the page shows."""
    page: str | None
    """The path of the first page; None if no page was requested."""


def run(
    spark: SparkSession,
    source: Source,
    out: str,
    *,
    formats: Sequence[str] = (HTML, PARQUET),
    wanted: Wanted = ALL,
    settings: Sequence[Setting] | None = None,
    progress: Progress | None = None,
    compare: str | int | None = None,
) -> Analysis:
    """Analyse a source, and write tables and page into the folder `out`, which must stay while the analysis is used.

    `settings`: the settings of the what-if. None means the default grid, and an empty list means no what-if. `compare`:
    the folder of an earlier analysis, or a time (ms) that divides this one. Raises NotUsable (`out`), NoSource,
    ClusterError, BadArgument (`compare`), BadOption, ValueError (no Kafka rows), and Spark's own errors.
    """
    steps = progress if progress is not None else Progress(0, on=False)
    check_place(spark, out)
    try:
        return _Run(spark, source, out, formats, steps).run(wanted, settings, compare)
    except BaseException:
        remove(spark, _stage_of(out))
        raise
    finally:
        steps.end()


def _stage_of(out: str) -> str:
    return f"{out.rstrip('/')}/{STAGE}"


class _Run:
    """One analysis while it runs."""

    def __init__(
        self, spark: SparkSession, source: Source, out: str, formats: Sequence[str], progress: Progress
    ) -> None:
        self._spark = spark
        self._source = source
        self._out = out.rstrip("/")
        self._formats = formats
        self._progress = progress
        self._stage = _stage_of(out)
        # the tables are read several times, so they are always written as Parquet, if only for this run
        self._kept = f"{self._out}/tables" if PARQUET in formats else f"{self._stage}/tables"
        self._tables: dict[str, DataFrame] = {}

    def run(self, wanted: Wanted, settings: Sequence[Setting] | None, compare: str | int | None) -> Analysis:
        self._progress.steps = len(TABLES) + 3
        # this comes before the work, so that a wrong argument is reported at once
        against = earlier(self._spark, compare) if isinstance(compare, str) else compare
        self._progress.begin(f"reading {self._source.name()}")
        staged = stage(self._spark, self._source, self._stage, wanted)
        if isinstance(against, int):
            check_time(against, staged.inputs.decoded)
        facts = build(staged.inputs) | unusable(
            staged.inputs.decoded, staged.malformed_events, staged.inputs.transactions, staged.inputs.shares
        )
        with planned_once(self._spark):
            for name, rows in facts.items():
                self._keep(name, rows)
        names = self._what_if(staged, settings)
        overlapping_ms = 0
        if against is not None:
            before, after = sides(self._tables, against)
            self._keep("comparison", comparison(before, after))
            overlapping_ms = 0 if isinstance(against, int) else overlap_ms(before, after)
        about = About(
            self._source.name(),
            staged.rows,
            staged.inputs.events is not None,
            staged.inputs.ends is not None,
            wanted.since_ms,
            wanted.until_ms,
            wanted.groups,
            names,
            compare,
            overlapping_ms,
        )
        self._progress.begin("page")
        folders = {name: [self._folder(name)] for name in self._tables}
        chosen = select(kept(self._spark, folders, TABLES), about)
        page = None
        if HTML in self._formats:
            page = write_pages(
                self._spark, self._out, pages(chosen), lambda path, text: write_text(self._spark, path, text)
            )
        self._spark.catalog.clearCache()
        if PARQUET in self._formats:
            remove(self._spark, self._stage)
        return Analysis(about, self._tables, chosen, page)

    def _keep(self, name: str, rows: DataFrame) -> None:
        """Write a table, and return its rows as they are read from its files."""
        self._progress.begin(f"table {name}")
        folder = self._folder(name)
        write_table(published(rows, name), folder, (PARQUET,))
        kept = self._read(name, folder)
        texts = [one for one in self._formats if one not in (PARQUET, HTML)]
        write_table(published(kept, name), f"{self._out}/tables/{name}", texts, large=name in LARGE)
        self._tables[name] = kept

    def _folder(self, name: str) -> str:
        return f"{self._kept}/{name}"

    def _read(self, name: str, folder: str) -> DataFrame:
        return self._spark.read.schema(from_arrow_schema(TABLES[name])).parquet(folder)

    def _what_if(self, staged: Staged, settings: Sequence[Setting] | None) -> tuple[str, ...]:
        asked = DEFAULT_GRID if settings is None else settings
        if not asked:
            return ()
        known = (self._tables[name] for name in ("memberships", "rebalances", "commits", "silences"))
        for name, rows in what_if(staged.inputs, asked, *known).items():
            self._keep(name, rows)
        return tuple(setting.name for setting in asked)


def summary(analysis: Analysis, width: int = WIDTH) -> str:
    """The summary for a terminal with `width` columns."""
    return text(analysis.chosen, width)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command of spark-submit and of `python -m muster.pipeline.analyze`. Returns the exit status."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="analyze", description=args.ABOUT, epilog=args.EXAMPLES, formatter_class=form)
    args.add_options(parser)
    return analyze(parser.parse_args(arguments), parser.prog)


def analyze(options: argparse.Namespace, prog: str) -> int:
    """Run an analysis and print its result.

    The exit status is 1 if it failed, 2 for wrong options, and 130 if it was interrupted.
    """
    try:
        asked = args.read(options)
        settings = _settings(asked.what_if)
    except ValueError as error:
        return _fail(prog, error, 2)
    try:
        return _analyze(asked, settings)
    except (args.BadArgument, BadOption, NotOurs, NoDelta) as error:
        return _fail(prog, error, 2, verbose=asked.verbose)
    except KeyboardInterrupt:
        return _fail(prog, "stopped", 130)
    except (NotUsable, NoSource, NoJava, ClusterError, ValueError, OSError) as error:
        return _fail(prog, error, 1, verbose=asked.verbose)
    except (PySparkException, Py4JError) as error:
        hint = "" if asked.verbose else " (--verbose says more)"
        return _fail(prog, f"Spark failed: {reason(error)}{hint}", 1, verbose=asked.verbose)


def _analyze(asked: args.Arguments, settings: Sequence[Setting] | None) -> int:
    check_out(asked.out)
    check_master(asked.master)
    if asked.follow is not None:
        return follow(asked, asked.follow)
    source = Source(path=asked.path, kafka=asked.kafka or None)
    check(source)
    progress = Progress(1)
    progress.begin("starting Spark")
    try:
        with quiet(asked.verbose):
            is_delta = asked.path is not None and table_kind(asked.path) == DELTA
            master, settings_of = settings_for(asked.master, bytes_of(source))
            is_little = master != asked.master
            settings_of |= (
                worker_settings() | traceback_setting(asked.verbose) | UNSEEN_PLANS | (EXTENSION if is_delta else {})
            )
            with slim_home() if is_little else nullcontext():
                spark = open_session(master, settings_of, knows_format=False, keeps_objects=is_little)
    finally:
        progress.end()
    try:
        wanted = Wanted(asked.since_ms, asked.until_ms, asked.groups)
        analysis = run(
            spark, source, asked.out, formats=asked.formats, wanted=wanted, settings=settings, progress=progress,
            compare=asked.compare,
        )  # fmt: skip
        print(summary(analysis, shutil.get_terminal_size((WIDTH + 1, 24)).columns - 1))
        # without Parquet among the formats, the tables were in this folder until now
        remove(spark, _stage_of(asked.out))
        if analysis.page is not None:
            print(f"page: {analysis.page}")
        if set(asked.formats) - {HTML}:
            print(f"tables: {asked.out.rstrip('/')}/tables")
        return 0
    finally:
        spark.stop()


def _settings(text: str) -> Sequence[Setting] | None:
    """The settings of the what-if; None means the default settings. Raises BadSetting."""
    if text == args.DEFAULT:
        return None
    if text == args.NONE:
        return ()
    try:
        return parse(text)
    except BadSetting as error:
        raise BadSetting(f"--what-if: {error}") from None


def _fail(prog: str, what: object, status: int, *, verbose: bool = False) -> int:
    if verbose:
        traceback.print_exc()
    print(f"{prog}: {what}", file=sys.stderr)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
