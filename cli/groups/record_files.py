"""What the files of a data directory say about one record of a share group.

The directory is one of Muster or of Apache Kafka, or a copy of one. It has to have the partition of the record, and the
partition of `__share_group_state` that has the group's state.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

from muster.cli.groups.share_log import STATE_LOG, entries_in
from muster.cli.log.files import Place, WrongPath, partitions_in, segment_files
from muster.client.event_reader import OF_GROUPS, Value, event_of
from muster.client.kafka_client import Partition
from muster.coordinator.log import batches, checkpoints
from muster.coordinator.log.errors import LogError
from muster.coordinator.log.file_names import base_offset_of
from muster.coordinator.log.records.headers import whole_batches
from muster.coordinator.share_state.persister import StateKey
from muster.coordinator.share_state.record_life import Moment, life

T = TypeVar("T")
NO_RECORD_YET: Final = "{place} ends at offset {end}: there is no record {offset} yet"
NO_SUCH_STATE: Final = "the share group {group} has no state for {place}"


def life_in(directory: Path, group: str, place: Partition, offset: int) -> list[Moment]:
    """The life of a record. Raises WrongPath if the directory knows nothing of it, and OSError."""
    name = f"{place[0]}-{place[1]}"
    places = partitions_in(directory)
    folder = next((one.folder for one in places if (one.topic, one.number) == place), None)
    if folder is None:
        raise WrongPath(f"{directory} has no partition {name}: another broker may have it")
    end = _end_offset(folder)
    if offset >= end:
        raise WrongPath(NO_RECORD_YET.format(place=name, end=end, offset=offset))
    states = [one for one in places if one.topic == STATE_LOG]
    if not states:
        raise WrongPath(f"{directory} has no partition of {STATE_LOG}: no share group has begun there")
    key = StateKey(group, _topic_id(folder), place[1])
    moments = life((entry for one in states for entry in _read(one, entries_in)), key, offset)
    if not moments:
        raise WrongPath(f"{NO_SUCH_STATE.format(group=group, place=name)} in {directory}: another broker may have it")
    return moments


def events_in(directory: Path, group: str) -> Iterator[Value]:
    """The events of a group; none in a directory of another Kafka. Raises WrongPath."""
    for place in partitions_in(directory):
        if place.topic == OF_GROUPS.topic:
            yield from (one for one in _read(place, _events_of) if one[OF_GROUPS.name] == group)


def _topic_id(folder: Path) -> bytes:
    path = folder / checkpoints.PARTITION_METADATA
    try:
        return checkpoints.decode_topic_id(str(path), path.read_bytes())
    except (OSError, LogError) as error:
        raise WrongPath(f"the id of the topic is not known, because {path} cannot be read: {error}") from error


def _end_offset(folder: Path) -> int:
    last = segment_files(folder)[-1]
    with last.open("rb") as stream:
        if not last.stat().st_size:
            return base_offset_of(last.name) or 0
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data, memoryview(data) as view:
            _, _, after = whole_batches(view)
    return after if after >= 0 else base_offset_of(last.name) or 0


def _read(place: Place, decode: Callable[[bytes], Iterator[T]]) -> Iterator[T]:
    """What `decode` makes of the whole batches of each segment. Raises WrongPath where a batch is damaged."""
    for path in segment_files(place.folder):
        data = path.read_bytes()
        size, _, _ = whole_batches(data)
        try:
            yield from decode(data[:size])
        except LogError as error:
            raise WrongPath(f"{path} is damaged: {error} (muster log check says more)") from error


def _events_of(data: bytes) -> Iterator[Value]:
    return (value for _, records in batches.read(data) for one in records if (value := event_of(one)) is not None)
