from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from muster.coordinator.log.storage.files import DiskFile, Place
from muster.coordinator.log.storage.open_files import OpenFiles


def open_now(files: list[DiskFile]) -> int:
    return sum(file._descriptor >= 0 for file in files)


def make(tmp_path: Path, count: int, most: int, suffix: str = ".log") -> tuple[OpenFiles, list[DiskFile]]:
    counted, place = OpenFiles(lambda: most), Place(str(tmp_path))
    names = [f"{number}{suffix}" for number in range(count)]
    return counted, [DiskFile(str(tmp_path / name), os.O_RDWR, place, name, counted) for name in names]


def test_files_beyond_the_bound_are_closed_and_opened_again_when_they_are_used(tmp_path: Path) -> None:
    counted, files = make(tmp_path, 50, 10)
    for number, file in enumerate(files):
        file.pwrite(b"%d" % number, 0)
        assert len(counted) == open_now(files) <= 10
    for number, file in enumerate(files):
        assert file.pread(10, 0) == b"%d" % number
        file.sync()
        assert file.size() == len(str(number))
    assert len(counted) == open_now(files) <= 10
    for file in files:
        file.close()
    assert len(counted) == open_now(files) == 0


def test_a_file_that_is_always_used_stays_open(tmp_path: Path) -> None:
    _, files = make(tmp_path, 50, 5)
    often = files[0]
    for file in files[1:]:
        often.pwrite(b"x", 0)
        before = often._descriptor
        file.pwrite(b"y", 0)
        assert often._descriptor == before


def test_other_threads_close_no_files(tmp_path: Path) -> None:
    counted, files = make(tmp_path, 5, 2)

    def use() -> None:
        for file in files:
            file.pwrite(b"x", 0)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert len(counted) == open_now(files) == 5
    for file in files:
        file.close()
        file.pwrite(b"x", 0)
    assert len(counted) == open_now(files) <= 3


def test_a_closed_and_removed_file_is_not_created_again(tmp_path: Path) -> None:
    _, files = make(tmp_path, 2, 1)
    files[0].pwrite(b"x", 0)
    files[0].used = False
    files[1].pwrite(b"y", 0)
    assert files[0]._descriptor < 0
    assert not files[0].is_removed()
    (tmp_path / "0.log").unlink()
    assert files[0].is_removed()
    with pytest.raises(FileNotFoundError):
        files[0].pwrite(b"z", 1)
    assert not (tmp_path / "0.log").exists()


def test_files_whose_names_will_change_stay_open(tmp_path: Path) -> None:
    _, files = make(tmp_path, 5, 2, ".log.swap")
    for file in files:
        file.pwrite(b"x", 0)
        file.used = False
    assert open_now(files) == 5


def test_a_file_that_is_being_synced_stays_open(tmp_path: Path) -> None:
    _, files = make(tmp_path, 2, 1)
    files[0].pwrite(b"x", 0)
    files[0].used = False
    files[0]._syncs = 1
    files[1].pwrite(b"y", 0)
    assert files[0]._descriptor >= 0
