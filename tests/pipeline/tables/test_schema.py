from __future__ import annotations

import re

import pyarrow as pa
import pytest

from muster.pipeline.tables.schema import EVENTS, TABLES, conform
from tests.pipeline.engines import Engine
from tools.site.references import tables


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


def test_rows_are_brought_into_the_columns_and_types_of_a_table(engine: Engine) -> None:
    names = TABLES["moves"].names
    rows = conform(engine.frame(pa.table({name: ["7"] for name in reversed(names)})), "moves")
    assert rows.columns == names
    assert rows.toArrow().schema.field("time_ms").type == pa.int64()


def test_an_unknown_table_raises_key_error(engine: Engine) -> None:
    with pytest.raises(KeyError):
        conform(engine.frame(pa.table({"id": [1]})), "moods")


def test_every_column_is_explained() -> None:
    known = set(re.findall(r"`(\w+)`", tables.page()))
    columns = {name for schema in TABLES.values() for name in schema.names if not name.startswith("actual_")}
    assert columns - known == set()
