"""What an analysis is compared with: the tables of an earlier one, or a time that parts this one."""

from __future__ import annotations

from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it
from pyspark.sql.pandas.types import from_arrow_schema

from muster.pipeline.arguments import BadArgument
from muster.pipeline.facts.comparison import Side, split
from muster.pipeline.facts.schema import TABLES
from muster.pipeline.wording import moment

_NEEDED: Final = ("episodes", "verdicts")


def earlier(spark: SparkSession, folder: str) -> Side:
    """The tables that an earlier analysis left in its `--out`. Raises BadArgument."""
    try:
        episodes, verdicts = (
            spark.read.schema(from_arrow_schema(TABLES[name])).parquet(f"{folder}/tables/{name}") for name in _NEEDED
        )
    except AnalysisException as error:
        raise BadArgument(
            f"--compare {folder}: the --out of an earlier analysis, with its tables in Parquet, was expected"
        ) from error
    return Side(episodes, verdicts)


def check_time(at_ms: int, decoded: DataFrame) -> None:
    """There must be something on both sides of a time. Raises BadArgument."""
    found = decoded.agg(F.min("log_timestamp_ms"), F.max("log_timestamp_ms")).first()
    if found is None or found[0] is None:
        return  # whoever reads an empty log is told so elsewhere
    first_ms, last_ms = int(found[0]), int(found[1])
    if not first_ms < at_ms <= last_ms:
        raise BadArgument(
            f"--compare {moment(at_ms)} (UTC): a time between {moment(first_ms)} and {moment(last_ms)} was expected, "
            "which is what the log tells of"
        )


def sides(tables: dict[str, DataFrame], compare: Side | int) -> tuple[Side, Side]:
    """Before and after."""
    if isinstance(compare, int):
        return split(tables, compare)
    return compare, Side(tables["episodes"], tables["verdicts"])


def overlap_ms(before: Side, after: Side) -> int:
    """For how long both tell of the same time."""
    one, other = _span(before), _span(after)
    if one is None or other is None:
        return 0
    return max(0, min(one[1], other[1]) - max(one[0], other[0]))


def _span(side: Side) -> tuple[int, int] | None:
    found = side.seen.agg(F.min("first_ms"), F.max("last_ms")).first()
    return None if found is None or found[0] is None else (int(found[0]), int(found[1]))
