"""A process dies between any two changes of its files: acknowledged records survive, and nothing appears that was never
written.
"""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from muster.coordinator.log import FileStorage, LogConfig, LogOffline, MemoryStorage
from muster.coordinator.log.segments.reading import size_up_to
from muster.virtual.faulty_storage import Died, FaultyStorage
from tests.coordinator.log.support import NOW, PendingResult, batch, everything, manage

CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=100)
TOPIC_ID = bytes(range(16))


class History:
    """A server that appends, rolls, deletes and checkpoints at random until its storage dies."""

    def __init__(self, seed: int, *, wait_for_sync: bool) -> None:
        self.draw = random.Random(seed)
        self.storage = FaultyStorage(seed, self.draw.randrange(10, 150))
        self.later = PendingResult()
        self.wait_for_sync = wait_for_sync
        self.written: list[bytes] = []
        self.acknowledged = 0
        self.start = 0

    def live(self) -> None:
        try:
            manager = manage(self.storage, sync=self.later.sync)
            log = manager.open_log("t", 0, config=CONFIG, wait_for_sync=self.wait_for_sync)
            while True:
                chance = self.draw.random()
                if chance < 0.75:
                    value = b"%d:" % len(self.written) + b"x" * self.draw.randrange(200)
                    self.written.append(value)
                    end = (
                        log.append(
                            max(log.leader_epoch, 0) + (self.draw.random() < 0.05), batch(value), wall_ms=NOW
                        ).last_offset
                        + 1
                    )
                    log.when_durable(end, lambda failure, end=end: self.acknowledge(end, failure))
                elif chance < 0.8:
                    manager.checkpoint()
                elif chance < 0.83:
                    self.start = self.draw.randrange(log.start_offset, log.durable_offset + 1)
                    log.delete_records_before(self.start)
                elif chance < 0.95:
                    self.later.work()
                    self.later.deliver()
                else:
                    log.roll(NOW)
        except Died:
            pass

    def acknowledge(self, end: int, failure: object) -> None:
        if failure is None:
            self.acknowledged = max(self.acknowledged, end)


def check(history: History, found: list[tuple[int, bytes | None]], end: int) -> None:
    # after DeleteRecords has emptied a log, no more than that may be known after a power cut
    assert end >= history.acknowledged or history.start >= history.acknowledged
    for offset, value in found:
        assert value == history.written[offset]
    offsets = [offset for offset, _ in found]
    assert offsets == sorted(set(offsets))
    # deleted records may come back after a kill, as on Kafka; no other record may be missing
    assert set(range(history.start, history.acknowledged)) <= set(offsets)


@pytest.mark.parametrize("block", range(8))
def test_a_killed_process_loses_nothing_that_it_wrote(block: int) -> None:
    for seed in range(block * 40, block * 40 + 40):
        history = History(seed, wait_for_sync=False)
        history.live()
        left = history.storage.left_behind(power_cut=False)
        log = manage(left).open_log("t", 0, config=CONFIG)
        check(history, everything(log), log.end_offset)
        # and once more: recovery itself left everything in order
        left.locked = False
        assert manage(left).open_log("t", 0, config=CONFIG).end_offset == log.end_offset


@pytest.mark.parametrize("block", range(8))
def test_a_power_cut_loses_nothing_that_was_acknowledged_as_synced(block: int) -> None:
    for seed in range(block * 40, block * 40 + 40):
        history = History(1000 + seed, wait_for_sync=True)
        history.live()
        left = history.storage.left_behind(power_cut=True)
        log = manage(left).open_log("t", 0, config=CONFIG, wait_for_sync=True)
        check(history, everything(log), log.end_offset)


def test_the_directory_of_a_new_log_is_synced_before_its_first_acknowledgement() -> None:
    synced: list[str] = []

    class Noting(MemoryStorage):
        def sync_directory(self, path: str) -> None:
            synced.append(path)

    later = PendingResult()
    log = manage(Noting(), sync=later.sync).open_log("t", 0, wait_for_sync=True)
    for _ in range(2):
        end = log.append(0, batch(b"x"), wall_ms=NOW).last_offset + 1
        log.when_durable(end, lambda _: None)
        later.settle()
        assert log.durable_offset == end
    assert synced == ["t-0", ""]


@pytest.mark.parametrize("seed", range(40))
def test_the_mark_of_a_clean_stop_is_gone_once_the_next_process_writes(seed: int) -> None:
    """A power cut may bring back a name that was removed and not synced: the mark of the clean stop before."""
    first = FaultyStorage(seed, 1_000)
    manager = manage(first)
    manager.open_log("t", 0, config=CONFIG).append(0, batch(b"old"), wall_ms=NOW)
    manager.close()
    second = FaultyStorage(seed, 1_000, on=first.left_behind(power_cut=False))
    log = manage(second).open_log("t", 0, config=CONFIG)
    log.append(0, batch(b"new" * 20), wall_ms=NOW)
    left = second.left_behind(power_cut=True)
    found = everything(manage(left).open_log("t", 0, config=CONFIG))  # a torn tail is no damage
    assert [value for _, value in found] in ([b"old"], [b"old", b"new" * 20])


@pytest.mark.parametrize("is_begun", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_a_clean_stop_is_marked_only_after_new_folders_are_synced(seed: int, *, is_begun: bool) -> None:
    later = PendingResult()
    disk = FaultyStorage(seed, 1_000)
    manager = manage(disk, sync=later.sync)
    manager.open_log("t", 0, topic_id=TOPIC_ID, wait_for_sync=True)
    if is_begun:
        manager.folders.new.when_synced(lambda _: None)
        assert later.jobs, "a thread is to sync the folder"
    manager.close()
    again = manage(disk.left_behind(power_cut=True))
    assert not again.needs_recovery
    assert again.open_log("t", 0, topic_id=TOPIC_ID).end_offset == 0
    assert again.folders.topic_id_on_disk("t", 0) == TOPIC_ID


@pytest.mark.parametrize("seed", range(10))
def test_checkpoints_of_a_clean_stop_survive_a_power_cut(seed: int) -> None:
    """Records that a client has deleted do not come back."""
    disk = FaultyStorage(seed, 1_000)
    manager = manage(disk)
    log = manager.open_log("t", 0, config=CONFIG)
    for number in range(3):
        log.append(0, batch(b"%d" % number), wall_ms=NOW)
    log.delete_records_before(2)
    manager.close()
    again = manage(disk.left_behind(power_cut=True))
    assert not again.needs_recovery
    assert again.open_log("t", 0, config=CONFIG).start_offset == 2


def test_no_stop_is_clean_after_a_failed_sync_of_new_folders() -> None:
    later, failures = PendingResult(), []
    disk = FaultyStorage(1, 1_000)
    manager = manage(disk, sync=later.sync)
    manager.open_log("t", 0, topic_id=TOPIC_ID, wait_for_sync=True)
    disk.fails_at = frozenset({disk.steps + 1})
    manager.folders.new.when_synced(failures.append)
    later.settle()
    assert failures != [None]
    manager.close()
    assert manage(disk.left_behind(power_cut=False)).needs_recovery


def test_a_read_that_fails_names_its_file_in_a_log_line(tmp_path: Path) -> None:
    """A folder replaced a time index: a Fetch got KAFKA_STORAGE_ERROR, and nothing was logged."""
    manager = manage(FileStorage(tmp_path))
    log = manager.open_log("t", 0)
    for _ in range(3):
        log.append(0, batch(b"x"), wall_ms=NOW)
        log.roll(NOW)
    manager.close()
    index = tmp_path / "t-0" / "00000000000000000001.timeindex"
    index.unlink()
    index.mkdir()
    log = manage(FileStorage(tmp_path)).open_log("t", 0)
    for read in (partial(log.read, 1, 1_000), partial(size_up_to, log.segments, 1)):
        with capture_logs() as logged, pytest.raises(LogOffline):
            read()
        line = logged[-1]
        assert (line["event"], line["log_level"]) == ("a log cannot be read", "error")
        assert line["path"].endswith("t-0/00000000000000000001.log")
        assert "timeindex" in line["reason"]
