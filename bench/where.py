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
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bench import measure, security, transactions
from bench.load import records
from bench.load.frameload import FrameLoad, Load
from bench.run import PAGE_CACHE, SETTINGS, executable
from bench.scenarios import (
    FETCH_LARGE,
    FETCH_OFFSETS,
    FETCH_PARTITIONS,
    FETCH_SMALL,
    LARGE_ANSWER,
    MEGABYTE,
    PRODUCE_LARGE,
    PRODUCE_SMALL,
    REPEATED,
    VARIED,
    Target,
    commits,
    produced,
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
def sampled(pid: int, file: Path) -> Iterator[Counter[str]]:
    """Let perf look at a process during the block. Afterwards the counter has the share of each part."""
    command = ["perf", "record", "-q", "-F", str(SAMPLES_PER_S), "-p", str(pid), "-o", str(file)]
    shares: Counter[str] = Counter()
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
        shares[part_of(library)] += float(percent) / total  # type: ignore[assignment]  # a share is no whole number


def part_of(library: str) -> str:
    """The part of the process that a library belongs to."""
    return next((part for part, pattern in PARTS.items() if re.search(pattern, library)), OTHER)


def heartbeats(target: Target, connections: int, *, varied: bool) -> Load:
    """Send heartbeats: each again the one before, or each of another group."""
    members = target.heartbeats[connections]
    return target.load([*members, *members[10:], *members[:10]] if varied else members, connections=connections)


def fetches(target: Target, topic: str, max_bytes: int, connections: int) -> Load:
    """Send fetches of the batches that `Target.prepare` has written."""
    frames = records.fetch_frames(topic, FETCH_PARTITIONS, range(FETCH_OFFSETS), max_bytes)
    return target.load(frames, connections=connections, answer_bytes=LARGE_ANSWER)


LOADS: Final[Mapping[str, Callable[[Target], Load]]] = {
    f"heartbeat, {REPEATED}, 100 connections": lambda target: heartbeats(target, 100, varied=False),
    f"heartbeat, {VARIED}, 100 connections": lambda target: heartbeats(target, 100, varied=True),
    f"heartbeat, {REPEATED}, 1000 connections": lambda target: heartbeats(target, 1000, varied=False),
    f"commit, {VARIED}, 100 connections": lambda target: commits(target, 100, varied=True),
    f"commit, {VARIED}, 1000 connections": lambda target: commits(target, 1000, varied=True),
    PRODUCE_SMALL: lambda target: produced(target, 100, connections=20),
    f"{PRODUCE_LARGE} (a MB)": lambda target: produced(target, MEGABYTE, connections=4),
    FETCH_SMALL: lambda target: fetches(target, "kilo", 4096, 20),
    f"{FETCH_LARGE} (a MB)": lambda target: fetches(target, "mega", MEGABYTE + 200, 4),
    f"{transactions.NAMES[2]} (a transaction)": lambda target: transactions.committed(target, version=2),
    f"{transactions.NAMES[1]} (a transaction)": lambda target: transactions.committed(target, version=1),
}
REQUESTS: Final = {2: 3, 1: 5}
"""How many requests a transaction has, by the transaction version."""


def rows_of(target: Target, where: str, folder: Path) -> Iterator[Row]:
    """Measure all loads on one server. `where`: when the server acknowledges commits, for the rows' names."""
    for name, load in LOADS.items():
        load(target)  # warm up
        with sampled(target.server.pid, folder / "perf.data") as shares:
            done = load(target)
        version = next((version for version, kind in transactions.NAMES.items() if name.startswith(kind)), None)
        requests = done.requests / (1 if version is None else REQUESTS[version])
        yield Row(f"{name}, {where}", done.server_cpu_us / requests, shares)


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
