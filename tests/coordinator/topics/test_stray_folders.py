"""Folders that the metadata log does not know: those of deleted topics are removed; others keep their bytes, and are
reported.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from muster.coordinator.log import MemoryStorage, batches, checkpoints
from muster.coordinator.log.errors import DamagedLog
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.system.clock import ManualClock
from muster.coordinator.system.jobs import at_once
from muster.coordinator.topics import stray_folders as strays
from muster.coordinator.topics.creation import NewTopic
from muster.coordinator.topics.folder_repair import misfits
from muster.coordinator.topics.names import METADATA_TOPIC
from muster.coordinator.topics.startup import KEEP_ALL
from muster.coordinator.topics.topics import Topics
from tests.coordinator.topics.support import add_topic, batch, make_topics, produce

NOW = Now(0, 1_700_000_000_000)
LOG = f"{0:020d}.log"
METADATA = f"{METADATA_TOPIC}-0"
Lines = list[dict[str, object]]


def record_bytes(storage: MemoryStorage) -> int:
    """The record bytes of all partitions except the metadata log, under any folder name."""
    return sum(len(data) for path, data in storage.files.items() if ".log" in path and not path.startswith(METADATA))


def values(topics: Topics, name: str, index: int = 0) -> list[bytes | None] | None:
    partition = topics.open.partition(name, index)
    if partition is None:
        return None
    return [record.value for _, records in batches.read(partition.log.read(0, 10_000)) for record in records]


def with_topics(**partitions: int) -> Topics:
    topics = make_topics()
    for name, count in partitions.items():
        add_topic(topics, name, count)
        for index in range(count):
            partition = topics.open.partition(name, index)
            assert partition is not None
            produce(partition, batch(f"{name}-{index}".encode()), NOW)
    return topics


def storage_of(topics: Topics, *, clean: bool = True) -> MemoryStorage:
    topics.logs.close(clean=clean)
    storage = topics.logs.storage
    assert isinstance(storage, MemoryStorage)
    return storage


def start(storage: MemoryStorage, clock: ManualClock | None = None) -> tuple[Topics, Lines]:
    with capture_logs() as logged:
        topics = make_topics(storage, clock)
    return topics, [line for line in logged if line["log_level"] != "info"]


def folders(storage: MemoryStorage, suffix: str = "-stray") -> list[str]:
    return sorted(name for name in storage.directories if name.endswith(suffix))


def set_id(storage: MemoryStorage, folder: str, topic_id: bytes) -> None:
    storage.save(f"{folder}/{checkpoints.PARTITION_METADATA}", checkpoints.encode_topic_id(topic_id))


@pytest.mark.parametrize("clean", [True, False])
def test_a_folder_of_an_unknown_topic_is_set_aside_and_logged(clean: bool) -> None:
    storage = storage_of(with_topics(t=1, orders=1), clean=clean)
    files = {path: bytes(data) for path, data in storage.files.items() if path.startswith("orders-0/")}
    other = storage_of(with_topics(t=1), clean=clean)
    other.make_directory("orders-0")
    for path, data in files.items():
        other.save(path, data)
    set_id(other, "orders-0", b"o" * 16)
    before = record_bytes(other)
    topics, warnings = start(other)
    assert topics.open.partition("orders", 0) is None
    (aside,) = folders(other)
    assert [line["folder"] for line in warnings if "set aside" in str(line["event"])] == [aside]
    assert f"--partition {aside}" in str(warnings[-1]["what_to_do"])
    assert record_bytes(other) == before
    # an existing topic of that name is not disturbed, and a second stray folder of it gets a name of its own
    produce(add_topic(topics, "orders"), batch(b"new"), NOW)
    storage_of(topics, clean=clean)
    set_id(other, "orders-0", b"p" * 16)
    storage_of(start(other)[0], clean=clean)
    again, _ = start(other)
    assert values(again, "orders") == [b"new"]
    assert folders(other) == [aside]


def test_stray_folders_of_one_name_do_not_collide() -> None:
    storage = storage_of(with_topics(t=1))
    for number in range(3):
        storage.make_directory("orders-0")
        storage.save(f"orders-0/{LOG}", bytes(batches.build([(b"k", b"%d" % number)], timestamp_ms=1)))
        storage_of(start(storage)[0])
    assert len(folders(storage)) == 3


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("position", [0, 10, 15])
def test_a_damaged_topic_id_loses_no_records(position: int, clean: bool) -> None:
    topics = with_topics(t=2)
    topic_id = topics.by_name["t"].topic_id
    storage = storage_of(topics, clean=clean)
    damaged = bytearray(topic_id)
    damaged[position] ^= 0x10
    set_id(storage, "t-1", bytes(damaged))
    again, warnings = start(storage)
    assert [values(again, "t", index) for index in range(2)] == [[b"t-0"], [b"t-1"]]
    (line,) = [line for line in warnings if line["event"] == "the id of a topic was written again"]
    assert (line["topic"], line["partition"]) == ("t", 1)
    assert again.logs.folders.topic_id_on_disk("t", 1) == topic_id
    kept = storage.files[f"t-1/{checkpoints.PARTITION_METADATA}.damaged"]
    assert checkpoints.decode_topic_id("", bytes(kept)) == damaged


def test_the_folder_of_a_deleted_topic_is_removed_only_by_its_id() -> None:
    topics = with_topics(gone=1, kept=1)
    gone_id = topics.by_name["gone"].topic_id
    storage = topics.logs.storage
    assert isinstance(storage, MemoryStorage)
    files = {path: bytes(data) for path, data in storage.files.items() if path.startswith("gone-0/")}
    at_once(topics.deleting(topics.by_name["gone"]))
    storage_of(topics)
    # a kill leaves it so between the record and the folder; and a folder with that name of another topic
    for folder in ("gone-0", "other-0"):
        storage.make_directory(folder)
        for path, data in files.items():
            storage.save(f"{folder}/{path.partition('/')[2]}", data)
    topics, warnings = start(storage)
    assert ("gone", 0) not in topics.logs.folders.on_disk()
    assert [line["topic"] for line in warnings] == ["other"]
    assert folders(storage)[0].startswith("other-0.")
    assert gone_id in topics.state.deleted


def test_a_deletion_without_its_record_is_undone() -> None:
    topics = with_topics(t=2)
    topic = topics.by_name["t"]
    topics.logs.delete("t", 0, 1, topic_id=topic.topic_id)
    storage = storage_of(topics, clean=False)
    assert len(folders(storage, "-delete")) == 2
    again, warnings = start(storage)
    assert [values(again, "t", index) for index in range(2)] == [[b"t-0"], [b"t-1"]]
    assert folders(storage, "-delete") == warnings == []


def test_a_half_deleted_folder_is_removed_and_an_unexplained_one_kept() -> None:
    topics = with_topics(t=1, u=1)
    topic_id = topics.by_name["t"].topic_id
    storage = topics.logs.storage
    assert isinstance(storage, MemoryStorage)
    at_once(topics.deleting(topics.by_name["t"]))
    storage_of(topics)
    for uuid, data in ((topic_id, b"part of it"), (b"n" * 16, b"records")):
        folder = f"t-0.{uuid.hex()}-delete"
        storage.make_directory(folder)
        storage.save(f"{folder}/{LOG}", data)
    _, warnings = start(storage)
    assert folders(storage, "-delete") == []
    (aside,) = folders(storage)
    assert bytes(storage.files[f"{aside}/{LOG}"]) == b"records"
    assert [line["folder"] for line in warnings] == [aside]


def test_an_empty_stray_folder_is_removed() -> None:
    topics = with_topics(t=1)
    topics.logs.open_log("unmade", 0, topic_id=b"u" * 16)
    storage = storage_of(topics)
    assert start(storage)[1] == []
    assert "unmade-0" not in storage.directories


def test_folders_of_surplus_partitions_are_set_aside() -> None:
    topics = with_topics(t=1)
    log = topics.logs.open_log("t", 1, topic_id=topics.by_name["t"].topic_id)
    log.append(0, batch(b"kept"), wall_ms=0)
    storage = storage_of(topics)
    _, warnings = start(storage)
    assert [line["folder"] for line in warnings] == folders(storage)
    assert folders(storage)[0].startswith("t-1.")


def test_a_partition_without_its_folder_is_logged() -> None:
    storage = storage_of(with_topics(t=2))
    assert misfits(storage) == []
    storage.remove_tree("t-1")
    (missing,) = misfits(storage)
    assert missing.folder == "t-1"
    assert "its folder is missing" in missing.problem
    storage.save("t-1", b"a file")
    assert "a file is in the place of its folder" in misfits(storage)[0].problem
    storage.remove("t-1")
    topics, warnings = start(storage)
    assert topics.by_name["t"].is_online(1)
    assert [(line["topic"], line["partition"]) for line in warnings if "is missing" in str(line["event"])] == [("t", 1)]


def test_thousands_of_stray_folders_need_few_log_lines() -> None:
    storage = storage_of(with_topics(t=1))
    for index in range(100):
        storage.make_directory(f"s-{index}")
        storage.save(f"s-{index}/{LOG}", b"records")
    _, warnings = start(storage)
    assert len(warnings) == strays.MAX_LINES + 1
    assert warnings[-1]["more"] == 100 - strays.MAX_LINES
    assert len(folders(storage)) == 100
    storage_of(_)
    with capture_logs() as again:
        make_topics(storage)
    assert [line["folders"] for line in again if "folders" in line] == [100]


def test_a_folder_in_the_way_of_a_new_topic_keeps_its_records() -> None:
    topics = with_topics(t=1)
    storage = topics.logs.storage
    assert isinstance(storage, MemoryStorage)
    storage.make_directory("new-0")
    storage.save(f"new-0/{LOG}", b"records of somebody")
    assert add_topic(topics, "new").log.end_offset == 0
    (aside,) = folders(storage)
    assert bytes(storage.files[f"{aside}/{LOG}"]) == b"records of somebody"


@pytest.mark.parametrize("name", ["t-00", "t-+1", "t-4294967296", "backup-delete", "t-0.tmp"])
def test_folders_with_other_names_are_not_touched(name: str) -> None:
    storage = storage_of(with_topics(t=1))
    storage.make_directory(name)
    storage.save(f"{name}/{LOG}", b"records")
    topics, warnings = start(storage)
    assert bytes(storage.files[f"{name}/{LOG}"]) == b"records"
    assert (values(topics, "t"), warnings) == ([b"t-0"], [])


# -- the metadata log itself


def cut_before(storage: MemoryStorage, name: str) -> None:
    """Cut the metadata log at the batch that names a topic."""
    data = storage.files[f"{METADATA}/{LOG}"]
    at = 0
    while name.encode() not in data[at : at + 12 + int.from_bytes(data[at + 8 : at + 12])]:
        at += 12 + int.from_bytes(data[at + 8 : at + 12])
    del data[at:]


DAMAGES: dict[str, Callable[[MemoryStorage], object]] = {
    "folder removed": lambda storage: storage.remove_tree(METADATA),
    "log removed": lambda storage: storage.remove(f"{METADATA}/{LOG}"),
    "log emptied": lambda storage: storage.save(f"{METADATA}/{LOG}", b""),
    "log cut": lambda storage: cut_before(storage, "orders"),
}


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("damage", DAMAGES)
def test_topics_of_a_lost_metadata_log_are_created_again(damage: str, clean: bool) -> None:
    topics = with_topics(first=1, gone=1, orders=3)
    orders_id = topics.by_name["orders"].topic_id
    producer_id = at_once(topics.drawing_producer_id())
    at_once(topics.deleting(topics.by_name["gone"]))
    topics.logs.checkpoint() if clean else topics.logs.flush()
    topics.logs.checkpoint()
    storage = storage_of(topics, clean=clean)
    before = record_bytes(storage)
    DAMAGES[damage](storage)
    again, warnings = start(storage, ManualClock())
    assert [values(again, "orders", index) for index in range(3)] == [[b"orders-0"], [b"orders-1"], [b"orders-2"]]
    assert values(again, "first") == [b"first-0"]
    assert again.by_name["orders"].topic_id == orders_id
    assert again.state.topic_configs("orders") == KEEP_ALL
    assert at_once(again.drawing_producer_id()) > producer_id
    assert record_bytes(storage) == before
    assert [line["log_level"] for line in warnings if line["event"] == "the metadata log has lost records"] == ["error"]
    # and it stays so
    storage_of(again)
    later, warnings = start(storage)
    assert (values(later, "orders", 2), warnings) == ([b"orders-2"], [])


def test_doubtful_folders_are_set_aside_when_the_metadata_log_is_lost() -> None:
    storage = storage_of(with_topics(holes=3, mixed=2, sound=1))
    storage.remove_tree("holes-1")
    set_id(storage, "mixed-1", b"m" * 16)
    storage.remove_tree(METADATA)
    topics, warnings = start(storage)
    assert list(topics.by_name) == ["sound"]
    assert [name.partition(".")[0] for name in folders(storage)] == ["holes-0", "holes-2", "mixed-0", "mixed-1"]
    assert sorted(str(line["folder"]) for line in warnings if "folder" in line) == folders(storage)


def test_deleted_folders_are_kept_after_a_lost_metadata_log() -> None:
    topics = with_topics(kept=1, gone=1, later=1)
    gone_id = topics.by_name["gone"].topic_id
    at_once(topics.deleting(topics.by_name["gone"]))
    at_once(topics.creating(NewTopic("last", topics.draw_uuid(), 1, 1)))
    storage = storage_of(topics)
    cut_before(storage, "last")
    for folder in ("gone-0", f"gone-0.{gone_id.hex()}-delete"):
        storage.make_directory(folder)
        storage.save(f"{folder}/{LOG}", b"records")
        set_id(storage, folder, gone_id)
    before = record_bytes(storage)
    _, warnings = start(storage)
    assert record_bytes(storage) == before
    assert len(folders(storage)) == len(folders(storage, "-delete")) == 1
    assert {str(line.get("folder")) for line in warnings} >= {*folders(storage), *folders(storage, "-delete")}


def test_a_damaged_topic_id_of_the_metadata_log_is_repaired() -> None:
    storage = storage_of(with_topics(t=1))
    storage.save(f"{METADATA}/{checkpoints.PARTITION_METADATA}", b"nonsense")
    topics, warnings = start(storage)
    assert values(topics, "t") == [b"t-0"]
    assert [line["event"] for line in warnings] == ["the id of a topic was written again"]


def test_records_of_another_partition_in_place_of_the_metadata_log_are_refused() -> None:
    storage = storage_of(with_topics(t=1))
    storage.save(f"{METADATA}/{LOG}", bytes(storage.files[f"t-0/{LOG}"]))
    storage.remove(checkpoints.RECOVERY_POINTS)
    before = record_bytes(storage)
    with pytest.raises(DamagedLog, match="holds no records of a metadata log"):
        start(storage)
    assert record_bytes(storage) == before
    assert [one.folder for one in misfits(storage)] == [METADATA]
