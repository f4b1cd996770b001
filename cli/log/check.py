"""`muster log check` finds damaged files in a data directory."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from muster.cli.log import files as log_files
from muster.cli.log.files import OFFSETS_TOPIC, PUT_BACK, Place, WrongPath
from muster.cli.output import Progress, fail, printing
from muster.coordinator.log import BatchError, batches
from muster.coordinator.log.checkpoints import UNKNOWN, LastStop, Partition, read_last_stops
from muster.coordinator.log.file_names import LOG_SUFFIX
from muster.coordinator.log.recovery.inspection import DAMAGE, Finding, Inspection
from muster.coordinator.log.storage.files import FileStorage
from muster.coordinator.topics.folder_repair import Misfit, misfits
from muster.protocol.hashing import group_partition
from muster.protocol.message import MalformedMessage
from muster.protocol.records import OFFSETS, TRANSACTION_STATE, UnknownRecord

MOVE_IT = (
    "Stop the server and move the folder to a server that can read it: the server that wrote it, or a newer Muster"
)


METADATA_FOLDER = "__cluster_metadata-0"
COORDINATORS: Final = {OFFSETS_TOPIC: OFFSETS, "__transaction_state": TRANSACTION_STATE}
"""Topics in which the group or transactional id in a record's key decides the partition, with the keys' codec."""
NAME_FIELDS: Final = ("group", "group_id", "transactional_id")
"""The fields of a key that can decide the partition of its record."""
NAMES_BYTES: Final = 256 * 1024
"""How many bytes of a partition's first segment are searched for groups and transactional ids."""
WITHOUT_FOLDER = "stop the server, and put what is missing back from a backup"


class Found(NamedTuple):
    """All findings in a data directory, or in the folder of one partition."""

    inspections: list[tuple[Place, Inspection]]
    misfits: list[Misfit]
    files: list[Finding]

    @property
    def damaged(self) -> list[tuple[Place, Inspection]]:
        """The partitions that are damaged."""
        return [(place, inspection) for place, inspection in self.inspections if inspection.is_damaged]

    @property
    def damaged_names(self) -> list[str]:
        """The names of damaged partitions and files, and of folders that do not fit the metadata log."""
        files = [Path(one.file).name for one in self.files if one.severity == DAMAGE]
        folders = [place.name for place, _ in self.damaged] + [one.folder for one in self.misfits]
        return list(dict.fromkeys(files + folders))

    @property
    def totals(self) -> dict[str, int]:
        """How many partitions, segments, batches and bytes were inspected."""
        segments = [facts for _, inspection in self.inspections for facts in inspection.segments]
        return {
            "partitions": len(self.inspections),
            "segments": len(segments),
            "batches": sum(facts.batches for facts in segments),
            "bytes": sum(facts.size for facts in segments),
        }


def run_check(options: argparse.Namespace) -> int:
    """Run `muster log check`, and return the exit status."""
    return printing("muster log check", lambda: check(options.directory, as_json=options.json))


def check(directory: Path, *, as_json: bool) -> int:
    """Inspect every partition in `directory`. Returns the exit status: 0: sound, 1: damaged, 2: cannot be read."""
    try:
        found = _inspect_directory(directory)
    except (WrongPath, OSError) as error:
        return fail("muster log check", error, 2)
    for line in _rows(found) if as_json else _lines(found):
        print(line)
    return 1 if found.damaged_names else 0


def damaged_names(directory: Path) -> list[str]:
    """The names of damaged partitions and files in a data directory. Raises OSError."""
    try:
        return _inspect_directory(directory).damaged_names
    except WrongPath as error:
        raise OSError(str(error)) from error


def _inspect_directory(directory: Path) -> Found:
    unfit: list[Misfit] = []
    files: list[Finding] = []
    places = log_files.partitions_in(directory)
    # checkpoints are read before the segments, because a running server writes newer checkpoints
    stops = _last_stops(places[0].folder.resolve().parent)
    if places[0].folder != directory:
        # a copy of only some folders has no meta.properties
        files = list(log_files.of_directory(directory, has_logs=(directory / METADATA_FOLDER).is_dir()))
        places = sorted([*places, *_emptied(directory, stops)])
        unfit = _misfits(directory, are_known=any(one.severity == DAMAGE for one in files))
    total = sum(_size(file) for place in places for file in log_files.segment_files(place.folder))
    with Progress("checking", total) as progress:
        inspections = [
            (place, _inspect(place, stops.get((place.topic, place.number), UNKNOWN), progress)) for place in places
        ]
    return Found([*_with_exchanged(inspections)], unfit, files)


def _size(file: Path) -> int:
    return file.stat().st_size if file.is_file() else 0


def _last_stops(directory: Path) -> dict[Partition, LastStop]:
    """Where each log ended at the last stop. Empty when a checkpoint cannot be read, which another check reports."""
    try:
        return read_last_stops(FileStorage(directory, read_only=True))
    except OSError:
        return {}


def _misfits(directory: Path, *, are_known: bool) -> list[Misfit]:
    """Folders that do not fit the metadata log. `are_known`: other findings may explain why that log cannot be read."""
    broken = [Misfit(name, problem, WITHOUT_FOLDER) for name, problem in log_files.broken_folders(directory)]
    try:
        found = misfits(FileStorage(directory, read_only=True))
    except OSError as error:
        if are_known or broken:
            return broken
        # the inspection of the metadata partition reports which file is damaged
        return [Misfit(METADATA_FOLDER, f"the metadata log cannot be read: {error.strerror}", WITHOUT_FOLDER)]
    names = {one.folder for one in broken}
    return [*broken, *(one for one in found if one.folder not in names)]


def _with_exchanged(inspections: list[tuple[Place, Inspection]]) -> Iterator[tuple[Place, Inspection]]:
    """Note in both when two partitions have each other's folder, by their ends or the groups in their records."""
    ends = {(place.topic, place.number): one for place, one in inspections}
    for place, one in inspections:
        other = next((at for at in ends if at[0] == place.topic and _are_exchanged(one, ends[at])), None)
        if other is not None:
            name = f"{other[0]}-{other[1]}"
            one.exchanged_with(
                name,
                f"it ends at offset {one.end_offset}, as {name} did at the last stop, and {name} ends as this one did",
            )
    for topic in COORDINATORS:
        by_number = {place.number: one for place, one in inspections if place.topic == topic}
        homes = _homes([place for place, _ in inspections if place.topic == topic])
        for number, home in homes.items():
            if home != number and homes.get(home) == number and not by_number[number].exchanged:
                name = f"{topic}-{home}"
                by_number[number].exchanged_with(name, f"its records belong to {name}, and those of {name} belong here")
    yield from inspections


def _homes(places: list[Place]) -> dict[int, int]:
    """The partition that each folder's first records belong to, if they agree; empty when a folder is missing."""
    if [place.number for place in places] != list(range(len(places))):
        return {}
    homes: dict[int, int] = {}
    for place in places:
        found = {group_partition(name, len(places)) for name in _first_names(place)}
        if len(found) == 1:
            homes[place.number] = found.pop()
    return homes


def _first_names(place: Place) -> set[str]:
    """The groups or transactional ids in the first records of a folder."""
    keys = COORDINATORS[place.topic]
    names: set[str] = set()
    for data in _first_keys(place):
        with suppress(UnknownRecord, MalformedMessage):
            _, key = keys.decode_key(data)
            names |= {getattr(key, field) for field in NAME_FIELDS if hasattr(key, field)}
    return names


def _first_keys(place: Place) -> Iterator[bytes]:
    for file in log_files.segment_files(place.folder)[:1]:
        with suppress(OSError, BatchError), file.open("rb") as stream:
            for header, records in batches.read(stream.read(NAMES_BYTES)):
                yield from (bytes(one.key) for one in records if one.key is not None and not header.is_control)


def _are_exchanged(one: Inspection, other: Inspection) -> bool:
    stops = one.last_stop, other.last_stop
    if not (stops[0].was_clean and stops[1].was_clean) or stops[0].recovery_point == stops[1].recovery_point:
        return False
    return (one.end_offset, other.end_offset) == (stops[1].recovery_point, stops[0].recovery_point)


def _emptied(directory: Path, stops: Mapping[Partition, LastStop]) -> list[Place]:
    """Partitions that had records at the last stop, and whose folder has no segment now."""
    places = [Place(topic, index, directory / f"{topic}-{index}") for topic, index in stops]
    return [
        place
        for place, stop in zip(places, stops.values(), strict=True)
        if stop.recovery_point > stop.start_offset
        and place.folder.is_dir()
        and not log_files.segment_files(place.folder)
    ]


def _inspect(place: Place, last_stop: LastStop, progress: Progress) -> Inspection:
    inspection = Inspection(FileStorage(place.folder, read_only=True), "", progress.add, last_stop=last_stop)
    broken = list(log_files.obstacles(place.folder))
    if not any(one.file.endswith(LOG_SUFFIX) for one in broken):
        inspection.run({Path(one.file).name for one in broken})
    inspection.findings += broken
    inspection.findings += log_files.epochs(place.folder)
    return inspection


def _lines(found: Found) -> Iterator[str]:
    for file in found.files:
        yield f"{Path(file.file).name}: {file.severity}: {file.file}: {file.problem}"
    for place, inspection in found.inspections:
        for finding in inspection.findings:
            where = "" if finding.position is None else f" at byte {finding.position}"
            yield f"{place.name}: {finding.severity}: {finding.file}{where}: {finding.problem}"
    for one in found.misfits:
        yield f"{one.folder}: {DAMAGE}: {one.problem}"
    damaged = found.damaged_names
    totals = ", ".join(f"{count} {what}" for what, count in found.totals.items())
    yield f"{totals}: " + (f"{len(damaged)} damaged" if damaged else "all sound")
    for file in found.files:
        yield f"  {Path(file.file).name}: {PUT_BACK}"
    for place, inspection in found.damaged:
        yield f"  {advice(place, inspection)}"
    for one in found.misfits:
        yield f"  {one.folder}: {one.what_to_do}"


def _rows(found: Found) -> Iterator[str]:
    for file in found.files:
        yield json.dumps({"partition": None, **file._asdict(), "advice": PUT_BACK})
    for place, inspection in found.inspections:
        for finding in inspection.findings:
            row: dict[str, object] = {"partition": place.name, **finding._asdict()}
            if finding.severity == DAMAGE:
                row["advice"] = advice(place, inspection)
            yield json.dumps(row)
    for one in found.misfits:
        about = {"severity": DAMAGE, "file": None, "position": None, "problem": one.problem}
        yield json.dumps({"partition": one.folder, **about, "advice": one.what_to_do})
    yield json.dumps({"summary": {**found.totals, "damaged": found.damaged_names}})


def advice(place: Place, inspection: Inspection) -> str:
    """What an operator can do about a damaged partition."""
    if inspection.is_unknown:
        return f"{place.name}: {MOVE_IT}"
    data = place.folder.resolve().parent
    if inspection.exchanged:
        return (
            f"{place.name}: stop the server, and give the folders {place.name} and {inspection.exchanged} each other's "
            "names"
        )
    which = str(place.number) if place.topic == OFFSETS_TOPIC else place.name
    return (
        f"{place.name}: stop the server, then run `muster log repair {data} --partition {which}`: it keeps every whole "
        "batch and the damaged file beside; or restore the folder from a backup"
    )
