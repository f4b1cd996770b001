from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from muster.pipeline.follow import run
from muster.pipeline.follow.run import Follower
from muster.pipeline.sources.cluster import ClusterError, LogReplaced

TIMED_OUT = ClusterError("one:9092: Local: Timed out")


class Tried(Follower):
    """Follows a cluster that fails several times, and once more when the tables are made at the end."""

    def __init__(
        self, failures: int, *, batch: int, once: bool, at_the_end: int = 0, error: ClusterError = TIMED_OUT
    ) -> None:
        self._what: Any = SimpleNamespace(once=once)
        self._stopped = threading.Event()
        self._report_status = lambda _: None
        self._store: Any = SimpleNamespace(manifest=SimpleNamespace(version=0, shown=0, batch=batch))
        self._failures = iter(range(failures))
        self._at_the_end = iter(range(at_the_end))
        self._error = error
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
            raise self._error


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


def test_a_log_that_was_replaced_is_not_tried_again() -> None:
    replaced = Tried(1, batch=7, once=False, error=LogReplaced("orders was deleted"))
    with pytest.raises(LogReplaced):
        replaced._run()
    assert replaced.tries == 1


def test_a_failure_is_reported_before_the_next_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_AGAIN_S", (0,))
    reported: list[str] = []
    patient = Tried(2, batch=7, once=True)
    patient._report_status = reported.append
    patient._run()
    assert reported == ["the cluster cannot be read, once more in 0 s: one:9092: Local: Timed out"] * 2
