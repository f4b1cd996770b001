"""Bytes of files for a socket, which are not copied."""

import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.coordinator.log.storage import files, mapped
from muster.coordinator.log.storage.files import DiskFile, FileStorage
from muster.coordinator.log.storage.mapped import ASKS_EACH, LEAST_BYTES, MOST_BYTES, MOST_WINDOWS, Windows

pytestmark = pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="only Linux says what is in the page cache")
SIZE = 3_000_000
DATA = random.Random(1).randbytes(SIZE)


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> Windows:
    monkeypatch.setattr(mapped, "WINDOW_BYTES", 1 << 20)
    monkeypatch.setattr(mapped, "MOST_BYTES", 1 << 18)
    made = Windows()
    monkeypatch.setattr(files, "WINDOWS", made)
    return made


@pytest.fixture
def file(tmp_path: Path, windows: Windows) -> Iterator[DiskFile]:
    made = FileStorage(tmp_path).file("00000000000000000000.log")
    made.pwrite(DATA, 0)
    yield made
    made.close()


def sent(view: memoryview) -> bytes:
    """What a socket sends of a view."""
    one, other = socket.socketpair()
    with one, other:
        count = os.writev(one.fileno(), [view[:50_000]])
        return other.recv(count, socket.MSG_WAITALL)


def test_the_socket_gets_the_bytes_of_the_file(file: DiskFile) -> None:
    for position in (0, 1, 4095, 1_000_000, (1 << 20) - 1, SIZE - LEAST_BYTES):
        part = file.part(LEAST_BYTES, position)
        assert part is not None
        assert len(part) == LEAST_BYTES
        assert sent(part.view) == DATA[position : position + 50_000]
        assert part.copied(5) == DATA[position + 5 : position + LEAST_BYTES]


def test_bytes_that_are_only_on_the_disk_are_read(file: DiskFile, monkeypatch: pytest.MonkeyPatch) -> None:
    real, cold = os.preadv, LEAST_BYTES - 1

    def preadv(descriptor: int, buffers: tuple[bytearray], at: int, flags: int) -> int:
        if at == cold:
            raise BlockingIOError
        return real(descriptor, buffers, at, flags)

    monkeypatch.setattr(os, "preadv", preadv)
    assert file.part(LEAST_BYTES, 0) is None
    assert file.part(LEAST_BYTES, 1) is not None


def test_without_a_way_to_ask_for_the_cache_bytes_are_read(file: DiskFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "_NO_WAIT", None)
    assert file.part(LEAST_BYTES, 0) is None


def test_bytes_behind_the_end_are_read(file: DiskFile) -> None:
    assert file.part(LEAST_BYTES, SIZE - LEAST_BYTES + 1) is None


def test_more_bytes_than_a_connection_sends_at_once_are_read(file: DiskFile) -> None:
    assert file.part(MOST_BYTES + 1, 0) is None


def test_a_part_of_a_file_that_was_cut_cannot_be_copied(file: DiskFile) -> None:
    part = file.part(LEAST_BYTES, 0)
    assert part is not None
    file.truncate(10)
    with pytest.raises(OSError, match="has become shorter"):
        part.copied()
    with pytest.raises(OSError, match="Bad address"):
        sent(part.view[8192:])


def test_a_closed_file_has_no_windows(file: DiskFile, windows: Windows) -> None:
    assert file.part(LEAST_BYTES, 0)
    assert len(windows) == 1
    file.close()
    assert len(windows) == 0
    assert file.part(LEAST_BYTES, 0)
    assert file.close_until_used()
    assert len(windows) == 0


def test_a_part_outlives_its_file(file: DiskFile, tmp_path: Path) -> None:
    part = file.part(LEAST_BYTES, 0)
    assert part is not None
    file.close()
    (tmp_path / "00000000000000000000.log").unlink()
    assert sent(part.view) == DATA[:50_000]


class TestWindows:
    """The windows of a process: `file` may be any object."""

    @pytest.fixture
    def descriptor(self, file: DiskFile) -> int:
        assert file.size() == SIZE
        return file._descriptor

    def test_their_number_is_limited(self, windows: Windows, descriptor: int) -> None:
        opened = [windows.view(number, descriptor, 10, 0) for number in range(MOST_WINDOWS + 1)]
        assert [one is None for one in opened] == [False] * MOST_WINDOWS + [MOST_WINDOWS + 1 < ASKS_EACH]
        assert len(windows) == MOST_WINDOWS

    def test_one_of_several_reads_gets_the_place_of_the_window_that_was_used_last(
        self, windows: Windows, descriptor: int
    ) -> None:
        for number in range(MOST_WINDOWS + 1):
            windows.view(number, descriptor, 10, 0)
        got = [windows.view("new", descriptor, 10, 0) is not None for _ in range(ASKS_EACH)]
        assert got.index(True) == ASKS_EACH - 1
        assert len(windows) == MOST_WINDOWS

    def test_a_file_that_has_grown_gets_a_longer_window(
        self, windows: Windows, file: DiskFile, descriptor: int
    ) -> None:
        assert windows.view("x", descriptor, 10, SIZE) is None
        assert windows.view("x", descriptor, 10, SIZE - 10) is not None
        file.pwrite(DATA[:100], SIZE)
        views = [windows.view("x", descriptor, 10, SIZE) for _ in range(ASKS_EACH)]
        last = views[-1]
        assert last is not None
        assert sent(last) == DATA[:10]
        assert len(windows) == 1

    def test_a_file_system_without_windows_is_no_error(
        self, windows: Windows, descriptor: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise OSError

        monkeypatch.setattr(mapped.mmap, "mmap", refuse)
        assert windows.view("x", descriptor, 10, 0) is None
        assert len(windows) == 0
