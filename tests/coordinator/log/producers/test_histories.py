"""A process may die at any time: what the next process knows of producers is what the log has."""

from __future__ import annotations

import pytest

from muster.coordinator.log import DamagedLog, LogError, MemoryStorage
from muster.coordinator.log.producers import files
from tests.coordinator.log.producers.histories import History, expected, opened, producer_states, stored

BLOCKS, SEEDS = 4, 12


@pytest.mark.parametrize("block", range(BLOCKS))
@pytest.mark.parametrize("power_cut", [False, True])
def test_after_a_crash_the_producer_state_is_that_of_the_log(
    block: int, power_cut: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "FEW_PRODUCERS", block % 2)  # a thread writes half of the snapshots
    for seed in range(block * SEEDS, block * SEEDS + SEEDS):
        history = History(seed + 1000 * power_cut)
        history.live()
        left = history.storage.left_behind(power_cut=power_cut)
        for clean in (False, True, True):
            left.locked = False
            try:
                manager, log = opened(left, wait_for_sync=history.wait_for_sync)
            except DamagedLog:  # bytes that were never synced are torn in the middle: an operator decides
                assert power_cut
                assert not history.wait_for_sync
                break
            try:
                batches = stored(log)
            except DamagedLog:
                with pytest.raises(LogError):
                    producer_states(log)
                break
            assert producer_states(log) == expected(batches), seed
            manager.close(clean=clean)


def copied(storage: MemoryStorage) -> MemoryStorage:
    copy = MemoryStorage()
    copy.directories = set(storage.directories)
    copy.files = {path: bytearray(data) for path, data in storage.files.items()}
    return copy


def test_after_a_cut_at_any_byte_the_producer_state_is_that_of_the_remaining_log() -> None:
    history = History(3, dies_at=5000)
    history._open()
    while len(history.log.segments) < 3 or history.log.segments.active.size < 300:
        history._step()
    history.manager.close(clean=False)
    whole = history.storage.left_behind(power_cut=False)
    for path in ("recovery-point-offset-checkpoint", ".kafka_cleanshutdown"):
        whole.files.pop(path, None)
    newest = max(path for path in whole.files if path.endswith(".log"))
    for size in range(len(whole.files[newest])):
        left = copied(whole)
        del left.files[newest][size:]
        _, log = opened(left)
        assert producer_states(log) == expected(stored(log)), size
