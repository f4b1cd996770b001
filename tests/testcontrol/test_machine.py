"""The disk of a server under test."""

from __future__ import annotations

from pathlib import Path

from muster.coordinator.log import File
from muster.testcontrol.machine import ControlledMachine


def test_its_files_do_all_that_files_do(tmp_path: Path) -> None:
    file = ControlledMachine().storage(tmp_path).file("one")
    names = [name for name in (*vars(File), *File.__annotations__) if not name.startswith("_")]
    assert {"part", "pread", "pwrite", "path"} <= set(names)
    assert [name for name in names if not hasattr(file, name)] == []
