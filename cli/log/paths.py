"""The partition folders and segment files of a path on the command line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from muster.coordinator.log.checkpoints import partition_of
from muster.coordinator.log.segments.file_names import base_offset_of

OFFSETS_TOPIC = "__consumer_offsets"


class WrongPath(Exception):
    """The path is not a log; the message says what was expected."""


class Place(NamedTuple):
    """A partition's folder."""

    topic: str
    number: int
    folder: Path

    @property
    def name(self) -> str:
        """The name of the folder, as in Kafka."""
        return f"{self.topic}-{self.number}"


def place_of(folder: Path) -> Place | None:
    """The partition that a folder belongs to by its name; None for any other name."""
    partition = partition_of(folder.resolve().name)
    return None if partition is None else Place(*partition, folder)


def segment_files(folder: Path) -> list[Path]:
    """Everything in a folder with the name of a segment file, in the order of the log."""
    return sorted(path for path in folder.iterdir() if base_offset_of(path.name) is not None and path.suffix == ".log")


def is_readable(folder: Path) -> bool:
    """Whether the content of a folder can be read."""
    return folder.is_dir() and os.access(folder, os.R_OK | os.X_OK)


def partitions_in(directory: Path) -> list[Place]:
    """The partitions of a data directory, or the one that `directory` is. Raises WrongPath."""
    if not directory.is_dir():
        raise WrongPath(f"{directory} is not a folder: give a data directory or a partition's folder such as orders-0")
    own = place_of(directory)
    if own is not None and segment_files(directory):
        return [own]
    found = [place_of(path) for path in directory.iterdir() if is_readable(path)]
    places = sorted(place for place in found if place is not None and segment_files(place.folder))
    if not places:
        raise WrongPath(f"{directory} holds no log: neither segments (….log) nor partitions' folders such as orders-0")
    return places
