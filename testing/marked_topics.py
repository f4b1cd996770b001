"""Prepares the topics that the mark of a test names. They are empty, and have as many partitions as the mark says.

On the session's server, topics are created again for each test. A cluster that this program has not started may have
such a topic already. The topic is deleted only if a test made it; otherwise it must be as the mark says.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Final

from muster.testcontrol.errors import CannotBeDone
from muster.testing.server import Muster

Wanted = Mapping[str, int | None]
"""How many partitions each topic is to have. None: any number; a new topic gets `num.partitions` partitions."""

PATIENCE_S: Final = 600.0
"""How long a test waits for a cluster's topic that a test of another worker or run uses."""
LOOK_S: Final = 0.05


def named(given: Any) -> Wanted:
    """Read the topics of a mark: a mapping of names to numbers of partitions, names, or one name. A name may be
    "orders:6".
    """
    if isinstance(given, Mapping):
        return dict(given)
    rows = (given,) if isinstance(given, str) else given
    split = [name.rpartition(":") if isinstance(name, str) and ":" in name else (name, "", None) for name in rows]
    return {name: None if count is None else int(count) for name, _, count in split}


@contextmanager
def on_own_server(server: Muster, wanted: Wanted) -> Iterator[None]:
    """Prepare the topics on a server that this test run has started, which has only topics of tests."""
    for name, partitions in wanted.items():
        _delete(server, name)
        server.topic(name).create(partitions)
    yield
    for name in wanted:
        _delete(server, name)


def _delete(server: Muster, name: str) -> None:
    if name in server.topics:
        server.topic(name).delete()


@contextmanager
def on_cluster(server: Muster, wanted: Wanted) -> Iterator[None]:
    """Prepare the topics on another cluster. Raises CannotBeDone if an existing topic is not as the mark says."""
    with ExitStack() as stack:
        # sorted by name; otherwise two tests could wait for each other's topics for ever
        for name, partitions in sorted(wanted.items()):
            note = stack.enter_context(_held(server.bootstrap_servers, name))
            stack.enter_context(_empty(server, name, partitions, note))
        yield


@contextmanager
def _empty(server: Muster, name: str, partitions: int | None, note: IO[str]) -> Iterator[None]:
    if name in server.topics and _noted(note) == _id(server, name):
        server.topic(name).delete()  # a test that was killed has left this topic behind
    if name not in server.topics:
        server.topic(name).create(partitions)
        _write(note, _id(server, name))
        yield
        _delete(server, name)
        _write(note, "")
        return
    _check(server, name, partitions)
    yield
    # the topic was empty, so this test has written all its records
    server.bridge.call(lambda: server.verbs().topics.trim(name))


def _check(server: Muster, name: str, partitions: int | None) -> None:
    ends: dict[int, int] = server.topic(name).end_offsets()
    starts: dict[int, int] = server.bridge.call(lambda: server.verbs().topics.start_offsets(name))
    records = sum(end - starts[one] for one, end in ends.items())
    if not records and partitions in (None, len(ends)):
        return
    number = "" if partitions is None else f" with {partitions} partitions"
    raise CannotBeDone(
        f"the mark of the test wants an empty topic {name}{number}, and {server.bootstrap_servers} has one with "
        f"{len(ends)} partitions and {records} records, which no test made: delete it there, or name another topic"
    )


def _id(server: Muster, name: str) -> str:
    found: bytes = server.bridge.call(lambda: server.verbs().topics.topic_id(name))
    return found.hex()


# ---- one test at a time, and the topics that it made


@contextmanager
def _held(bootstrap_servers: str, name: str) -> Iterator[IO[str]]:
    """Lock and return a file for the id of a topic that a test has made. The lock lasts as long as the test uses the
    topic.
    """
    directory = Path(tempfile.gettempdir()) / f"muster-topics-{_user()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    key = hashlib.sha256(f"{bootstrap_servers} {name}".encode()).hexdigest()
    with (directory / key).open("a+", encoding="utf-8") as note:
        due_s = time.monotonic() + PATIENCE_S
        while not _lock(note):
            if time.monotonic() > due_s:
                raise CannotBeDone(f"topic {name} is used by another test for {PATIENCE_S:g} s now")
            time.sleep(LOOK_S)
        yield note


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def _lock(note: IO[str]) -> bool:
    try:
        import fcntl
    except ImportError:
        return True  # Windows has no flock; there, each worker uses other names of topics
    try:
        fcntl.flock(note, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _noted(note: IO[str]) -> str:
    note.seek(0)
    return note.read()


def _write(note: IO[str], text: str) -> None:
    note.seek(0)
    note.truncate()
    note.write(text)
    note.flush()
