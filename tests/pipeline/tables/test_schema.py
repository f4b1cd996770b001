from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from muster.pipeline.tables.schema import EVENTS, TABLES, conform

DOCS = Path(__file__).parents[3] / "docs"


def test_every_table_begins_with_the_group() -> None:
    first = {name: schema.names[0] for name, schema in TABLES.items()}
    assert first.pop("transactions") == "transactional_id"
    assert first.pop("silences") == "from_ms"  # a silence is one of all groups
    assert set(first.values()) == {"group"}


def test_names_of_columns_end_with_units() -> None:
    for name, schema in {**TABLES, "events": EVENTS}.items():
        for field in schema:
            if field.name.endswith("_ms"):
                assert str(field.type) in ("int64", "double"), (name, field.name)


def test_rows_are_brought_into_the_columns_and_types_of_a_table(spark: SparkSession) -> None:
    names = TABLES["moves"].names
    rows = spark.sql("select " + ", ".join(f"'7' as {name}" for name in reversed(names)))
    assert conform(rows, "moves").columns == names
    assert dict(conform(rows, "moves").dtypes)["time_ms"] == "bigint"


def test_an_unknown_table_raises_key_error(spark: SparkSession) -> None:
    with pytest.raises(KeyError):
        conform(spark.range(1), "moods")


def test_every_column_is_explained() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in DOCS.glob("pipeline-*.md"))
    known = set(re.findall(r"`(\w+)`", text))
    by_prefix = ("trigger_", "from_", "to_", "actual_")
    columns = {name for schema in TABLES.values() for name in schema.names if not name.startswith(by_prefix)}
    assert columns - known == set()
