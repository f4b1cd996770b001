"""Runs `muster conform` on each broker of the matrix, one after the other, and writes `results.json` and the page.

python -m tools.matrix.run [--only NAME ...] [--tansu PROGRAM]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from muster.conform.session import LEVELS
from tools.brokers import is_free
from tools.matrix import page
from tools.matrix.targets import Target, running, targets

RUN_S = 1500
"""How long the stories and probes of one broker may take."""
OFTEN = 3
WORDS = 60
"""How many characters of a difference are kept."""


def main() -> int:
    """Run the matrix; exit status 1 when a broker could not be judged."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="the brokers whose results are made anew")
    parser.add_argument("--tansu", metavar="PROGRAM", help="Tansu's program")
    args = parser.parse_args()
    results = json.loads(page.RESULTS.read_text(encoding="utf-8")) if page.RESULTS.exists() else {}
    status = 0
    chosen = targets(args.tansu)
    for target in chosen:
        if args.only and target.name not in args.only:
            continue
        try:
            print(f"{target.name} {target.version()}", flush=True)
            results[target.name] = judged(target)
        except (OSError, RuntimeError, subprocess.SubprocessError, ValueError) as problem:
            print(f"{target.name}: {problem}", file=sys.stderr)
            status = 1
            continue
        order = {one.name: results[one.name] for one in chosen if one.name in results}
        page.RESULTS.write_text(json.dumps({**order, **results}, indent=1) + "\n", encoding="utf-8")
    page.write()
    return status


def judged(target: Target) -> dict[str, Any]:
    """The results of one broker. If a request ends it, each level is played on a new one, and is judged alone."""
    whole = reported(target)
    if whole is not None:
        return summed([whole], target.version())
    reports = {level: reported(target, "--level", level) for level in LEVELS}
    found = [report for report in reports.values() if report is not None]
    if not found:
        raise RuntimeError("it ended in each level")
    return {**summed(found, target.version()), "ended": [level for level, one in reports.items() if one is None]}


def reported(target: Target, *options: str) -> dict[str, Any] | None:
    """The report of one run. None: the broker ended meanwhile, so what failed then says nothing."""
    with running(target) as address, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        command = [sys.executable, "-m", "muster.cli", "conform", address, "--may-alter", "--json", str(path), *options]
        subprocess.run(command, capture_output=True, timeout=RUN_S, check=False)
        if is_free(int(address.rpartition(":")[2])) or not path.exists():
            return None
        report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return report


def summed(reports: Sequence[dict[str, Any]], version: str) -> dict[str, Any]:
    """What the page shows of the reports of a broker."""
    report = reports[0]
    outcomes = [one for each in reports for one in each["outcomes"]]
    levels: dict[str, Counter[str]] = {}
    for one in outcomes:
        levels.setdefault(one["level"], Counter())[one["state"]] += 1
    skipped = Counter(one["why"] for one in outcomes if one["state"] == "skipped")
    return {
        "version": version,
        "date": report["began"][:10],
        "compared": report["release"],
        "seconds": round(sum(each["seconds"] for each in reports)),
        "levels": {level: dict(counts) for level, counts in levels.items()},
        "failed": sorted(one["id"] for one in outcomes if one["state"] == "failed"),
        "often": dict(often(one.get("diff", "") for one in outcomes if one["state"] == "failed")),
        "skipped": dict(skipped.most_common()),
    }


def often(diffs: Iterable[str]) -> list[tuple[str, int]]:
    """The first differences of stories that come more than once, the most frequent first."""
    counts = Counter(first_difference(diff) for diff in diffs)
    return [(text, count) for text, count in counts.most_common(OFTEN) if text and count > 1]


def first_difference(diff: str) -> str:
    """The words that differ in the first lines of a diff that do: `generation=1 was generation=0`."""
    lines = [line for line in diff.splitlines() if not line.startswith(("---", "+++", "@@"))]
    kafka = next((line[1:].split() for line in lines if line.startswith("-")), [])
    here = next((line[1:].split() for line in lines if line.startswith("+")), [])
    if not kafka or not here:
        return ""
    if len(kafka) == len(here):
        kafka, here = map(
            list, zip(*[pair for pair in zip(kafka, here, strict=True) if pair[0] != pair[1]], strict=True)
        )
    return f"{' '.join(kafka)[:WORDS]} was {' '.join(here)[:WORDS]}"


if __name__ == "__main__":
    sys.exit(main())
