"""Make tables anew that are older than the staged log, by the functions of `facts`: tables about single groups for the
touched buckets, tables that depend on the time for all groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.pipeline.facts.build import MADE, build, unusable
from muster.pipeline.facts.commit_walk import OF_ENDS, OF_TIMES, walked
from muster.pipeline.facts.episodes import episodes_and_verdicts
from muster.pipeline.facts.flapping import flapping
from muster.pipeline.facts.inputs import Inputs
from muster.pipeline.facts.lag import lag
from muster.pipeline.facts.progress import progress
from muster.pipeline.facts.stalls import stalls
from muster.pipeline.facts.transactions import transactions
from muster.pipeline.follow.ends import Seen, Watch, committed_by_then
from muster.pipeline.follow.manifest import BUCKETS, WHOLE, Manifest, rebuilt
from muster.pipeline.follow.staging import bucket_of, reached, staged, staged_transactions
from muster.pipeline.follow.store import BUCKET, Store
from muster.pipeline.persist import keep
from muster.pipeline.published import published
from muster.pipeline.sources.ends import ends_of_cluster
from muster.pipeline.sources.topic_names import names_of_cluster

OF_LAG: Final = ("stalls", "lag", "progress")
"""Tables whose rows may all change when a topic grows, even without a record of the group."""
OF_ALL: Final = "transactions"
"""The table that is of no group."""
OF_NOW: Final = (*OF_LAG, "flapping", "episodes", "verdicts")
"""Tables whose rows may all change as time passes."""

Folders = dict[str, dict[str, str]]


def refresh(store: Store, kafka: Mapping[str, str], watch: Watch) -> Manifest:
    """Make old tables anew; the manifest with the new tables, which count all at once. Tables OF_LAG show the newest
    look at the ends of the topics whose commits are all staged. Raises ClusterError.
    """
    manifest = store.manifest
    logged = reached(store, manifest.batch)
    seen = watch.newest(logged)
    # an empty cluster has tables too
    dirty = set(manifest.dirty) if manifest.version else set(range(BUCKETS))
    try:
        folders: Folders = {}
        made: dict[str, DataFrame] = {}
        if dirty:
            folders = _by_bucket(store, *staged(store, manifest, dirty, lambda: names_of_cluster(kafka)))
        draft = rebuilt(manifest, manifest.batch, dirty, folders)
        tables = store.tables(draft)
        told = staged_transactions(store, manifest)
        if told.there or not manifest.version:
            made[OF_ALL] = transactions(told, tables["commits"])
        times = keep(walked(tables["commits"], None, wanted=(OF_TIMES,)))
        made |= {"flapping": flapping(tables["rebalances"], tables["generations"], times)}
        has_ends = manifest.has_ends
        if seen is not None or not manifest.version:
            commits = tables["commits"]
            if seen is not None and not seen.is_all_of(logged):
                commits = committed_by_then(commits, seen)
            ends = None if seen is None else _ends(store, kafka, seen, commits, watch)
            walk = keep(walked(commits, ends, wanted=(OF_ENDS,)))
            made |= {"stalls": stalls(walk), "lag": lag(walk), "progress": progress(walk)}
            has_ends = ends is not None
        still = keep(made["stalls"]) if "stalls" in made else tables["stalls"]
        made |= {"stalls": still} if "stalls" in made else {}
        made |= episodes_and_verdicts(
            tables["rebalances"], tables["memberships"], tables["generations"], times, made["flapping"],
            still, tables["regressions"],
        )  # fmt: skip
        for name, rows in made.items():
            folder = store.name("version")
            published(rows, name).coalesce(1).write.parquet(store.folder(name, folder))
            folders[name] = {WHOLE: folder}
    finally:
        store.spark.catalog.clearCache()
    judged = manifest.batch if seen is not None and seen.is_all_of(logged) else manifest.judged
    done = store.change(
        lambda latest: rebuilt(latest, manifest.batch, dirty, folders, has_ends=has_ends, judged=judged)
    )
    store.sweep()
    return done


def _by_bucket(store: Store, inputs: Inputs, malformed_events: DataFrame) -> Folders:
    facts = build(inputs, [name for name in MADE if name not in (*OF_NOW, OF_ALL)])
    folders: Folders = {}
    for name, rows in (facts | unusable(inputs.decoded, malformed_events)).items():
        folder = store.name("version")
        placed = published(rows, name).withColumn(BUCKET, bucket_of(F.col("group")))
        placed.write.partitionBy(BUCKET).parquet(store.folder(name, folder))
        folders[name] = store.buckets(name, folder)
    return folders


def _ends(store: Store, kafka: Mapping[str, str], seen: Seen, commits: DataFrame, watch: Watch) -> DataFrame | None:
    """How far the topics that are committed for reached then; `watch` is told which they are."""
    rows = commits.where(~F.col("is_deleted")).select("topic", "partition").distinct().collect()
    watch.places = places = {(row["topic"], row["partition"]) for row in rows}
    found = ends_of_cluster(kafka, seen.reach, places) if places else None
    return None if found is None else store.spark.createDataFrame(found)
