"""A follower of a running server leaves the same tables as an analysis of the log, whenever it is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from muster.pipeline.follow import run
from muster.pipeline.follow.manifest import Manifest, NotOurs, of_text
from muster.pipeline.follow.run import Follower, Following
from muster.pipeline.follow.staging import STAGED, merge, staged
from muster.pipeline.schema import KINDS
from muster.pipeline.stage import Source, stage
from muster.pipeline.tables.build import build
from muster.pipeline.tables.schema import TABLES
from muster.pipeline.wanted import ALL, Wanted
from tests.pipeline.live import Live

KILLED_S = 240
PAUSE_S = 0.5
SUBMITTED = ("--conf spark.sql.codegen.wholeStage=false", "--conf spark.sql.codegen.factoryMode=NO_CODEGEN")
QUICK_TO_START = {
    "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC "
    "-XX:MetaspaceSize=256m -XX:+UnlockExperimentalVMOptions -XX:SymbolTableSize=524288",
    # a user sets in this way what the command does not set itself
    "PYSPARK_SUBMIT_ARGS": " ".join([*SUBMITTED, "pyspark-shell"]),
}
"""A follower starts with settings for little work."""
OF_THE_CLOCK = {"lag": {"end_ms", "behind_ms"}, "stalls": {"end_ms", "start_ms", "complete"}}
"""Columns that depend on the time at which the ends of topics were requested."""


def rows_of(name: str, table: DataFrame) -> Counter[Any]:
    if name == "progress":  # the number of steps depends on it, but not the commits in all of them
        sums = table.groupBy("group").agg({"commits": "sum"})
        return Counter(repr(row) for row in sums.collect())
    left_out = OF_THE_CLOCK.get(name, set())
    wanted = [column for column in TABLES[name].names if column not in left_out]
    return Counter(repr(row) for row in table.select(*wanted).collect())


def analysed(spark: SparkSession, live: Live, root: Path, wanted: Wanted = ALL) -> dict[str, Counter[Any]]:
    """The tables of an analysis of the present log."""
    inputs = stage(spark, Source(kafka=live.client), str(root), wanted).inputs
    found = {name: rows_of(name, table) for name, table in build(inputs).items()}
    spark.catalog.clearCache()
    return found


def manifest_of(out: Path) -> Manifest:
    file = out / ".follow" / "manifest.json"
    return of_text(file.read_text()) if file.exists() else Manifest({})


def followed(live: Live, out: Path, is_enough: Callable[[Manifest], bool]) -> None:
    """Run a follower in a process of its own, with commits meanwhile, and kill it as soon as it has done enough."""
    command = [sys.executable, "-m", "muster.cli", "analyze", "--bootstrap-server", live.bootstrap]
    command += ["--follow", "--trigger", "300ms", "--out", str(out), "--master", "local[1]", "--keep", "all"]
    child = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ, **QUICK_TO_START}
    )
    said: list[bytes] = []
    # read all the time: a full pipe would block the follower; the pipe ends with the follower's Java and its workers
    reader = threading.Thread(target=lambda: said.extend(child.stderr or ()), daemon=True)
    reader.start()
    try:
        pause = threading.Event()
        give_up = time.monotonic() + KILLED_S
        while not is_enough(manifest_of(out)):
            if child.poll() is not None:
                # the first lines say why, not the last lines of Python workers that lost their Java
                reader.join(KILLED_S)
                pytest.fail(b"".join(said).decode(errors="replace"))
            assert time.monotonic() < give_up, (manifest_of(out), b"".join(said))
            live.commit("while-followed", 1)
            pause.wait(PAUSE_S)
    finally:
        child.kill()
        child.wait()
        reader.join()
        assert child.stderr is not None
        child.stderr.close()


@pytest.mark.timeout(900)  # a second Spark starts, on a machine that may be busy
def test_a_follower_gives_the_tables_of_an_analysis_also_after_a_kill(
    spark: SparkSession, live: Live, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    followed(live, out, lambda manifest: manifest.batch >= 1)
    killed = manifest_of(out)
    live.commit("after-the-kill", 3)
    live.share("queue-while-away")
    following = Following(live.client, str(out), ALL, once=True, max_rows=250, page_every=0)
    follower = Follower(spark, following)
    follower.run()
    done = follower.manifest
    assert done.batch > killed.batch
    assert done.built == done.batch
    assert not done.dirty
    wanted = analysed(spark, live, tmp_path / "stage")
    tables = follower.tables()
    for name, rows in wanted.items():
        assert rows_of(name, tables[name]) == rows, name
    again = tables["deliveries"].where("group = 'queue-while-away'").select("outcome", "deliveries").collect()
    assert [tuple(row) for row in again] == [("archived", 2)]
    ended = (
        tables["transactions"].orderBy("start_ms").select("transactional_id", "outcome", "offsets", "groups").collect()
    )
    assert [tuple(row) for row in ended] == [("x", end, 4, ["with-members"]) for end in ("committed", "aborted")]
    # what other readers see: plain files, each row once
    for name in wanted:
        assert len(parquet.read_table(out / "tables" / name, schema=TABLES[name])) == tables[name].count(), name
    _others_are_refused(spark, following)
    _nothing_changes_when_chunks_are_merged(follower)


def _others_are_refused(spark: SparkSession, following: Following) -> None:
    with pytest.raises(NotOurs, match="follows something else"):
        Follower(spark, following._replace(wanted=Wanted(groups=("a*",))))


def _nothing_changes_when_chunks_are_merged(follower: Follower) -> None:
    store = follower._store
    before = store.manifest
    rows = Counter(staged(store, before)[0].decoded.select("log_partition", "log_offset").collect())
    assert set(rows.values()) == {1}
    assert sum(rows.values()) == sum(before.rows.get(kind, 0) for kind in KINDS)
    merge(store, before.chunks, None)
    assert len(store.manifest.chunks) == 1
    assert Counter(staged(store, store.manifest)[0].decoded.select("log_partition", "log_offset").collect()) == rows
    # old records are removed, except the last state of each group
    assert before.last_ms is not None
    merge(store, store.manifest.chunks, before.last_ms + 1)
    kept = store.read("log", [chunk.name for chunk in store.manifest.chunks], STAGED)
    assert {row["kind"] for row in kept.select("kind").distinct().collect()} == {"classic", "share"}
    assert kept.groupBy("group", "key_type").count().where(F.col("count") > 1).count() == 0


def test_tables_are_published_again_only_if_they_may_be_unpublished(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    monkeypatch.setattr(run, "write_delta", lambda _, folder: written.append(folder))
    stopped = threading.Event()
    stopped.set()
    following = Following({"bootstrap.servers": "127.0.0.1:1"}, str(tmp_path), ALL, delta=True)
    died = Follower(spark, following, stopped=stopped)
    died._store.change(lambda manifest: manifest._replace(version=3, tables={"lag": {}}))
    died._store.close()
    for _ in range(2):
        Follower(spark, following, stopped=stopped).run()
        assert written == [f"{tmp_path}/tables/lag"]


def test_a_stopped_follower_does_nothing(spark: SparkSession, live: Live, tmp_path: Path) -> None:
    stopped = threading.Event()
    stopped.set()
    follower = Follower(spark, Following(live.client, str(tmp_path), ALL), stopped=stopped)
    follower.run()
    assert follower.manifest.batch == -1
    (tmp_path / "tables").mkdir()
    with pytest.raises(NotOurs, match="was left by an analysis that does not follow"):
        Follower(spark, Following(live.client, str(tmp_path), ALL))
