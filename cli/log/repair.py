"""`muster log repair` makes a damaged partition readable again, and reports what may be lost."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from muster.cli.log.check import MOVE_IT
from muster.cli.log.files import OFFSETS_TOPIC, place_of
from muster.cli.output import fail, printing
from muster.coordinator.log.errors import DirectoryLocked, LogError
from muster.coordinator.log.file_names import read_other_name
from muster.coordinator.log.recovery import repair as repairing
from muster.coordinator.log.recovery.repair import Loss, Repair
from muster.coordinator.state_machine.interface import Now
from muster.coordinator.system.uuids import draw_uuid
from muster.coordinator.system.wall_time import wall_now_ms
from muster.coordinator.topics.folder_repair import CannotRestore, belongs_to_a_topic, restore_stray
from muster.coordinator.topics.metadata_log import topic_id_of

COMMAND: Final = "muster log repair"


def run_repair(options: argparse.Namespace) -> int:
    """Run `muster log repair`, and return the exit status."""
    return printing(COMMAND, lambda: repair(options.directory, options.partition))


def repair(directory: Path, partition: str) -> int:
    """Repair one partition. Exit status 0: done, 1: the repair failed, 2: the partition does not exist."""
    name = f"{OFFSETS_TOPIC}-{partition}" if partition.isascii() and partition.isdigit() else partition
    folder = directory / name
    is_aside = read_other_name(name) is not None
    if (place_of(folder) is None and not is_aside) or not folder.is_dir():
        return fail(COMMAND, f"{folder} is no partition's folder: give one of {directory}", 2)
    try:
        if is_aside or not belongs_to_a_topic(directory, name):
            return _put_back(directory, name)
        done = repairing.repair(str(directory), name, topic_id_of)
    except DirectoryLocked as error:
        holder = f"process {error.pid}" if error.pid is not None else "another process"
        return fail(COMMAND, f"{directory} is in use by {holder}: stop it first")
    except (OSError, LogError, CannotRestore) as error:
        return fail(COMMAND, error)
    if done.is_unknown:
        return fail(
            COMMAND,
            f"{folder} has batches of a format that this version does not know; nothing was changed. `muster log check "
            f"{directory}` says where they are. {MOVE_IT}",
        )
    for line in _lines(name, done):
        print(line)
    if done.is_stray:
        return fail(
            COMMAND,
            f"{folder} does not say which topic it belongs to, and the metadata log has none of that name: "
            "restore the folder from a backup, or remove it",
        )
    return 0


def _lines(name: str, done: Repair) -> Iterator[str]:
    for loss in done.losses:
        yield _line(loss)
    for kept in done.kept_beside:
        yield f"the damaged file is kept as {kept}; remove it when you no longer need it"
    for index in done.indexes:
        yield f"{index} was removed: the next start makes it anew"
    for gone in done.gone:
        yield (
            f"{name}: offsets {gone.start} to {gone.stop - 1} were synced and are in no file any more: lost for good "
            f"unless a backup has them; the log continues at offset {gone.start}"
        )
    for identity in done.identities:
        yield f"{identity} was written anew, with the id that the topic has"
    if not (done.losses or done.indexes or done.gone or done.identities or done.is_stray):
        yield f"{name}: nothing to repair"


def _put_back(directory: Path, folder: str) -> int:
    done = restore_stray(directory, folder, draw_uuid, Now(0, wall_now_ms()))
    names = ", ".join(f"{done.topic}-{index}" for index in done.partitions)
    print(f"in their place again: {names}; the next start serves them")
    if done.is_new:
        print(
            f"the topic {done.topic} was made for them: its configs are lost, so it keeps all records until you set "
            "retention.ms"
        )
    return 0


def _line(loss: Loss) -> str:
    if loss.end_offset < 0:
        offsets = f"all from offset {loss.first_offset} on"
    elif loss.end_offset <= loss.first_offset:
        offsets = "no offset"
    else:
        offsets = f"offsets {loss.first_offset} to {loss.end_offset - 1}"
    return f"{loss.file}: {loss.bytes} bytes at byte {loss.position} were taken out; lost: {offsets}"
