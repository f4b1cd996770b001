from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import structlog

from muster.coordinator.log import Maintenance, MemoryStorage
from muster.coordinator.system.clock import ManualClock
from tests.coordinator.log.support import NOW, SMALL, PendingResult, batch, manage


def test_retention_and_checkpoints_run_by_the_clock() -> None:
    storage, clock = MemoryStorage(), ManualClock()
    manager = manage(storage, log_retention_check_interval_ms=5000, log_flush_offset_checkpoint_interval_ms=2000)
    log = manager.open_log("t", 0, config=replace(SMALL, retention_ms=7000))
    maintenance = Maintenance(manager, clock)
    maintenance.start()
    log.append(0, batch(b"x", timestamp_ms=clock.now().wall_ms), wall_ms=clock.now().wall_ms)
    clock.advance(1999)
    assert storage.load("recovery-point-offset-checkpoint") is None
    clock.advance(1)
    assert storage.load("recovery-point-offset-checkpoint") == b"0\n1\nt 0 0\n"
    clock.advance(3001)
    assert log.start_offset == 0
    clock.advance(5000)
    assert log.start_offset == 1
    clock.advance(2000)
    assert storage.load("log-start-offset-checkpoint") == b"0\n1\nt 0 1\n"
    maintenance.stop()
    storage.remove("log-start-offset-checkpoint")
    clock.advance(100_000)
    assert storage.load("log-start-offset-checkpoint") is None


def test_logs_are_synced_by_age_when_the_scheduler_is_on() -> None:
    later, clock = PendingResult(), ManualClock()
    manager = manage(MemoryStorage(), sync=later.sync, log_flush_scheduler_interval_ms=1000)
    log = manager.open_log("t", 0, config=replace(SMALL, flush_ms=2000))
    Maintenance(manager, clock).start()
    clock.advance(1000)
    log.append(0, batch(b"x"), wall_ms=NOW)
    clock.advance(1000)
    assert later.jobs == []
    clock.advance(1000)
    later.settle()
    assert log.durability.recovery_point == 1
    clock.advance(10_000)
    assert later.jobs == []


def test_a_checkpoint_that_cannot_be_written_is_logged_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    storage, clock = MemoryStorage(), ManualClock()
    manager = manage(storage, log_flush_offset_checkpoint_interval_ms=2000)
    manager.open_log("t", 0)
    Maintenance(manager, clock).start()
    with monkeypatch.context() as patched, structlog.testing.capture_logs() as logged:
        patched.setattr(storage, "save", lambda *args, **more: (_ for _ in ()).throw(OSError(28, "full")))
        clock.advance(2000)
    assert [line["event"] for line in logged] == ["a checkpoint cannot be written"]
    clock.advance(2000)
    assert storage.load("recovery-point-offset-checkpoint") is not None


@pytest.mark.parametrize("often", ["log_flush_offset_checkpoint", "log_flush_start_offset_checkpoint"])
def test_checkpoints_are_written_at_the_shorter_of_both_intervals(often: str) -> None:
    storage, clock = MemoryStorage(), ManualClock()
    settings: dict[str, Any] = {f"{often}_interval_ms": 2000}
    manager = manage(storage, **settings)
    manager.open_log("t", 0)
    Maintenance(manager, clock).start()
    clock.advance(1999)
    assert storage.load("recovery-point-offset-checkpoint") is None
    clock.advance(1)
    assert storage.load("recovery-point-offset-checkpoint") is not None
