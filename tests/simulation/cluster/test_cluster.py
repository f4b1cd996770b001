"""Some histories of a cluster over a database that fails; and the checker finds what it is there for."""

from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.database import shipper
from muster.coordinator.database.lease import Outcome
from muster.coordinator.database.shipped_log import ShippedLog, Upload
from tests.simulation.cluster.run import play_clusters
from tests.simulation.cluster.world import play

SEEDS = 6


def test_some_histories() -> None:
    """More of them by `make simulate ARGS=--cluster`."""
    played = play_clusters(0, SEEDS)
    assert not played.failures, played.failures[0]
    assert played.counts["terms of office"] > 2 * SEEDS
    assert played.counts["acknowledged"] > 1_000 * SEEDS


def test_a_history_is_its_seed() -> None:
    first, second = play(5, 20_000), play(5, 20_000)
    assert (first.ms, first.ledger.acked, first.terms) == (second.ms, second.ledger.acked, second.terms)


def _believes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipper, "outcome", lambda *_: Outcome.DONE)


def _answers_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    collect = shipper.Shipper._collect

    def early(self: Any) -> Any:
        changes, taken = collect(self)
        for log, next_offset in taken:
            log.confirm(next_offset)
        return changes, taken

    monkeypatch.setattr(shipper.Shipper, "_collect", early)


def _keeps_replaced_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    uploaded = ShippedLog.uploaded

    def kept(self: ShippedLog, upload: Upload, changes: Any) -> None:
        uploaded(self, upload, changes)
        changes.dead.clear()

    monkeypatch.setattr(ShippedLog, "uploaded", kept)


@pytest.mark.parametrize("mutant", [_believes_all, _answers_too_early, _keeps_replaced_segments])
def test_the_checker_finds_a_node_that_is_wrong(mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    assert any(play(seed, 60_000).faults for seed in range(5))
