from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from muster.pipeline.follow import run
from muster.pipeline.follow.run import Follower, _is_transient, _sentence
from muster.pipeline.sources.cluster import ClusterError

TOLD = """[STREAM_FAILED] Query [id = a, runId = b] terminated with exception: Traceback (most recent call last):
  File "cluster.py", line 1, in bounds
muster.pipeline.sources.cluster.ClusterError: one:9092: Failed to query: Local: Timed out
 SQLSTATE: XXKST"""


def test_an_unreachable_cluster_is_tried_again() -> None:
    assert _is_transient(ClusterError("one:9092: Local: Timed out"))
    assert _is_transient(RuntimeError(TOLD))
    assert _sentence(RuntimeError(TOLD)) == "one:9092: Failed to query: Local: Timed out"


def test_a_stream_whose_python_started_too_slowly_is_tried_again() -> None:
    assert _is_transient(RuntimeError("Python worker failed to connect back.\n=== Streaming Query ==="))


def test_permanent_failures_are_not_tried_again() -> None:
    assert not _is_transient(ClusterError("the topic was created anew or cut; begin with a new checkpoint"))
    assert not _is_transient(RuntimeError("[STREAM_FAILED] no space left on device\nat java.lang"))
    assert _sentence(RuntimeError("[STREAM_FAILED] no space left on device\nat java.lang")) == (
        "[STREAM_FAILED] no space left on device"
    )


class Tried(Follower):
    """Follows a cluster that fails several times, and once more when the tables are made at the end."""

    def __init__(
        self, failures: int, *, batch: int, once: bool, at_the_end: int = 0, text: str = "one:9092: Local: Timed out"
    ) -> None:
        self._what: Any = SimpleNamespace(once=once)
        self._stopped = threading.Event()
        self._report_status = lambda _: None
        self._store: Any = SimpleNamespace(manifest=SimpleNamespace(version=0, shown=0, batch=batch))
        self._failures = iter(range(failures))
        self._at_the_end = iter(range(at_the_end))
        self._text = text
        self.tries = 0

    def _follow(self) -> None:
        self.tries += 1
        self._fail(self._failures)

    def _refresh_if_due(self, *, last: bool = False) -> bool:
        assert last
        self._fail(self._at_the_end)
        return True

    def _fail(self, failures: Iterator[int]) -> None:
        if next(failures, None) is not None:
            raise ClusterError(self._text)


@pytest.mark.parametrize(
    ("batch", "once", "borne"), [(-1, False, 1), (-1, True, 1), (0, True, 3), (7, True, 3), (7, False, 20)]
)
def test_a_cluster_may_fail_a_bounded_number_of_times(
    batch: int, once: bool, borne: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_AGAIN_S", (0,))
    patient = Tried(borne, batch=batch, once=once)
    patient._run()
    assert patient.tries == borne + 1
    if borne < 20:
        with pytest.raises(ClusterError, match="Timed out"):
            Tried(borne + 1, batch=batch, once=once)._run()
    at_the_end = Tried(0, batch=batch, once=True, at_the_end=1)
    at_the_end._run()
    assert at_the_end.tries == 2


def test_a_busy_machine_may_start_pythons_processes_too_late_ten_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """One retry was too few before the first batch: a machine that is ten times too busy needs more."""
    monkeypatch.setattr(run, "_AGAIN_S", (0,))
    reported: list[str] = []
    patient = Tried(10, batch=-1, once=True, text=run.LATE_WORKER)
    patient._report_status = reported.append
    patient._run()
    assert patient.tries == 11
    assert reported == [f"the machine is busy, once more in 0 s: {run.LATE_WORKER}"] * 10
    with pytest.raises(ClusterError, match="connect back"):
        Tried(11, batch=-1, once=True, text=run.LATE_WORKER)._run()
