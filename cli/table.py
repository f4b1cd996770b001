"""Columns of text, and JSON lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muster.cli.output import as_json, say, width
from muster.protocol.printable import shown


def print_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under their heads; numbers are aligned to the right, and "-" stands for a missing value."""
    cells = [[_cell(one) for one in row] for row in rows]
    widths = _widths(head, cells)
    right = [any(isinstance(row[column], int) for row in rows) for column in range(len(head))]
    for row in (head, *cells):
        line = "  ".join(
            " " * (wide - width(cell)) + cell if is_right else cell + " " * (wide - width(cell))
            for cell, wide, is_right in zip(row, widths, right, strict=True)
        )
        say(line.rstrip())


def table_width(head: Sequence[str], rows: Sequence[Sequence[object]]) -> int:
    """How many columns of a terminal `print_table` needs."""
    return sum(_widths(head, [[_cell(one) for one in row] for row in rows])) + 2 * (len(head) - 1)


def _widths(head: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int]:
    return [max(width(row[column]) for row in (head, *cells)) for column in range(len(head))]


def print_json(value: Mapping[str, object]) -> None:
    """Print one JSON line."""
    print(as_json(value), flush=True)


def ranges(numbers: Sequence[int]) -> str:
    """Partitions in short form: 0-3,7."""
    told: list[str] = []
    ordered = sorted(numbers)
    start = 0
    for index in range(1, len(ordered) + 1):
        if index == len(ordered) or ordered[index] != ordered[index - 1] + 1:
            first, last = ordered[start], ordered[index - 1]
            told.append(str(first) if first == last else f"{first}-{last}")
            start = index
    return ",".join(told)


def _cell(value: object) -> str:
    return "-" if value is None or value == "" else shown(str(value))
