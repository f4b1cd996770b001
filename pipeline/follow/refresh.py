"""The tables made anew where they are older than the staged log, by the functions of `facts`: those that tell of one
group at a time for the buckets that were touched, those that depend on how late it is for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody who writes Spark calls it

from muster.pipeline.facts.build import MADE, build
from muster.pipeline.facts.flapping import flapping
from muster.pipeline.facts.inputs import Inputs
from muster.pipeline.facts.lag import lag
from muster.pipeline.facts.schema import conform
from muster.pipeline.facts.stalls import stalls
from muster.pipeline.follow.manifest import BUCKETS, WHOLE, Manifest, rebuilt
from muster.pipeline.follow.staging import bucket_of, staged
from muster.pipeline.follow.store import BUCKET, Store
from muster.pipeline.schema import MALFORMED, OFFSETS_TOPIC, UNKNOWN
from muster.pipeline.sources.ends import ends_of_cluster
from muster.pipeline.sources.topics import names_of_cluster
from muster.pipeline.tables import table

OF_NOW: Final = ("stalls", "lag", "flapping")
"""Tables of which every row may change when time goes on or a topic grows, though nothing of its group was logged."""

Folders = dict[str, dict[str, str]]


def refresh(store: Store, kafka: Mapping[str, str]) -> Manifest:
    """Make anew what is old; the manifest with the new tables, which are in force together.

    Raises ClusterError when nobody tells how far the topics reach.
    """
    manifest = store.manifest
    # an empty cluster has tables too
    dirty = set(manifest.dirty) if manifest.version else set(range(BUCKETS))
    inputs, malformed = staged(store, manifest, dirty, lambda: names_of_cluster(kafka))
    try:
        folders = _by_bucket(store, inputs, malformed)
        draft = rebuilt(manifest, manifest.batch, dirty, folders, has_ends=False)
        tables = store.tables(draft)
        ends = _ends(store, kafka, tables["commits"])
        now = {
            "stalls": stalls(tables["commits"], ends),
            "lag": lag(tables["commits"], ends),
            "flapping": flapping(tables["rebalances"], tables["generations"], tables["commits"]),
        }
        for name in OF_NOW:
            folder = store.name("version")
            now[name].coalesce(1).write.parquet(store.folder(name, folder))
            folders[name] = {WHOLE: folder}
    finally:
        store.spark.catalog.clearCache()
    done = store.change(lambda latest: rebuilt(latest, manifest.batch, dirty, folders, has_ends=ends is not None))
    store.sweep()
    return done


def _by_bucket(store: Store, inputs: Inputs, malformed_events: DataFrame) -> Folders:
    facts = build(inputs, [name for name in MADE if name not in OF_NOW])
    for kind in (MALFORMED, UNKNOWN):
        rows = facts.get(kind, table(inputs.decoded, kind).withColumn("log_topic", F.lit(OFFSETS_TOPIC)))
        facts[kind] = conform(rows, kind)
    facts[MALFORMED] = facts[MALFORMED].unionByName(malformed_events)
    folders: Folders = {}
    for name, rows in facts.items():
        folder = store.name("version")
        placed = rows.withColumn(BUCKET, bucket_of(F.col("group")))
        placed.write.partitionBy(BUCKET).parquet(store.folder(name, folder))
        folders[name] = store.buckets(name, folder)
    return folders


def _ends(store: Store, kafka: Mapping[str, str], commits: DataFrame) -> DataFrame | None:
    """How far the topics that are committed for reach now."""
    places = commits.where(~F.col("is_deleted")).select("topic", "partition").distinct().collect()
    found = ends_of_cluster(kafka, sorted((row["topic"], row["partition"]) for row in places)) if places else None
    return None if found is None else store.spark.createDataFrame(found)
