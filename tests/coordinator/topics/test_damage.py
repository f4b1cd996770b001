"""Slight damage of any file of a data directory: after a start no record is lost without a log line."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import pytest
from structlog.testing import capture_logs

from muster.coordinator.log import LogError, MemoryStorage, batches
from muster.coordinator.log.maintenance import enforcing_retention
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.system.jobs import at_once
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.names import GROUP_OFFSETS_TOPIC
from muster.coordinator.topics.topics import Topics
from tests.coordinator.topics.support import add_topic, batch, make_topics, produce

NOW = Now(0, 1_700_000_000_000)
VALUES = 30
BYTES_APART = 11
"""The distance between two bytes that are changed in a large file."""
LARGE = 300


def prepared(*, clean: bool) -> MemoryStorage:
    """A data directory with four topics: one of several segments, one whose first records were deleted, a compacted
    one, and the offsets topic. Each record has its own value.
    """
    clock = ManualClock(0, NOW.wall_ms)
    topics = make_topics(clock=clock, offsets_topic_num_partitions=1)
    at_once(topics.ensuring(GROUP_OFFSETS_TOPIC))
    small = {"index_interval_bytes": "100"}
    for name, more in (("plain", {}), ("cut", {}), ("keyed", {"cleanup_policy": "compact"})):
        partition = add_topic(topics, name, 1, **small, **more)
        for number in range(VALUES):
            if number % 8 == 7:
                partition.log.roll(NOW.wall_ms)
            produce(partition, batch(f"<{name}-{number}>".encode(), key=b"%d" % number), NOW)
        partition.log.flush()
    cut = topics.open.partition("cut", 0)
    assert cut is not None
    cut.delete_records(15)
    gone = add_topic(topics, "gone")
    produce(gone, batch(b"gone"), NOW)
    at_once(topics.deleting(topics.by_name["gone"]))
    at_once(topics.drawing_producer_id())
    topics.logs.checkpoint()
    topics.logs.close(clean=clean)
    storage = topics.logs.storage
    assert isinstance(storage, MemoryStorage)
    return storage


CLEAN, KILLED = prepared(clean=True), prepared(clean=False)
PATHS = sorted(CLEAN.files.keys() | KILLED.files.keys())


def copied(storage: MemoryStorage) -> MemoryStorage:
    copy = MemoryStorage()
    copy.files = {path: bytearray(data) for path, data in storage.files.items()}
    copy.directories = set(storage.directories)
    return copy


def damages(path: str, data: bytearray) -> Iterator[Callable[[MemoryStorage], object]]:
    """All damages of one file in this test."""

    def changed(at: int, by: int, storage: MemoryStorage) -> None:
        storage.files[path][at] ^= by

    def cut(size: int, storage: MemoryStorage) -> None:
        del storage.files[path][size:]

    apart = 1 if len(data) <= LARGE else BYTES_APART
    for at in range(0, len(data), apart):
        yield functools.partial(changed, at, (1 << at % 8, 0xFF)[at // apart % 2])
    for size in {0, len(data) // 2, max(len(data) - 1, 0)}:
        yield functools.partial(cut, size)
    yield lambda storage: storage.remove(path)


def values_in(storage: MemoryStorage) -> set[bytes]:
    """The values of records that are anywhere on the disk, in any file."""
    everything = b"\n".join(bytes(data) for path, data in storage.files.items())
    wanted = {b"<%s-%d>" % (name, number) for name in (b"plain", b"cut", b"keyed") for number in range(VALUES)}
    return {value for value in wanted if value in everything}


def started(storage: MemoryStorage) -> tuple[Topics | None, bool]:
    """The topics after a start and a retention run; whether a line was logged."""
    with capture_logs() as logged:
        try:
            topics = make_topics(storage, ManualClock(0, NOW.wall_ms), offsets_topic_num_partitions=1)
        except (LogError, ApiError, OSError):
            return None, True  # the command line prints the sentence
        at_once(enforcing_retention(topics.logs.logs(), NOW.wall_ms))
    return topics, any(line["log_level"] != "info" for line in logged)


def served(topics: Topics, name: str) -> list[bytes | None] | None:
    """The values that readers get; None: they get an error because the log is damaged."""
    partition = topics.open.partition(name, 0)
    assert partition is not None
    try:
        chunks = [batches.read(chunk) for chunk in partition.log.replay()]
        return [record.value for chunk in chunks for _, records in chunk for record in records]
    except LogError:
        return None


@pytest.mark.parametrize("stopped", ["clean", "killed"])
@pytest.mark.parametrize("path", PATHS)
def test_no_record_is_lost_without_a_log_line(path: str, stopped: str) -> None:
    sound = CLEAN if stopped == "clean" else KILLED
    if path not in sound.files:
        return
    for number, damage in enumerate(damages(path, sound.files[path])):
        storage = copied(sound)
        damage(storage)
        before = values_in(storage)
        topics, reported = started(storage)
        assert values_in(storage) >= before, f"damage {number}: record bytes are gone, reported: {reported}"
        if topics is not None and not reported and not path.endswith("log-start-offset-checkpoint"):
            for name, first in (("plain", 0), ("keyed", 0), ("cut", 15)):
                expected = [b"<%s-%d>" % (name.encode(), index) for index in range(first, VALUES)]
                expected = [value for value in expected if value in before]
                assert served(topics, name) in (expected, None), f"damage {number}: {name}"
        if topics is not None:
            topics.logs.close()
