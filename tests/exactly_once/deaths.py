"""A server that dies at a chosen write: `python -m tests.exactly_once.deaths FILE serve ...`.

FILE says, once it exists, at which of the next writes to a log the server dies (1 is the next), and whether `before` or
`after` the write. So the server can die anywhere in a commit: between Prepare and a marker, between two markers, before
Complete.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from muster.cli import main
from muster.coordinator.log.storage.files import DiskFile

Buffer = bytes | bytearray | memoryview
BESIDE: Final = ("__group_events", "__transaction_events")
"""Topics whose writes are not counted: their writes have no fixed time."""


class Death:
    """Counts the writes to logs since FILE exists."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._count = 0

    def is_due(self, path: str, moment: str) -> bool:
        """Whether the server must die now. Each write asks before and after."""
        topic = Path(path).parent.name.rpartition("-")[0]
        if not path.endswith(".log") or topic in BESIDE:
            return False
        try:
            number, when = self._path.read_text().split()
        except FileNotFoundError:
            self._count = 0
            return False
        self._count += moment == "before"
        return self._count == int(number) and moment == when

    def die(self) -> None:
        """Die, only once: the next server finds no FILE."""
        self._path.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


def condemn(path: Path, number: int, moment: str) -> None:
    """Let the server die at this write. FILE is written atomically: a server may read it at any time."""
    whole = path.with_suffix(".new")
    whole.write_text(f"{number} {moment}")
    whole.replace(path)


def arm(death: Death) -> None:
    """Let every file ask `death` at each write."""
    pwrite, pwrite_parts = DiskFile.pwrite, DiskFile.pwrite_parts

    def dying_pwrite(self: DiskFile, data: Buffer, position: int) -> None:
        if death.is_due(self.path, "before"):
            death.die()
        pwrite(self, data, position)
        if death.is_due(self.path, "after"):
            death.die()

    def dying_pwrite_parts(self: DiskFile, parts: Sequence[Buffer], position: int) -> None:
        dying_pwrite(self, b"".join(parts), position)

    DiskFile.pwrite, DiskFile.pwrite_parts = dying_pwrite, dying_pwrite_parts
    assert pwrite_parts


def executable(folder: Path, file: Path) -> Path:
    """A command with the arguments of `muster` that dies as `file` says."""
    path = folder / "dying-muster"
    here = Path(__file__).parents[2]
    path.write_text(f'#!/bin/sh\ncd {here} && exec {sys.executable} -m {__name__} {file} "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


if __name__ == "__main__":
    arm(Death(Path(sys.argv[1])))
    sys.exit(main(sys.argv[2:]))
