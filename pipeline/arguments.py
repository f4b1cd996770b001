"""The options of an analysis, and of `--follow`. This module does not import Spark, so `--help` works without Spark."""

from __future__ import annotations

import argparse
import datetime
import os
import re
from pathlib import Path
from typing import Final, NamedTuple

HTML: Final = "html"
PARQUET: Final = "parquet"
CSV: Final = "csv"
JSON: Final = "json"
DELTA: Final = "delta"
FORMATS: Final = (HTML, PARQUET, CSV, JSON)
"""The formats that an analysis writes. An analysis only reads tables of Delta; a follower (`--follow`) writes them."""


KEEP_ALL: Final = "all"
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_OWN: Final = {"trigger": None, "once": False, "keep": None, "page_every": None, "table_format": None}
"""The options that need --follow, with their default values."""


class Follow(NamedTuple):
    """The checked options of `--follow`."""

    trigger_ms: int
    once: bool
    keep_ms: int | None
    """For how long the log is kept; None means for ever."""
    page_every: int
    table_format: str


def add_follow_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `--follow` to a parser."""
    group = parser.add_argument_group("following a live cluster")
    group.add_argument("--follow", action="store_true", help="keep tables and page up to date until it is ended")
    group.add_argument("--trigger", metavar="TIME", help="how often new records are read (default: 10s)")
    group.add_argument("--once", action="store_true", help="continue from the last run up to now, and end")
    group.add_argument("--keep", metavar="TIME", help="for how long the log is kept: 36h, 7d, all (default: 7d)")
    group.add_argument(
        "--page-every", type=int, metavar="N", help="a new page with every Nth version of the tables (default: 6)"
    )
    group.add_argument("--table-format", choices=(PARQUET, DELTA), help="of the tables (default: parquet)")


def read_follow_options(options: argparse.Namespace) -> Follow | None:
    """Check the options; the result is None without --follow. Raises ValueError with a sentence for the user."""
    if not options.follow:
        for name, default in _OWN.items():
            if getattr(options, name) != default:
                raise ValueError(f"--{name.replace('_', '-')} goes with --follow: give that, or leave it out")
        return None
    _check_follow_source(options)
    odd = [name for name in options.format.split(",") if name.strip().lower() not in (HTML, PARQUET)]
    if odd:
        raise ValueError(
            f"--format {options.format}: --follow writes html and parquet; analyze the folder that it wrote for others"
        )
    page_every = 6 if options.page_every is None else options.page_every
    if page_every < 1:
        raise ValueError(f"--page-every {page_every}: expected 1 or more")
    return Follow(
        _milliseconds("--trigger", options.trigger or "10s"),
        options.once,
        None if options.keep == KEEP_ALL else _milliseconds("--keep", options.keep or "7d"),
        page_every if HTML in options.format else 0,
        options.table_format or PARQUET,
    )


def _check_follow_source(options: argparse.Namespace) -> None:
    if options.bootstrap_server is None:
        raise ValueError(f"--follow {options.source}: a live cluster is followed: give --bootstrap-server HOST:PORT")
    if options.until is not None:
        raise ValueError(f"--follow has no end: leave --until {options.until} out")
    if options.what_if not in ("default", "none"):
        raise ValueError(
            f"--what-if {options.what_if}: --follow shows only what happened; leave --what-if to an analysis"
        )


def _milliseconds(option: str, text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,9})(ms|s|m|h|d)", text)
    if match is None or int(match[1]) == 0:
        raise ValueError(f"{option} {text}: a time such as 500ms, 10s, 36h or 7d was expected")
    return int(match[1]) * _UNITS_MS[match[2]]


OUT: Final = "muster-report"
DEFAULT: Final = "default"
NONE: Final = "none"
_FIRST_YEAR: Final = 1971
"""No record was logged before this year, in any time zone."""
BOOTSTRAP: Final = "bootstrap.servers"

EXAMPLES: Final = """\
examples:
  muster analyze muster-data                                a data directory of Muster, or of Kafka
  muster analyze /copies/of/offsets --out report            folders __consumer_offsets-N copied from any broker
  muster analyze --bootstrap-server broker.example:9092     a live cluster, Muster's or Kafka's
  muster analyze --bootstrap-server broker.example:9093 -X kafka.security.protocol=SASL_SSL \\
      -X kafka.sasl.mechanism=PLAIN -X kafka.sasl.username=me -X kafka.sasl.password=...
  muster analyze s3://bucket/raw-offsets --format parquet,json
  muster analyze muster-data --group 'payments*' --since 2026-01-31T08:00 --until 2026-01-31T12:00
  muster analyze muster-data --what-if static,session.timeout.ms=45000
  muster analyze muster-data --compare 2026-01-31T12:00      before and after that time
  muster analyze muster-data --compare report-of-last-week   with the tables of an earlier analysis
  muster analyze --bootstrap-server broker.example:9092 --follow --trigger 10s
"""


class BadArgument(ValueError):
    """A wrong value on the command line. The message names the value, what was expected and what to do."""


class Arguments(NamedTuple):
    """The checked arguments."""

    path: str | None
    kafka: dict[str, str]
    """The options of the Kafka client, with `bootstrap.servers`; empty if the source is a path."""
    out: str
    formats: tuple[str, ...]
    master: str | None
    """The URL of Spark's master; None means the master that spark-submit chose."""
    what_if: str
    """DEFAULT, NONE, or the settings of the what-if as text."""
    since_ms: int | None
    until_ms: int | None
    groups: tuple[str, ...]
    verbose: bool
    compare: str | int | None = None
    """The folder of an earlier analysis, or a time (ms) that divides this one; None means no comparison."""
    follow: Follow | None = None
    """The options of `--follow`; None means that the log is analysed once, as it is now."""
    may_skip_spark: bool = False
    """Whether a small log may be analysed without Spark: nobody has named a master."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of an analysis to a parser."""
    parser.add_argument(
        "source",
        nargs="?",
        metavar="SOURCE",
        help="a data directory (or a folder with those of a cluster's brokers), copied segments, or a table of raw "
        "Kafka rows in Parquet or Delta; a path or a URL",
    )
    parser.add_argument(
        "--bootstrap-server", metavar="HOST:PORT[,…]", help="read a live cluster instead: some of its servers"
    )
    parser.add_argument(
        "-X",
        action="append",
        default=[],
        dest="client",
        metavar="kafka.NAME=VALUE",
        help="an option of the client, by librdkafka's name (security.protocol, sasl.username, …); repeatable",
    )
    parser.add_argument(
        "--out", default=OUT, metavar="DIR", help="the folder for tables and page (default: %(default)s)"
    )
    parser.add_argument(
        "--format", default="html,parquet", metavar="LIST", help=f"some of {','.join(FORMATS)} (default: %(default)s)"
    )
    parser.add_argument("--since", metavar="TIME", help="only what was logged from then on: 2026-01-31T08:00 (UTC)")
    parser.add_argument("--until", metavar="TIME", help="only what was logged before")
    parser.add_argument(
        "--group", action="append", default=[], metavar="PATTERN", help="only these groups, as 'payments*'; repeatable"
    )
    parser.add_argument(
        "--what-if",
        default=DEFAULT,
        metavar="SETTINGS",
        help="what would have happened under other settings: default, none, a JSON file, or as "
        "static,session.timeout.ms=45000 (default: %(default)s)",
    )
    parser.add_argument(
        "--compare",
        metavar="DIR|TIME",
        help="each group before and after: with the --out of an earlier analysis, or before and after a time",
    )
    parser.add_argument(
        "--master",
        metavar="URL",
        help="of a Spark cluster, or local[*]: use Spark for a small log too (default: this machine)",
    )
    parser.add_argument("--verbose", action="store_true", help="print the traceback of a failure")
    add_follow_options(parser)


def read(options: argparse.Namespace) -> Arguments:
    """Check the arguments. Raises BadArgument."""
    _check_source(options)
    kafka = _client(options)
    formats = tuple(name.strip().lower() for name in options.format.split(","))
    for name in formats:
        if name not in FORMATS:
            raise BadArgument(f"--format {options.format}: {name!r} is none of {', '.join(FORMATS)}")
    since_ms, until_ms = _times(options)
    if any(not pattern for pattern in options.group):
        raise BadArgument("--group '': the name of a group, or a pattern such as 'payments*', was expected")
    # the import is here because `muster serve` has these options in its help too, and need not load Spark's checks
    from muster.pipeline import preflight

    try:
        preflight.check_names(options.bootstrap_server, options.master, options.out)
        follow = read_follow_options(options)
    except ValueError as error:
        raise BadArgument(str(error)) from None
    # spark-submit has already started the JVM, with its own master
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    master = options.master or (None if submitted else "local[*]")
    groups = tuple(options.group)
    return Arguments(
        options.source, kafka, options.out, formats, master, _what_if(options.what_if), since_ms, until_ms, groups,
        options.verbose, _compare(options, since_ms, until_ms), follow, options.master is None and not submitted,
    )  # fmt: skip


def _check_source(options: argparse.Namespace) -> None:
    if (options.source is None) == (options.bootstrap_server is None):
        both = "both were given" if options.source is not None else "neither was given"
        raise BadArgument(f"a SOURCE or --bootstrap-server HOST:PORT was expected, one of them; {both}")
    if options.source is not None and not options.source.strip():
        raise BadArgument(f"SOURCE '{options.source}': a data directory, copied segments or a table was expected")


def _times(options: argparse.Namespace) -> tuple[int | None, int | None]:
    since_ms, until_ms = _time("--since", options.since), _time("--until", options.until)
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        raise BadArgument(f"--until {options.until} is not after --since {options.since}: nothing lies between")
    return since_ms, until_ms


def _compare(options: argparse.Namespace, since_ms: int | None, until_ms: int | None) -> str | int | None:
    given = options.compare
    if given is None:
        return None
    if options.follow:
        raise BadArgument("--compare is for an analysis that ends: leave it out, or --follow")
    if _is_url(given):
        if given.rstrip("/") == options.out.rstrip("/"):
            raise BadArgument(_REPLACED)
        return str(given).rstrip("/")
    if Path(given).is_dir():
        return _earlier(given, options.out)
    try:
        at_ms = _time("--compare", given)
    except BadArgument:
        raise BadArgument(
            f"--compare {given}: it is neither a folder, the --out of an earlier analysis, nor a time such as "
            "2026-01-31T12:00 (UTC)"
        ) from None
    assert at_ms is not None  # the option --compare was given
    if (since_ms is not None and at_ms <= since_ms) or (until_ms is not None and at_ms >= until_ms):
        raise BadArgument(f"--compare {given}: a time between --since and --until was expected")
    return at_ms


_REPLACED: Final = "--compare and --out are the same folder, whose tables are replaced: give another --out"


def _earlier(folder: str, out: str) -> str:
    if Path(folder).resolve() == Path(out).resolve():
        raise BadArgument(_REPLACED)
    found = Path(folder) / "tables" / "episodes"
    if not found.is_dir() or (found / "_delta_log").exists():
        raise BadArgument(
            f"--compare {folder}: the --out of an earlier analysis, with its tables in Parquet, was expected"
        )
    return folder.rstrip("/")


def _is_url(text: str) -> bool:
    return "://" in text


def _client(options: argparse.Namespace) -> dict[str, str]:
    kafka = {}
    if options.bootstrap_server is not None:
        kafka[BOOTSTRAP] = options.bootstrap_server
    for given in options.client:
        name, equals, value = given.partition("=")
        if not equals or not name.startswith("kafka.") or name == "kafka.":
            raise BadArgument(f"-X {given}: kafka.NAME=VALUE was expected, as in kafka.security.protocol=SSL")
        if options.bootstrap_server is None:
            raise BadArgument(f"-X {given} is for a live cluster: give --bootstrap-server, or leave it out")
        kafka[name.removeprefix("kafka.")] = value
    return kafka


def _time(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        moment = datetime.datetime.fromisoformat(text)
        if moment.year < _FIRST_YEAR:
            raise ValueError(text)
    except ValueError:
        raise BadArgument(f"{option} {text}: a time such as 2026-01-31T08:00 (UTC) was expected") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return round(moment.timestamp() * 1000)


def _what_if(text: str) -> str:
    """The settings of the what-if: the option's text, or the text of the file that it names."""
    if text in (DEFAULT, NONE):
        return text
    file = Path(text)
    try:
        if file.is_file():
            return file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise BadArgument(f"--what-if {text} cannot be read: {error}") from error
    if file.suffix == ".json":
        raise BadArgument(f"--what-if {text}: there is no such file; give its path, default, none or settings")
    return text


ABOUT: Final = (
    "Read a group log and report what the groups did: which rebalanced, when, why, because of whom, at what "
    "cost; who owned what; which commits went backwards or stopped; how far behind each group is; and what would have "
    "happened under other settings. Writes tables and a page into --out. A data directory with less than 128 MiB about "
    "groups is read in this process. All else needs muster-kafka[spark]."
)
