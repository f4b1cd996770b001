"""Finds the files of a data directory for `muster log`, and those that cannot be read. Changes nothing."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from muster.coordinator.log import checkpoints
from muster.coordinator.log.checkpoints import partition_of
from muster.coordinator.log.errors import MalformedCheckpoint
from muster.coordinator.log.file_names import base_offset_of
from muster.coordinator.log.identity import problem_of
from muster.coordinator.log.recovery.inspection import DAMAGE, NOTE, Finding

OFFSETS_TOPIC = "__consumer_offsets"
PUT_BACK: Final = "stop the server, and restore the file from a backup; or move away what is in its place"
_OFFSETS: Final = {
    checkpoints.RECOVERY_POINTS: "up to where each log was synced is not known: the next start checks whole logs",
    checkpoints.START_OFFSETS: "where each log begins is not known: deleted records may be back after the next start",
    checkpoints.CLEANER_OFFSETS: "how far each log was compacted is not known: it is compacted from its beginning",
}
"""Each checkpoint of the directory, and what follows if it cannot be read."""


class WrongPath(Exception):
    """The path is not a log. The message says what was expected."""


class Place(NamedTuple):
    """The folder of a partition."""

    topic: str
    number: int
    folder: Path

    @property
    def name(self) -> str:
        """The name of the folder, as in Kafka."""
        return f"{self.topic}-{self.number}"


def place_of(folder: Path) -> Place | None:
    """The partition that a folder's name means; None if the name is not that of a partition."""
    partition = partition_of(folder.resolve().name)
    return None if partition is None else Place(*partition, folder)


def segment_files(folder: Path) -> list[Path]:
    """Everything in a folder that has the name of a segment (….log), in the order of offsets."""
    return sorted(path for path in folder.iterdir() if base_offset_of(path.name) is not None and path.suffix == ".log")


def partitions_in(directory: Path) -> list[Place]:
    """The partitions in a data directory. `directory` may also be the folder of one partition. Raises WrongPath."""
    if not directory.is_dir():
        raise WrongPath(f"{directory} is not a folder: give a data directory or a partition's folder such as orders-0")
    own = place_of(directory)
    if own is not None and segment_files(directory):
        return [own]
    found = [place_of(path) for path in directory.iterdir() if path.is_dir() and os.access(path, os.R_OK | os.X_OK)]
    places = sorted(place for place in found if place is not None and segment_files(place.folder))
    if not places:
        raise WrongPath(f"{directory} holds no log: neither segments (….log) nor partitions' folders such as orders-0")
    return places


def obstacle(path: Path) -> str | None:
    """Why the file at `path` cannot be read; None: it can be read, or does not exist."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return f"it is a symbolic link to {os.readlink(path)}, which is not there" if path.is_symlink() else None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return f"it is a symbolic link to {os.readlink(path)}, which leads back to itself"
        return f"it cannot be read: {error.strerror}"
    if stat.S_ISDIR(mode):
        return "a folder is in the place of the file: move it away"
    if not stat.S_ISREG(mode):
        return "it is no ordinary file: move it away"
    return None if os.access(path, os.R_OK) else "it cannot be read: Permission denied"


def obstacles(folder: Path) -> Iterator[Finding]:
    """A finding for each file of a partition that cannot be read."""
    for path in sorted(folder.iterdir()):
        names = (checkpoints.PARTITION_METADATA, checkpoints.LEADER_EPOCHS)
        if path.name in names or base_offset_of(path.name) is not None:
            problem = obstacle(path)
            if problem is not None:
                yield Finding(DAMAGE, str(path), None, problem)


def epochs(folder: Path) -> Iterator[Finding]:
    """A finding if the leader epochs of a partition are malformed."""
    path = folder / checkpoints.LEADER_EPOCHS
    if path.is_file() and os.access(path, os.R_OK):
        try:
            checkpoints.decode_epochs(path.name, path.read_bytes())
        except MalformedCheckpoint as error:
            yield Finding(NOTE, str(path), None, f"{error}; the next start makes it anew from the batches")


def broken_folders(directory: Path) -> Iterator[tuple[str, str]]:
    """The names of partitions' folders that cannot be read, each with the reason."""
    for path in sorted(directory.iterdir()):
        if checkpoints.partition_of(path.name) is None:
            continue
        if path.is_symlink() and not path.exists():
            yield path.name, f"it is a symbolic link to {os.readlink(path)}, and no folder is there"
        elif path.is_dir() and not os.access(path, os.R_OK | os.X_OK):
            yield path.name, "the folder cannot be read: Permission denied"


def of_directory(directory: Path, *, has_logs: bool) -> Iterator[Finding]:
    """Findings in the files that belong to no partition: checkpoints and meta.properties."""
    for name in (checkpoints.META_PROPERTIES, checkpoints.CLEAN_SHUTDOWN, *_OFFSETS):
        problem = obstacle(directory / name)
        if problem is not None:
            yield Finding(DAMAGE, str(directory / name), None, problem)
    yield from _meta_properties(directory / checkpoints.META_PROPERTIES, has_logs=has_logs)
    was_clean = (directory / checkpoints.CLEAN_SHUTDOWN).exists()
    for name, meaning in _OFFSETS.items():
        yield from _offsets(directory / name, meaning, was_clean=was_clean)


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() and os.access(path, os.R_OK) else None


def _meta_properties(path: Path, *, has_logs: bool) -> Iterator[Finding]:
    data = _read(path)
    if data is None:
        if has_logs and obstacle(path) is None:
            problem = "the file is missing, although logs exist: the next start writes it, with a new cluster.id"
            yield Finding(NOTE, str(path), None, problem)
        return
    try:
        repaired = problem_of(str(path), data)
    except MalformedCheckpoint as error:
        problem = str(error).removeprefix(f"{path} ")
        yield Finding(DAMAGE, str(path), None, f"it {problem}")
        return
    if repaired:
        yield Finding(NOTE, str(path), None, f"{repaired} at the next start")


def _offsets(path: Path, meaning: str, *, was_clean: bool) -> Iterator[Finding]:
    data = _read(path)
    if data is None:
        return
    try:
        checkpoints.decode_offsets("it", data)
    except MalformedCheckpoint as error:
        # after a power cut, a file without content is no damage
        severity = DAMAGE if was_clean or data.strip(b"\0") else NOTE
        problem = str(error).removeprefix("it ")
        yield Finding(severity, str(path), None, f"it {problem}; {meaning}")
