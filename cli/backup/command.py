"""`muster backup` makes a backup of a data directory, and `muster restore` puts one in the place of a new one."""

from __future__ import annotations

import argparse
import json
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError

from muster.cli.backup.copying import Ends, Replaced, copy_directory, remove_copy, segments_of, sync_folders
from muster.cli.log.check import damaged_names
from muster.cli.output import fail, say
from muster.coordinator.config import ConfigError
from muster.coordinator.http.address import read_token, split_address
from muster.coordinator.log import checkpoints
from muster.coordinator.log.checkpoints import partition_of
from muster.coordinator.log.errors import DirectoryLocked
from muster.coordinator.log.storage.files import FileStorage
from muster.coordinator.log.storage.lock import LOCK_FILE, DirectoryLock
from muster.coordinator.net.http_get import http_get
from muster.coordinator.system.wall_time import UTC, format_wall, wall_now_ms
from muster.coordinator.topics.folder_repair import misfits
from muster.version import VERSION

BACKUP: Final = "muster backup"
RESTORE: Final = "muster restore"
NOTE: Final = "muster-backup.json"
"""The file that is written last: a folder without it is no complete backup."""
TRIES: Final = 5
"""How often the copy is made again because a compaction replaced segments, or a topic was created."""
MAX_BYTES: Final = 256 << 20
"""The most bytes of the answer with the ends of all logs."""


def run_backup(options: argparse.Namespace) -> int:
    """Run `muster backup`. Exit status 0: done and checked, 1: it failed, 2: a wrong option."""
    source, target = options.data_dir, options.directory
    if not (source / checkpoints.META_PROPERTIES).is_file():
        return fail(BACKUP, f"{source} is no data directory: it has no {checkpoints.META_PROPERTIES}", 2)
    if target.exists():
        return fail(BACKUP, f"{target} exists already: a backup is a new folder", 2)
    try:
        ask = None if options.http is None else _asking(options)
    except ConfigError as error:
        return fail(BACKUP, error, 2)
    try:
        return _backup(source, target, ask)
    except (OSError, Replaced) as error:
        remove_copy(target)
        return fail(BACKUP, error)


def _backup(source: Path, target: Path, ask: Callable[[], Ends] | None) -> int:
    if ask is not None:
        copied = _copied_while_served(source, target, ask)
    else:
        try:
            lock = DirectoryLock(str(source))
        except DirectoryLocked:
            return fail(BACKUP, f"a server works on {source}: give its HTTP door, --http HOST:PORT, so that the backup "
                        "is of one moment")  # fmt: skip
        try:
            copied = copy_directory(source, target, None, segments_of(source))
        finally:
            lock.release()
    if damaged := damaged_names(target):
        return fail(BACKUP, f"{target} is damaged ({', '.join(damaged)}): muster log check {source} says more")
    size = sum(copied.values())
    now = format_wall(wall_now_ms(), "%Y-%m-%dT%H:%M:%SZ", UTC)
    note = {"version": VERSION, "made": now, "partitions": len(copied), "bytes": size}
    (target / NOTE).write_text(json.dumps(note) + "\n", encoding="utf-8")
    sync_folders(target)
    say(f"{target}: {len(copied):,} partitions, {size:,} bytes, checked")
    return 0


def _copied_while_served(source: Path, target: Path, ask: Callable[[], Ends]) -> dict[tuple[str, int], int]:
    for left in reversed(range(TRIES)):
        before = segments_of(source)
        try:
            copied = copy_directory(source, target, ask(), before)
        except Replaced as replaced:
            if not left:
                raise OSError(f"{replaced} was replaced or removed while it was copied, {TRIES} times") from replaced
        else:
            # a topic that is just created has folders before the metadata log has it
            if not left or not misfits(FileStorage(target, read_only=True)):
                return copied
        remove_copy(target)
    raise AssertionError


def _asking(options: argparse.Namespace) -> Callable[[], Ends]:
    """The function that asks the server for the ends of all logs. Raises ConfigError."""
    address, _ = split_address(options.http, "--http")
    scheme = "https" if options.http.startswith("https://") or options.http_ca is not None else "http"
    token = read_token(None if options.http_token is None else str(options.http_token), "--http-token")
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        context = ssl.create_default_context(cafile=options.http_ca) if scheme == "https" else None
    except OSError as error:
        raise ConfigError(f"--http-ca {options.http_ca}: {error.strerror or error}") from error
    url = f"{scheme}://{address.host}:{address.port}/api/v1/ends"

    def ask() -> Ends:
        try:
            answer: dict[str, Any] = json.loads(http_get(url, context, MAX_BYTES, headers))
        except HTTPError as refusal:
            raise OSError(f"{url}: status {refusal.code}") from refusal
        except URLError as error:
            why = getattr(error.reason, "strerror", None) or error.reason
            raise OSError(f"{url} does not answer: {why}; give the HTTP door of the server with --http") from error
        except ValueError as error:
            raise OSError(f"{url}: the answer is no JSON") from error
        found = {partition_of(name): end for name, end in answer["ends"].items()}
        return {partition: end for partition, end in found.items() if partition is not None}

    return ask


def run_restore(options: argparse.Namespace) -> int:
    """Run `muster restore`. Exit status 0: done, 1: it failed, 2: a wrong option."""
    source, target = options.directory, options.data_dir
    if not (source / NOTE).is_file():
        return fail(RESTORE, f"{source} is no complete backup: it has no {NOTE}", 2)
    with suppress(FileNotFoundError):
        if any(path.name != LOCK_FILE for path in target.iterdir()):
            return fail(RESTORE, f"{target} is not empty: nothing is overwritten; move it away", 2)
    try:
        target.mkdir(parents=True, exist_ok=True)
        lock = DirectoryLock(str(target))
        try:
            new = target / ".restoring"
            copied = copy_directory(source, new, None, segments_of(source))
            if damaged := damaged_names(new):
                remove_copy(new)
                return fail(RESTORE, f"{source} is damaged: {', '.join(damaged)}")
            sync_folders(new)
            # meta.properties last: without it a start takes the directory for a new one
            for path in sorted(new.iterdir(), key=lambda one: one.name == checkpoints.META_PROPERTIES):
                path.rename(target / path.name)
            new.rmdir()
            sync_folders(target)
        finally:
            lock.release()
    except DirectoryLocked as error:
        return fail(RESTORE, f"{target} is in use by process {error.pid}")
    except (OSError, Replaced) as error:
        return fail(RESTORE, error)
    say(f"{target}: {len(copied):,} partitions, {sum(copied.values()):,} bytes; muster serve --data-dir {target}")
    return 0
