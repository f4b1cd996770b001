"""Makes tables again that are older than the staged log, with the functions of `tables`.

A short log needs no job of Spark: this process makes the tables. Tables about single groups are made for the buckets
with new rows. Tables that depend on the time are made for all
groups. The ends of the topics are used once all commits up to the request for them are staged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from typing import Final, NamedTuple

from muster.pipeline.follow.manifest import BUCKETS, WHOLE, Manifest, reached, rebuilt
from muster.pipeline.follow.staging import (
    is_short,
    staged,
    staged_others,
    staged_transactions,
)
from muster.pipeline.follow.store import Store
from muster.pipeline.follow.tail import SHARE_STATE
from muster.pipeline.frames import DataFrame, F, frame_of, in_this_process, is_here
from muster.pipeline.schema import STREAMS_GROUP
from muster.pipeline.sources.cluster import Offsets, bounds
from muster.pipeline.sources.ends import History, Reach
from muster.pipeline.sources.live_topics import ends_of_cluster, names_of_cluster, reach_of_cluster
from muster.pipeline.sources.segment_files import NoSource
from muster.pipeline.sources.segments import READ_UNCOMMITTED, Reading
from muster.pipeline.tables import keep
from muster.pipeline.tables.build import MADE, build, unusable
from muster.pipeline.tables.commits import OF_ENDS, OF_TIMES, committed_between, walked
from muster.pipeline.tables.episodes import episodes_and_verdicts, share_tables_of, stream_tables_of
from muster.pipeline.tables.flapping import flapping
from muster.pipeline.tables.inputs import Inputs
from muster.pipeline.tables.lag import lag, progress
from muster.pipeline.tables.memberships import stays
from muster.pipeline.tables.silences import silences
from muster.pipeline.tables.stalls import stalls
from muster.pipeline.tables.transactions import transactions


class ClusterState(NamedTuple):
    """The state of a cluster at the time of one request."""

    reach: Reach
    logged: Offsets
    """The ends of the offsets log a moment later, including records of open transactions."""

    def is_in(self, staged: Offsets) -> bool:
        """Whether all commits of groups up to this state are staged."""
        return all(staged.get(partition, 0) >= end for partition, end in self.logged.items())

    def is_all_of(self, staged: Offsets) -> bool:
        """Whether no record that was logged after this state is staged."""
        return all(self.logged.get(partition, 0) >= end for partition, end in staged.items())


def request_state(kafka: Mapping[str, str]) -> ClusterState:
    """Request the state of a cluster. Raises ClusterError, BadOption."""
    reach = reach_of_cluster(kafka)
    try:
        return ClusterState(reach, bounds(kafka, Reading(isolation=READ_UNCOMMITTED))[1])
    except NoSource:
        return ClusterState(reach, {})


class Watch:
    """Requests the state of the cluster, and keeps the newest state whose commits are all staged."""

    def __init__(self, request_state: Callable[[], ClusterState]) -> None:
        self._request = request_state
        self._waiting: ClusterState | None = None
        self._known: ClusterState | None = None
        self.places: Collection[tuple[str, int]] | None = None
        """The topics and partitions with commits; None until they are known."""
        self.history: History = {}

    def begin(self) -> None:
        """Request the state of the cluster, before more of the log is staged."""
        self._waiting = self._request()

    def newest(self, staged: Offsets) -> ClusterState | None:
        """The newest state that may be used if the offsets log is staged up to `staged`.

        It is None if no state may be used.
        """
        now = self._request()
        if now.is_in(staged):
            self._known, self._waiting = now, None
        elif self._waiting is None or self._waiting.is_in(staged):
            self._known, self._waiting = self._waiting or self._known, now
        return self._known

    def has_grown(self, staged: Offsets) -> bool:
        """Whether the present state may be used, and has other ends of partitions with commits than the last one."""
        now, known = self._request(), self._known
        if not now.is_in(staged):
            return False
        if known is None or self.places is None:
            return True
        return any(now.reach.ends.get(place) != known.reach.ends.get(place) for place in self.places)


def committed_by_then(commits: DataFrame, seen: ClusterState) -> DataFrame:
    """The rows of the table `commits` that were logged before the request for `seen`."""
    ends = [one for partition, end in sorted(seen.logged.items()) for one in (F.lit(partition), F.lit(end))]
    if not ends:
        return commits.limit(0)
    return commits.where(F.col("log_offset") < F.create_map(*ends)[F.col("log_partition")])


OF_LAG: Final = ("stalls", "lag", "progress")
"""Tables in which all rows may change when a topic grows, even without a record of a group."""
OF_ALL: Final = "transactions"
"""The table that belongs to no group."""
OF_NOW: Final = (*OF_LAG, "flapping", "silences", "episodes", "verdicts")
"""Tables in which all rows may change as time passes."""

Folders = dict[str, dict[str, str]]


def refresh(store: Store, kafka: Mapping[str, str], watch: Watch) -> Manifest:
    """Make old tables again. Returns the manifest with the new tables, which all become valid in one step.

    Tables OF_LAG use the newest ends of the topics whose commits are all staged. Raises ClusterError.
    """
    with in_this_process() if is_short(store, store.manifest.chunks) else nullcontext():
        return _refresh(store, kafka, watch)


def _refresh(store: Store, kafka: Mapping[str, str], watch: Watch) -> Manifest:
    manifest = store.manifest
    logged = reached(manifest)
    seen = watch.newest(logged)
    # at first the tables are made for all buckets, because an empty cluster has tables too
    dirty = set(manifest.dirty) if manifest.version else set(range(BUCKETS))
    try:
        made: dict[str, DataFrame] = {}
        known = None if len(dirty) in (0, BUCKETS) else store.tables(manifest)["silences"]
        folders, tables, times, quiet = _of_groups(store, kafka, dirty, seen, known)
        if known is not None and _spans(known) != _spans(quiet):
            # a silence may be the cause of rebalances in any group
            store.discard(folders)
            dirty = set(range(BUCKETS))
            folders, tables, times, quiet = _of_groups(store, kafka, dirty, seen, None)
        transaction_events = staged_transactions(store, manifest)
        if transaction_events.has_any or not manifest.version:
            made[OF_ALL] = transactions(transaction_events, tables["commits"])
        made |= {"flapping": flapping(tables["rebalances"], tables["generations"], times), "silences": quiet}
        has_ends = manifest.has_ends
        if seen is not None or not manifest.version:
            commits = tables["commits"]
            if seen is not None and not seen.is_all_of(logged):
                commits = committed_by_then(commits, seen)
            ends = None if seen is None else _ends(store, kafka, seen, commits, watch)
            walk = keep(walked(commits, ends, wanted=(OF_ENDS,)))
            made |= {"stalls": stalls(walk, tables["ownership"], quiet), "lag": lag(walk), "progress": progress(walk)}
            has_ends = ends is not None
        names = ("stalls", "progress", "lag")
        of_commits = {name: keep(made[name]) if name in made else tables[name] for name in names}
        made |= {name: rows for name, rows in of_commits.items() if name in made}
        made |= episodes_and_verdicts(
            tables["rebalances"], tables["memberships"], tables["generations"], times, made["flapping"],
            quiet, of_commits["stalls"], tables["regressions"], of_commits["progress"], tables["skips"],
            of_commits["lag"], share_tables_of(tables) if manifest.rows.get(SHARE_STATE) else None,
            stream_tables_of(tables) if manifest.rows.get(STREAMS_GROUP) else None,
        )  # fmt: skip
        for name, rows in made.items():
            folder = store.name("version")
            store.write(name, folder, rows)
            folders[name] = {WHOLE: folder}
    finally:
        store.spark.catalog.clearCache()
    judged = manifest.batch if seen is not None and seen.is_all_of(logged) else manifest.judged
    done = store.change(
        lambda latest: rebuilt(latest, manifest.batch, dirty, folders, has_ends=has_ends, judged=judged)
    )
    store.sweep()
    return done


def _of_groups(
    store: Store, kafka: Mapping[str, str], dirty: Collection[int], seen: ClusterState | None, known: DataFrame | None
) -> tuple[Folders, dict[str, DataFrame], DataFrame, DataFrame]:
    """The new folders of some buckets, all tables with them, the times of commits, and the silences of all groups.

    `known`: the silences that explain rebalances; None: those of all groups in these buckets.
    """
    manifest, others = store.manifest, staged_others(store, store.manifest)
    folders: Folders = {}
    if dirty:
        ends = None if seen is None else seen.reach.ends
        inputs, malformed = staged(store, manifest, dirty, lambda: names_of_cluster(kafka), ends)
        folders = _by_bucket(store, inputs._replace(silences=known, others=others), malformed)
    tables = store.tables(rebuilt(manifest, manifest.batch, dirty, folders))
    times = keep(walked(tables["commits"], None, wanted=(OF_TIMES,)))
    return folders, tables, times, keep(silences(times, stays(tables["generations"]), others))


def _spans(silences: DataFrame) -> set[tuple[int, int, tuple[str, ...]]]:
    some = silences.select("from_ms", "until_ms", "only").collect()
    return {(one["from_ms"], one["until_ms"], tuple(one["only"] or ())) for one in some}


def _by_bucket(store: Store, inputs: Inputs, malformed_events: DataFrame) -> Folders:
    facts = build(inputs, [name for name in MADE if name not in (*OF_NOW, OF_ALL)])
    folders: Folders = {}
    for name, rows in (facts | unusable(inputs.decoded, malformed_events, of_shares=inputs.shares)).items():
        folder = store.name("version")
        store.write(name, folder, rows, by_bucket=True)
        folders[name] = store.buckets(name, folder)
    return folders


def _ends(
    store: Store, kafka: Mapping[str, str], seen: ClusterState, commits: DataFrame, watch: Watch
) -> DataFrame | None:
    """The ends of the topics with commits in the state `seen`; `watch` learns which topics and partitions these are."""
    committed = committed_between(commits.where(~F.col("is_deleted")), "time_ms")
    if committed is None:
        watch.places = set()
        return None
    between, watch.places = committed
    found = ends_of_cluster(kafka, seen.reach.of(watch.places), between, known=watch.history)
    if found is None:
        return None
    return frame_of(found) if is_here() else store.spark.createDataFrame(found)
