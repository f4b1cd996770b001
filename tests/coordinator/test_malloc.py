"""When the server sets how the C library keeps memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from muster.coordinator.api.unsent import Taken, Unsent
from muster.coordinator.net.connection_core import ConnectionCore
from muster.coordinator.net.request_memory import RequestMemory
from muster.coordinator.system import memory
from muster.coordinator.system.clock import ManualClock


class Holder:
    core = ConnectionCore(1)
    host = "127.0.0.1"

    def memory_granted(self) -> None:
        pass

    def close_stalled(self) -> None:
        pass


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    calls: list[bool] = []
    monkeypatch.setattr(memory, "give_large_blocks_back", lambda: bool(calls.append(True)))
    memory._give_back_once.cache_clear()
    yield calls
    memory._give_back_once.cache_clear()


def test_malloc_is_configured_once_before_the_first_large_request(configured: list[bool]) -> None:
    requests = RequestMemory(ManualClock(), 1 << 30)
    requests.charge(Holder(), 0, 1_000, memory.WORTH_IT_BYTES - 1_001)
    assert configured == []
    requests.charge(Holder(), 0, 1_000, memory.WORTH_IT_BYTES - 1_000)
    requests.charge(Holder(), 0, 1_000, 90_000_000)
    assert configured == [True]


def test_malloc_is_configured_before_the_first_large_answer(configured: list[bool]) -> None:
    taken = Taken(Unsent(ManualClock()))
    taken.set(1_000)
    assert configured == []
    taken.set(50_000_000)
    assert configured == [True]
