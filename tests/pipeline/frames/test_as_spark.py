"""The DataFrames of this process give what Spark gives."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from muster.pipeline.frames import DataFrame, F, Window, frame_of, from_arrow_schema, in_this_process
from muster.pipeline.frames.sql_text import parsed
from muster.pipeline.frames.types import fields_of, name_of, of_json, type_of
from muster.pipeline.schema import columns, structs
from muster.pipeline.tables.schema import TABLES

SCHEMA = pa.schema(
    columns(
        "g string, n int, m long, x double, t string, yes boolean, some shares, words strings, data binary",
        shares=structs("topic string, count int"),
    )
)
ROWS: list[dict[str, Any]] = [
    {"g": "a", "n": 1, "m": 10, "x": 1.5, "t": '{"kind":"k","n":7,"in":{"x":[1]}}', "yes": True,
     "some": [{"topic": "t", "count": 2}, {"topic": "s", "count": None}], "words": ["b", "a", "b"],
     "data": b"\x00\xff"},
    {"g": "a", "n": 2, "m": 10, "x": -0.5, "t": "no JSON", "yes": None, "some": [], "words": ["c", None], "data": b""},
    {"g": "b", "n": None, "m": 5, "x": 2.5, "t": None, "yes": False, "some": None, "words": None, "data": None},
    {"g": "b", "n": -3, "m": None, "x": None, "t": "12", "yes": True, "some": [{"topic": "t", "count": 1}],
     "words": []},
    {"g": None, "n": 4, "m": 7, "x": 0.0, "t": "[1]", "yes": None, "some": [], "words": ["a"], "data": b"abc"},
]  # fmt: skip
OTHER = [{"g": "a", "k": 1, "v": "one"}, {"g": "a", "k": 9, "v": "two"}, {"g": "c", "k": 4, "v": None}]
OTHER_SCHEMA = pa.schema(columns("g string, k int, v string"))

Make = Callable[[DataFrame, DataFrame], DataFrame]


def plain(value: Any) -> Any:
    if hasattr(value, "asDict"):
        return plain(value.asDict())
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    return round(value, 9) if isinstance(value, float) and math.isfinite(value) else value


def rows_of(rows: DataFrame) -> list[str]:
    names = rows.columns
    return sorted(json.dumps(plain(dict(zip(names, row, strict=True))), sort_keys=True) for row in rows.collect())


def both(spark: SparkSession, make: Make) -> tuple[list[str], list[str]]:
    """The rows that Spark makes, and those of this process."""
    table, other = pa.Table.from_pylist(ROWS, SCHEMA), pa.Table.from_pylist(OTHER, OTHER_SCHEMA)
    theirs = (spark.createDataFrame(one).coalesce(1) for one in (table, other))
    of_spark = rows_of(make(*theirs))
    with in_this_process():
        return of_spark, rows_of(make(frame_of(table), frame_of(other)))


def values(rows: DataFrame, _: DataFrame) -> DataFrame:
    """Expressions over single rows."""
    count = F.when(F.size("some") > 0, F.col("some")[0]["count"])
    found = [
        F.coalesce("n", F.lit(0)), F.coalesce("m", "n"), F.greatest("n", "m"), F.least("n", F.lit(2)), -F.col("m"),
        F.col("n") + 1, 1 - F.col("n"), F.col("n") * F.col("m"), F.col("m") / F.col("n"), F.floor(F.col("x") * 3),
        F.ceil("x"), F.abs("n"), F.round("x", 0), F.pmod("n", F.lit(3)), F.col("x").cast("int"),
        F.col("n").cast("string"),
        F.col("yes").cast("int"), F.col("yes").cast("string"), F.col("data").cast("string"), F.col("t").try_cast("int"),
        F.when(F.col("n") > 1, "many").when(F.col("n") == 1, "one"), F.when(F.col("yes"), F.col("n")).otherwise(0),
        F.col("yes") & (F.col("n") > 1), F.col("yes") | (F.col("n") > 1), ~F.col("yes"), F.col("n").isin(1, 4),
        F.col("n").eqNullSafe(F.col("m")), F.col("n") != 1, F.col("n").between(1, 2), F.col("n").isNull(),
        F.col("g").rlike("^(?:a.*)$"), F.concat(F.lit("x "), "g"), F.concat_ws("@", "g", "t"), F.length("t"),
        F.hex("data"), F.base64("data"), F.size("some"), F.size("words"), count, F.flatten(F.array("words", "words")),
        F.array_distinct("words"), F.array_sort("words"), F.exists("some", lambda one: one["count"] > 1),
        F.filter("words", lambda one: one != "a"), F.transform("some", lambda one: F.struct(one.topic.alias("t"))),
        F.transform("words", lambda one: F.concat(one, F.col("g"))),
        F.transform("some", lambda one: F.size(F.transform(F.col("words"), lambda word: F.concat(word, one.topic)))),
        F.aggregate("some", F.lit(0), lambda total, one: total + F.coalesce(one["count"], F.lit(5))),
        F.struct("g", -F.col("n"), F.col("x").alias("x2")), F.to_json(F.struct("g", "n", "some", "data")),
        F.to_json(F.struct("g", "n"), {"ignoreNullFields": "false"}), F.get_json_object("t", "$.kind"),
        F.get_json_object("t", "$.in.x"), F.from_json("t", "kind string, n bigint, `in` struct<x: array<int>>"),
        F.try_parse_json("t").isNull(), F.create_map(F.lit("a"), F.lit(1), F.lit("b"), F.lit(2))[F.col("g")],
        F.map_from_entries(F.transform("some", lambda one: F.struct(one.topic, F.struct(one["count"]))))[F.lit("t")],
        F.expr("not yes or n is not null and m >= 7"), F.expr("try_cast(substring(data, 2) as string)"),
        F.expr("slice(words, 2, size(words))"), F.expr("n = 1 and t != 'x'"),
    ]  # fmt: skip
    return rows.select(*(one.alias(f"e{at}") for at, one in enumerate(found)))


def windows(rows: DataFrame, _: DataFrame) -> DataFrame:
    of_group = Window.partitionBy("g")
    in_order = of_group.orderBy("m", F.col("n").asc_nulls_last())
    near = of_group.orderBy("m").rangeBetween(-4, 4)
    return rows.where("m is not null").select(
        "*",
        F.row_number().over(in_order).alias("at"),
        F.lag("n").over(in_order).alias("before"),
        F.lead("x", 1).over(in_order).alias("after"),
        F.count("*").over(of_group).alias("all"),
        F.sum("x").over(of_group.orderBy(F.col("m").desc())).alias("so_far"),
        F.max("n").over(of_group).alias("most"),
        F.count_if(F.col("yes")).over(near).alias("near"),
    )


def groups(rows: DataFrame, _: DataFrame) -> DataFrame:
    return rows.groupBy("g", (F.col("n") > 0).alias("some_n")).agg(
        F.count("*").alias("rows"), F.count("n").alias("known"), F.sum("m").alias("sum"), F.max("x").alias("max"),
        F.min(F.struct("m", "n")).alias("least"), F.max_by("t", "x").alias("by"), F.bool_or("yes").alias("any"),
        F.count_distinct("m").alias("different"), F.percentile("x", 0.5).alias("median"), F.try_sum("n").alias("try"),
        F.first("t", ignorenulls=True).alias("first"), F.array_sort(F.collect_list("n")).alias("list"),
        F.coalesce(F.sum(F.when(F.col("yes"), F.col("n"))), F.lit(0)).alias("composed"),
    )  # fmt: skip


def nothing_left(rows: DataFrame, _: DataFrame) -> DataFrame:
    return rows.where("n > 99").agg(F.max("n").alias("most"), F.count("*").alias("rows"))


def exploded(rows: DataFrame, _: DataFrame) -> DataFrame:
    each = rows.select("g", "n", F.posexplode("some").alias("at", "one"))
    return each.select("g", "at", "one.*", F.col("n").alias("n2")).distinct()


def joined(rows: DataFrame, other: DataFrame) -> DataFrame:
    left = rows.select("g", "n").join(other, "g", "left")
    full = rows.select("g", "n").join(other, ["g"], "full")
    return left.unionByName(full.select("g", "n", "k", "v")).fillna(0, ["k"])


def matched(rows: DataFrame, other: DataFrame) -> DataFrame:
    small = rows.select("g", "n", "m")
    same = small["g"].eqNullSafe(other["g"]) & (F.abs(small["n"] - other["k"]) <= 1)
    both_sides = small.join(other, same, "left").select(small["g"], "n", "k", other["v"])
    anti = small.join(other, small["g"] == other["g"], "left_anti").select("g", "n")
    semi = small.join(other.select("g"), "g", "left_semi").select("g", "n")
    found = both_sides.unionByName(anti, allowMissingColumns=True).unionByName(semi, allowMissingColumns=True)
    named = small.alias("one").join(other.alias("two"), ["g"], "inner").select("g", F.col("two.v").alias("v"), "one.n")
    return found.unionByName(named, allowMissingColumns=True).crossJoin(
        F.broadcast(other.agg(F.max("k").alias("most")))
    )


def in_arrow(rows: DataFrame, _: DataFrame) -> DataFrame:
    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pylist([{"k": batch.num_rows, "v": batch.schema.names[0]}], schema)

    def largest(table: pa.Table) -> pa.Table:
        return pa.Table.from_pylist([{"k": table.num_rows, "v": table.column("g")[0].as_py()}], schema)

    schema = pa.schema(columns("k int, v string"))
    made = rows.withColumns({"n": F.lit(None).cast("long"), "more": F.lit("x")}).drop("x").orderBy("g")
    of_groups = made.groupBy("g").applyInArrow(largest, from_arrow_schema(schema))
    return made.limit(2).mapInArrow(counted, from_arrow_schema(schema)).unionAll(of_groups)


@pytest.mark.parametrize(
    "make", [values, windows, groups, nothing_left, exploded, joined, matched, in_arrow], ids=lambda make: make.__name__
)
def test_the_rows_are_those_of_spark(spark: SparkSession, make: Make) -> None:
    of_spark, here = both(spark, make)
    assert here == of_spark
    assert here


def test_names_of_types_are_those_of_spark() -> None:
    for schema in TABLES.values():
        fields = from_arrow_schema(schema).fields
        assert [name_of(one.type) for one in schema] == [one.dataType.simpleString() for one in fields]
        assert [type_of(name_of(one.type)) for one in schema] == schema.types
    assert fields_of("a bigint, `in` struct<x: int>") == pa.struct(
        [("a", pa.int64()), ("in", pa.struct([("x", pa.int32())]))]
    )
    counts = pa.map_(pa.string(), pa.int32())
    assert (name_of(counts), type_of("map<string,int>")) == ("map<string,int>", counts)


def test_json_of_another_form_is_null() -> None:
    kind = fields_of("s string, n int, x double, b boolean, l array<int>, m map<string, int>, t struct<a: int>")
    names = [one.name for one in kind]
    assert of_json(dict.fromkeys(names, object()), kind) == dict.fromkeys(names)
    good = {"s": "a", "n": 1, "x": 2, "b": True, "l": [1, "x"], "m": {"a": 1}, "t": {}}
    assert of_json(good, kind) == {**good, "x": 2.0, "l": [1, None], "t": {"a": None}}


def test_what_cannot_be_computed_is_an_error() -> None:
    with in_this_process():
        rows = frame_of(pa.Table.from_pylist(OTHER, OTHER_SCHEMA))
        for make, error in (
            (lambda: rows.select("none"), KeyError),
            (lambda: rows.select(F.max("k")), TypeError),
            (lambda: rows.select(F.row_number()), TypeError),
            (lambda: rows.groupBy("g").agg(F.col("k")), KeyError),
            (lambda: rows.unionByName(rows.drop("k")), ValueError),
            (lambda: rows.join(rows, []), ValueError),
            (lambda: rows.crossJoin(rows.alias("two").select(F.col("k").alias("g"))).select("g"), KeyError),
            (lambda: rows.nothing_of_this_name, StopIteration),
            (lambda: rows.first().nothing, AttributeError),
        ):
            with pytest.raises(error):
                make()
        assert rows.where(F.col("k") > 99).first() is None
    with pytest.raises(ValueError, match="cannot be read from 'b' on"):
        parsed("a b")
