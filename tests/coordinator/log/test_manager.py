from __future__ import annotations

import errno
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from muster.coordinator.log import (
    DamagedLog,
    DirectoryLocked,
    FileStorage,
    LogManager,
    LogSettings,
    MalformedCheckpoint,
    MemoryStorage,
    WrongDirectory,
    checkpoints,
)
from muster.coordinator.log.maintenance import enforcing_retention
from muster.coordinator.system.jobs import at_once
from tests.coordinator.log.support import NOW, SMALL, PendingResult, batch, drawing, everything, fill, manage, on_files

TOPIC_ID = bytes(range(16))


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_new_directory_gets_an_identity_and_keeps_it(tmp_path: Path) -> None:
    directory = tmp_path / "not" / "there" / "yet"
    manager = LogManager(FileStorage(directory), LogSettings())
    identity = manager.open(cluster_id=None, node_id=3, draw_uuid=drawing())
    assert identity == ("AAAAAAAAAAAAAAAAAAAAAQ", 3, "AAAAAAAAAAAAAAAAAAAAAg")
    manager.close()
    text = (directory / "meta.properties").read_text()
    assert text == "cluster.id=AAAAAAAAAAAAAAAAAAAAAQ\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAg\nnode.id=3\nversion=1\n"
    again = LogManager(FileStorage(directory), LogSettings())
    assert again.open(cluster_id=None, node_id=3, draw_uuid=drawing()) == identity
    again.close()


def test_a_given_cluster_id_is_used() -> None:
    manager = LogManager(MemoryStorage(), LogSettings())
    assert manager.open(cluster_id="mine", node_id=1, draw_uuid=drawing()).cluster_id == "mine"


@pytest.mark.parametrize(("cluster_id", "node_id", "why"), [("other", 1, "cluster mine"), (None, 2, "node.id=1")])
def test_the_data_directory_of_another_node_is_refused_and_unlocked(
    cluster_id: str | None, node_id: int, why: str
) -> None:
    storage = MemoryStorage()
    storage.save("meta.properties", b"version=1\ncluster.id=mine\nnode.id=1\ndirectory.id=x\n")
    with pytest.raises(WrongDirectory, match=why):
        LogManager(storage, LogSettings()).open(cluster_id=cluster_id, node_id=node_id, draw_uuid=drawing())
    assert not storage.locked


def test_an_older_meta_properties_gets_a_directory_id() -> None:
    storage = MemoryStorage()
    storage.save("meta.properties", b"#comment\nversion=0\nbroker.id=1\ncluster.id=mine\n")
    identity = LogManager(storage, LogSettings()).open(cluster_id=None, node_id=1, draw_uuid=drawing())
    assert identity == ("mine", 1, "AAAAAAAAAAAAAAAAAAAAAQ")
    assert b"directory.id=AAAAAAAAAAAAAAAAAAAAAQ" in storage.files["meta.properties"]


WHOLE = {"version": "1", "cluster.id": "mine", "node.id": "1", "directory.id": "AAAAAAAAAAAAAAAAAAAABw"}


def meta(**changed: str) -> bytes:
    values = {**WHOLE, **{name.replace("_", "."): value for name, value in changed.items()}}
    return checkpoints.encode_properties(values)


@pytest.mark.parametrize(
    "changed",
    [
        {"node_id": ""},
        {"node_id": "1x"},
        {"node_id": "-1"},
        {"node_id": "9" * 5000},
        {"node_id": "\u0661"},
        {"version": ""},
        {"cluster_id": "m\u00efne"},
        {"cluster_id": "m ine"},
        {"cluster_id": "x" * 256},
    ],
)
def test_a_damaged_value_of_meta_properties_is_named_with_the_expected_one(changed: dict[str, str]) -> None:
    storage = MemoryStorage()
    storage.save("meta.properties", meta(**changed))
    (name,) = changed
    with pytest.raises(MalformedCheckpoint, match=f"meta.properties .*{name.replace('_', '.')}.* remove it"):
        manage(storage)
    assert not storage.locked
    assert storage.files["meta.properties"] == meta(**changed)


def test_a_directory_of_a_newer_version_is_not_to_be_removed() -> None:
    storage = MemoryStorage()
    storage.save("meta.properties", meta(version="2"))
    with pytest.raises(MalformedCheckpoint, match="version='2', expected: 0 or 1: a newer Kafka or Muster wrote it"):
        manage(storage)


@pytest.mark.parametrize("value", ["", "x", "AAAAAAAAAA=AAAAAAAAABw", "A" * 26, "AAAAA\u00e9AAAAAAAAAAAABw", "A" * 21])
def test_a_damaged_directory_id_is_replaced(value: str) -> None:
    storage = MemoryStorage()
    storage.save("meta.properties", meta(directory_id=value))
    with structlog.testing.capture_logs() as logged:
        identity = LogManager(storage, LogSettings()).open(cluster_id=None, node_id=1, draw_uuid=drawing())
    assert identity == ("mine", 1, "AAAAAAAAAAAAAAAAAAAAAQ")
    assert "directory.id" in logged[0]["reason"]
    assert storage.files["meta.properties.damaged"] == meta(directory_id=value)
    storage.locked = False
    with structlog.testing.capture_logs() as logged:
        assert manage(storage).is_open
    assert logged == []


def test_a_missing_meta_properties_beside_logs_is_reported() -> None:
    storage = MemoryStorage()
    manager = manage(storage)
    manager.open_log("t", 0)
    manager.close()
    storage.remove("meta.properties")
    with structlog.testing.capture_logs() as logged:
        manage(storage).close()
    assert [line["event"] for line in logged] == ["meta.properties was written again"]


def test_a_malformed_meta_properties_is_named() -> None:
    storage = MemoryStorage()
    storage.save("meta.properties", b"nonsense\n")
    with pytest.raises(MalformedCheckpoint, match=r"meta\.properties"):
        manage(storage)
    assert not storage.locked


@pytest.mark.parametrize("cluster_id", [None, "mine"])
def test_an_empty_meta_properties_is_named_with_advice(cluster_id: str | None) -> None:
    storage = MemoryStorage()
    storage.save("meta.properties", b"")
    with pytest.raises(MalformedCheckpoint, match=r"meta\.properties names no node\.id.* remove it"):
        LogManager(storage, LogSettings()).open(cluster_id=cluster_id, node_id=1, draw_uuid=drawing())


class _Full(MemoryStorage):
    """A disk that accepts no small files any more once it is full."""

    full = False

    def save(self, path: str, data: bytes, *, sync: bool = False) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().save(path, data, sync=sync)


def test_a_stop_on_a_full_disk_is_an_unclean_stop() -> None:
    storage = _Full()
    manager = manage(storage)
    manager.open_log("t", 0, config=SMALL)
    storage.full = True
    with structlog.testing.capture_logs() as logged:
        manager.close()
    assert (logged[-1]["event"], logged[-1]["reason"]) == ("a checkpoint cannot be written", "No space left on device")
    assert not storage.locked
    storage.full = False
    again = manage(storage)
    assert again.needs_recovery


def test_a_second_server_on_a_data_directory_is_refused(tmp_path: Path) -> None:
    manager = on_files(tmp_path)
    with pytest.raises(DirectoryLocked) as refused:
        on_files(tmp_path)
    assert (refused.value.directory, refused.value.pid) == (str(tmp_path), os.getpid())
    manager.close()
    manager.close()
    on_files(tmp_path).close()


def test_the_files_of_a_partition_have_kafkas_names_and_contents(tmp_path: Path) -> None:
    manager = on_files(tmp_path)
    log = manager.open_log("my-topic", 7, config=SMALL, topic_id=TOPIC_ID)
    assert manager.open_log("my-topic", 7) is log
    assert manager.get("my-topic", 7) is log
    assert [*manager.logs()] == [log]
    log.begin_epoch(0)
    list(fill(log, 60))
    manager.close()
    assert names(tmp_path) == [
        ".kafka_cleanshutdown",
        ".lock",
        "log-start-offset-checkpoint",
        "meta.properties",
        "my-topic-7",
        "recovery-point-offset-checkpoint",
    ]
    found = names(tmp_path / "my-topic-7")
    assert found[:3] == [f"{0:020d}.index", f"{0:020d}.log", f"{0:020d}.timeindex"]
    assert found[-2:] == ["leader-epoch-checkpoint", "partition.metadata"]
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\nmy-topic 7 60\n"
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n0\n"
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":-1}'
    assert (tmp_path / "my-topic-7" / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"


def test_the_partitions_and_topic_ids_on_disk_are_found() -> None:
    storage = MemoryStorage()
    manager = manage(storage)
    for name in ("b-2", "b-10", "a-b-0", "x", "-1", "a-", "b-1.0a-delete", "c-1.0b-future"):
        storage.make_directory(name)
    storage.save("file-3", b"")
    manager.open_log("a", 0, topic_id=TOPIC_ID)
    assert manager.folders.on_disk() == [("a", 0), ("a-b", 0), ("b", 2), ("b", 10)]
    assert manager.folders.topic_id_on_disk("a", 0) == TOPIC_ID
    assert manager.folders.topic_id_on_disk("b", 2) is None


def test_clean_and_unclean_stops_are_distinguished() -> None:
    storage = MemoryStorage()
    manager = manage(storage)
    assert not manager.needs_recovery
    content = list(fill(manager.open_log("t", 0, config=SMALL), 10))
    manager.close()
    assert storage.load(".kafka_cleanshutdown") is not None
    path = f"t-0/{0:020d}.log"
    storage.files[path][70] ^= 1  # a clean start trusts the files
    manager = manage(storage)
    assert storage.load(".kafka_cleanshutdown") is None, "from now on a kill is seen as one"
    assert manager.open_log("t", 0, config=SMALL).end_offset == 10
    assert not manager.needs_recovery
    storage.files[path][70] ^= 1
    list(fill(manager.get("t", 0) or manager.open_log("t", 0), 1))
    manager.close(clean=False)
    assert storage.load(".kafka_cleanshutdown") is None
    del storage.files[path][-1:]
    manager = manage(storage)
    assert manager.needs_recovery
    assert [value for _, value in everything(manager.open_log("t", 0))] == content


def test_a_log_not_opened_after_a_kill_prevents_a_clean_stop() -> None:
    storage = MemoryStorage()
    manager = manage(storage)
    for index in range(2):
        list(fill(manager.open_log("t", index, config=SMALL), 5))
    manager.close(clean=False)
    del storage.files[f"t-1/{0:020d}.log"][-3:]
    manager = manage(storage)
    manager.open_log("t", 0, config=SMALL)
    manager.close(clean=True)
    manager = manage(storage)
    assert manager.needs_recovery
    assert manager.open_log("t", 1, config=SMALL).end_offset < 5, "torn, not damaged"
    manager.open_log("t", 0, config=SMALL)
    manager.close(clean=True)
    assert storage.load(".kafka_cleanshutdown") is not None


def test_a_log_that_was_never_opened_keeps_its_checkpoints() -> None:
    storage = MemoryStorage()
    manager = manage(storage)
    for index in range(2):
        log = manager.open_log("t", index)
        list(fill(log, 5))
        log.delete_records_before(2)
    manager.close()
    manager = manage(storage)
    manager.open_log("t", 0)
    manager.close(clean=True)
    assert storage.load("recovery-point-offset-checkpoint") == b"0\n2\nt 0 5\nt 1 5\n"
    assert storage.load("log-start-offset-checkpoint") == b"0\n2\nt 0 2\nt 1 2\n"
    assert manage(storage).open_log("t", 1).start_offset == 2


def test_a_partition_copied_in_by_hand_is_recovered_even_after_a_clean_stop() -> None:
    source = MemoryStorage()
    log = manage(source).open_log("other", 0)
    content = list(fill(log, 5))
    target = MemoryStorage()
    manage(target).close()
    target.make_directory("t-3")
    target.save(f"t-3/{0:020d}.log", bytes(source.files[f"other-0/{0:020d}.log"])[:-1])
    assert [value for _, value in everything(manage(target).open_log("t", 3))] == content[:4]


def test_broken_offset_checkpoints_only_make_recovery_longer() -> None:
    storage = MemoryStorage()
    manager = manage(storage)
    content = list(fill(manager.open_log("t", 0), 5))
    manager.close()
    storage.save("recovery-point-offset-checkpoint", b"garbage")
    with structlog.testing.capture_logs() as logged:
        manager = manage(storage)
    assert [line["event"] for line in logged] == ["a checkpoint is ignored: it cannot be read"]
    assert [value for _, value in everything(manager.open_log("t", 0))] == content


@pytest.mark.parametrize("threads", [False, True])
def test_a_deleted_log_is_renamed_and_removed_later(threads: bool) -> None:
    later, storage = PendingResult(), MemoryStorage()
    manager = manage(storage, sync=later.sync if threads else None)
    log = manager.open_log("t", 0)
    list(fill(log, 5))
    doomed = manager.delete("t", 0)
    assert manager.delete("t", 0) == manager.delete("never", 9) == []
    assert manager.get("t", 0) is None
    assert manager.folders.on_disk() == []
    left = [entry.name for entry in storage.entries("") if entry.is_directory]
    assert left == doomed
    ((_, other),) = manager.folders.renamed_folders()
    assert (other.partition, other.suffix) == (("t", 0), "-delete")
    manager.remove(doomed)
    later.settle()
    assert [entry for entry in storage.entries("") if entry.is_directory] == []
    again = manager.open_log("t", 0)
    assert (again.start_offset, again.end_offset) == (0, 0)


def test_folder_names_of_deleted_logs_are_kafkas_and_short_enough(tmp_path: Path) -> None:
    manager = on_files(tmp_path)
    name = "x" * 249
    list(fill(manager.open_log(name, 12), 2))
    aside = manager.set_aside(name, 12)
    assert len(aside) == 255
    assert re.fullmatch(r"x+-12\.[0-9a-f]{32}-stray", aside)
    manager.folders.put_back(aside, name, 12)
    assert manager.open_log(name, 12).end_offset == 2
    (tmp_path / "backup-delete").mkdir()
    (tmp_path / "t-0.00ff-stray").mkdir()
    assert manager.folders.renamed_folders() == []  # another process has the lock
    manager.close()


def test_reopening_after_damage_can_be_tried_again() -> None:
    storage = MemoryStorage()
    manager = manage(storage)
    log = manager.open_log("t", 0)
    content = list(fill(log, 5))
    path = f"t-0/{0:020d}.log"
    storage.files[path][70] ^= 1
    with pytest.raises(DamagedLog):
        manager.reopen("t", 0)
    assert ("t", 0) in manager.offline
    storage.files[path][70] ^= 1
    assert [value for _, value in everything(manager.reopen("t", 0))] == content
    assert manager.offline == {}


def test_retention_handles_all_logs_and_one_failure_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    manager = manage(storage)
    for index in range(3):
        list(fill(manager.open_log("t", index, config=replace(SMALL, retention_bytes=0)), 60))
    real = storage.rename

    def rename(old: str, new: str) -> None:
        if old.startswith("t-0/"):
            raise OSError(5, "Input/output error")
        real(old, new)

    monkeypatch.setattr(storage, "rename", rename)
    assert at_once(enforcing_retention(manager.logs(), NOW)) > 2
    assert [log.failure is None for log in manager.logs()] == [False, True, True]
    assert [log.size_bytes for log in [*manager.logs()][1:]] == [0, 0]


def test_a_flush_syncs_all_logs_that_work() -> None:
    manager = manage(MemoryStorage())
    first, second = manager.open_log("t", 0), manager.open_log("t", 1)
    list(fill(first, 3))
    first.abandon()
    list(fill(second, 3))
    manager.flush()
    assert (first.durability.recovery_point, second.durability.recovery_point) == (0, 3)


def test_fifty_empty_partitions_take_no_descriptors(tmp_path: Path) -> None:
    manager = on_files(tmp_path)
    before = len(os.listdir("/dev/fd"))
    logs = [manager.open_log("__consumer_offsets", index) for index in range(50)]
    assert len(os.listdir("/dev/fd")) == before
    logs[3].append(0, batch(b"x"), wall_ms=NOW)
    assert len(os.listdir("/dev/fd")) == before + 1
    manager.close()
    assert len(os.listdir("/dev/fd")) == before - 2  # the descriptors of the lock and of the directory
    manager = on_files(tmp_path)
    assert [manager.open_log("__consumer_offsets", index).end_offset for index in range(50)] == [0] * 3 + [1] + [0] * 46
    manager.close()


def test_a_log_in_memory_is_the_same_code() -> None:
    manager = manage(MemoryStorage())
    log = manager.open_log("t", 0, config=SMALL)
    content = list(fill(log, 100))
    assert [value for _, value in everything(log)] == content
    manager.close()
