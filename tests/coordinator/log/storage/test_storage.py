"""Tests of every storage, on which a log relies; then tests of files only."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.coordinator.log import DirectoryLocked, FileStorage, MemoryStorage, Storage
from muster.coordinator.log.storage import files


@pytest.fixture(params=["files", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    made: Storage = FileStorage(tmp_path / "data") if request.param == "files" else MemoryStorage()
    made.make_directory("")
    return made


def test_a_file_holds_what_was_written(storage: Storage) -> None:
    file = storage.file("f")
    file.pwrite(b"hello", 0)
    file.pwrite_parts([b" wor", bytearray(b"l"), memoryview(b"d")], 5)
    assert file.pread(100, 0) == b"hello world"
    assert file.pread(3, 4) == b"o w"
    assert file.pread(3, 50) == b""
    assert file.size() == 11
    file.pwrite(b"J", 0)
    file.truncate(5)
    assert file.pread(100, 0) == b"Jello"
    file.truncate(7)
    assert file.pread(100, 0) == b"Jello\0\0"


def test_a_gap_reads_as_zeros(storage: Storage) -> None:
    file = storage.file("f")
    file.pwrite(b"x", 3)
    assert file.pread(9, 0) == b"\0\0\0x"


def test_a_closed_file_opens_again(storage: Storage) -> None:
    file = storage.file("f")
    file.pwrite(b"abc", 0)
    file.close()
    file.close()
    assert file.pread(3, 0) == b"abc"
    file.close()
    file.sync()
    assert file.size() == 3


def test_small_files_are_replaced_as_a_whole(storage: Storage) -> None:
    assert storage.load("x/small") is None
    storage.make_directory("x")
    storage.save("x/small", b"one")
    storage.save("x/small", b"2", sync=True)
    assert storage.load("x/small") == b"2"
    assert [entry.name for entry in storage.entries("x")] == ["small"]


def test_directories_are_made_listed_and_removed(storage: Storage) -> None:
    storage.make_directory("a/b")
    storage.make_directory("a/b")
    storage.save("a/b/f", b"12345")
    storage.save("a/g", b"")
    assert [(entry.name, entry.is_directory) for entry in storage.entries("a")] == [("b", True), ("g", False)]
    assert [(entry.name, entry.size) for entry in storage.entries("a/b")] == [("f", 5)]
    storage.rename("a", "c")
    assert storage.load("c/b/f") == b"12345"
    assert storage.load("a/b/f") is None
    storage.sync_directory("c")
    storage.remove_tree("c")
    storage.remove_tree("c")
    assert storage.entries("") == []


def test_missing_files_are_reported_as_not_found(storage: Storage) -> None:
    storage.remove("nothing")
    with pytest.raises(FileNotFoundError):
        storage.entries("nothing")
    with pytest.raises(FileNotFoundError):
        storage.rename("nothing", "something")


def test_renaming_a_file_replaces_the_other(storage: Storage) -> None:
    storage.save("a", b"1")
    storage.save("b", b"2")
    storage.rename("a", "b")
    assert storage.load("b") == b"1"
    assert storage.load("a") is None


def test_a_storage_has_one_lock_holder_at_a_time(storage: Storage) -> None:
    lock = storage.lock()
    with pytest.raises(DirectoryLocked) as refused:
        storage.lock()
    assert storage.root in str(refused.value)
    lock.release()
    storage.lock().release()


# -- files only


def test_another_process_gets_an_error_that_names_the_lock_holder(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from muster.coordinator.log import FileStorage, DirectoryLocked\n"
        "try:\n    FileStorage(sys.argv[1]).lock()\n"
        "except DirectoryLocked as error:\n    print(error.pid, error)\n"
    )
    lock = FileStorage(tmp_path).lock()
    command = [sys.executable, "-c", script, str(tmp_path)]
    output = subprocess.run(command, capture_output=True, text=True, check=True)
    assert output.stdout.startswith(f"{os.getpid()} the data directory {tmp_path} is in use by process {os.getpid()}")
    lock.release()
    lock.release()
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == ""


def test_the_same_directory_by_another_name_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    lock = FileStorage(tmp_path / "data").lock()
    with pytest.raises(DirectoryLocked):
        FileStorage(tmp_path / "link").lock()
    lock.release()


def test_a_lock_file_left_by_a_dead_server_does_not_hold(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("1\n")
    FileStorage(tmp_path).lock().release()


def test_a_file_takes_no_descriptor_before_it_is_used(tmp_path: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    storage = FileStorage(tmp_path)
    held = [storage.file(f"f{index}") for index in range(50)]
    assert len(os.listdir("/dev/fd")) == before
    held[0].pwrite(b"x", 0)
    assert len(os.listdir("/dev/fd")) == before + 1
    held[0].close()
    assert len(os.listdir("/dev/fd")) == before


def test_reading_or_syncing_makes_no_file(tmp_path: Path) -> None:
    file = FileStorage(tmp_path).file("f")
    file.sync()
    with pytest.raises(FileNotFoundError):
        file.pread(1, 0)
    assert list(tmp_path.iterdir()) == []


def test_a_file_closed_during_a_sync_keeps_its_descriptor_until_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    seen: list[int] = []

    def slow_sync(descriptor: int) -> None:
        begun.set()
        assert go_on.wait(10)
        seen.append(os.fstat(descriptor).st_size)

    monkeypatch.setattr(files, "sync_descriptor", slow_sync)
    file = FileStorage(tmp_path).file("f")
    file.pwrite(b"abc", 0)
    thread = threading.Thread(target=file.sync)
    thread.start()
    assert begun.wait(10)
    file.close()
    go_on.set()
    thread.join(10)
    assert seen == [3]
    assert file.pread(3, 0) == b"abc"
    file.close()


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwrite

    def short(descriptor: int, data: bytes, position: int) -> int:
        return real(descriptor, bytes(data)[:3], position)

    monkeypatch.setattr(os, "pwrite", short)
    monkeypatch.setattr(os, "pwritev", lambda descriptor, parts, position: short(descriptor, parts[0], position))
    file = FileStorage(tmp_path).file("f")
    file.pwrite(b"hello world", 0)
    file.pwrite_parts([b"HELLO", b" WORLD"], 11)
    assert file.pread(50, 0) == b"hello worldHELLO WORLD"


def test_a_write_that_writes_nothing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, position: 0)
    with pytest.raises(OSError, match="takes no more bytes"):
        FileStorage(tmp_path).file("f").pwrite(b"x", 0)


def test_a_full_sync_is_used_where_the_drive_has_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(files, "_FULL_SYNC", 51)  # macOS's F_FULLFSYNC
    monkeypatch.setattr(files.fcntl, "fcntl", lambda _, command: asked.append(command))
    file = FileStorage(tmp_path).file("f")
    file.pwrite(b"x", 0)
    file.sync()
    assert asked == [51]


def test_allocated_space_reads_as_zeros(tmp_path: Path) -> None:
    file = FileStorage(tmp_path).file("f")
    file.allocate(1000)
    file.pwrite(b"abc", 0)
    assert file.size() == 1000
    assert file.pread(5, 0) == b"abc\0\0"


PATHS = st.sampled_from(["a", "a/b", "a/b/c", "ab", "ab/c", "b"])


@given(st.lists(st.tuples(st.sampled_from(["make", "save", "remove", "tree", "rename"]), PATHS, PATHS), max_size=40))
def test_memory_storage_lists_directories_as_a_search_of_all_paths_would(steps: list[tuple[str, str, str]]) -> None:
    storage = MemoryStorage()
    for what, path, other in steps:
        if what == "make":
            storage.make_directory(path)
        elif what == "save":
            storage.save(f"{path}/file", b"x")
        elif what == "remove":
            storage.remove(f"{path}/file")
        elif what == "tree":
            storage.remove_tree(path)
        elif path in storage.directories and other not in storage.directories and not other.startswith(path):
            storage.rename(path, other)
        for directory in storage.directories:
            inside = {*storage.files, *storage.directories} - {""}
            expected = sorted(name for name in inside if name.rpartition("/")[0] == directory)
            found = storage.entries(directory)
            assert sorted(f"{directory}/{one.name}".removeprefix("/") for one in found) == expected
            assert {one.name for one in found if one.is_directory} == {
                name.rpartition("/")[2] for name in expected if name in storage.directories
            }
