"""The directory in which a local cluster works: the database, the nodes' local replicas, and their log lines."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from muster.cli.local_cluster.child import Failed
from muster.cli.local_cluster.embedded_postgres import temporary_folder
from muster.coordinator.log.errors import DirectoryLocked
from muster.coordinator.log.storage.lock import LOCK_FILE, DirectoryLock

DATABASE: Final = "postgres"
_OURS: Final = re.compile(rf"{re.escape(LOCK_FILE)}|{DATABASE}(\.new|\.log|\.run)?|node-\d+(\.log)?")


def copy_of_node(directory: Path, number: int) -> Path:
    """The directory of a node's local replica."""
    return directory / f"node-{number}"


def log_of_node(directory: Path, number: int) -> Path:
    """The file of a node's log lines."""
    return directory / f"node-{number}.log"


@contextmanager
def working_directory(given: Path | None) -> Iterator[Path]:
    """`given`, made if it does not exist, and locked until the end; or a temporary directory that is removed then.

    Raises `Failed` when it is in use, holds something else, or cannot be made.
    """
    if given is None:
        made = temporary_folder("muster-try-")
        if os.geteuid() == 0:
            made.chmod(0o711)  # if this user is root, PostgreSQL runs as another one, who must reach the folder
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)
        return
    try:
        given.mkdir(parents=True, exist_ok=True)
        others = sorted(one.name for one in given.iterdir() if not _OURS.fullmatch(one.name))
        if others:
            raise Failed(
                f"the directory {given} holds {others[0]}, which is not of a local cluster: give an empty --data-dir"
            )
        lock = DirectoryLock(str(given))
    except DirectoryLocked as error:
        holder = "another process" if error.pid is None else f"the process {error.pid}"
        raise Failed(f"the directory {given} is in use by {holder}: stop it, or give another --data-dir") from error
    except OSError as error:
        raise Failed(f"--data-dir {given} cannot be used: {error.strerror or error}") from error
    try:
        yield given
    finally:
        lock.release()
