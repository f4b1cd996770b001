"""Checks before Spark starts, without Spark: valid addresses, a master that listens, a folder that is writable."""

from __future__ import annotations

import re
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

CONNECT_TIMEOUT_S: Final = 3.0

_BROKER: Final = re.compile(r"(?:\w+://)?(?:\[[0-9a-fA-F:.%]+\]|[^\s:,/\[\]]+)(?::(?P<port>[0-9]{1,5}))?")
_MASTER: Final = re.compile(
    r"local|local\[(?:\*|[1-9][0-9]*)(?:, *[0-9]+)?\]|local-cluster\[.+\]|yarn|k8s://.+|spark://(?P<places>.+)"
)
_PLACE: Final = re.compile(r"(?P<host>\[[^\]]+\]|[^\s:,]+):(?P<port>[0-9]{1,5})")
_LARGEST_PORT: Final = 65535


class NotUsable(RuntimeError):
    """An address or a folder has a valid form but cannot be used. The message says what was tried and what to do."""


class NoJava(RuntimeError):
    """No Java was found on which Spark runs. The message says what was found and what to do."""


class NoDelta(ValueError):
    """Delta Lake is missing. The message says how to get it."""


class SparkFailed(RuntimeError):
    """Spark failed. The message is one sentence."""


def check_names(bootstrap: str | None, master: str | None, out: str) -> None:
    """Check the form of three arguments: brokers' addresses, a master's URL, and a folder. Raises ValueError."""
    for one in () if bootstrap is None else bootstrap.split(","):
        if not _is_place(_BROKER.fullmatch(one.strip())):
            raise ValueError(f"--bootstrap-server '{bootstrap}': HOST:PORT was expected, as in broker.example:9092")
    if master is not None:
        match = _MASTER.fullmatch(master)
        places = [] if match is None or match["places"] is None else match["places"].split(",")
        if match is None or not all(_is_place(_PLACE.fullmatch(one)) for one in places):
            raise ValueError(f"--master '{master}': local[*], spark://HOST:PORT, yarn or k8s://URL was expected")
    if not out.strip() or "\0" in out:
        raise ValueError(f"--out {out!r}: a folder was expected")


def _is_place(match: re.Match[str] | None) -> bool:
    return match is not None and 0 < int(match["port"] or 1) <= _LARGEST_PORT


def check_master(url: str | None) -> None:
    """Check that a standalone master listens, because Spark would try for over a minute. Raises NotUsable."""
    match = None if url is None else _MASTER.fullmatch(url)
    if match is None or match["places"] is None:
        return
    tried: list[str] = []
    for place in _PLACE.finditer(match["places"]):
        try:
            socket.create_connection((place["host"].strip("[]"), int(place["port"])), CONNECT_TIMEOUT_S).close()
            return
        except OSError as error:
            tried.append(f"{place[0]}: {error.strerror or error}")
    raise NotUsable(
        f"--master {url} cannot be reached ({'; '.join(tried)}): is the cluster running? Without --master Spark runs "
        "on this machine"
    )


def is_here(path: str) -> bool:
    """Whether a path, or a URL, is one in this machine's file system."""
    return "://" not in path or path.startswith("file://")


def plain(path: str) -> str:
    """A path on this machine in Python's form. `path` may be a URL."""
    return path.removeprefix("file://") if path.startswith("file://") else path.removeprefix("file:")


def check_out(out: str) -> None:
    """Check that a folder on this machine can be created and written into. Nothing is left in it. Raises NotUsable."""
    if not is_here(out):
        return
    place = Path(plain(out)).absolute()
    try:
        there = next(one for one in (place, *place.parents) if one.exists())
        if not there.is_dir():
            raise NotUsable(f"--out {out}: {there} is a file, where a folder was expected: give another one")
        with _made(place, there), tempfile.TemporaryFile(dir=place) as probe:
            probe.write(b"\n")
    except OSError as error:
        why = error.strerror or error
        raise NotUsable(f"--out {out}: nothing can be written there ({why}): give another folder") from error


@contextmanager
def _made(place: Path, there: Path) -> Iterator[None]:
    """A temporary folder in `place`. `there` is the part of the path that exists already."""
    try:
        place.mkdir(parents=True, exist_ok=True)
        yield
    finally:
        for one in (place, *place.parents):
            if one == there:
                break
            with suppress(OSError):
                one.rmdir()
