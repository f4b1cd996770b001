"""`muster log check`: is everything on the disk as it was written?"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from muster.coordinator.cli.log.places import OFFSETS_TOPIC, Place, WrongPath, partitions_in, segment_files
from muster.coordinator.cli.progress import Progress
from muster.coordinator.log.files import FileStorage
from muster.coordinator.log.inspection import DAMAGE, Finding, Inspection


def check(directory: Path, *, as_json: bool) -> int:
    """Look at every partition in `directory`; 0: sound, 1: damaged, 2: cannot be read."""
    try:
        places = partitions_in(directory)
        total = sum(file.stat().st_size for place in places for file in segment_files(place.folder))
        with Progress("checking", total) as progress:
            found = [(place, _inspect(place, progress)) for place in places]
    except (WrongPath, OSError) as error:
        print(f"muster log check: {error}", file=sys.stderr)
        return 2
    damaged = [place for place, inspection in found if inspection.is_damaged]
    for place, inspection in found:
        for finding in inspection.findings:
            print(json.dumps(_row(place, finding)) if as_json else _line(place, finding))
    segments = [facts for _, inspection in found for facts in inspection.segments]
    if as_json:
        summary = {
            "partitions": len(places),
            "segments": len(segments),
            "batches": sum(facts.batches for facts in segments),
            "bytes": sum(facts.size for facts in segments),
            "damaged": [place.name for place in damaged],
        }
        print(json.dumps({"summary": summary}))
        return 1 if damaged else 0
    print(
        f"{len(places)} partitions, {len(segments)} segments, {sum(facts.batches for facts in segments)} batches, "
        f"{sum(facts.size for facts in segments)} bytes: " + (f"{len(damaged)} damaged" if damaged else "all sound")
    )
    for place in damaged:
        print(f"  {advice(place)}")
    return 1 if damaged else 0


def _inspect(place: Place, progress: Progress) -> Inspection:
    inspection = Inspection(FileStorage(place.folder), "", progress.add)
    inspection.run()
    return inspection


def _row(place: Place, finding: Finding) -> dict[str, object]:
    row: dict[str, object] = {"partition": place.name, **finding._asdict()}
    if finding.severity == DAMAGE:
        row["advice"] = advice(place)
    return row


def _line(place: Place, finding: Finding) -> str:
    where = "" if finding.position is None else f" at byte {finding.position}"
    return f"{place.name}: {finding.severity}: {finding.file}{where}: {finding.problem}"


def advice(place: Place) -> str:
    """What an operator can do about a damaged partition."""
    data = place.folder.resolve().parent
    which = str(place.number) if place.topic == OFFSETS_TOPIC else place.name
    return (
        f"{place.name}: stop the server, then run `muster log repair {data} --partition {which}`: it keeps every whole "
        "batch and the damaged file beside; or restore the folder from a backup"
    )
