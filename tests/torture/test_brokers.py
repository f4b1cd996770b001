"""Some histories of processes of three brokers; `make simulate ARGS=--brokers` plays any number."""

from __future__ import annotations

from typing import Any

import pytest

from muster.coordinator.runtime import shard
from muster.coordinator.runtime.routing import Leaderships
from muster.coordinator.server.nodes.running_node import RunningNode
from tests.torture.node.history import History, described

HISTORIES = (0, 2, 5, 8, 11, 14)


@pytest.mark.parametrize("seed", HISTORIES)
def test_promises_of_brokers_hold_while_they_stop_die_and_return(seed: int) -> None:
    history = History(seed, brokers=True)
    history.run()
    assert history.failure is None, described(history)
    assert history.world.judges


def test_a_seed_always_gives_the_same_history_of_brokers() -> None:
    one, other = History(2, brokers=True), History(2, brokers=True)
    one.run()
    other.run()
    assert one.world.trace == other.world.trace


def test_a_coordinator_that_starts_without_loading_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    take = Leaderships.take

    def taken(self: Any, leaders: Any) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(shard, "replay", lambda *_: iter(()))
            take(self, leaders)

    monkeypatch.setattr(Leaderships, "take", taken)
    assert _is_found_out("acknowledged")


def test_shards_that_never_resign_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Leaderships, "leave", lambda leaderships, leaders: None)
    assert _is_found_out("is active for")


def test_a_broker_that_never_resumes_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunningNode, "resume", lambda node: None)
    assert _is_found_out("answers nobody")


def _is_found_out(what: str) -> bool:
    """Whether one of some histories fails with these words; later histories are not played."""
    for seed in range(0, 40, 2):
        history = History(seed, brokers=True)
        history.run()
        if what in str(history.failure):
            return True
    return False
