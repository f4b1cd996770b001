"""A running follower.

It reads a batch of the log, makes tables, and reads again. To make tables, merge chunks and write the page takes at
most about half of the time. The follower can be ended at any time without loss of data.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from muster.pipeline.follow.manifest import Manifest, horizon, reached, to_merge
from muster.pipeline.follow.refresh import Watch, refresh, request_state
from muster.pipeline.follow.staging import OF_NO_TABLE, append, merge
from muster.pipeline.follow.store import Store
from muster.pipeline.follow.tail import EVENT, Tail
from muster.pipeline.kept import kept
from muster.pipeline.output import write_delta as write_delta
from muster.pipeline.output import write_pages
from muster.pipeline.published import published
from muster.pipeline.report.content import About
from muster.pipeline.report.page import pages
from muster.pipeline.report.select import select
from muster.pipeline.sources.cluster import ClusterError, LogReplaced, admin_client
from muster.pipeline.sources.options import BOOTSTRAP
from muster.pipeline.tables.schema import TABLES
from muster.pipeline.wanted import Wanted
from muster.pipeline.wording import plural

_STEP_S: Final = 0.2
_AGAIN_S: Final = (1, 2, 5, 10, 30)
"""The pauses before a new try, after the first, second, … failure of the cluster in a row."""
_MAX_FAILURES_ONCE: Final = 3


class Following(NamedTuple):
    """The options of a follower."""

    kafka: dict[str, str]
    """The options of the Kafka client, with `bootstrap.servers`."""
    out: str
    wanted: Wanted
    trigger_ms: int = 10_000
    once: bool = False
    """Whether the follower ends at the present end of the log."""
    keep_ms: int | None = None
    """For how long the log is kept, counted back from the latest record; None means for ever."""
    page_every: int = 6
    """After this many versions of the tables a new page is written; 0 means no page."""
    delta: bool = False
    """Whether the tables are Delta Lake tables instead of Parquet files. The session must be prepared
    (`output.prepare`).
    """
    max_rows: int = 1_000_000
    """A batch reads about this many rows of each topic."""


class Follower:
    """One run of a follower. It ends soon after the event `stopped` is set."""

    def __init__(
        self,
        spark: SparkSession,
        following: Following,
        *,
        report_status: Callable[[str], None] | None = None,
        stopped: threading.Event | None = None,
    ) -> None:
        """`report_status` is called with a status line now and then. Raises NotOurs."""
        self._spark = spark
        self._what = following
        self._report_status = report_status or (lambda _: None)
        self._stopped = threading.Event() if stopped is None else stopped
        self._store = Store(spark, following.out)
        wanted = following.wanted
        asked = {"groups": wanted.groups, "since_ms": wanted.since_ms, "delta": following.delta}
        self._store.open(asked, wanted.since_ms, linked=not following.delta)
        self._watch = Watch(lambda: request_state(following.kafka))
        self._took_s = 0.0
        self._next_refresh_s = 0.0
        self._next_request_s = 0.0
        """The time of the next request for the ends of the topics, if the follower has no other work."""
        self._shown = -1
        """The version of the tables that the page shows."""

    @property
    def manifest(self) -> Manifest:
        """The current manifest."""
        return self._store.manifest

    def tables(self) -> dict[str, DataFrame]:
        """The current tables, by their names."""
        return self._store.tables()

    def run(self) -> None:
        """Follow until stopped. With `once`, follow until all earlier records are in the tables and the page.

        Raises ClusterError, and Spark's own errors.
        """
        try:
            self._run()
        finally:
            self._store.close()

    def _run(self) -> None:
        if self.manifest.version != self.manifest.shown:
            # the last process died before it showed the tables to readers
            self._show(self.manifest)
        failures = 0
        while not self._stopped.is_set():
            before = self.manifest.batch
            try:
                self._follow()
                if self._what.once and not self._stopped.is_set():
                    self._refresh_if_due(last=True)
                break
            except LogReplaced:
                raise
            except ClusterError as error:
                failures = 1 if self.manifest.batch > before else failures + 1
                if failures > self._max_failures():
                    raise
                wait_s = _AGAIN_S[min(failures, len(_AGAIN_S)) - 1]
                self._report_status(f"the cluster cannot be read, once more in {wait_s} s: {error}")
                self._stopped.wait(wait_s)

    def _max_failures(self) -> float:
        """The allowed number of failures in a row.

        It is one before the first batch, a few with `once`, and otherwise without limit.
        """
        if self.manifest.batch < 0:
            return 1
        return _MAX_FAILURES_ONCE if self._what.once else math.inf

    def _follow(self) -> None:
        self._watch.begin()
        with admin_client(self._what.kafka) as admin:
            tail = Tail(admin, self._what.kafka, self._what.max_rows, once=self._what.once)
            next_s = 0.0
            while not self._stopped.is_set():
                began_s = time.monotonic()
                if began_s >= next_s:
                    batch = tail.next(self.manifest.position)
                    if batch is not None:
                        append(self._store, batch, self._what.wanted)
                    elif self._what.once:
                        return
                    if not self._what.once and (batch is None or batch.is_last):
                        next_s = began_s + self._what.trigger_ms / 1000
                if not self._refresh_if_due():
                    self._stopped.wait(max(0.0, min(_STEP_S, next_s - time.monotonic())))

    # ---- what is made of the log

    def _refresh_if_due(self, *, last: bool = False) -> bool:
        """Make old tables again, if it is time. Returns whether there was work.

        After that the thread rests for at least as long as it worked.
        """
        began = time.monotonic()
        is_time = not self._what.once and self.manifest.batch >= 0 and began >= self._next_refresh_s
        if not last and not (is_time and self._is_old(began)):
            self._report_status(self.status())
            return False
        self._compact()
        manifest = refresh(self._store, self._what.kafka, self._watch)
        self._show(manifest)
        if self._page_is_due(manifest.version, last):
            self.page()
            self._shown = manifest.version
        self._took_s = time.monotonic() - began
        self._next_refresh_s = time.monotonic() + max(self._took_s, self._what.trigger_ms / 1000)
        self._report_status(self.status())
        return True

    def _is_old(self, now_s: float) -> bool:
        """Whether the tables lack rows of the log, or the present ends of the topics."""
        manifest = self.manifest
        if manifest.dirty or manifest.version == 0 or manifest.judged < manifest.batch:
            return True
        if now_s < self._next_request_s:
            return False
        self._next_request_s = now_s + self._what.trigger_ms / 1000
        return self._watch.has_grown(reached(manifest))

    def _page_is_due(self, version: int, last: bool) -> bool:
        every = self._what.page_every
        return bool(every) and self._shown != version and (last or self._shown < 0 or version % every == 0)

    def _show(self, manifest: Manifest) -> None:
        """Show the tables to readers that do not know of the manifest."""
        if not self._what.delta:
            self._store.show(manifest)
        else:
            for name, table in self._store.tables(manifest).items():
                write_delta(published(table, name), f"{self._store.out}/tables/{name}")
        self._store.change(lambda latest: latest._replace(shown=manifest.version))

    def _compact(self) -> None:
        """Merge chunks if there are many, and drop records that are too old to be kept."""
        manifest = self.manifest
        since_ms = horizon(manifest, self._what.keep_ms)
        if manifest.chunks and since_ms != manifest.since_ms:
            merge(self._store, manifest.chunks, since_ms)
        while chunks := to_merge(self.manifest):
            merge(self._store, chunks, self.manifest.since_ms)

    def page(self) -> None:
        """Write the page about the current tables."""
        manifest = self.manifest
        wanted = self._what.wanted
        about = About(
            self._what.kafka[BOOTSTRAP],
            {kind: count for kind, count in manifest.rows.items() if kind not in OF_NO_TABLE},
            bool(manifest.rows.get(EVENT)),
            manifest.has_ends,
            manifest.since_ms,
            None,
            wanted.groups,
        )
        chosen = select(kept(self._spark, self._store.places(manifest), TABLES), about)
        write_pages(self._spark, self._store.out, pages(chosen), self._store.replace)

    def status(self) -> str:
        """The status of the follower in one line."""
        manifest = self.manifest
        behind = manifest.batch - manifest.built
        state = "up to date" if not behind else f"{plural(behind, 'batch', 'batches')} behind"
        batches = plural(manifest.batch + 1, "batch", "batches")
        return (
            f"{self._what.kafka[BOOTSTRAP]}: {sum(manifest.rows.values()):,} rows in {batches}; "
            f"tables: version {manifest.version}, {state}, made in {self._took_s:.1f} s"
        )
