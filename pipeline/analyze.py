"""A whole analysis, from the source to the page.

`run` is for programs, `main` for the command line and spark-submit (`submit.py`). A small log is analysed in this
process (`here`), any other on Spark (`on_spark`).
"""

from __future__ import annotations

import argparse
import shutil
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from muster.pipeline import arguments as args
from muster.pipeline.arguments import HTML, PARQUET
from muster.pipeline.engine import Engine
from muster.pipeline.follow.manifest import NotOurs
from muster.pipeline.frames import DataFrame
from muster.pipeline.here import SMALL_BYTES, Here
from muster.pipeline.preflight import NoDelta, NoJava, NotUsable, SparkFailed, check_out, is_here
from muster.pipeline.progress import Progress
from muster.pipeline.report.content import About, Chosen
from muster.pipeline.report.page import pages
from muster.pipeline.report.select import select
from muster.pipeline.report.summary import WIDTH, text
from muster.pipeline.sources.cluster import ClusterError
from muster.pipeline.sources.options import BadOption
from muster.pipeline.sources.segment_files import NoSource
from muster.pipeline.sources.source import Source, bytes_of, check
from muster.pipeline.staged import Staged
from muster.pipeline.tables.build import build, unusable
from muster.pipeline.tables.comparison import NEEDED, Side, check_time, comparison, overlap_ms, sides
from muster.pipeline.tables.schema import TABLES
from muster.pipeline.wanted import ALL, Wanted
from muster.pipeline.whatif.job import what_if
from muster.pipeline.whatif.settings import DEFAULT_GRID, BadSetting, Setting, parse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    spark: SparkSession | None,
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

    `spark`: None for a small data directory, whose tables this process makes. `settings`: the settings of the what-if.
    None means the default grid, and an empty list means no what-if. `compare`: the folder of an earlier analysis, or a
    time (ms) that divides this one. Raises NotUsable (`out`), NoSource, ClusterError, BadArgument (`compare`),
    BadOption, ValueError (no Kafka rows), and Spark's own errors.
    """
    steps = progress if progress is not None else Progress(0, on=False)
    engine = _engine(spark)
    with engine.running():
        engine.check_place(out)
        try:
            return _Run(engine, source, out, formats, steps).run(wanted, settings, compare)
        except BaseException:
            engine.remove(_stage_of(out))
            raise
        finally:
            steps.end()


def _engine(spark: SparkSession | None) -> Engine:
    if spark is None:
        return Here()
    from muster.pipeline.on_spark import OnSpark

    return OnSpark(spark)


def _stage_of(out: str) -> str:
    return f"{out.rstrip('/')}/{STAGE}"


class _Run:
    """One analysis while it runs."""

    def __init__(self, engine: Engine, source: Source, out: str, formats: Sequence[str], progress: Progress) -> None:
        self._engine = engine
        self._source = source
        self._out = out.rstrip("/")
        self._formats = formats
        self._progress = progress
        self._stage = _stage_of(out)
        # the page reads the tables, so they are always written as Parquet, if only for this run
        self._kept = f"{self._out}/tables" if PARQUET in formats else f"{self._stage}/tables"
        self._tables: dict[str, DataFrame] = {}

    def run(self, wanted: Wanted, settings: Sequence[Setting] | None, compare: str | int | None) -> Analysis:
        engine = self._engine
        self._progress.steps = len(TABLES) + 3
        # this comes before the work, so that a wrong argument is reported at once
        against = Side(*engine.earlier(compare, NEEDED)) if isinstance(compare, str) else compare
        self._progress.begin(f"reading {self._source.name()}")
        staged = engine.stage(self._source, self._stage, wanted)
        if isinstance(against, int):
            check_time(against, staged.inputs.decoded)
        facts = build(staged.inputs) | unusable(
            staged.inputs.decoded, staged.malformed_events, staged.inputs.transactions, staged.inputs.shares
        )
        with engine.making_facts():
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
        chosen = select(engine.kept({name: [self._folder(name)] for name in self._tables}), about)
        page = engine.write_pages(self._out, pages(chosen)) if HTML in self._formats else None
        engine.forget()
        if PARQUET in self._formats:
            engine.remove(self._stage)
        return Analysis(about, self._tables, chosen, page)

    def _keep(self, name: str, rows: DataFrame) -> None:
        """Write a table, and keep its rows as they are read from its files."""
        self._progress.begin(f"table {name}")
        texts = [one for one in self._formats if one not in (PARQUET, HTML)]
        beside = f"{self._out}/tables/{name}"
        self._tables[name] = self._engine.write(rows, name, self._folder(name), beside, texts)

    def _folder(self, name: str) -> str:
        return f"{self._kept}/{name}"

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
    except SparkFailed as error:
        hint = "" if asked.verbose else " (--verbose says more)"
        return _fail(prog, f"Spark failed: {error}{hint}", 1, verbose=asked.verbose)


def _analyze(asked: args.Arguments, settings: Sequence[Setting] | None) -> int:
    check_out(asked.out)
    if asked.follow is not None:
        from muster.pipeline.follow.command import follow
        from muster.pipeline.on_spark import spark_errors

        with spark_errors():
            return follow(asked, asked.follow)
    source = Source(path=asked.path, kafka=asked.kafka or None)
    check(source)
    progress = Progress(1)
    if is_small(asked, source):
        return _report(asked, settings, None, source, progress)
    from muster.pipeline.on_spark import session

    progress.begin("starting Spark")
    with session(asked, source) as spark:
        return _report(asked, settings, spark, source, progress)


def is_small(asked: args.Arguments, source: Source) -> bool:
    """Whether the log is analysed in this process, without Spark: a small data directory, and no master is named."""
    size = bytes_of(source)
    return asked.may_skip_spark and is_here(asked.out) and size is not None and size < SMALL_BYTES


def _report(
    asked: args.Arguments,
    settings: Sequence[Setting] | None,
    spark: SparkSession | None,
    source: Source,
    progress: Progress,
) -> int:
    """Run the analysis, and print its result."""
    wanted = Wanted(asked.since_ms, asked.until_ms, asked.groups)
    analysis = run(
        spark, source, asked.out, formats=asked.formats, wanted=wanted, settings=settings, progress=progress,
        compare=asked.compare,
    )  # fmt: skip
    print(summary(analysis, shutil.get_terminal_size((WIDTH + 1, 24)).columns - 1))
    # without Parquet among the formats, the tables were in this folder until now
    _engine(spark).remove(_stage_of(asked.out))
    if analysis.page is not None:
        print(f"page: {analysis.page}")
    if set(asked.formats) - {HTML}:
        print(f"tables: {asked.out.rstrip('/')}/tables")
    return 0


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
