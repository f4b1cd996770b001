"""Random lives of a compacted log on a disk that fails and in a process that dies. The log is written, rolled,
compacted and opened again until it cannot continue; then the next process reads it. One integer reproduces each life.

Afterwards each key must have a value that was written for it, not older than the last acknowledged value, and nothing
is torn. This must stay so when the next process dies during its recovery. After a failed sync the log may wait for a
repair, after which the same must hold.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
from dataclasses import replace
from pathlib import Path

from muster.coordinator.log import DamagedLog, LogConfig, LogError, LogManager, MemoryStorage, UnifiedLog, batches
from muster.coordinator.log.cleaning.cleaner import Cleaner
from muster.coordinator.log.recovery.repair import repair
from muster.coordinator.system.clock import ManualClock
from muster.virtual.faulty_storage import Died, FaultyStorage
from tests.coordinator.log.cleaning.test_compaction import rows_of
from tests.coordinator.log.support import NOW, PendingResult, manage

CONFIG = LogConfig(
    segment_bytes=900,
    index_interval_bytes=100,
    cleanup_policy=("compact",),
    min_cleanable_dirty_ratio=0.01,
    delete_retention_ms=200,
)
KEYS = 14


class Lost(AssertionError):
    """A promise of the log is broken."""


def repaired(left: MemoryStorage) -> MemoryStorage:
    """The storage after `muster log repair`."""
    after = MemoryStorage()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "t-0").mkdir()
        for name, data in left.files.items():
            (Path(folder) / name).write_bytes(data)
        repair(folder, "t-0")
        for path in Path(folder).glob("**/*"):
            if path.is_file():
                after.files[str(path.relative_to(folder))] = bytearray(path.read_bytes())
    after.directories = set(left.directories)
    return after


class Storm:
    """One life of a server with one log."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.draw = random.Random(seed)
        self.power_cut = self.draw.random() < 0.6
        fails_at = [self.draw.randrange(400) for _ in range(self.draw.choice([0, 0, 1, 4]))]
        self.storage = FaultyStorage(seed, self.draw.randrange(20, 400), fails_at=fails_at)
        self.later = PendingResult()
        self.clock = ManualClock(NOW)
        self.config = replace(CONFIG, segment_bytes=self.draw.choice([300, 900]))
        self.written: dict[bytes, dict[int, set[bytes | None]]] = {b"key-%d" % index: {} for index in range(KEYS)}
        """Key -> offset -> all values that were ever written there: an offset is used again when its record was not
        durable.
        """
        self.promised: dict[bytes, int] = {}
        """Key -> offset of the last acknowledged record, by the promise of this life: synced, or written."""
        self.manager: LogManager
        self.log: UnifiedLog
        self.cleaner: Cleaner
        self.compactions = 0

    def run(self) -> None:
        """Live, die, and let the next process check. Raises Lost."""
        try:
            self._begin()
            while True:
                self._step()
        except (Died, OSError, LogError):
            pass
        left = self.storage.left_behind(power_cut=self.power_cut)
        self._check(self._die_while_recovering(left))

    def _begin(self) -> None:
        self.manager = manage(self.storage, sync=self.later.sync)
        self.log = self.manager.open_log("t", 0, config=self.config, wait_for_sync=self.power_cut)
        # as a server, which does not continue before its directory is durable
        self.storage.sync_directory("")
        self.cleaner = Cleaner(self.manager, self.clock, self.later.sync, cpu_share=1.0)

    def _step(self) -> None:
        chance = self.draw.random()
        try:
            if chance < 0.55:
                self._write()
            elif chance < 0.62:
                self.log.roll(NOW)
            elif chance < 0.7:
                self.compactions += self.cleaner.is_idle
                self.cleaner.check_logs()
                if self.draw.random() < 0.7:
                    self.later.settle()
            elif chance < 0.72:
                self.manager.checkpoint()
            elif chance < 0.75:
                self.clock.advance(self.draw.randrange(150))
            elif chance < 0.9:
                self.later.work()
            else:
                self.later.deliver()
        except (OSError, LogError):
            pass
        if self.log.failure is not None:
            self.log = self.manager.reopen("t", 0)

    def _write(self) -> None:
        # some keys are seldom written, so that their only record must survive compactions
        keys = [b"key-%d" % int(KEYS * self.draw.random() ** 4) for _ in range(self.draw.choice([1, 1, 3]))]
        size = self.draw.randrange(60)
        pairs = [
            (key, None if self.draw.random() < 0.2 else b"%d" % self.draw.randrange(10**9) + b"x" * size)
            for key in keys
        ]
        offset = self.log.end_offset
        for index, (key, value) in enumerate(pairs):
            # also when the append fails: a part of it may be in the file
            self.written[key].setdefault(offset + index, set()).add(value)
        data = batches.build(pairs, timestamp_ms=NOW, compression=self.draw.choice([0, 0, 0, 3]))
        self.log.append(0, data, wall_ms=NOW)
        rows = [(key, offset + index) for index, key in enumerate(keys)]
        self.log.when_durable(self.log.end_offset, lambda failure: self._acknowledge(rows, failure))

    def _acknowledge(self, rows: list[tuple[bytes, int]], failure: object) -> None:
        if failure is None:
            self.promised.update(rows)

    # -- afterwards

    def _die_while_recovering(self, left: MemoryStorage) -> MemoryStorage:
        for attempt in range(self.draw.randrange(3)):
            storage = FaultyStorage(self.seed + attempt, self.draw.randrange(1, 12), on=left)
            with contextlib.suppress(Died, DamagedLog):  # `_check` will report damage
                manage(storage).open_log("t", 0, config=self.config, wait_for_sync=self.power_cut)
            left = storage.left_behind(power_cut=self.power_cut)
        return left

    def _check(self, left: MemoryStorage) -> None:
        left.locked = False
        try:
            log = manage(left).open_log("t", 0, config=self.config, wait_for_sync=self.power_cut)
        except DamagedLog:
            if not self.storage.syncs_failed:
                raise
            # a failed sync has left a hole before later bytes, and the process died before it could cut them off: an
            # operator must state that none of these bytes was promised
            left = repaired(left)
            log = manage(left).open_log("t", 0, config=self.config, wait_for_sync=self.power_cut)
        found: dict[bytes, int] = {}
        last = -1
        for offset, key, value in rows_of(log):
            self._demand(offset > last, f"offset {offset} after {last}")
            last = offset
            self._demand(key is not None and value in self.written.get(key, {}).get(offset, ()), f"{key!r} at {offset}")
            found[key or b""] = offset
        for key, offset in self.promised.items():
            if key not in found:
                # the key is gone: by a tombstone, or by a later one that was not acknowledged
                gone = any(None in values for at, values in self.written[key].items() if at >= offset)
                self._demand(gone, f"{key!r}, acknowledged at {offset}, is not there")
            else:
                self._demand(found[key] >= offset, f"{key!r} is as it was at {found[key]}, acknowledged was {offset}")
        leftovers = [name for name in left.files if name.endswith((".cleaned", ".swap", ".replaces", ".deleted"))]
        self._demand(not leftovers, f"{leftovers} were left")

    def _demand(self, holds: bool, what: str) -> None:
        if not holds:
            raise Lost(f"seed {self.seed}: {what}")
