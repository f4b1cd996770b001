"""Flame graphs of requests, as SVG pictures: who calls whom, and how many instructions each call has.

The width of a box is the number of instructions of a function with all that it calls. Boxes above a box are its calls.
The colour is the phase of the function, see `phases`. A box shows its name and number when the mouse is over it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from tests.budget.counting import Stack
from tests.budget.phases import ORDER, phase_of

WIDTH: Final = 1_600
LINE: Final = 18
LETTER: Final = 7
"""The width of a letter."""
TOP: Final = 3 * LINE
"""The room for the name of the request, and for the names of the phases."""
COLOURS: Final = dict(
    zip(
        ORDER,
        (
            "#8dd3c7", "#bebada", "#80b1d3", "#b3de69", "#fccde5", "#fb8072", "#fdb462", "#ffed6f", "#bc80bd",
            "#e5c494", "#cccccc", "#ccebc5", "#eeeeee",
        ),
        strict=True,
    )
)  # fmt: skip


class Box(NamedTuple):
    """One function with all that it calls, where it was called by the functions below it."""

    depth: int
    start: float
    """The instructions left of this box."""
    size: float
    function: str


def boxes(stacks: Mapping[Stack, float], depth: int = 0, start: float = 0) -> Iterator[Box]:
    """The boxes of all functions at `depth` of these stacks, and of what they call, from left to right."""
    by_function: dict[str, dict[Stack, float]] = {}
    for stack, instructions in stacks.items():
        if len(stack) > depth:
            by_function.setdefault(stack[depth], {})[stack] = instructions
    for function, its in by_function.items():
        size = sum(its.values())
        yield Box(depth, start, size, function)
        yield from boxes(its, depth + 1, start)
        start += size


def picture(kind: str, stacks: Mapping[Stack, float]) -> str:
    """The flame graph of a kind of request, as SVG."""
    total, found = sum(stacks.values()), list(boxes(stacks))
    height = TOP + LINE * (1 + max(box.depth for box in found))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="monospace" '
        'font-size="11">',
        f'<text x="4" y="{LINE - 4}">{escape(kind)}: {total:,.0f} instructions</text>',
    ]
    for place, (phase, colour) in enumerate(COLOURS.items()):
        x = 4 + place * WIDTH // len(COLOURS)
        lines.append(f'<rect x="{x}" y="{LINE + 4}" width="10" height="10" fill="{colour}"/>')
        lines.append(f'<text x="{x + 14}" y="{LINE + 13}">{phase}</text>')
    lines += [_drawn(box, total, height) for box in found]
    return "\n".join([*lines, "</svg>", ""])


def _drawn(box: Box, total: float, height: int) -> str:
    x, width = box.start / total * WIDTH, box.size / total * WIDTH
    y = height - (box.depth + 1) * LINE
    name = box.function.rpartition(": ")[2][: int(width // LETTER)]
    title = f"{box.function}: {box.size:,.0f} instructions, {box.size / total:.0%}"
    shape = (
        f'x="{x:.1f}" y="{y}" width="{width:.1f}" height="{LINE - 1}" fill={quoteattr(COLOURS[phase_of(box.function)])}'
    )
    text = f'<text x="{x + 2:.1f}" y="{y + LINE - 6}">{escape(name)}</text>' if len(name) > 2 else ""
    return f"<g><title>{escape(title)}</title><rect {shape}/>{text}</g>"


def write(directory: Path, stacks: Mapping[str, Mapping[Stack, float]]) -> None:
    """Write a picture for each kind of request. `stacks`: by kind, the instructions by stack."""
    directory.mkdir(parents=True, exist_ok=True)
    for kind, its in stacks.items():
        path = directory / f"{'-'.join(re.findall('[a-z0-9]+', kind.lower()))}.svg"
        path.write_text(picture(kind, its), encoding="utf-8")
        print(path)
