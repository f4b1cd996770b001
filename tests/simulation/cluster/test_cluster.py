"""Some histories of a cluster over a database that fails; and the checker finds what it is there for."""

from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.database import metadata_keeper, shipper
from muster.coordinator.database.lease import Outcome
from muster.coordinator.database.shipped_log import ShippedLog, Upload
from muster.simulation.cluster.database import FaultyStore
from tests.simulation.cluster.run import play_clusters
from tests.simulation.cluster.world import play

SEEDS = 6


def test_some_histories() -> None:
    """More of them by `make simulate ARGS=--cluster`."""
    played = play_clusters(0, SEEDS)
    assert not played.failures, played.failures[0]
    assert played.counts["terms"] > 2 * SEEDS
    assert played.counts["moves"] > 10 * SEEDS
    assert played.counts["acknowledged"] > 500 * SEEDS


def test_a_history_is_its_seed() -> None:
    first, second = play(5, 20_000), play(5, 20_000)
    assert (first.ms, first.ledger.acked, first.moves) == (second.ms, second.ledger.acked, second.moves)


def _believes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipper, "outcome", lambda *_: Outcome.DONE)


def _answers_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    collect = shipper.Shipper._collect

    def early(self: Any) -> Any:
        turn = collect(self)
        turn.confirm()
        return turn

    monkeypatch.setattr(shipper.Shipper, "_collect", early)


def _keeps_replaced_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    uploaded = ShippedLog.uploaded

    def kept(self: ShippedLog, upload: Upload, changes: Any) -> None:
        uploaded(self, upload, changes)
        changes.dead.clear()

    monkeypatch.setattr(ShippedLog, "uploaded", kept)


def _takes_without_telling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_keeper, "losers", lambda *_: [])


def _claims_to_know_all(monkeypatch: pytest.MonkeyPatch) -> None:
    commit = FaultyStore.commit

    async def claims(self: Any, node_id: int, epoch: int, turn: int, _: int, *rest: Any) -> Any:
        return await commit(self, node_id, epoch, turn, 1 << 60, *rest)

    monkeypatch.setattr(FaultyStore, "commit", claims)


def _keeps_what_others_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipper.Turn, "leave_out", lambda *_: None)


@pytest.mark.parametrize(
    "mutant",
    [
        _believes_all,
        _answers_too_early,
        _keeps_replaced_segments,
        _takes_without_telling,
        _claims_to_know_all,
        _keeps_what_others_lead,
    ],
)
def test_the_checker_finds_a_node_that_is_wrong(mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    assert any(play(seed, 60_000).faults for seed in range(20))
