"""`python -m bench.growth`: how the cost of a request grows with members, groups, offsets, partitions, topics and
connections. Writes bench/growth.md.

Instructions of Python and the memory at its highest are counted, in virtual time. They are the same on every machine.
`tests/budget/test_growth.py` checks the exponents at smaller sizes.
"""

from __future__ import annotations

import argparse
import math
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import ascii_lowercase
from typing import Final

from tests.budget.growth import LEAST_KB, SCENES, Point, curves, exponent
from tests.budget.scenes import quiet

RESULT: Final = Path(__file__).with_name("growth.md")
SIZES: Final = (10, 100, 1_000, 10_000, 100_000)
LARGEST: Final[Mapping[str, int]] = {
    "members of a consumer group": 10_000,
    "members of a classic group": 1_000,
    "partitions of a topic": 10_000,
    "connections": 10_000,
}
"""Members ask dozens of times until their group has settled: with 100,000 members that takes hours. A request may
create 10,000 partitions. Most machines allow a process fewer than 100,000 open files.
"""
COLUMN: Final = 9
HEAD: Final = """\
# How costs grow

Written by `make bench-growth`: CPython {python}. Each row is the cost of one request when the node has so many of what
grows. Instructions of Python are counted, in virtual time, so each machine gives the same numbers. The memory at its
highest is counted too, because no instruction shows a copy that C makes. The exponent is that of the last ten-fold
growth. 0: the size does not matter. 1: ten times the size costs ten times as much. A request about all of something
is answered with all of it, and a target is computed of all members. For a new topic the table of topics is copied. No
other cost grows.
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    parser.add_argument("--most", type=int, default=SIZES[-1], help=f"the largest size (default: {SIZES[-1]})")
    parser.add_argument("--print", action="store_true", help="print the text, and leave bench/growth.md as it is")
    args = parser.parse_args()
    parts = [HEAD.format(python=platform.python_version())]
    with quiet():
        for scene in SCENES:
            print(scene, file=sys.stderr)
            most = min(args.most, LARGEST.get(scene, args.most))
            parts.append(section(scene, curves(scene, [size for size in SIZES if size <= most])))
    text = "\n".join(parts)
    if args.print:
        print(text)
    else:
        RESULT.write_text(text, encoding="utf-8")


def section(scene: str, found: Mapping[str, Sequence[Point]]) -> str:
    """The part of the page about one thing that grows: a table and a chart."""
    sizes = [point.size for point in next(iter(found.values()))]
    lines = [f"## {scene.capitalize()}", ""]
    lines.append("| | request | " + " | ".join(f"{size:,}" for size in sizes) + " | exponent | of memory |")
    lines.append("|---|---|" + "---:|" * (len(sizes) + 2))
    for letter, (kind, points) in zip(ascii_lowercase, found.items(), strict=False):
        costs = " | ".join(f"{point.instructions:,.0f}" for point in points)
        exponents = (round(one, 2) + 0 for one in (exponent(points), exponent(points, "kilobytes", LEAST_KB)))
        lines.append(f"| {letter} | {kind} | {costs} | {' | '.join(f'{one:.2f}' for one in exponents)} |")
    return "\n".join([*lines, "", "```", *chart(list(found.values()), sizes), "```", ""])


def chart(found: Sequence[Sequence[Point]], sizes: Sequence[int]) -> list[str]:
    """Instructions by size, both in powers of ten; each curve is a letter."""
    places: dict[tuple[int, int], str] = {}
    for letter, points in zip(ascii_lowercase, found, strict=False):
        for column, point in enumerate(points):
            place = round(math.log10(max(point.instructions, 1)) * 2), column
            places[place] = places.get(place, "") + letter
    rows = range(max(row for row, _ in places), min(row for row, _ in places) - 1, -1)
    lines = []
    for row in rows:
        label = f"10^{row // 2}" if row % 2 == 0 else ""
        cells = "".join(places.get((row, column), "").ljust(COLUMN) for column in range(len(sizes)))
        lines.append(f"{label:>5} | {cells}".rstrip())
    return [*lines, "        " + "".join(f"{size:,}".ljust(COLUMN) for size in sizes).rstrip()]


if __name__ == "__main__":
    main()
