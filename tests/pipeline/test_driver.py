"""What reaches the driver: rows that Python collects, and tables that Spark sends to every task. None of it grows with
the log; each place says what bounds it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from muster.pipeline.tables import log_times
from muster.pipeline.tables.log_times import with_sound_times
from tests.pipeline.raw import commit
from tests.pipeline.sources.logs import batch, write_segment

ROOM = Path(log_times.__file__).parents[1]
COLLECTING = {"collect", "toPandas", "toLocalIterator", "toArrow", "first", "take", "head", "tail", "foreach"}
SENDING = {"broadcast"}
WITHOUT_SPARK = ("frames", "explain", "here.py")
"""The packages and modules whose tables are rows of this process: they have no driver."""

BOUNDED = {
    ("tables/log_times.py", "_suspect", "collect"): "MAX_DAYS, and then the number of partitions of the log",
    ("tables/epoch_states.py", "topic_names", "collect"): "the number of topics",
    ("tables/commits.py", "committed_between", "collect"): "the number of partitions in the cluster",
    ("tables/rebalances.py", "_from_empty", "broadcast"): "one row",
    ("tables/episodes.py", "_groups", "broadcast"): "one row",
    ("tables/commits.py", "_walked", "broadcast"): "one row",
    ("tables/commits.py", "_same_in_all_rows", "broadcast"): "one row",
    ("tables/flapping.py", "observed", "broadcast"): "one row",
    ("tables/silences.py", "with_silences", "broadcast"): "the silences: one row, and one for each group of a part",
    ("follow/refresh.py", "_spans", "collect"): "the silences",
    ("tables/comparison.py", "comparison", "broadcast"): "one row",
    ("whatif/job.py", "what_if", "broadcast"): "one row",
    ("whatif/job.py", "_away", "broadcast"): "the silences",
    ("follow/staging.py", "merge", "toArrow"): "chunks of at most 100,000 rows, which this process merges",
    ("follow/store.py", "_write_here", "toArrow"): "the tables of at most 100,000 rows, which this process makes",
    ("tables/comparison.py", "check_time", "first"): "one row",
    ("tables/comparison.py", "_span", "first"): "one row",
    ("staged.py", "_nothing", "first"): "one row",
    ("write.py", "write_decoded", "collect"): "the number of kinds",
    ("write.py", "_by_workers", "collect"): "the number of files: tasks x kinds",
}


def calls() -> Iterator[tuple[str, str, str]]:
    """File, function and name of each call that collects rows on the driver."""
    for path in sorted(ROOM.rglob("*.py")):
        if path.relative_to(ROOM).parts[0] in WITHOUT_SPARK:
            continue
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                for node in ast.walk(function):
                    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_of_spark(node):
                        yield path.relative_to(ROOM).as_posix(), function.name, node.func.attr


def is_of_spark(node: ast.Call) -> bool:
    """Not F.first, an aggregate, nor functions of Arrow such as pc.take, whose argument is already there."""
    assert isinstance(node.func, ast.Attribute)
    of = node.func.value
    name = of.id if isinstance(of, ast.Name) else ""
    if node.func.attr in SENDING:
        return name == "F"
    return node.func.attr in COLLECTING and name not in ("F", "pc", "story", "data", "laid", "found") and not node.args


def test_rows_collected_by_the_driver_do_not_grow_with_the_log() -> None:
    assert set(calls()) == BOUNDED.keys()
    assert all(BOUNDED.values())


@pytest.mark.parametrize("most", [1, 50_000])
def test_times_of_very_many_days_are_all_checked(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    day = log_times.DAY_MS
    times = [20_000 * day, 20_001 * day, 1, 20_002 * day]
    for partition, some in enumerate((times, sorted(times[:2]))):
        data = [batch([commit()], offset, timestamp_ms=at_ms) for offset, at_ms in enumerate(some)]
        write_segment(tmp_path, data, partition)
    monkeypatch.setattr(log_times, "MAX_DAYS", most)
    decoded = spark.read.format("muster").option("path", str(tmp_path)).option("rows", "decoded").load()
    rows, changed = with_sound_times(decoded, 20_003 * day)
    assert changed is not None
    assert [tuple(row) for row in changed.collect()] == [(0, 2, 1, 20_001 * day)]
    assert sorted(row.log_timestamp_ms for row in rows.collect()) == sorted(
        [*times[:2], *times[:2], *times[1:2], times[3]]
    )
