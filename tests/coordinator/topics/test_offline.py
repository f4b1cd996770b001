"""Partitions that cannot be opened or created: only these are offline, no partition is half created, and they come
back.
"""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from muster.coordinator.log import DamagedLog, LogOffline, MemoryStorage, checkpoints
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.system.jobs import at_once
from muster.coordinator.topics import open_topics
from muster.coordinator.topics.creation import NewTopic
from muster.coordinator.topics.errors import ApiError
from muster.coordinator.topics.metadata_log import MetadataLog
from muster.coordinator.topics.metadata_state import TOPIC_RESOURCE
from muster.coordinator.topics.names import METADATA_TOPIC
from muster.coordinator.topics.open_topics import Topic
from muster.coordinator.topics.partition_maintenance import CHECK_EVERY_MS
from muster.coordinator.topics.topics import Topics
from muster.protocol.errors import ErrorCode
from tests.coordinator.topics.support import add_topic, batch, make_topics, produce
from tests.support.disks import FullDisk

NOW = Now(0, 1_700_000_000_000)


def refused(topics: Topics, name: str, partitions: int = 1) -> int:
    with pytest.raises(ApiError) as refusal:
        at_once(topics.creating(NewTopic(name, topics.draw_uuid(), partitions, 1)))
    assert "No space left on device" in str(refusal.value.message)
    return refusal.value.error_code


class _FullAfter(FullDisk):
    """A disk that is full for new directories once it has so many."""

    room = 100

    def make_directory(self, path: str) -> None:
        self.full = len(self.directories) >= self.room
        try:
            super().make_directory(path)
        finally:
            self.full = False


@pytest.mark.parametrize("made", [0, 1, 2])
def test_a_topic_that_cannot_be_created_leaves_nothing(made: int) -> None:
    disk = _FullAfter()
    topics = make_topics(disk)
    disk.room = len(disk.directories) + made
    version = topics.state.version
    assert refused(topics, "t", 3) == ErrorCode.KAFKA_STORAGE_ERROR
    assert (topics.by_name, topics.by_id, topics.state.topics, topics.state.version) == ({}, {}, {}, version)
    assert not [name for name, _ in topics.logs.folders.on_disk() if name == "t"]
    disk.room = 100
    assert produce(add_topic(topics, "t", 3), batch(), NOW).base_offset == 0
    topics.logs.close()
    again = make_topics(disk)
    assert all(again.by_name["t"].is_online(index) for index in range(3))


def test_folders_that_a_full_disk_could_not_delete_are_not_used_by_a_later_topic() -> None:
    disk = FullDisk()
    topics = make_topics(disk)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MetadataLog, "write", _offline)
        patch.setattr(disk, "rename", _full)
        with pytest.raises(ApiError):
            at_once(topics.creating(NewTopic("t", topics.draw_uuid(), 1, 1)))
    assert topics.logs.folders.on_disk()[-1] == ("t", 0)
    partition = add_topic(topics)
    produce(partition, batch(b"new"), NOW)
    assert topics.logs.folders.topic_id_on_disk("t", 0) == topics.by_name["t"].topic_id
    topics.logs.close()
    found = make_topics(disk).open.partition("t", 0)
    assert found is not None
    assert found.log.end_offset == 1


def _offline(*_: object) -> None:
    raise LogOffline("the catalogue", "No space left on device")


def _full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_partitions_that_cannot_be_added_do_not_exist() -> None:
    disk = _FullAfter()
    topics = make_topics(disk)
    add_topic(topics)
    disk.room = len(disk.directories) + 1
    with pytest.raises(ApiError) as refusal:
        at_once(topics.growing("t", 3, None))
    assert refusal.value.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(topics.by_name["t"].partitions) == len(topics.state.topics["t"].partitions) == 1
    disk.room = 100
    at_once(topics.growing("t", 3, None))
    assert [topics.by_name["t"].is_online(index) for index in range(3)] == [True] * 3


def test_the_metadata_log_recovers_when_there_is_space_again() -> None:
    disk, clock = FullDisk(), ManualClock()
    topics = make_topics(disk, clock)
    add_topic(topics, "before")
    disk.full = True
    with pytest.raises(ApiError):
        at_once(topics.setting_configs(TOPIC_RESOURCE, "before", {"retention.ms": "1"}))
    assert topics.metadata_log.log.failure is not None
    with capture_logs() as logged:
        clock.advance(CHECK_EVERY_MS)
    assert (logged[-1]["event"], logged[-1]["topic"]) == ("a log is online again", METADATA_TOPIC)
    assert refused(topics, "meanwhile") == ErrorCode.KAFKA_STORAGE_ERROR
    assert topics.state.topic_configs("before") == {}
    disk.full = False
    clock.advance(CHECK_EVERY_MS)
    at_once(topics.setting_configs(TOPIC_RESOURCE, "before", {"retention.ms": "2"}))
    add_topic(topics, "after")
    topics.logs.close()
    again = make_topics(disk)
    assert list(again.by_name) == ["before", "after"]
    assert again.state.topic_configs("before") == {"retention.ms": "2"}


def test_a_metadata_log_that_has_lost_records_stays_offline() -> None:
    clock = ManualClock()
    topics = make_topics(clock=clock)
    add_topic(topics)
    topics.metadata_log.log.go_offline("x", OSError(5, "Input/output error"))
    topics.state.version += 1
    with capture_logs() as logged:
        clock.advance(CHECK_EVERY_MS)
    assert "records" in logged[-1]["reason"]
    with pytest.raises(ApiError):
        add_topic(topics, "other")


def test_refused_changes_are_cut_off_the_metadata_log() -> None:
    clock = ManualClock()
    topics = make_topics(clock=clock)
    version = topics.state.version
    topics.metadata_log.log.append(1, batch(), wall_ms=0)
    topics.metadata_log.log.go_offline("x", OSError(5, "Input/output error"))
    clock.advance(CHECK_EVERY_MS)
    assert topics.metadata_log.log.end_offset == version


def test_a_partition_recovers_when_there_is_space_again() -> None:
    disk, clock = FullDisk(), ManualClock()
    topics = make_topics(disk, clock)
    partition = add_topic(topics, "t", 2)
    produce(partition, batch(b"before"), NOW)
    disk.full = True
    with pytest.raises(LogOffline):
        produce(partition, batch(b"lost"), NOW)
    assert [topics.by_name["t"].is_online(index) for index in range(2)] == [False, True]
    disk.full = False
    clock.advance(CHECK_EVERY_MS)
    assert topics.by_name["t"].is_online(0)
    assert produce(partition, batch(b"after"), NOW).base_offset == 1


def test_an_offline_log_is_tried_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    topics = make_topics(clock=clock)
    add_topic(topics).log.go_offline("x", OSError(5, "Input/output error"))
    tried: list[int] = []
    began_ms = clock.now().mono_ms

    def fail(*_: object, **__: object) -> None:
        tried.append((clock.now().mono_ms - began_ms) // CHECK_EVERY_MS)
        raise LogOffline("x", "Input/output error")

    monkeypatch.setattr(topics.logs, "reopen", fail)
    clock.advance(100 * CHECK_EVERY_MS)
    assert tried == [1, 3, 7, 15, 31, 63, 95]
    monkeypatch.undo()
    clock.advance(100 * CHECK_EVERY_MS)
    assert topics.by_name["t"].is_online(0)


def test_a_partition_that_is_not_open_yet_is_not_led_here_when_other_nodes_share_the_topic() -> None:
    """As on Kafka, the client asks for the leader again, and gets no error of a failed disk."""
    topics = make_topics(MemoryStorage())
    add_topic(topics)
    state = topics.by_name["t"].state
    for is_shared, expected in ((True, ErrorCode.NOT_LEADER_OR_FOLLOWER), (False, ErrorCode.KAFKA_STORAGE_ERROR)):
        topic = Topic(state, is_shared=is_shared)
        topic.partitions = [None]
        with pytest.raises(ApiError) as refusal:
            topic.existing(0)
        assert refusal.value.error_code == expected


def test_a_partition_that_could_not_be_opened_is_opened_later() -> None:
    storage, clock = _Unreadable(), ManualClock()
    topics = make_topics(storage)
    produce(add_topic(topics, "t", 2), batch(b"kept"), NOW)
    topics.logs.close()
    storage.unreadable = "t-0"
    topics = make_topics(storage, clock)
    assert [topics.by_name["t"].is_online(index) for index in range(2)] == [False, True]
    with pytest.raises(ApiError) as refusal:
        topics.by_name["t"].existing(0)
    assert refusal.value.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    storage.unreadable = ""
    clock.advance(CHECK_EVERY_MS)
    partition = topics.open.partition("t", 0)
    assert partition is not None
    assert partition.log.end_offset == 1


class _Unreadable(MemoryStorage):
    unreadable = ""

    def make_directory(self, path: str) -> None:
        if path and path == self.unreadable:
            raise OSError(24, "Too many open files")
        super().make_directory(path)


def test_no_log_is_opened_after_the_end() -> None:
    storage, clock = MemoryStorage(), ManualClock()
    topics = make_topics(storage, clock)
    add_topic(topics)
    topics.logs.close()
    clock.advance(10 * CHECK_EVERY_MS)
    assert not storage.locked
    assert [*topics.logs.logs()] == []


METADATA = f"t-1/{checkpoints.PARTITION_METADATA}"


@pytest.mark.parametrize("data", [b"", b"\0" * 41, b"nonsense", b"version: 1\ntopic_id: x\n"])
def test_a_broken_partition_metadata_takes_that_one_partition_offline(data: bytes) -> None:
    storage, clock = MemoryStorage(), ManualClock()
    topics = make_topics(storage)
    add_topic(topics, "t", 3)
    topics.logs.close()
    storage.save(METADATA, data)
    with capture_logs() as logged:
        topics = make_topics(storage, clock)
    assert [topics.by_name["t"].is_online(index) for index in range(3)] == [True, False, True]
    (line,) = [line for line in logged if line["log_level"] == "error"]
    assert (line["event"], line["path"]) == ("a log is damaged", f"memory:/{METADATA}")
    assert "muster log repair memory: --partition t-1" in line["what_to_do"]
    clock.advance(10 * CHECK_EVERY_MS)  # an operator decides
    assert not topics.by_name["t"].is_online(1)
    assert storage.files[METADATA] == data
    with pytest.raises(DamagedLog):
        topics.open.reopen("t", 1)


@pytest.mark.parametrize("data", [b"", b"\0" * 41])
def test_an_empty_partition_metadata_is_written_again(data: bytes) -> None:
    storage = MemoryStorage()
    topics = make_topics(storage)
    add_topic(topics, "t", 3)
    topics.logs.close(clean=False)
    storage.save(METADATA, data)
    with capture_logs() as logged:
        topics = make_topics(storage)
    assert topics.by_name["t"].is_online(1)
    assert topics.logs.folders.topic_id_on_disk("t", 1) == topics.by_name["t"].topic_id
    assert [line["path"] for line in logged if line["event"] == "the id of a topic was written again"] == [
        f"memory:/{METADATA}"
    ]


def test_a_topic_can_be_deleted_on_a_disk_that_takes_no_files() -> None:
    disk = FullDisk()
    topics = make_topics(disk)
    produce(add_topic(topics), batch(), NOW)
    topics.logs.checkpoint()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "save", _full)
        patch.setattr(disk, "rename", _full)
        at_once(topics.deleting(topics.by_name["t"]))
    assert topics.by_name == {}
    assert add_topic(topics).log.end_offset == 0


def test_many_partitions_are_checked_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_topics, "CHECKED_AT_ONCE", 3)
    topics = make_topics(MemoryStorage())
    for name in "abc":
        add_topic(topics, name, 2)
    partition = topics.by_name["c"].partitions[1]
    assert partition is not None
    partition.log.go_offline("path", OSError("full"))
    topics.by_name["b"].partitions[0] = None
    found = [[(name, index) for name, index, _ in topics.open.failed_logs()] for _ in range(4)]
    assert [one for one in found if one] == [[("b", 0)], [("c", 1)]] * 2
