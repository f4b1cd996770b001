"""Draws the table of all commands in docs/commands.md, from the parser of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from muster.cli.command_tree import tree_of
from muster.cli.options import build_parser
from tools.diagrams.pages import Parts


def table() -> str:
    """The table, with a row for each command."""
    return "\n".join(["| command | what it does |", "|---|---|", *_rows()])


def _rows() -> Iterator[str]:
    tree = tree_of(build_parser())
    for path, node in tree.items():
        if path and (not node.commands or node.arguments):
            about = tree[path[:-1]].commands[path[-1]]
            yield f"| `muster {' '.join(path)}` | {about.replace('|', chr(92) + '|')} |"


PARTS: Final[Parts] = {"commands": table}
