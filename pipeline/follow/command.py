"""`muster analyze --follow`: it starts Spark and a follower, shows a status line, and ends on SIGINT and SIGTERM."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from muster.pipeline.arguments import DELTA, Arguments, Follow
from muster.pipeline.follow.run import Follower, Following
from muster.pipeline.output import EXTENSION, check_place, prepare
from muster.pipeline.preflight import check_master
from muster.pipeline.progress import quiet
from muster.pipeline.safe_path import worker_settings
from muster.pipeline.session import UNSEEN_PLANS, open_session, traceback_setting
from muster.pipeline.sources.cluster import bounds, check_reachable
from muster.pipeline.sources.segment_files import NoSource
from muster.pipeline.sources.segments import Reading
from muster.pipeline.wanted import Wanted


def follow(asked: Arguments, how: Follow) -> int:
    """Follow until a signal arrives, or with `once` until the whole log is read. Returns the exit status.

    Raises NoJava, NotUsable, NotOurs, NoDelta, ClusterError, BadOption and Spark's own errors.
    """
    check_master(asked.master)
    _reach(asked.kafka)
    stopped = threading.Event()
    line = StatusLine()
    with ends_on_signals(stopped):
        line("starting Spark …")
        settings = {"spark.ui.showConsoleProgress": "false", **worker_settings(), **traceback_setting(asked.verbose)}
        settings |= UNSEEN_PLANS
        with quiet(asked.verbose):
            spark = open_session(
                asked.master, settings | (EXTENSION if how.table_format == DELTA else {}), is_apart=True
            )
        try:
            check_place(spark, asked.out)
            if how.table_format == DELTA:
                prepare(spark, "--table-format delta")
            follower = Follower(spark, _following(asked, how), report_status=line, stopped=stopped)
            # Spark has set its own signal handler before this
            with ends_on_signals(stopped):
                follower.run()
            line.end()
            print(f"{follower.status()}\ntables: {asked.out.rstrip('/')}/tables")
            return 0
        finally:
            spark.stop()


def _reach(kafka: dict[str, str]) -> None:
    """Check that the cluster answers, before Spark starts. A cluster without groups is no error."""
    check_reachable(kafka)
    with suppress(NoSource):
        bounds(kafka, Reading())


def _following(asked: Arguments, how: Follow) -> Following:
    return Following(
        asked.kafka,
        asked.out,
        Wanted(asked.since_ms, None, asked.groups),
        trigger_ms=how.trigger_ms,
        once=how.once,
        keep_ms=how.keep_ms,
        page_every=how.page_every,
        delta=how.table_format == DELTA,
    )


@contextmanager
def ends_on_signals(stopped: threading.Event) -> Iterator[None]:
    """Let SIGINT and SIGTERM set an event. A second signal of the same kind ends the process at once."""

    def stop(number: int, _: FrameType | None) -> None:
        stopped.set()
        signal.signal(number, signal.SIG_DFL)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class StatusLine:
    """A status in the last line of the terminal. If the output is no terminal, nothing is printed."""

    def __init__(self, *, on: bool | None = None) -> None:
        """`on` says whether the status is shown. None means: only if stderr is a terminal."""
        self._on = sys.stderr.isatty() if on is None else on
        self._last = ""

    def __call__(self, text: str) -> None:
        """Show a new status in place of the last one."""
        if self._on and text != self._last:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
            self._last = text

    def end(self) -> None:
        """Clear the line."""
        if self._on and self._last:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
