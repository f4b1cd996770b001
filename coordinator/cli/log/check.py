"""`muster log check`: is everything on the disk as it was written?"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from muster.coordinator.cli.log.paths import OFFSETS_TOPIC, Place, WrongPath, partitions_in, segment_files
from muster.coordinator.cli.progress import Progress
from muster.coordinator.log.checking.inspection import DAMAGE, Finding, Inspection
from muster.coordinator.log.directory.checkpoints import Partition
from muster.coordinator.log.directory.last_stop import UNKNOWN, LastStop, read_last_stops
from muster.coordinator.log.storage.files import FileStorage
from muster.coordinator.topics.folder_check import Misfit, misfits

MOVE_IT = (
    "Stop the server and move the folder to one that can read it: the one that wrote it, or a newer version of this one"
)


def check(directory: Path, *, as_json: bool) -> int:
    """Look at every partition in `directory`; 0: sound, 1: damaged, 2: cannot be read."""
    unfit: list[Misfit] = []
    try:
        places = partitions_in(directory)
        # before the segments: a server that runs moves them on
        stops = read_last_stops(FileStorage(places[0].folder.resolve().parent, read_only=True))
        if places[0].folder != directory:
            places = sorted([*places, *_emptied(directory, stops)])
            unfit = misfits(FileStorage(directory, read_only=True))
        total = sum(file.stat().st_size for place in places for file in segment_files(place.folder))
        with Progress("checking", total) as progress:
            found = [
                (place, _inspect(place, stops.get((place.topic, place.number), UNKNOWN), progress)) for place in places
            ]
    except (WrongPath, OSError) as error:
        print(f"muster log check: {error}", file=sys.stderr)
        return 2
    damaged = [(place, inspection) for place, inspection in found if inspection.is_damaged]
    for place, inspection in found:
        for finding in inspection.findings:
            print(json.dumps(_row(place, inspection, finding)) if as_json else _line(place, finding))
    for one in unfit:
        print(json.dumps(_unfit_row(one)) if as_json else f"{one.folder}: {DAMAGE}: {one.problem}")
    names = list(dict.fromkeys([*(place.name for place, _ in damaged), *(one.folder for one in unfit)]))
    segments = [facts for _, inspection in found for facts in inspection.segments]
    if as_json:
        summary = {
            "partitions": len(places),
            "segments": len(segments),
            "batches": sum(facts.batches for facts in segments),
            "bytes": sum(facts.size for facts in segments),
            "damaged": names,
        }
        print(json.dumps({"summary": summary}))
        return 1 if names else 0
    print(
        f"{len(places)} partitions, {len(segments)} segments, {sum(facts.batches for facts in segments)} batches, "
        f"{sum(facts.size for facts in segments)} bytes: " + (f"{len(names)} damaged" if names else "all sound")
    )
    for place, inspection in damaged:
        print(f"  {advice(place, inspection)}")
    for one in unfit:
        print(f"  {one.folder}: {one.what_to_do}")
    return 1 if names else 0


def _unfit_row(one: Misfit) -> dict[str, object]:
    return {
        "partition": one.folder,
        "severity": DAMAGE,
        "file": None,
        "position": None,
        "problem": one.problem,
        "advice": one.what_to_do,
    }


def _emptied(directory: Path, stops: Mapping[Partition, LastStop]) -> list[Place]:
    """Partitions whose folder is there without a single segment, although there were records in it."""
    places = [Place(topic, index, directory / f"{topic}-{index}") for topic, index in stops]
    return [
        place
        for place, stop in zip(places, stops.values(), strict=True)
        if stop.recovery_point > stop.start_offset and place.folder.is_dir() and not segment_files(place.folder)
    ]


def _inspect(place: Place, last_stop: LastStop, progress: Progress) -> Inspection:
    inspection = Inspection(FileStorage(place.folder, read_only=True), "", progress.add, last_stop=last_stop)
    inspection.run()
    return inspection


def _row(place: Place, inspection: Inspection, finding: Finding) -> dict[str, object]:
    row: dict[str, object] = {"partition": place.name, **finding._asdict()}
    if finding.severity == DAMAGE:
        row["advice"] = advice(place, inspection)
    return row


def _line(place: Place, finding: Finding) -> str:
    where = "" if finding.position is None else f" at byte {finding.position}"
    return f"{place.name}: {finding.severity}: {finding.file}{where}: {finding.problem}"


def advice(place: Place, inspection: Inspection) -> str:
    """What an operator can do about a damaged partition."""
    if inspection.is_unknown:
        return f"{place.name}: {MOVE_IT}"
    data = place.folder.resolve().parent
    which = str(place.number) if place.topic == OFFSETS_TOPIC else place.name
    return (
        f"{place.name}: stop the server, then run `muster log repair {data} --partition {which}`: it keeps every whole "
        "batch and the damaged file beside; or restore the folder from a backup"
    )
