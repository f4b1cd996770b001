"""Some histories of whole nodes; `make torture` plays thousands."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from muster.coordinator.api.context import RequestContext
from muster.coordinator.api.exchange import NO_INTERCEPT, Intercept
from muster.coordinator.log.unified_log import UnifiedLog
from muster.coordinator.topics.partition import Partition
from muster.protocol.message import Message
from muster.protocol.messages.heartbeat import HeartbeatRequest
from muster.virtual.faulty_storage import Contents, Directory
from tests.coordinator.api.harness import before_handler
from tests.torture.node.history import History, described

HISTORIES = (*range(0, 48, 2), 1, 3, 5, 9, 11)
"""Odd seeds have transactions."""


@pytest.mark.parametrize("seed", HISTORIES)
def test_promises_of_a_node_hold_in_each_history(seed: int) -> None:
    history = History(seed)
    history.run()
    assert history.failure is None, described(history)
    assert history.world.judges
    assert history.world.answers


def test_a_seed_always_gives_the_same_history_of_a_node() -> None:
    one, other = History(4), History(4)
    one.run()
    other.run()
    assert one.world.trace == other.world.trace


def test_a_disk_that_does_not_sync_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk syncs nothing, although it reports success: the judges see it after a power cut."""
    monkeypatch.setattr(Contents, "sync", lambda self: None)
    monkeypatch.setattr(Directory, "sync", lambda self: None)
    assert _is_found_out("acknowledged", range(18, 42, 2))


def test_a_request_without_an_answer_is_detected() -> None:
    def swallow(context: RequestContext, request: Message, go_on: Callable[[], Any]) -> None:
        if not isinstance(request, HeartbeatRequest):
            go_on()

    assert _is_found_out("was never answered", range(0, 24, 2), before_handler(swallow))


def _is_found_out(what: str, seeds: Iterable[int], intercept: Intercept = NO_INTERCEPT) -> bool:
    """Whether one of these histories fails with these words; later histories are not played."""
    for seed in seeds:
        history = History(seed, intercept)
        history.run()
        if what in str(history.failure):
            return True
    return False


def test_a_transaction_completed_before_its_markers_are_durable_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(UnifiedLog, "when_synced", UnifiedLog.when_flushed)
    # a marker that is lost keeps a transaction open for readers
    assert _is_found_out("stable up to", range(1, 40, 2))


def test_reads_of_uncommitted_records_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Partition, "last_stable_offset", lambda partition: partition.log.durable_offset)
    assert "nobody asked for that" in _first_failure()


def _first_failure() -> str:
    """The report of the first failing history with transactions."""
    for seed in range(1, 40, 2):
        history = History(seed)
        history.run()
        if history.failure is not None:
            return str(history.failure)
    return ""
