"""Some twenty thousand hostile inputs to nodes in memory; `make torture-wire` sends millions. The tests also prove that
faults are found.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from muster.coordinator.api import registry
from muster.coordinator.api.groups import membership
from muster.protocol.api import ApiKey
from tests.torture.wire.__main__ import described, played
from tests.torture.wire.chapter import Chapter, import_all

CHAPTERS = (1, 2, 3, 4)


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    import_all()


@pytest.mark.parametrize("seed", CHAPTERS)
def test_hostile_bytes_do_not_affect_other_clients(seed: int) -> None:
    chapter = played(seed)
    assert not chapter.faults, described(chapter)
    assert chapter.counts["answers"] > 1_000
    assert chapter.counts["commits of innocents"] > 30


def test_a_seed_always_gives_the_same_hostile_bytes() -> None:
    one, other = Chapter(5, 400), Chapter(5, 400)
    one.run()
    other.run()
    assert one.steps == other.steps
    assert one.counts == other.counts


def _fault_of(monkeypatch: pytest.MonkeyPatch, handle: Any) -> str:
    """The first fault when Heartbeat is handled like this for members of the group."""
    real = membership.handle_heartbeat

    def handle_heartbeat(node: Any, context: Any, request: Any, respond: Any) -> Any:
        if not request.group_id.startswith("innocent"):
            handle()
        return real(node, context, request, respond)

    monkeypatch.setitem(registry._loaded, ApiKey.HEARTBEAT, handle_heartbeat)
    chapter = Chapter(1)
    chapter.run()
    return chapter.faults[0]


def test_a_handler_that_fails_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise KeyError("never thought of")

    assert "a handler failed: KeyError('never thought of')" in _fault_of(monkeypatch, fail)


def test_a_handler_that_holds_the_event_loop_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    def hold() -> None:
        end = time.thread_time() + 0.07
        while time.thread_time() < end:
            pass

    assert "a turn of the loop took" in _fault_of(monkeypatch, hold)
