"""`python -m bench.where` measures where the CPU time of a request is: in the kernel, in Python, in OpenSSL.

It needs Linux's perf, and writes bench/where.md. bench/phases.md divides Python's part, by counted instructions.
"""

from __future__ import annotations

import argparse
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from bench import measure, security, transactions
from bench.load.frameload import FrameLoad, Load
from bench.run import PAGE_CACHE, SETTINGS, executable
from bench.scenarios import (
    FETCH_LARGE,
    FETCH_SMALL,
    PRODUCE_LARGE,
    PRODUCE_SMALL,
    REPEATED,
    VARIED,
    Target,
    beats,
    commits,
    large_fetches,
    large_produces,
    small_fetches,
    small_produces,
)
from bench.security import BEAT
from tests.support.servers import MusterServer

RESULT: Final = Path(__file__).with_name("where.md")
SAMPLES_PER_S: Final = 997
PERF_STARTS_S: Final = 0.5
"""How long perf takes until it counts. The load is longer, and warms up meanwhile."""
PARTS: Final = {
    "kernel": r"\[kernel|\[[a-z_]+\]$",
    "event loop": r"loop\.cpython|libuv",
    "OpenSSL": r"libcrypto|libssl|_ssl\.",
    "Python": r"libpython|python3",
}
"""The parts of a process, each with a pattern of its libraries' names. What no pattern matches is `OTHER`."""
OTHER: Final = "other"
LINE: Final = re.compile(r"^\s*([0-9.]+)%\s+(\S+)", re.MULTILINE)
HEAD: Final = """\
# Where the CPU time of a request is

Written by `python -m bench.where`: CPython {python}, {date}. The figures are us of the server's CPU time, for each
request, MB or transaction. Perf looks {samples} times a second which library runs. "Event loop" is uvloop. "Other" is
mostly C's own library, and the code that reads batches and sums them up.
"""


class Row(NamedTuple):
    """One kind of request."""

    name: str
    cpu_us: float
    """The CPU time for each request, MB or transaction."""
    shares: Mapping[str, float]
    """The share of each part, which add up to 1."""


@contextmanager
def sampled(pid: int, file: Path) -> Iterator[dict[str, float]]:
    """Let perf look at a process during the block. Afterwards the table has the share of each part."""
    command = ["perf", "record", "-q", "-F", str(SAMPLES_PER_S), "-p", str(pid), "-o", str(file)]
    shares: dict[str, float] = defaultdict(float)
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as perf:
        time.sleep(PERF_STARTS_S)
        try:
            yield shares
        finally:
            perf.send_signal(signal.SIGINT)
    words = ["perf", "report", "-q", "--no-children", "--sort", "dso", "-i", str(file)]
    found = LINE.findall(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    total = sum(float(percent) for percent, _ in found)
    for percent, library in found:
        shares[part_of(library)] += float(percent) / total


def part_of(library: str) -> str:
    """The part of the process that a library belongs to."""
    return next((part for part, pattern in PARTS.items() if re.search(pattern, library)), OTHER)


class Kind(NamedTuple):
    """A kind of load."""

    send: Callable[[Target], Load]
    requests: int = 1
    """How many requests each row is about."""


KINDS: Final[Mapping[str, Kind]] = {
    f"heartbeat, {REPEATED}, 100 connections": Kind(lambda target: beats(target, 100)),
    f"heartbeat, {VARIED}, 100 connections": Kind(lambda target: beats(target, 100, varied=True)),
    f"heartbeat, {REPEATED}, 1000 connections": Kind(lambda target: beats(target, 1000)),
    f"commit, {VARIED}, 100 connections": Kind(lambda target: commits(target, 100, varied=True)),
    f"commit, {VARIED}, 1000 connections": Kind(lambda target: commits(target, 1000, varied=True)),
    PRODUCE_SMALL: Kind(small_produces),
    f"{PRODUCE_LARGE} (a MB)": Kind(large_produces),
    FETCH_SMALL: Kind(small_fetches),
    f"{FETCH_LARGE} (a MB)": Kind(large_fetches),
    **{
        f"{name} (a transaction)": Kind(
            partial(transactions.committed, version=version), transactions.REQUESTS[version]
        )
        for version, name in transactions.NAMES.items()
    },
}


def rows_of(target: Target, where: str, folder: Path) -> Iterator[Row]:
    """Measure all kinds on one server. `where`: when the server acknowledges commits, for the rows' names."""
    for name, kind in KINDS.items():
        kind.send(target)  # warm up
        with sampled(target.server.pid, folder / "perf.data") as shares:
            done = kind.send(target)
        yield Row(f"{name}, {where}", done.cpu_us_per_request * kind.requests, shares)


def tls_row(folder: Path, frameload: FrameLoad, seconds: float, muster: Path) -> Row:
    """Measure heartbeats over TLS."""
    secured = security.secured(folder / "tls", MusterServer, SETTINGS)
    server = secured.server
    assert isinstance(server, MusterServer)
    server.executable = muster
    server.start()
    try:
        measured = security.Security(secured, frameload, seconds)
        measured.prepare(seconds)
        with sampled(server.pid, folder / "perf.data") as shares:
            cpu_us = measured.heartbeats(seconds)
    finally:
        server.stop()
    return Row(BEAT.removesuffix(", us"), cpu_us, shares)


def page(rows: list[Row]) -> str:
    """The text of where.md."""
    columns = [*PARTS, OTHER]
    date = time.strftime("%Y-%m-%d")
    lines = [HEAD.format(python=platform.python_version(), date=date, samples=SAMPLES_PER_S)]
    lines += [f"| request | all | {' | '.join(columns)} |", f"|---|---:|{'---:|' * len(columns)}"]
    for row in rows:
        cells = [f"{row.shares[part] * row.cpu_us:.1f}" for part in columns]
        lines.append(f"| {row.name} | {row.cpu_us:.1f} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.where", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each load runs (default: 3)")
    args = parser.parse_args()
    if shutil.which("perf") is None:
        print("bench.where: there is no perf on PATH; install it (on Debian: linux-perf)", file=sys.stderr)
        return 1
    muster, rows = executable(), []
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        folder = Path(name)
        frameload = FrameLoad(folder)
        for where, settings in (("page cache", {**SETTINGS, **PAGE_CACHE}), ("synced", SETTINGS)):
            server = MusterServer(folder / where.replace(" ", "-"), settings, executable=muster)
            server.start()
            try:
                target = Target(server, frameload, args.seconds)
                target.prepare()
                target.create_topic(transactions.TOPIC, transactions.PARTITIONS)
                rows += list(rows_of(target, where, folder))
                print(f"{where}: {measure.resident_mb(server.pid):.0f} MB resident", file=sys.stderr)
            finally:
                server.stop()
        rows.append(tls_row(folder, frameload, args.seconds, muster))
    RESULT.write_text(page(rows), encoding="utf-8")
    print(page(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
