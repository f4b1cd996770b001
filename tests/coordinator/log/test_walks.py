"""Walks over all logs: what they leave on the disk, also when they are interrupted or overtaken."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import structlog

from muster.coordinator.log import MemoryStorage
from muster.coordinator.log.checkpoints import RECOVERY_POINTS, OffsetCheckpointFile
from muster.coordinator.log.maintenance import SEGMENTS_AT_ONCE, enforcing_retention
from muster.coordinator.log.manager import LOGS_AT_ONCE
from muster.coordinator.system.jobs import Job, OffloadedWork, at_once
from tests.coordinator.log.support import NOW, SMALL, batch, manage

DAY_MS = 86_400_000


def steps(job: Job[Any]) -> list[OffloadedWork | None]:
    """The values that it yields; the work of a thread is done."""
    found: list[Any] = []
    for one in job:
        found.append(one)
        if isinstance(one, OffloadedWork):
            one.work()
    return found


def test_a_log_of_many_segments_is_cut_in_steps() -> None:
    manager = manage(MemoryStorage())
    log = manager.open_log("t", 0, config=SMALL)
    count = 2 * SEGMENTS_AT_ONCE + 10
    for _ in range(count):
        log.append(0, batch(b"x", timestamp_ms=NOW), wall_ms=NOW)
        log.roll(NOW)
    most: list[int] = []
    remove = log._remove_segments

    def counted(first: int, last: int) -> int:
        most.append(last - first)
        return remove(first, last)

    log._remove_segments = counted
    found = steps(enforcing_retention(manager.logs(), NOW + 100 * DAY_MS))
    assert len(log.segments) == 1
    assert log.start_offset == log.end_offset == count
    assert max(most) == SEGMENTS_AT_ONCE
    assert len(found) >= 3


def test_a_checkpoint_of_many_logs_takes_many_steps_and_its_lines_are_made_in_a_thread() -> None:
    storage = MemoryStorage()
    manager = manage(storage)
    for index in range(3 * LOGS_AT_ONCE):
        manager.open_log("t", index)
    found = steps(manager.checkpointing())
    assert len([one for one in found if one is None]) == 3
    assert len([one for one in found if one is not None]) == 2
    saved = storage.load(RECOVERY_POINTS)
    assert saved is not None
    assert saved.startswith(b"0\n%d\n" % (3 * LOGS_AT_ONCE))


def test_a_checkpoint_of_many_logs_makes_few_objects_in_each_step() -> None:
    """The garbage collector once visited a tuple for each of 60,000 logs again and again: 100 ms."""
    manager = manage(MemoryStorage())
    count = 20 * LOGS_AT_ONCE
    for index in range(count):
        manager.open_log("t", index)
    job = manager.checkpointing()
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        next(job)
        made = len(gc.get_objects(0))
    finally:
        if was_enabled:
            gc.enable()
    assert made < 3 * LOGS_AT_ONCE


def test_the_newest_checkpoint_stays_in_the_file_in_any_order_of_writes() -> None:
    storage = MemoryStorage()
    file = OffsetCheckpointFile(storage, RECOVERY_POINTS)
    job = file.saving({("t", 0): 1})
    late: Any = next(job)
    file.save({("t", 0): 2})
    late.work()  # the thread was slow
    assert storage.load(RECOVERY_POINTS) == b"0\n1\nt 0 2\n"


@pytest.mark.parametrize("kind", ["made at once", "checkpoint before", "killed between"])
def test_a_new_log_is_not_compared_with_a_deleted_log_of_its_name(kind: str) -> None:
    storage = MemoryStorage()
    manager = manage(storage)
    log = manager.open_log("t", 0)
    for _ in range(5):
        log.append(0, batch(b"x"), wall_ms=NOW)
    log.flush()
    manager.checkpoint()
    assert storage.load(RECOVERY_POINTS) == b"0\n1\nt 0 5\n"
    manager.delete("t", 0)
    assert manager.is_forgotten("t", 0)
    if kind == "checkpoint before":
        at_once(manager.checkpointing())
        assert not manager.is_forgotten("t", 0)
    elif kind == "killed between":
        manager.close(clean=False)
        manager = manage(storage)
        manager.forget_others({"__cluster_metadata"})
    manager.open_log("t", 0).append(0, batch(b"x"), wall_ms=NOW)
    manager.close(clean=False)
    with structlog.testing.capture_logs() as logged:
        assert manage(storage).open_log("t", 0).end_offset == 1
    assert [line["event"] for line in logged if "gone" in line["event"]] == []


def test_a_checkpoint_walk_continues_when_logs_are_deleted_meanwhile() -> None:
    storage = MemoryStorage()
    manager = manage(storage)
    for index in range(2 * LOGS_AT_ONCE):
        manager.open_log("t", index)
    job = manager.checkpointing()
    next(job)
    manager.delete("t", 2 * LOGS_AT_ONCE - 1)
    steps(job)
    saved = storage.load(RECOVERY_POINTS)
    assert saved is not None
    assert saved.startswith(b"0\n%d\n" % (2 * LOGS_AT_ONCE - 1))


def test_a_log_that_is_opened_again_keeps_its_place_in_a_walk() -> None:
    manager = manage(MemoryStorage())
    count = 3 * LOGS_AT_ONCE
    for index in range(count):
        manager.open_log("t", index)
    walk = manager.logs()
    assert next(walk).partition == 0
    new = manager.reopen("t", count - 1)
    passed = manager.reopen("t", 0)
    manager.delete("t", 1)
    assert [log.partition for log in walk] == [*range(2, count)]
    assert [*manager.logs()][-1] is new
    assert next(manager.logs()) is passed
