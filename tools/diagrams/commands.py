"""Every command of `muster` with its options, for docs/commands.md, from the command line itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from muster.cli.command_tree import Node, tree_of
from muster.cli.options import build_parser
from tools.diagrams.pages import Parts

SETS: Final = {
    "*nodes*": ("--data-dir", "--bootstrap-server", "--control", "--command-config", "--control-token", "--json"),
    "*client*": ("--bootstrap-server", "--command-config", "--json"),
    "*control*": ("--control", "--control-token", "--json"),
}
"""Options that many commands share, and their common name on the page. The first set that fits counts."""


def table() -> str:
    """A row for each command."""
    return "\n".join(["| command | what it does | its options |", "|---|---|---|", *_rows()])


def _rows() -> Iterator[str]:
    tree = tree_of(build_parser())
    for path, node in tree.items():
        if path and (not node.commands or node.arguments):
            about = tree[path[:-1]].commands[path[-1]]
            yield f"| `muster {' '.join(path)}` | {about.replace('|', chr(92) + '|')} | {_options(node)} |"


def _options(node: Node) -> str:
    words = [max(one.words, key=len) for one in node.options]
    shown = next((name for name, together in SETS.items() if {*together} <= {*words}), "")
    left = [f"`{word}`" for word in words if word != "--help" and word not in SETS.get(shown, ())]
    return " ".join([shown, *left]).strip() or "none"


PARTS: Final[Parts] = {"commands": table}
