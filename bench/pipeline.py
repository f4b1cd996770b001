"""Measures what the pipeline costs: `python -m bench.pipeline` writes bench/pipeline.md.

Each measure runs in a process and a JVM of its own. The CPU time is that of the JVM and its Python workers. It is the
median of three runs after a first one, unless the row says otherwise. The log is a sample (`muster log sample`) of a
million commits.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Final

import pyspark

from bench.explain.row import Row

RESULT: Final = Path(__file__).with_name("pipeline.md")
MEASURES: Final = {
    "reading": "bench.explain.reading:segments",
    "growth": "bench.explain.reading:growth",
    "explain": "bench.explain.one_group:one_group",
    "small": "bench.explain.small:small_log",
    "facts": "bench.explain.facts:all_tables",
    "follow": "bench.explain.following:following",
    "skew": "bench.explain.skew:one_large_group",
    "whatif": "bench.explain.whatif:thousand",
}
"""The function of each measure. It takes the log, and a folder for the files that it writes, and returns rows."""
RECORDS: Final = "1M"

HEAD: Final = """# What the pipeline costs

Written by `make bench-pipeline`: CPython {python}, Spark {spark}, {cores} cores. CPU time is that of the JVM and its
Python workers, user and system. It is the median of three runs after the first run, which is shown as "in a JVM that
has just started". The tables of facts are made twice, the what-if and ten times as large logs once. Wall time on a
shared machine is only a hint, and CPU time grows too while others keep the cores busy.
"""
SECTION: Final = """
## {name}

Load average {load:.1f} at the end. The log: {log}.

| figure | measured | to reach | |
|---|---:|---:|---|
"""


def make_log(folder: Path) -> Path:
    """Write the sample of a log."""
    target = folder / "sample"
    print(f"making a log of {RECORDS} commits", file=sys.stderr)
    command: list[str | Path] = [Path(sys.executable).parent / "muster", "log", "sample", target, "--records", RECORDS]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return target


def run(name: str, log: Path, folder: Path) -> list[Row]:
    """Run one measure in a process of its own."""
    print(f"measuring {name}", file=sys.stderr)
    own = folder / name
    own.mkdir()
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "bench.pipeline",
        "--measure",
        name,
        "--log",
        str(log),
        "--folder",
        str(own),
    ]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [Row(*row) for row in json.loads(done.stdout.splitlines()[-1])]


def measure(name: str, log: Path, folder: Path) -> list[Row]:
    """Run one measure in this process."""
    module, function = MEASURES[name].split(":")
    rows: list[Row] = getattr(import_module(module), function)(log, folder)
    return rows


def as_line(row: Row) -> str:
    """The line of a row in the table."""
    met = "" if row.is_met is None else "yes" if row.is_met else "**no**"
    return f"| {row.figure} | {row.measured} | {row.goal} | {met} |"


def sections_of(text: str) -> dict[str, str]:
    """The sections of an earlier result, by name."""
    parts = re.split(r"^## (\w+)$", text, flags=re.M)
    return {name: f"\n## {name}{body.rstrip()}\n" for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def main() -> int:
    """Run the command line, and return the exit status."""
    parser = argparse.ArgumentParser(prog="bench.pipeline", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=MEASURES, help="only this one; the other lines stay; repeatable"
    )
    parser.add_argument("--log", type=Path, help="a data directory, instead of a sample made anew")
    parser.add_argument("--measure", choices=MEASURES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.log, options.folder)))
        return 0
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        log = options.log or make_log(Path(name))
        found = {one: run(one, log, Path(name)) for one in options.only or MEASURES}
    of = f"the sample's, with {RECORDS} commits" if options.log is None else f"`--log {options.log.name}`"
    sections = sections_of(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
    for one, rows in found.items():
        sections[one] = SECTION.format(name=one, load=os.getloadavg()[0], log=of) + "".join(
            f"{as_line(row)}\n" for row in rows
        )
    head = HEAD.format(
        python=platform.python_version(),
        spark=pyspark.__version__,
        cores=os.cpu_count(),
    )
    RESULT.write_text(head + "".join(sections[one] for one in MEASURES if one in sections), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
