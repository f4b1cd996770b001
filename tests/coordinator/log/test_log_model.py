"""Random histories of a log, compared with a list of records: what is read, found and left after reopening."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from muster.coordinator.log import FileStorage, LogConfig, LogManager, MemoryStorage, Storage
from muster.coordinator.log.records.headers import iterate
from muster.coordinator.system.jobs import at_once
from tests.coordinator.log.support import NOW, batch, everything, manage, values

CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=150, segment_ms=10_000, retention_ms=-1)

append = st.tuples(st.just("append"), st.integers(1, 4), st.integers(0, 300), st.integers(-3000, 5000))
point = st.integers(0, 1000)
step = st.one_of(
    append,
    append,
    append,
    st.tuples(st.just("read"), point, st.integers(0, 3000), st.booleans()),
    st.tuples(st.just("find"), st.integers(-20_000, 60_000)),
    st.tuples(st.sampled_from(["roll", "stop", "kill", "lose indexes"])),
    st.tuples(st.sampled_from(["truncate", "delete before", "new epoch"]), point),
)


@dataclass
class Model:
    storage: Storage
    manager: LogManager
    records: list[tuple[int, bytes, int, int]] = field(default_factory=list)
    """Offset, value, timestamp, base offset of its batch."""
    start: int = 0
    end: int = 0
    time: int = NOW
    epoch: int = 0

    def __post_init__(self) -> None:
        self.log = self.manager.open_log("t", 0, config=CONFIG)

    def reopen(self, *, clean: bool, lose_indexes: bool = False) -> None:
        self.manager.close(clean=clean)
        if lose_indexes:
            for entry in self.storage.entries("t-0"):
                if entry.name.endswith("index"):
                    self.storage.remove(f"t-0/{entry.name}")
        self.manager = manage(self.storage)
        self.log = self.manager.open_log("t", 0, config=CONFIG)

    def run(self, step: tuple) -> None:
        kind, *rest = step
        if kind == "append":
            count, size, later = rest
            self.time += later
            content = [b"%d:%d " % (self.end, index) + b"x" * size for index in range(count)]
            base = self.log.append(self.epoch, batch(*content, timestamp_ms=self.time), wall_ms=NOW).base_offset
            assert base == self.end
            self.records += [(base + index, value, self.time, base) for index, value in enumerate(content)]
            self.end += count
        elif kind == "read":
            self.read(self.start + rest[0] % (self.end - self.start + 1), rest[1], rest[2])
        elif kind == "find":
            wanted = NOW + rest[0]
            expected = next(((time, offset) for offset, _, time, _ in self.visible() if time >= wanted), None)
            found = at_once(self.log.offset_for_timestamp(wanted))
            assert (found[:2] if found else None) == expected
        elif kind == "roll":
            self.log.roll(NOW)
        elif kind == "stop":
            self.reopen(clean=True)
        elif kind == "kill":
            self.manager.checkpoint()
            self.reopen(clean=False)
        elif kind == "lose indexes":
            self.reopen(clean=True, lose_indexes=True)
        elif kind == "new epoch":
            self.epoch += 1
            self.log.begin_epoch(self.epoch)
        elif kind == "truncate":
            self.truncate(self.start + rest[0] % (self.end - self.start + 1))
        else:
            self.start = self.log.delete_records_before(self.start + rest[0] % (self.end - self.start + 1))

    def visible(self) -> list[tuple[int, bytes, int, int]]:
        return [record for record in self.records if record[0] >= self.start]

    def truncate(self, offset: int) -> None:
        self.log.truncate(offset)
        # whole batches are deleted
        self.end = (
            next((base for at, _, _, base in self.records if at >= offset), self.end) if offset < self.end else self.end
        )
        self.records = [record for record in self.records if record[0] < self.end]
        self.start = min(self.start, self.end)
        self.epoch = max(self.log.leader_epoch, 0)

    def read(self, offset: int, max_bytes: int, bounded: bool) -> None:
        up_to = offset + max_bytes % 7 if bounded else None
        data = self.log.read(offset, max_bytes, up_to=up_to)
        bound = self.end if up_to is None else min(up_to, self.end)
        # a bound within a batch excludes that batch
        bound = next((base for at, _, _, base in self.records if at >= bound), bound)
        got = values(data)
        first = next((base for at, _, _, base in self.records if at >= offset), self.end)
        assert got == [(at, value) for at, value, _, _ in self.records if first <= at < bound][: len(got)]
        whole = sum(header.size for _, header in iterate(data))
        assert len(data) <= max(max_bytes, whole)
        if first < bound:
            assert got

    def check(self) -> None:
        assert (self.log.start_offset, self.log.end_offset) == (self.start, self.end)
        assert [pair for pair in everything(self.log) if pair[0] >= self.start] == [r[:2] for r in self.visible()]
        ends = [segment.size for segment in self.log.segments]
        assert all(size <= CONFIG.segment_bytes for size in ends)


def play(storage: Storage, steps: list[tuple]) -> None:
    model = Model(storage, manage(storage))
    for one in steps:
        model.run(one)
        assert (model.log.start_offset, model.log.end_offset) == (model.start, model.end), one
    model.check()
    model.manager.checkpoint()  # as on Kafka, the disk has the start offset only as of the last checkpoint
    model.reopen(clean=False)
    model.check()
    model.reopen(clean=True)
    model.check()
    model.manager.close()


# the greatest timestamp of an older segment: if its rebuilt index had not seen it, or if only its index was at hand
UNSEEN = [("append", 1, 0, 0)] * 5 + [("append", 1, 0, 1), ("append", 4, 237, 0), ("lose indexes",), ("find", 1)]
INDEXED = [("append", 1, 0, 0), ("roll",), ("stop",), ("read", 0, 0, False), ("find", 0)]


@example(UNSEEN)
@example(INDEXED)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(step, max_size=40))
def test_a_log_in_memory_behaves_as_a_list_of_records(steps: list[tuple]) -> None:
    play(MemoryStorage(), steps)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(step, max_size=40))
def test_a_log_on_files_behaves_as_a_list_of_records(steps: list[tuple]) -> None:
    directory = Path(tempfile.mkdtemp())
    try:
        play(FileStorage(directory), steps)
    finally:
        shutil.rmtree(directory)
